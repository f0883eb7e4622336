"""The client of the call that runs, for tools that know they serve one: what it can be asked, and what it is told.

A tool that only wants to ask a person something uses ``Context.inquire``, which works everywhere. This is the rest of
the protocol: a client's model, its folders, several questions at once.

How much clients of the handshake era want to be told in words (``logging/setLevel``).
"""

import abc
import asyncio
import contextvars
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
    """The level of each connection, as long as it lasts."""

    def __init__(self) -> None:
        #: By the identity of what a client said of itself, which is one object for each connection.
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
        """Whether the client of this connection wants to be told something of that level."""
        wanted = self._levels.get(id(session.client_params), _DEFAULT)
        return _ORDER.index(level) >= _ORDER.index(wanted)


#: Times that a client is asked for the same answers in the era of 2026-07-28, before it counts as one that has none.
ROUNDS = 10
#: Seconds that a client has to answer: a person is behind it, perhaps.
PATIENCE = 600.0

_CURRENT: contextvars.ContextVar["Client"] = contextvars.ContextVar("ripieno_mcp_client")
#: What a client must have declared to be asked something, and what its answer is.
_KINDS: Mapping[type[Any], tuple[ClientCapabilities, tuple[type[Any], ...]]] = {
    ElicitRequest: (ClientCapabilities(elicitation=ElicitationCapability()), (ElicitResult,)),
    CreateMessageRequest: (
        ClientCapabilities(sampling=SamplingCapability()),
        (CreateMessageResult, CreateMessageResultWithTools),
    ),
    ListRootsRequest: (ClientCapabilities(roots=RootsCapability()), (ListRootsResult,)),
}
#: Any form, to know whether there may be one.
_FORM = ElicitRequest(params=ElicitRequestFormParams(message="", requested_schema={"type": "object", "properties": {}}))


class UnaskedClient(ExecutionFault):
    """The client cannot be asked, or has not answered. ``lacking``: what it would have to declare."""

    def __init__(self, message: str, *, lacking: ClientCapabilities | None = None) -> None:
        suggestion = "Do without it, or tell the user that this tool needs another client." if lacking else None
        super().__init__(message, code="client_not_asked", suggestion=suggestion)
        self.lacking = lacking


class Client(abc.ABC):
    """Whoever asked for the call that runs."""

    def __init__(self, session: ServerSession, meta: Mapping[str, Any] | None, levels: Levels) -> None:
        self._session = session
        self._meta = meta
        self._levels = levels
        #: What the tool needed and the client has not declared.
        self.lacking: ClientCapabilities | None = None
        #: What the tool waits for, where the client hears of it in the answer to its request.
        self.requests: Mapping[str, InputRequest] = {}
        #: Called when the tool begins to wait for such a thing.
        self.waits: Callable[[], None] = _nothing

    @property
    def capabilities(self) -> ClientCapabilities:
        """What it has declared that it can do."""
        return self._session.client_capabilities or ClientCapabilities()

    def resume(
        self, session: ServerSession, meta: Mapping[str, Any] | None, answers: Mapping[str, InputResponse]
    ) -> None:
        """Goes on over another request of the client, with what it says there."""
        del answers
        self._session = session
        self._meta = meta

    def offers(self, request: InputRequest) -> bool:
        """Whether it can be asked that."""
        declared = self.capabilities
        if isinstance(request, ElicitRequest):
            elicitation = declared.elicitation
            # Without a mode it means forms (specification, ``client/elicitation``).
            return elicitation is not None and (elicitation.form is not None or elicitation.url is None)
        return (declared.sampling if isinstance(request, CreateMessageRequest) else declared.roots) is not None

    async def ask(self, requests: Mapping[str, InputRequest]) -> Mapping[str, InputResponse]:
        """The answers to these requests, by their names; names should mean something, and differ within a call.

        Errors: ``UnaskedClient`` where the client has not declared what is needed, or gives no answer.
        """
        for request in requests.values():
            if not self.offers(request):
                self.lacking, _ = _KINDS[type(request)]
                raise UnaskedClient(f"The client does not offer {request.method}.", lacking=self.lacking)
        try:
            async with asyncio.timeout(PATIENCE):
                answers = await self._ask(requests)
        except TimeoutError:
            raise UnaskedClient(f"The client gave no answer in {PATIENCE:g} s.") from None
        for name, request in requests.items():
            if not is_answer(request, answers.get(name)):
                raise UnaskedClient(f"The client gave no answer to {request.method}.")
        return answers

    async def inquire(self, text: str, schema: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
        """What a person on the other side fills in; None where they would not."""
        form = ElicitRequestFormParams(message=text, requested_schema=thaw(schema))
        answer = cast(ElicitResult, (await self.ask({name: ElicitRequest(params=form)}))[name])
        return dict(answer.content or {}) if answer.action == "accept" else None

    async def report(self, done: float, total: float | None, message: str | None) -> None:
        """Tells it how far the call is: as progress where it wants that, in words where it has not asked for it."""
        await self._session.report_progress(done, total, message)
        # A client in this process has no token, and may be told both.
        if message and (self._meta is None or self._meta.get("progress_token") is None):
            await self.log("info", message)

    async def log(self, level: LoggingLevel, message: str) -> None:
        """Tells the client something in words, where it wants to know."""
        if level not in allowed_log_levels(self._session.protocol_version, self._meta):
            return
        if not self._levels.allows(self._session, level):
            return
        params = LoggingMessageNotificationParams(level=level, data=message)
        # It belongs to the call: any identifier says so, and the SDK takes the call's own stream.
        await self._session.send_notification(LoggingMessageNotification(params=params), related_request_id="call")

    @abc.abstractmethod
    async def _ask(self, requests: Mapping[str, InputRequest]) -> Mapping[str, InputResponse]:
        """The answers that there are."""


class DirectClient(Client):
    """One of the handshake era: it is asked in the middle of the call, one thing after the other."""

    async def _ask(self, requests: Mapping[str, InputRequest]) -> Mapping[str, InputResponse]:
        around = ServerMessageMetadata(related_request_id="call")
        answers: dict[str, InputResponse] = {}
        for name, request in requests.items():
            _, kinds = _KINDS[type(request)]
            answers[name] = await self._session.send_request(request, kinds[0], metadata=around)
        return answers


class RoundsClient(Client):
    """One of the era of 2026-07-28: the call pauses, and goes on when the client says it again with the answers."""

    def __init__(
        self,
        session: ServerSession,
        meta: Mapping[str, Any] | None,
        levels: Levels,
        answers: Mapping[str, InputResponse],
    ) -> None:
        super().__init__(session, meta, levels)
        #: What it has said before it was asked: it may know what a tool wants.
        self._answers = dict(answers)
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
            # An answer is good for one question: the next of the same name is asked anew.
            return {name: self._answers.pop(name) for name in requests if name in self._answers}


def is_answer(request: InputRequest, answer: InputResponse | None) -> bool:
    """Whether that answers it."""
    _, kinds = _KINDS[type(request)]
    return isinstance(answer, kinds)


def can_fill_form(client: Client, schema: Mapping[str, Any]) -> bool:
    """Whether a person behind the client can be asked for these values: forms are flat (specification)."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    nested = any(not is_table(one) or "properties" in one or one.get("type") == "object" for one in properties.values())
    return not nested and client.offers(_FORM)


def current_client() -> Client | None:
    """The client of the call that runs here, or None where the call was asked for by somebody else."""
    return _CURRENT.get(None)


def in_name_of(client: Client) -> contextvars.Context:
    """A context in which it is the current one."""
    context = contextvars.copy_context()
    context.run(_CURRENT.set, client)
    return context


def _nothing() -> None:
    return
