"""The MCP client of the running call, for tools that use it: sampling, roots, elicitation and log messages.

A tool that only asks a person something uses ``Context.inquire``, which works everywhere.
"""

import abc
import asyncio
import contextvars
import uuid
import weakref
from collections.abc import Callable, Mapping
from typing import Any, cast, get_args

from mcp.server import ServerRequestContext
from mcp.server.connection import allowed_log_levels
from mcp.server.session import ServerSession
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    ClientCapabilities,
    CreateMessageRequest,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitationCapability,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmptyResult,
    InputRequest,
    InputResponse,
    ListRootsRequest,
    ListRootsResult,
    LoggingLevel,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
    RootsCapability,
    SamplingCapability,
    SetLevelRequestParams,
)

from ripieno.exceptions import ExecutionFault
from ripieno.jsonvalues import is_table, thaw

_ORDER: tuple[LoggingLevel, ...] = get_args(LoggingLevel)
_DEFAULT: LoggingLevel = "info"


class Levels:
    """The log level of each connection (``logging/setLevel`` of the handshake era)."""

    def __init__(self) -> None:
        #: By the identity of the client's parameters, which are one object for each connection.
        self._levels: dict[int, LoggingLevel] = {}

    async def take(self, context: ServerRequestContext[Any], params: SetLevelRequestParams) -> EmptyResult:
        """Handles ``logging/setLevel``."""
        peer = context.session.client_params
        if peer is not None:
            if id(peer) not in self._levels:
                weakref.finalize(peer, self._levels.pop, id(peer), None)
            self._levels[id(peer)] = params.level
        return EmptyResult()

    def allows(self, session: ServerSession, level: LoggingLevel) -> bool:
        """Whether the client of this connection wants messages of this level."""
        wanted = self._levels.get(id(session.client_params), _DEFAULT)
        return _ORDER.index(level) >= _ORDER.index(wanted)


#: The number of times that a client of 2026-07-28 is asked for the same answers.
ROUNDS = 10
#: Seconds that a client, or its user, has to answer.
PATIENCE = 600.0

_CURRENT: contextvars.ContextVar["Client"] = contextvars.ContextVar("ripieno_mcp_client")
#: The capabilities that each kind of request needs, and the types of its answers.
_KINDS: Mapping[type[Any], tuple[ClientCapabilities, tuple[type[Any], ...]]] = {
    ElicitRequest: (ClientCapabilities(elicitation=ElicitationCapability()), (ElicitResult,)),
    CreateMessageRequest: (
        ClientCapabilities(sampling=SamplingCapability()),
        (CreateMessageResult, CreateMessageResultWithTools),
    ),
    ListRootsRequest: (ClientCapabilities(roots=RootsCapability()), (ListRootsResult,)),
}
#: A form, to test whether the client supports forms.
_FORM = ElicitRequest(params=ElicitRequestFormParams(message="", requested_schema={"type": "object", "properties": {}}))


class UnaskedClient(ExecutionFault):
    """The client cannot be asked, or has not answered. ``lacking``: the missing capabilities."""

    def __init__(self, message: str, *, lacking: ClientCapabilities | None = None) -> None:
        suggestion = "Continue without it, or inform the user that this tool needs another client." if lacking else None
        super().__init__(message, code="client_not_asked", suggestion=suggestion)
        self.lacking = lacking


#: Characters of a client's name that are kept.
_PROGRAM = 60
#: The names of the connections, by the identity of their clients' parameters.
_CONNECTIONS: dict[int, str] = {}


def _name_connection(peer: object | None) -> str:
    """A name that no other connection has, or has had; without one, a new name at each call.

    It begins with the name of the client's program, which the program chooses.
    """
    name = uuid.uuid4().hex
    if peer is None:
        return name
    program = getattr(getattr(peer, "client_info", None), "name", "")
    name = f"{program[:_PROGRAM]} {name}".strip()
    if id(peer) not in _CONNECTIONS:
        weakref.finalize(peer, _CONNECTIONS.pop, id(peer), None)
        _CONNECTIONS[id(peer)] = name
    return _CONNECTIONS[id(peer)]


class Client(abc.ABC):
    """The client that requested the running call."""

    def __init__(self, session: ServerSession, meta: Mapping[str, Any] | None, levels: Levels) -> None:
        #: Who is allowed what a person allows: the client's connection, or this call if it has none.
        self.owner = _name_connection(session.client_params)
        self._session = session
        self._meta = meta
        self._levels = levels
        #: The capabilities that the tool needed and the client lacks.
        self.lacking: ClientCapabilities | None = None
        #: The requests that the tool waits for, if the client gets them in the result of its own request.
        self.requests: Mapping[str, InputRequest] = {}
        #: Called when the tool starts to wait for them.
        self.waits: Callable[[], None] = lambda: None

    @property
    def capabilities(self) -> ClientCapabilities:
        """The capabilities that it has declared."""
        return self._session.client_capabilities or ClientCapabilities()

    def resume(
        self, session: ServerSession, meta: Mapping[str, Any] | None, answers: Mapping[str, InputResponse]
    ) -> None:
        """Continues with another request of the client, and the answers in it."""
        del answers
        self._session = session
        self._meta = meta

    def offers(self, request: InputRequest) -> bool:
        """Whether it supports this request."""
        declared = self.capabilities
        if isinstance(request, ElicitRequest):
            elicitation = declared.elicitation
            # No mode means forms (specification, ``client/elicitation``).
            return elicitation is not None and (elicitation.form is not None or elicitation.url is None)
        return (declared.sampling if isinstance(request, CreateMessageRequest) else declared.roots) is not None

    async def ask(self, requests: Mapping[str, InputRequest]) -> Mapping[str, InputResponse]:
        """The answers to these requests, by name. Names must be unique within a call.

        Errors: ``UnaskedClient`` if a capability is missing, or there is no answer.
        """
        for request in requests.values():
            if not self.offers(request):
                self.lacking, _ = _KINDS[type(request)]
                raise UnaskedClient(f"The client does not support {request.method}.", lacking=self.lacking)
        try:
            async with asyncio.timeout(PATIENCE):
                answers = await self._ask(requests)
        except TimeoutError:
            raise UnaskedClient(f"The client did not answer within {PATIENCE:g} s.") from None
        for name, request in requests.items():
            if not is_answer(request, answers.get(name)):
                raise UnaskedClient(f"The client did not answer {request.method}.")
        return answers

    async def inquire(self, text: str, schema: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
        """The values that the client's user enters; None if they decline."""
        form = ElicitRequestFormParams(message=text, requested_schema=thaw(schema))
        answer = cast(ElicitResult, (await self.ask({name: ElicitRequest(params=form)}))[name])
        return dict(answer.content or {}) if answer.action == "accept" else None

    async def report(self, done: float, total: float | None, message: str | None) -> None:
        """Reports progress; without a progress token, also as a log message."""
        await self._session.report_progress(done, total, message)
        # A client in this process has no token, and gets both.
        if message and (self._meta is None or self._meta.get("progress_token") is None):
            await self.log("info", message)

    async def log(self, level: LoggingLevel, message: str) -> None:
        """Sends a log message, if the client wants its level."""
        if level not in allowed_log_levels(self._session.protocol_version, self._meta):
            return
        if not self._levels.allows(self._session, level):
            return
        params = LoggingMessageNotificationParams(level=level, data=message)
        # With any related identifier, the SDK uses the stream of the call.
        await self._session.send_notification(LoggingMessageNotification(params=params), related_request_id="call")

    @abc.abstractmethod
    async def _ask(self, requests: Mapping[str, InputRequest]) -> Mapping[str, InputResponse]:
        """The available answers."""


class DirectClient(Client):
    """A client of the handshake era, which is asked during the call, one request at a time."""

    async def _ask(self, requests: Mapping[str, InputRequest]) -> Mapping[str, InputResponse]:
        metadata = ServerMessageMetadata(related_request_id="call")
        answers: dict[str, InputResponse] = {}
        for name, request in requests.items():
            _, kinds = _KINDS[type(request)]
            answers[name] = await self._session.send_request(request, kinds[0], metadata=metadata)
        return answers


class RoundsClient(Client):
    """A client of 2026-07-28: the call pauses, and continues when the client repeats it with the answers."""

    def __init__(
        self, session: ServerSession, meta: Mapping[str, Any] | None, levels: Levels, early: Mapping[str, InputResponse]
    ) -> None:
        super().__init__(session, meta, levels)
        #: Answers so far; a client may send some early, before it is asked.
        self._answers = dict(early)
        self._one = asyncio.Lock()
        self._answered = asyncio.Event()
        #: Whether no more calls may wait for their clients.
        self.crowded = False

    def resume(
        self, session: ServerSession, meta: Mapping[str, Any] | None, answers: Mapping[str, InputResponse]
    ) -> None:
        super().resume(session, meta, answers)
        self._answers.update(answers)
        self.requests = {}
        self._answered.set()

    async def _ask(self, requests: Mapping[str, InputRequest]) -> Mapping[str, InputResponse]:
        async with self._one:
            for _ in range(ROUNDS):
                missing = {name: one for name, one in requests.items() if not is_answer(one, self._answers.get(name))}
                if not missing:
                    break
                if self.crowded:
                    raise UnaskedClient("Too many calls wait for their clients.")
                self.requests = missing
                self._answered.clear()
                self.waits()
                await self._answered.wait()
            # An answer is valid for one question; the next one of the same name is asked again.
            return {name: self._answers.pop(name) for name in requests if name in self._answers}


def is_answer(request: InputRequest, answer: InputResponse | None) -> bool:
    """Whether the answer has a type that fits the request."""
    _, kinds = _KINDS[type(request)]
    return isinstance(answer, kinds)


def can_fill_form(client: Client, schema: Mapping[str, Any]) -> bool:
    """Whether the client's user can be asked for these values: forms are flat (specification)."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    nested = any(not is_table(one) or "properties" in one or one.get("type") == "object" for one in properties.values())
    return not nested and client.offers(_FORM)


def current_client() -> Client | None:
    """The MCP client of the running call, or None for a call from elsewhere."""
    return _CURRENT.get(None)


def context_of(client: Client) -> contextvars.Context:
    """A context in which this is the current client."""
    context = contextvars.copy_context()
    context.run(_CURRENT.set, client)
    return context
