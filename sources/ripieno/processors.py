"""What a wire format is to the rest of the house, and what every one of them inherits.

A protocol is one frozen value with both directions in it: the client half turns canisters into a request and an
answer into events, the server half reads a request and writes an answer. A provider speaks a protocol; a model
is a provider with a name.
"""

import abc
import contextlib
import dataclasses
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any
from typing import Protocol as Contract

from ripieno.canisters import Canister, InvocationCanister, ResultCanister
from ripieno.contents import OpaqueContent
from ripieno.controls import Controls
from ripieno.ensembles import Definition, Ensemble, Invoker
from ripieno.events import Event, collect
from ripieno.execution import Execution
from ripieno.offers import Offer
from ripieno.scheduling import schedule

Native = Mapping[str, Any]
Natives = Sequence[Native]
Capabilities = Mapping[str, Any]


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

    Vendors write three methods, without I/O.
    """

    def prepare_tools(self, ensembles: Sequence[Ensemble] | Offer) -> Sequence[Native]:
        """The definitions of all tools in the wire's own form, in an order that is always the same.

        What a provider runs by itself is not among them.
        """
        offer = ensembles if isinstance(ensembles, Offer) else Offer.of(ensembles)
        return [self.definition_of(invoker) for invoker in offer.invokers if invoker.hosted != "provider"]

    @abc.abstractmethod
    def definition_of(self, invoker: Invoker) -> Native:
        """One tool as the wire defines it."""

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
        own = self._own
        number, self._count = self._count, self._count + 1
        settled = identifier if isinstance(identifier, str) and identifier.strip() else ""
        if not settled or settled in taken or settled in own:
            settled = f"call_{len(self._canisters)}_{number}"
            while settled in taken or settled in own:
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

    def fail(self, message: str) -> bytes:
        """The bytes that end an answer that cannot go on: its clients make an error of their own of it."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a client asks a server of ours for. ``tools`` are run by the client."""

    model: str
    canisters: tuple[Canister, ...]
    tools: tuple[Definition, ...] = ()
    controls: Controls = Controls()  # noqa: RUF009


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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """One wire format, both directions. A value made of functions; nothing to subclass.

    ``path`` is where a client posts, below the provider's base URL; ``routes`` are where a server answers.
    ``sdk`` is a key of the table in ``protocols.transport``.
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
    routes: tuple[str, ...]
    #: A client's request, read. Errors: ``InputError``.
    parse: Callable[[Native], Asked]
    #: An encoder for one streamed answer; the argument is the model's name.
    encoder: Callable[[str], Encoder]
    #: All events of an answer to the bytes of a whole one.
    encode: Callable[[Iterable[Event], str], bytes]
    #: The wire's own form of an error: HTTP status and message.
    refuse: Callable[[int, str], bytes]


class Transport(Contract):
    """Carries requests to one endpoint. Made by the protocols' transport room; tests bring their own."""

    def exchange(self, body: bytes, *, path: str, stream: bool) -> AbstractAsyncContextManager[AsyncIterator[Natives]]:
        """The native events of an answer, as many at a time as come together; or the one whole answer.

        Errors: ``ProviderFailure``.
        """
        ...

    async def close(self) -> None:
        """Lets go of what is open."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """An endpoint that speaks a protocol. ``capabilities`` gives those of one model by name."""

    name: str
    protocol: Protocol
    transport: Transport
    capabilities: Callable[[str], Capabilities]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A provider bound to the name of a model."""

    provider: Provider
    name: str

    @property
    def identity(self) -> str:
        """``provider/model``."""
        return f"{self.provider.name}/{self.name}"

    async def stream(
        self,
        canisters: Sequence[Canister],
        *,
        ensembles: Sequence[Ensemble] | Offer = (),
        controls: Controls | None = None,
    ) -> AsyncGenerator[Event, None]:
        """The events of one turn, one by one. No tool is run. Errors: ``ProviderFailure``."""
        batches = self.batches(canisters, ensembles=ensembles, controls=controls)
        async with contextlib.aclosing(batches):
            async for batch in batches:
                for event in batch:
                    yield event

    async def batches(
        self,
        canisters: Sequence[Canister],
        *,
        ensembles: Sequence[Ensemble] | Offer = (),
        controls: Controls | None = None,
        memory: dict[object, Any] | None = None,
        deltas: bool = True,
    ) -> AsyncGenerator[Iterable[Event], None]:
        """The events of one turn, as many at a time as came together. No tool is run.

        There is one path of events: an answer that is asked for whole is played through the same decoder. Whoever
        asks turn after turn gives the same ``memory`` each time, so that what was encoded is not encoded again; and
        whoever does not look at ``deltas`` says so.
        Errors: ``ProviderFailure``; whatever was yielded before is no complete answer then.
        """
        protocol = self.provider.protocol
        wanted = controls or Controls()
        capabilities = self.provider.capabilities(self.name)
        offer = ensembles if isinstance(ensembles, Offer) else Offer.of(ensembles)
        stream = wanted.stream and bool(capabilities.get("streaming", True))
        if offer.invokers and not capabilities.get("stream_calls", True):
            stream = False
        if stream is not wanted.stream:
            wanted = dataclasses.replace(wanted, stream=stream)
        body = protocol.request(
            Request(
                model=self.name,
                canisters=canisters,
                offer=offer,
                controls=wanted,
                capabilities=capabilities,
                memory={} if memory is None else memory,
            )
        )
        identifiers = Identifiers(canisters, memory)
        exchange = self.provider.transport.exchange(body, path=protocol.path, stream=stream)
        async with exchange as natives:
            if not stream:
                async for together in natives:
                    for native in together:
                        yield protocol.decode(native, self.provider.name, identifiers)
                return
            decoder = protocol.decoder(self.provider.name, identifiers)
            decoder.deltas = deltas
            feed = decoder.feed
            async for together in natives:
                events: list[Event] = []
                try:
                    for native in together:
                        events += feed(native)
                finally:
                    # What came before an error has happened all the same.
                    if events:
                        yield events
            yield decoder.finish()

    async def converse(
        self,
        canisters: Sequence[Canister],
        *,
        ensembles: Sequence[Ensemble] | Offer = (),
        controls: Controls | None = None,
    ) -> tuple[Canister, ...]:
        """One turn, collected: the assistant's canisters. No tool is run. Errors: ``ProviderFailure``."""
        async with contextlib.aclosing(self.stream(canisters, ensembles=ensembles, controls=controls)) as events:
            return collect([event async for event in events])

    def left_out(self, canisters: Iterable[Canister]) -> Mapping[str, int]:
        """How many contents of which kind would not be sent."""
        return left_out(canisters, self.provider.protocol)


def left_out(canisters: Iterable[Canister], protocol: Protocol) -> dict[str, int]:
    """How many contents of which kind a protocol cannot send: another protocol's opaque ones, and kinds it lacks."""
    counts: dict[str, int] = {}
    for canister in canisters:
        if isinstance(canister, InvocationCanister):
            continue
        for content in canister.content:
            if isinstance(content, OpaqueContent):
                if content.protocol == protocol.name:
                    continue
                kind = f"{content.protocol} {content.kind}"
            elif isinstance(content, protocol.carries):
                continue
            else:
                kind = type(content).__name__
            counts[kind] = counts.get(kind, 0) + 1
    return counts
