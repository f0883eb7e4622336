"""Models: a provider bound to a name, asked for one turn at a time."""

import contextlib
import dataclasses
import functools
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import Any

from ripieno.canisters import AssistantCanister, Canister, Content, Controls, InvocationCanister, OpaqueContent
from ripieno.canisters.events import Alert, Batches, Event, collect
from ripieno.descriptors import RetryPolicy
from ripieno.ensembles import Ensemble
from ripieno.ensembles.offers import Offer
from ripieno.models.protocol import Capabilities, Identifiers, Protocol, Request, Transport
from ripieno.models.repair import Requirements, mend
from ripieno.models.retries import persist

#: Where a run's memory has that its listener was told: of repairs, and that one call comes at a time.
_TOLD, _TOLD_SERIAL = "repairs that were told", "told of one call at a time"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """An endpoint that speaks a protocol. ``capabilities`` gives those of one model by name."""

    name: str
    protocol: Protocol
    transport: Transport
    capabilities: Callable[[str], Capabilities]
    retry: RetryPolicy = RetryPolicy(max_retries=0)  # noqa: RUF009


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A provider bound to the name of a model."""

    provider: Provider
    name: str

    @property
    def identity(self) -> str:
        """``provider/model``."""
        return f"{self.provider.name}/{self.name}"

    def open(self) -> None:
        """Makes ready what its first request would wait for, such as a library. Errors: ``ProviderFailure``."""
        self.provider.transport.open()

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
    ) -> Batches:
        """The events of one turn, as many at a time as came together. No tool is run.

        There is one path of events: an answer that is asked for whole is played through the same decoder. Whoever
        asks turn after turn gives the same ``memory`` each time, so that what was encoded is not encoded again; and
        whoever does not look at ``deltas`` of text and arguments says so.
        As long as the model has said nothing, what may pass is tried again, and an ``Alert`` tells of it.
        Errors: ``ProviderFailure``; whatever was yielded before is no complete answer then. ``NameAbsence`` for an
        allowed tool that is not offered.
        """
        protocol = self.provider.protocol
        capabilities = self.provider.capabilities(self.name)
        offer = ensembles if isinstance(ensembles, Offer) else Offer.of(ensembles)
        wanted = offer.narrow(controls or Controls(), strict=True)
        stream = wanted.stream and bool(capabilities.get("streaming", True))
        if offer.invokers and not capabilities.get("stream_calls", True):
            stream = False
        if stream is not wanted.stream:
            wanted = dataclasses.replace(wanted, stream=stream)
        kept: dict[object, Any] = {} if memory is None else memory
        mended = mend(canisters, requirements_of(protocol, capabilities), kept)
        if mended.repairs and _TOLD not in kept:
            kept[_TOLD] = True
            yield (Alert(message=f"The conversation was mended for {self.identity}: {'; '.join(mended.repairs)}."),)
        serial = wanted.parallel and offer.invokers and not capabilities.get("parallel_calls", True)
        if serial and _TOLD_SERIAL not in kept:
            kept[_TOLD_SERIAL] = True
            yield (Alert(message=f"{self.identity} makes one call at a time: parallel = true is not sent."),)
        request = Request(
            model=self.name,
            canisters=mended.canisters,
            offer=offer,
            controls=wanted,
            capabilities=capabilities,
            memory=kept,
        )
        attempt = functools.partial(self._attempt, protocol.request(request), request, deltas=deltas)
        async with contextlib.aclosing(persist(attempt, self.provider.retry, self.identity)) as batches:
            async for batch in batches:
                yield batch

    async def _attempt(self, body: bytes, request: Request, *, deltas: bool) -> Batches:
        protocol, name = self.provider.protocol, self.provider.name
        stream = request.controls.stream
        identifiers = Identifiers(request.canisters, request.memory)
        interpreter = None if protocol.interpret is None else protocol.interpret(request, identifiers)
        path = protocol.path_for(self.name, stream=stream)
        async with self.provider.transport.exchange(body, path=path, stream=stream) as natives:
            if not stream:
                async for together in natives:
                    for native in together:
                        whole = protocol.decode(native, name, identifiers)
                        yield whole if interpreter is None else interpreter.hear(whole)
                return
            decoder = protocol.decoder(name, identifiers)
            decoder.deltas = deltas or interpreter is not None
            feed = decoder.feed
            async for together in natives:
                events: list[Event] = []
                try:
                    for native in together:
                        events += feed(native)
                finally:
                    # What came before an error has happened all the same.
                    if events:
                        yield events if interpreter is None else interpreter.hear(events)
            rest = decoder.finish()
            yield rest if interpreter is None else interpreter.hear(rest)

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

    def sends(self, content: Content) -> bool:
        """Whether such a content would be sent."""
        return not self.left_out((AssistantCanister(content=(content,)),))


def requirements_of(protocol: Protocol, capabilities: Capabilities) -> Requirements:
    """What a provider wants of a conversation: as its wire does, unless its data has another form of identifiers."""
    form = capabilities.get("call_identifiers")
    if form is None:
        return protocol.requirements
    return _with_identifiers(protocol.requirements, form)


@functools.cache
def _with_identifiers(requirements: Requirements, form: str) -> Requirements:
    # Every turn asks for it: five times quicker than making it (measured).
    return dataclasses.replace(requirements, identifiers=re.compile(form))


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
