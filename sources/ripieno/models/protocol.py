"""The contract of a wire format, and the base classes of its parts.

A protocol is one frozen value for both directions. The client half turns canisters into a request and an answer into
events; the server half reads a request and writes an answer.
"""

import abc
import dataclasses
import urllib.parse
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any
from typing import Protocol as Contract

import msgspec
from frozendict import frozendict

from ripieno.canisters import Canister, Controls, InvocationCanister, ResultCanister
from ripieno.canisters.conversation import Usage
from ripieno.canisters.events import Event
from ripieno.ensembles import Definition, Ensemble, Invoker
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import RequestInvalidity
from ripieno.execution import Execution
from ripieno.execution.scheduling.turn import schedule
from ripieno.jsonvalues import EMPTY
from ripieno.models.repair import Requirements
from ripieno.schemas.lowering import PLAIN, Dialect, Lowered, lower
from ripieno.values import Value, uncompared, unprinted

Native = Mapping[str, Any]
Natives = Sequence[Native]
Capabilities = Mapping[str, Any]
#: Key in a run's memory of the identifiers of hidden calls; no later call gets one of them.
RESERVED = "identifiers of calls that are not shown"


class MessagesProcessor(abc.ABC):
    """Turns canisters into messages of one wire, and back. No I/O."""

    @abc.abstractmethod
    def nativize(
        self, canisters: Sequence[Canister], capabilities: Capabilities, memory: dict[object, Any] | None = None
    ) -> bytes:
        """The messages as JSON, with calls and results in the wire's order.

        ``memory`` passes data from one request of a run to the next.
        """

    @abc.abstractmethod
    def normalize(self, native: Native) -> tuple[Canister, ...]:
        """The canisters of a request's messages, with its system prompt. Errors: ``WireInvalidity``."""


class InvocationsProcessor(abc.ABC):
    """Tools, calls and results of one wire (seed 002, "InvocationsProcessor").

    A vendor writes three methods, without I/O. ``dialect`` is the subset of JSON Schema that the wire's providers
    understand; ``strict_dialect`` the subset that they enforce, if any.
    """

    dialect: Dialect = PLAIN
    strict_dialect: Dialect | None = None

    def prepare_tools(self, ensembles: Sequence[Ensemble] | Offer, *, strict: bool = False) -> Sequence[Native]:
        """The definitions of all tools in the wire's form, in a stable order, without provider-hosted tools."""
        offer = ensembles if isinstance(ensembles, Offer) else Offer.of(ensembles)
        return [
            self.definition_of(invoker, strict=strict) for invoker in offer.invokers if invoker.hosted != "provider"
        ]

    def lowered(self, invoker: Invoker, *, strict: bool = False) -> Lowered:
        """The arguments' schema in the wire's dialect, with the losses."""
        return lower(invoker.schema, self.strict_dialect if strict and self.strict_dialect else self.dialect)

    @abc.abstractmethod
    def definition_of(self, invoker: Invoker, *, strict: bool = False) -> Native:
        """One tool in the wire's form; ``strict`` requests that the provider enforces the schema."""

    @abc.abstractmethod
    def normalize_invocations(self, native: Native) -> Sequence[InvocationCanister]:
        """The calls in a complete answer. Errors: ``InputError`` for anything else, such as a message of it."""

    @abc.abstractmethod
    def nativize_results(self, results: Sequence[ResultCanister]) -> Sequence[Native]:
        """The messages with these results."""

    async def execute_invocations(
        self,
        invocations: Sequence[InvocationCanister],
        ensembles: Sequence[Ensemble],
        execution: Execution | None = None,
    ) -> Sequence[ResultCanister]:
        """One result for each invocation, in order; the calls are scheduled like those of one turn.

        Independent of the vendor. Errors: ``InputError`` if an invoker is not hosted here; then nothing has run.
        """
        results = await schedule(invocations, Offer.of(ensembles), execution or Execution())
        return [
            dataclasses.replace(result, report=dataclasses.replace(result.report, tool=invocation.name))
            for invocation, result in zip(invocations, results, strict=True)
        ]


class ControlsProcessor(abc.ABC):
    """Turns controls into request parameters of one wire, and back. No I/O."""

    @abc.abstractmethod
    def nativize(self, controls: Controls, capabilities: Capabilities) -> Mapping[str, Any]:
        """The request's keys for these controls. Errors: ``InputError`` for a control that the wire lacks."""

    @abc.abstractmethod
    def normalize(self, native: Native) -> Controls:
        """The controls in a request."""


class Identifiers:
    """Gives each call of an answer an identifier that is unique in the conversation.

    A provider's identifier is kept. A missing, blank or duplicate one is replaced by one that depends only on the
    call's position in the conversation (measured: servers send each of these).
    """

    __slots__ = ("_canisters", "_count", "_memory", "_own", "_taken")

    def __init__(self, canisters: Sequence[Canister] = (), memory: dict[object, Any] | None = None) -> None:
        self._canisters = canisters
        self._count = 0
        self._memory: dict[object, Any] = {} if memory is None else memory
        #: Those of the conversation, and those of this answer, which joins the conversation only if it succeeds.
        self._taken: set[str] | None = None
        self._own: set[str] = set()

    def unique(self, identifier: object) -> str:
        """The identifier of the answer's next call."""
        taken = self._taken
        if taken is None:
            # The run's last request has collected all but the newest.
            seen, taken = self._memory.get(Identifiers, (0, set[str]()))
            taken.update(one.identifier for one in self._canisters[seen:] if isinstance(one, InvocationCanister))
            self._memory[Identifiers] = (len(self._canisters), taken)
            self._taken = taken
        own, reserved = self._own, self._memory.get(RESERVED, ())
        number, self._count = self._count, self._count + 1
        unique = identifier if isinstance(identifier, str) and identifier.strip() else ""
        if not unique or unique in taken or unique in own or unique in reserved:
            unique = f"call_{len(self._canisters)}_{number}"
            while unique in taken or unique in own or unique in reserved:
                unique += "_"
        own.add(unique)
        return unique

    def reports(self, key: object) -> bool:
        """Whether this is the run's first report of something, so that later answers do not repeat it."""
        return self._memory.setdefault(("reported", key), self) is self


class Decoder(Contract):
    """Turns one answer into events, piece by piece."""

    #: Whether deltas are needed; otherwise they may be left out.
    deltas: bool

    def feed(self, native: Native) -> Iterable[Event]:
        """The events of one native event. Errors: ``ProviderRefusal`` for an error inside the stream."""
        ...

    def finish(self) -> Iterable[Event]:
        """The last events. Errors: ``WireInvalidity`` if the wire ended without its terminal event."""
        ...

    def play(self, native: Native) -> Iterable[Event]:
        """All events of a complete answer, which is not fed. Errors: ``ProviderRefusal`` if it is none."""
        ...


class Encoder(Contract):
    """Turns events into the bytes of one streamed answer."""

    def feed(self, event: Event) -> bytes:
        """The bytes for one event; empty if the wire cannot express it."""
        ...

    def wait(self) -> bytes:
        """A message that the answer continues, for use while nothing else is sent.

        Empty if the wire has none, and after the end. SSE comments keep connections alive, but some clients count only
        events (measured).
        """
        ...

    def fail(self, refusal: "Refusal") -> bytes:
        """The bytes that end an answer with an error."""
        ...


class HostedTool(Value, kw_only=True):
    """A tool that the server is to run. ``kind`` is the wire's name: ``web_search``, ``mcp``, ``acme:x``.

    ``label`` is the client's name for it, if there may be several of a kind. ``names`` are the tools of it that the
    client allows, if it says so. A server address in the declaration is ignored.
    """

    kind: str
    label: str = ""
    names: tuple[str, ...] | None = None


@uncompared("native")
@unprinted("native")
class Asked(Value, kw_only=True):
    """A client's request to a gateway.

    The client runs ``tools``; the server runs ``hosted`` tools, if it can. ``undeclared`` has the names of other tools
    in the choice, and the refusal of each, for a server that does not offer it. ``native`` is the request as received;
    the wire repeats parts of it in its answer. ``stored`` is the identifier under which the answer will be stored; it
    is empty if it will not. ``created`` is when the request came, in seconds of Unix time; 0 is now.
    """

    model: str
    canisters: tuple[Canister, ...] = ()
    tools: tuple[Definition, ...] = ()
    hosted: tuple[HostedTool, ...] = ()
    controls: Controls = Controls()
    undeclared: Mapping[str, RequestInvalidity] = EMPTY
    native: Native = msgspec.field(default_factory=frozendict[str, Any])
    stored: str = ""
    created: int = 0


#: A mark in identifiers of items that a server here made. They mean nothing elsewhere and are not kept.
MADE = "_ripieno_"
#: The kind of an opaque content with a sealed summary, whose text is its ``encrypted_content``.
COMPACTION = "compaction"
#: The protocol of an opaque content with the ``text`` of reasoning that a score wrote. Each wire sends it as its own.
SCORED = "score"


class Refusal(Value, kw_only=True):
    """The reason that a request is refused or an answer ends. ``status`` is the HTTP status.

    ``code`` is for programs, ``parameter`` the part of the request at fault, ``seconds`` the time until a retry.
    """

    status: int
    message: str
    code: str | None = None
    parameter: str | None = None
    seconds: float | None = None


class Request(Value, kw_only=True):
    """A request to a model, independent of the wire."""

    model: str
    canisters: Sequence[Canister]
    offer: Offer
    controls: Controls
    capabilities: Capabilities
    #: Passes encoded data from one request of a run to the next. Optional, for speed only.
    memory: dict[object, Any] = msgspec.field(default_factory=dict[object, Any])


class Interpreter(Contract):
    """Changes the events of one answer: extracts calls from its text."""

    def hear(self, events: Iterable[Event]) -> Iterable[Event]:
        """The resulting events. The turn's last event releases everything held back."""
        ...


class Protocol(Value, kw_only=True):
    """One wire format, both directions: a value made of functions, never subclassed.

    ``path`` is where a client posts, below the provider's base URL; ``{model}`` is replaced by the model's name.
    ``routes`` are where a server answers. ``sdk`` is a key of the table in ``models/transport/transport.py``.
    """

    name: str
    sdk: str
    messages: MessagesProcessor
    invocations: InvocationsProcessor
    controls: ControlsProcessor
    #: A request to the bytes of its body.
    request: Callable[[Request], bytes]
    #: The kinds of contents that the wire can express; the others are left out, and an event reports it.
    carries: tuple[type, ...]
    #: Makes a decoder of one answer, streamed or complete; the text is the provider's name, for errors.
    decoder: Callable[[str, "Identifiers"], Decoder]
    path: str
    #: The path for a streamed answer, if it differs.
    stream_path: str | None = None
    #: The environment variable through which its SDK finds a server at ``{url}``, if ``sdk`` does not imply it.
    environment: str | None = None
    #: A path parameter, such as ``{model}``, becomes part of the request for ``parse``.
    routes: tuple[str, ...]
    #: Reads a client's request. Errors: ``InputError``.
    parse: Callable[[Native], Asked]
    #: Makes an encoder for a streamed answer to a request.
    encoder: Callable[[Asked], Encoder]
    #: Turns all events of an answer into its complete body.
    encode: Callable[[Iterable[Event], Asked], bytes]
    #: Other values of ``encoder`` and ``encode``, by what selects them, such as the names of their events.
    variants: Mapping[str, tuple[Callable[[Asked], Encoder], Callable[[Iterable[Event], Asked], bytes]]] = (
        msgspec.field(default_factory=frozendict[str, Any])
    )
    #: Turns an error into the wire's form.
    refuse: Callable[[Refusal], bytes]
    #: Whether an answer can include results of calls that its server ran. Otherwise such calls are hidden, too.
    shows_results: bool = False
    #: Whether clients may send requests on a WebSocket at its routes, as the open specification of Responses defines.
    sockets: bool = False
    #: Whether clients may store answers, refer to them, and fetch them at its routes, as the Responses API defines.
    stores: bool = False
    #: The body of the answer to a request for a compaction, with its sealed text. Its routes end with ``/compact``.
    compacted: Callable[[Asked, str, Usage], bytes] | None = None
    #: Requirements on the conversation itself.
    requirements: Requirements = Requirements()
    #: Makes the filter of an answer's events; None, or a result of None, leaves them unchanged.
    interpret: "Callable[[Request, Identifiers], Interpreter | None] | None" = None

    def variant(self, name: str) -> "Protocol":
        """The protocol with its other encoders of this name; unchanged if it has none."""
        encoder, encode = self.variants.get(name, (self.encoder, self.encode))
        return dataclasses.replace(self, encoder=encoder, encode=encode)

    def path_for(self, model: str, *, stream: bool) -> str:
        """The path of one request. The model's name is escaped, so it cannot lead elsewhere."""
        path = self.stream_path if stream and self.stream_path is not None else self.path
        return path.replace("{model}", urllib.parse.quote(model, safe=""))


class Transport(Contract):
    """Carries requests to one endpoint. ``models/transport`` implements it; tests bring their own.

    A subclass that has nothing to prepare or to close inherits methods that do nothing.
    """

    def exchange(self, body: bytes, *, path: str, stream: bool) -> AbstractAsyncContextManager[AsyncIterator[Natives]]:
        """The native events of an answer, in batches as they arrive, or one complete answer.

        Errors: ``ProviderFailure``.
        """
        ...

    def open(self) -> None:
        """Prepares the first request. May be called several times, or never: requests do it themselves."""
        return

    async def close(self) -> None:
        """Closes all connections."""
        return
