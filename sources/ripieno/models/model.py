"""Models: a provider bound to the name of a model."""

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
from ripieno.models.reasoning import is_for_people
from ripieno.models.repair import Requirements, repair
from ripieno.models.retries import persist
from ripieno.values import Value

#: Keys in a run's memory: the alert about repairs was sent; the alert about one call at a time was sent.
_REPAIRS_REPORTED, _SERIAL_REPORTED = "repairs reported", "one call at a time reported"


class Provider(Value, kw_only=True):
    """An endpoint that speaks a protocol. ``capabilities`` gives those of a model by its name."""

    name: str
    protocol: Protocol
    transport: Transport
    capabilities: Callable[[str], Capabilities]
    retry: RetryPolicy = RetryPolicy(max_retries=0)


#: The name of the provider of scripted models.
SCRIPTED = "score"


class Model(Value, kw_only=True):
    """A provider bound to the name of a model."""

    provider: Provider
    name: str

    @property
    def identity(self) -> str:
        """``provider/model``; of a score in a file, ``score:/path``, as it is typed after ``-m``."""
        joint = ":" if self.provider.name == SCRIPTED and self.name.startswith("/") else "/"
        return f"{self.provider.name}{joint}{self.name}"

    def open(self) -> None:
        """Loads what the first request needs, such as a library. Errors: ``ProviderFailure``."""
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
        """The events of one turn, in batches as they arrived. No tool is run.

        An answer that is not streamed passes through the same decoder. A caller that asks turn after turn passes the
        same ``memory`` each time, so that nothing is encoded twice. ``deltas=False`` allows deltas of text and
        arguments to be left out. Until the model sends something, transient failures are retried, and an ``Alert``
        reports each retry.
        Errors: ``ProviderFailure`` (the events before it are then no complete answer); ``NameAbsence`` for an allowed
        tool that is not offered.
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
        repaired = repair(canisters, requirements_of(protocol, capabilities), kept)
        if repaired.repairs and _REPAIRS_REPORTED not in kept:
            kept[_REPAIRS_REPORTED] = True
            repairs = "; ".join(repaired.repairs)
            yield (Alert(message=f"The conversation was repaired for {self.identity}: {repairs}."),)
        serial = wanted.parallel and offer.invokers and not capabilities.get("parallel_calls", True)
        if serial and _SERIAL_REPORTED not in kept:
            kept[_SERIAL_REPORTED] = True
            yield (Alert(message=f"{self.identity} makes one call at a time: parallel = true is not sent."),)
        request = Request(
            model=self.name,
            canisters=repaired.canisters,
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
        decoder = protocol.decoder(name, identifiers)
        decoder.deltas = deltas or interpreter is not None
        async with self.provider.transport.exchange(body, path=path, stream=stream) as natives:
            if not stream:
                async for together in natives:
                    for native in together:
                        events = decoder.play(native)
                        yield events if interpreter is None else interpreter.hear(events)
                return
            feed = decoder.feed
            async for together in natives:
                received: list[Event] = []
                try:
                    for native in together:
                        received += feed(native)
                finally:
                    # Events before an error are handed on.
                    if received:
                        yield received if interpreter is None else interpreter.hear(received)
            rest = decoder.finish()
            yield rest if interpreter is None else interpreter.hear(rest)

    async def converse(
        self,
        canisters: Sequence[Canister],
        *,
        ensembles: Sequence[Ensemble] | Offer = (),
        controls: Controls | None = None,
    ) -> tuple[Canister, ...]:
        """The assistant's canisters of one turn. No tool is run. Errors: ``ProviderFailure``."""
        async with contextlib.aclosing(self.stream(canisters, ensembles=ensembles, controls=controls)) as events:
            return collect([event async for event in events])

    def left_out(self, canisters: Iterable[Canister]) -> Mapping[str, int]:
        """Counts, by kind, the contents that cannot be sent."""
        return left_out(canisters, self.provider.protocol)

    def sends(self, content: Content) -> bool:
        """Whether the content can be sent."""
        return not is_for_people(content) and not self.left_out((AssistantCanister(content=(content,)),))


def requirements_of(protocol: Protocol, capabilities: Capabilities) -> Requirements:
    """A wire's requirements; the provider's data may set another form of identifiers."""
    form = capabilities.get("call_identifiers")
    return protocol.requirements if form is None else _with_identifiers(protocol.requirements, form)


@functools.cache
def _with_identifiers(requirements: Requirements, form: str) -> Requirements:
    # Cached, since every turn needs it: five times faster (measured).
    return dataclasses.replace(requirements, identifiers=re.compile(form))


def left_out(canisters: Iterable[Canister], protocol: Protocol) -> dict[str, int]:
    """Counts, by kind, contents that a protocol cannot send: another protocol's opaque ones, and kinds it lacks."""
    counts: dict[str, int] = {}
    for canister in canisters:
        if isinstance(canister, InvocationCanister):
            continue
        for content in canister.content:
            if isinstance(content, OpaqueContent):
                if content.protocol == protocol.name or is_for_people(content):
                    continue
                kind = f"{content.protocol} {content.kind}"
            elif isinstance(content, protocol.carries):
                continue
            else:
                kind = type(content).__name__
            counts[kind] = counts.get(kind, 0) + 1
    return counts
