"""What stands around a model, a confirmer and an execution while they are recorded: each does what it did before."""

import contextlib
import dataclasses
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from ripieno.approvals import Answer, ConfirmationRequest, Confirmer
from ripieno.canisters import Canister, Controls, ResultCanister
from ripieno.canisters.events import Alert, Batches, Event, ExecutionBegan
from ripieno.canisters.serialization import serialize
from ripieno.ensembles import Ensemble
from ripieno.ensembles.offers import Offer
from ripieno.ensembles.owner import reason
from ripieno.exceptions import ProviderFailure, UsageError
from ripieno.execution import Circumstances, Execution, Prepared
from ripieno.execution.call import Call
from ripieno.jsonvalues import freeze
from ripieno.models import Model
from ripieno.models.fallback import FallbackModel
from ripieno.models.protocol import Natives, Transport
from ripieno.models.protocols.prompted import Messages
from ripieno.testing.cassettes.recorder import RunTape
from ripieno.testing.cassettes.values import RecordedModel


class TapedTransport:
    """Carries requests as another transport does, and records both ways."""

    def __init__(self, inner: Transport, tape: RunTape, model: str) -> None:
        self._inner = inner
        self._tape = tape
        self._model = model

    def open(self) -> None:
        """As ``Transport.open``."""
        self._inner.open()

    def exchange(self, body: bytes, *, path: str, stream: bool) -> AbstractAsyncContextManager[AsyncIterator[Natives]]:
        """As ``Transport.exchange``."""
        return self._exchange(body, path, stream)

    @contextlib.asynccontextmanager
    async def _exchange(self, body: bytes, path: str, stream: bool) -> AsyncGenerator[AsyncIterator[Natives], None]:
        number = self._tape.request(self._model, path, stream, body)
        state = _Exchange()
        try:
            async with self._inner.exchange(body, path=path, stream=stream) as natives:
                state.open = True
                yield self._heard(natives, number, state)
        except ProviderFailure as error:
            # One that comes from reading what was heard comes again when that is played.
            if state.broken or not state.open:
                self._tape.failed(number, error)
                state.settled = True
            raise
        finally:
            if not state.settled:
                self._tape.ended(number, "left")

    async def _heard(
        self, natives: AsyncIterator[Natives], number: int, state: "_Exchange"
    ) -> AsyncGenerator[Natives, None]:
        iterator = aiter(natives)
        while True:
            try:
                batch = await anext(iterator)
            except StopAsyncIteration:
                self._tape.ended(number, "whole")
                state.settled = True
                return
            except BaseException:
                state.broken = True
                raise
            self._tape.natives(number, batch)
            yield batch

    async def close(self) -> None:
        """Leaves it open: whoever made the other transport closes that."""


@dataclasses.dataclass(slots=True)
class _Exchange:
    """How far an exchange has come."""

    open: bool = False
    broken: bool = False
    settled: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TapedModel(Model):
    """A model whose requests and answers are recorded. Made by ``tape_model``."""

    inner: Model
    tape: RunTape

    async def batches(
        self,
        canisters: Sequence[Canister],
        *,
        ensembles: Sequence[Ensemble] | Offer = (),
        controls: Controls | None = None,
        memory: dict[object, Any] | None = None,
        deltas: bool = True,  # noqa: ARG002  whoever replays may look at them
    ) -> Batches:
        """As ``Model.batches``."""
        offer = ensembles if isinstance(ensembles, Offer) else Offer.of(ensembles)
        self.tape.offer(offer)
        batches = self.inner.batches(canisters, ensembles=offer, controls=controls, memory=memory)
        async with contextlib.aclosing(batches):
            async for batch in batches:
                events = list(batch)
                for event in events:
                    if isinstance(event, Alert) and "seconds" in event.details:
                        self.tape.alert(event)
                yield events

    def left_out(self, canisters: Iterable[Canister]) -> Mapping[str, int]:
        """As ``Model.left_out``."""
        return self.inner.left_out(canisters)


def tape_model(model: Model, tape: RunTape) -> TapedModel:
    """The model, recorded. Errors: ``UsageError`` for one that has no wire."""
    if isinstance(model, TapedModel):
        return tape_model(model.inner, tape)
    links = [_tape_wire(one, tape) for one in links_of(model)]
    return TapedModel(provider=model.provider, name=model.name, inner=FallbackModel.of(links), tape=tape)


def links_of(model: Model) -> Sequence[Model]:
    """The models of a chain; one that is none is the only one."""
    return model.models if isinstance(model, FallbackModel) else (model,)


def _tape_wire(model: Model, tape: RunTape) -> Model:
    if type(model) is not Model:
        raise UsageError(
            f"{model.identity} ({type(model).__name__}) has no wire, so there is nothing of it that could be recorded. "
            "Record a model of a provider, or one of ripieno.testing.wires.model_of."
        )
    transport = TapedTransport(model.provider.transport, tape, model.identity)
    return dataclasses.replace(model, provider=dataclasses.replace(model.provider, transport=transport))


def record_model(model: Model) -> RecordedModel:
    """The value of a model."""
    provider = model.provider
    capabilities = {name: value for name, value in provider.capabilities(model.name).items() if _is_json(value)}
    return RecordedModel(
        provider=provider.name,
        name=model.name,
        protocol=provider.protocol.name,
        prompted=isinstance(provider.protocol.messages, Messages),
        interpreted=provider.protocol.interpret is not None,
        capabilities=capabilities,
        retries=provider.retry.max_retries,
    )


def _is_json(value: object) -> bool:
    try:
        freeze(value)
    except ValueError:
        return False
    return True


class TapedConfirmer:
    """Asks another confirmer, and records what it answers. ``tape_of`` finds the tape of a conversation."""

    def __init__(self, inner: Confirmer, tape_of: Callable[[str], RunTape | None]) -> None:
        self.inner = inner
        self._tape_of = tape_of

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        """As ``Confirmer.confirm``."""
        answer: object = None
        try:
            given = answer = await self.inner.confirm(request)
        finally:
            tape = self._tape_of(request.conversation)
            if tape is not None:
                tape.decision(request, answer)
        return given


class TapedExecution(Execution):
    """Another execution, whose calls are recorded."""

    def __init__(self, inner: Execution, tape: RunTape) -> None:
        # It is the same in everything but this: its parts are shared, whatever they are.
        self.__dict__.update(vars(inner))
        self._tape = tape

    def launch(
        self,
        prepared: Prepared,
        scope: Circumstances,
        *,
        early: bool = False,
        seconds: float | None = None,
        settled: Callable[[Call], None] | None = None,
    ) -> Call | ResultCanister:
        """As ``Execution.launch``."""
        invocation, tape = prepared.invocation.identifier, self._tape

        def tell(event: Event) -> None:
            if not isinstance(event, ExecutionBegan):
                tape.event(invocation, event)
            if scope.notify is not None:
                scope.notify(event)

        def ended(call: Call) -> None:
            bug = None if call.bug is None else reason(call.bug)
            tape.result({**common, "result": serialize(call.result.result()), "bug": bug})
            if settled is not None:
                settled(call)

        common = {
            "conversation": scope.conversation,
            "turn": scope.turn,
            "invocation": invocation,
            "tool": prepared.invoker.identity,
        }
        told = dataclasses.replace(scope, notify=tell)
        outcome = super().launch(prepared, told, early=early, seconds=seconds, settled=ended)
        if isinstance(outcome, ResultCanister):
            tape.result({**common, "result": serialize(outcome), "started": False})
        return outcome
