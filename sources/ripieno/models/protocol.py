"""What a wire format is to the rest of the house, and what every one of them inherits.

A protocol is one frozen value with both directions in it: the client half turns canisters into a request and an
answer into events, the server half reads a request and writes an answer.
"""

import abc
import dataclasses
import urllib.parse
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any
from typing import Protocol as Contract

from frozendict import frozendict

from ripieno.canisters import Canister, Controls, InvocationCanister, ResultCanister
from ripieno.canisters.events import Event
from ripieno.ensembles import Definition, Ensemble, Invoker
from ripieno.ensembles.offers import Offer
from ripieno.execution import Execution
from ripieno.execution.scheduling.turn import schedule
from ripieno.models.repair import Requirements
from ripieno.schemas.lowering import PLAIN, Dialect, Lowered, lower

Native = Mapping[str, Any]
Natives = Sequence[Native]
Capabilities = Mapping[str, Any]
#: Where a run's memory has the identifiers of calls that are not shown: no later call gets one of them.
RESERVED = "identifiers of calls that are not shown"


class MessagesProcessor(abc.ABC):
    """Canisters to the messages of one wire, and back. No I/O."""

    @abc.abstractmethod
    def nativize(
        self, canisters: Sequence[Canister], capabilities: Capabilities, memory: dict[object, Any] | None = None
    ) -> bytes:
        """The messages as JSON: calls and results stand among them where the wire wants them.

        ``memory`` is what a run's last request left, and takes what this one leaves.
        """

    @abc.abstractmethod
    def normalize(self, native: Native) -> tuple[Canister, ...]:
        """The canisters of a request's messages, a system prompt among them. Errors: ``WireInvalidity``."""


class InvocationsProcessor(abc.ABC):
    """Tools, calls and results of one wire (seed 002, "InvocationsProcessor").

    Vendors write three methods, without I/O. ``dialect`` is what the wire's readers understand of schemas, and
    ``strict_dialect`` what its providers can hold arguments to, where they can.
    """

    dialect: Dialect = PLAIN
    strict_dialect: Dialect | None = None

    def prepare_tools(self, ensembles: Sequence[Ensemble] | Offer, *, strict: bool = False) -> Sequence[Native]:
        """The definitions of all tools in the wire's own form, in an order that is always the same.

        What a provider runs by itself is not among them.
        """
        offer = ensembles if isinstance(ensembles, Offer) else Offer.of(ensembles)
        return [
            self.definition_of(invoker, strict=strict) for invoker in offer.invokers if invoker.hosted != "provider"
        ]

    def lowered(self, invoker: Invoker, *, strict: bool = False) -> Lowered:
        """The arguments' schema as the wire can say it, and what that loses."""
        return lower(invoker.schema, self.strict_dialect if strict and self.strict_dialect else self.dialect)

    @abc.abstractmethod
    def definition_of(self, invoker: Invoker, *, strict: bool = False) -> Native:
        """One tool as the wire defines it; ``strict``: arguments are held to what can be said of their schema."""

    @abc.abstractmethod
    def normalize_invocations(self, native: Native) -> Sequence[InvocationCanister]:
        """The calls in a whole answer."""

    @abc.abstractmethod
    def nativize_results(self, results: Sequence[ResultCanister]) -> Sequence[Native]:
        """The messages that carry these results."""

    async def execute_invocations(
        self,
        invocations: Sequence[InvocationCanister],
        ensembles: Sequence[Ensemble],
        execution: Execution | None = None,
    ) -> Sequence[ResultCanister]:
        """One result for each invocation, in their order, scheduled as the calls of one turn.

        Execution is no vendor matter: this is inherited. Errors: ``InputError`` when an invoker is not hosted here;
        nothing has run then.
        """
        return await schedule(invocations, Offer.of(ensembles), execution or Execution())


class ControlsProcessor(abc.ABC):
    """Controls of one wire, and back. No I/O."""

    @abc.abstractmethod
    def nativize(self, controls: Controls, capabilities: Capabilities) -> Mapping[str, Any]:
        """The keys that a request has for these controls. Errors: ``InputError`` for what the wire cannot say."""

    @abc.abstractmethod
    def normalize(self, native: Native) -> Controls:
        """The controls that a request asks for."""


class Identifiers:
    """Gives every call of one answer an identifier that no other call of the conversation has.

    A provider's own is kept. One that is missing, blank or doubled is replaced by one that depends only on the
    place of the call in the conversation (measured: servers send each of these).
    """

    __slots__ = ("_canisters", "_count", "_memory", "_own", "_taken")

    def __init__(self, canisters: Sequence[Canister] = (), memory: dict[object, Any] | None = None) -> None:
        self._canisters = canisters
        self._count = 0
        self._memory: dict[object, Any] = {} if memory is None else memory
        #: Those of the conversation; and of this answer, which is no part of it before it has ended well.
        self._taken: set[str] | None = None
        self._own: set[str] = set()

    def settle(self, identifier: object) -> str:
        """The identifier to use for the next call of the answer."""
        taken = self._taken
        if taken is None:
            # The last request of the same run has seen all but the newest.
            seen, taken = self._memory.get(Identifiers, (0, set[str]()))
            taken.update(one.identifier for one in self._canisters[seen:] if isinstance(one, InvocationCanister))
            self._memory[Identifiers] = (len(self._canisters), taken)
            self._taken = taken
        own, reserved = self._own, self._memory.get(RESERVED, ())
        number, self._count = self._count, self._count + 1
        settled = identifier if isinstance(identifier, str) and identifier.strip() else ""
        if not settled or settled in taken or settled in own or settled in reserved:
            settled = f"call_{len(self._canisters)}_{number}"
            while settled in taken or settled in own or settled in reserved:
                settled += "_"
        own.add(settled)
        return settled


class Decoder(Contract):
    """Turns one answer, piece by piece, into events."""

    #: Whether anybody looks at deltas; where nobody does, they may be left out.
    deltas: bool

    def feed(self, native: Native) -> Iterable[Event]:
        """The events of one native event. Errors: ``ProviderRefusal`` for an error inside the stream."""
        ...

    def finish(self) -> Iterable[Event]:
        """The last events. Errors: ``WireInvalidity`` when the wire ended without its terminal event."""
        ...


class Encoder(Contract):
    """Turns events into the bytes of one streamed answer."""

    def feed(self, event: Event) -> bytes:
        """The bytes for one event; empty when the wire has no word for it."""
        ...

    def wait(self) -> bytes:
        """What tells a client that the answer goes on while nothing of it comes; empty where there is no word for it.

        Comments keep connections alive, but some clients count only what is said (measured).
        """
        ...

    def fail(self, refusal: "Refusal") -> bytes:
        """The bytes that end an answer that cannot go on: its clients make an error of their own of it."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostedTool:
    """A tool that a client wants its server to run. ``kind`` is the wire's word: ``web_search``, ``mcp``, ``acme:x``.

    ``label`` is what the client calls it, where it may have several of a kind; ``names`` are those of its tools that
    the client wants, where it says so. An address that stands in it is not taken over.
    """

    kind: str
    label: str = ""
    names: tuple[str, ...] | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a client asks a server of ours for.

    ``tools`` are run by the client, ``hosted`` ones by whoever answers, if anybody. ``native`` is the request as it
    came: what an answer repeats of it, and how the client had declared its tools, is the wire's own business.
    """

    model: str
    canisters: tuple[Canister, ...] = ()
    tools: tuple[Definition, ...] = ()
    hosted: tuple[HostedTool, ...] = ()
    controls: Controls = Controls()  # noqa: RUF009
    native: Native = dataclasses.field(default_factory=frozendict[str, Any], compare=False, repr=False)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a request is not answered, or an answer ends. ``status`` is that of HTTP.

    ``code`` is a word for programs, ``parameter`` what of the request it is about; ``seconds`` when to ask again.
    """

    status: int
    message: str
    code: str | None = None
    parameter: str | None = None
    seconds: float | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a model is asked, before it has a wire."""

    model: str
    canisters: Sequence[Canister]
    offer: Offer
    controls: Controls
    capabilities: Capabilities
    #: What a run's last request left behind for the next one, for whoever encodes both. Never needed, only quicker.
    memory: dict[object, Any] = dataclasses.field(default_factory=dict[object, Any])


class Interpreter(Contract):
    """Makes something else of the events of one answer: calls of what stands in its text."""

    def hear(self, events: Iterable[Event]) -> Iterable[Event]:
        """The events that these become. The last of them end the turn, and nothing is held back then."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """One wire format, both directions. A value made of functions; nothing to subclass.

    ``path`` is where a client posts, below the provider's base URL, with ``{model}`` where the model's name stands
    in it; ``routes`` are where a server answers. ``sdk`` is a key of the table in ``protocols.transport``.
    """

    name: str
    sdk: str
    messages: MessagesProcessor
    invocations: InvocationsProcessor
    controls: ControlsProcessor
    #: A request to the bytes of its body.
    request: Callable[[Request], bytes]
    #: The kinds of contents that the wire has a word for; the others are left out, and an event says so.
    carries: tuple[type, ...]
    #: A decoder for one streamed answer; the text is the provider's name, for errors.
    decoder: Callable[[str, "Identifiers"], Decoder]
    #: A whole answer to events, through the same decoder.
    decode: Callable[[Native, str, "Identifiers"], Iterable[Event]]
    path: str
    #: Where it posts for a streamed answer, on a wire where that is elsewhere.
    stream_path: str | None = None
    #: What its SDK reads of the environment to reach a server at ``{url}``, where ``sdk`` does not say.
    environment: str | None = None
    #: A parameter, such as ``{model}``, is part of the request that ``parse`` is given.
    routes: tuple[str, ...]
    #: A client's request, read. Errors: ``InputError``.
    parse: Callable[[Native], Asked]
    #: An encoder for one streamed answer to what was asked.
    encoder: Callable[[Asked], Encoder]
    #: Other encoders, by what tells them apart: the names of their events, say.
    variants: Mapping[str, Callable[[Asked], Encoder]] = dataclasses.field(
        default_factory=frozendict[str, Callable[[Asked], Encoder]]
    )
    #: All events of an answer to the bytes of a whole one.
    encode: Callable[[Iterable[Event], Asked], bytes]
    #: The wire's own form of an error.
    refuse: Callable[[Refusal], bytes]
    #: Whether an answer can have the results of calls that its server ran. Elsewhere such calls are not shown, either.
    shows_results: bool = False
    #: What it wants of a conversation beside the form.
    requirements: Requirements = Requirements()  # noqa: RUF009
    #: What the events of the answer to a request go through; None, or a result of None, leaves them as they are.
    interpret: "Callable[[Request, Identifiers], Interpreter | None] | None" = None

    def path_for(self, model: str, *, stream: bool) -> str:
        """The path of one request. The model's name is escaped: none leads anywhere else."""
        path = self.stream_path if stream and self.stream_path is not None else self.path
        return path.replace("{model}", urllib.parse.quote(model, safe=""))


class Transport(Contract):
    """Carries requests to one endpoint. Made by the protocols' transport room; tests bring their own."""

    def exchange(self, body: bytes, *, path: str, stream: bool) -> AbstractAsyncContextManager[AsyncIterator[Natives]]:
        """The native events of an answer, as many at a time as come together; or the one whole answer.

        Errors: ``ProviderFailure``.
        """
        ...

    def open(self) -> None:
        """Makes ready what the first request would wait for. May be called twice, and never: requests do it, too."""
        ...

    async def close(self) -> None:
        """Lets go of what is open."""
        ...
