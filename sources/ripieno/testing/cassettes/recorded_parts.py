"""Wrappers that record a model, a confirmer and an execution without changing their behaviour."""

import contextlib
import dataclasses
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
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
from ripieno.testing.cassettes.recorder import RunRecorder
from ripieno.testing.cassettes.values import RecordedModel


class RecordingTransport(Transport):
    """Records the requests and answers of another transport, whose owner closes it."""

    def __init__(self, inner: Transport, tape: RunRecorder, model: str) -> None:
        self._inner = inner
        self._tape = tape
        self._model = model

    def open(self) -> None:
        self._inner.open()

    @contextlib.asynccontextmanager
    async def exchange(self, body: bytes, *, path: str, stream: bool) -> AsyncGenerator[AsyncIterator[Natives], None]:
        number = self._tape.request(self._model, path, stream, body)
        # An error from decoding is not recorded: it recurs when the recorded answer is decoded.
        is_own = True
        settled = False

        async def heard(natives: AsyncIterator[Natives]) -> AsyncGenerator[Natives, None]:
            nonlocal is_own, settled
            iterator = aiter(natives)
            while True:
                try:
                    batch = await anext(iterator)
                except StopAsyncIteration:
                    self._tape.ended(number, "whole")
                    settled = True
                    return
                except BaseException:
                    is_own = True
                    raise
                self._tape.natives(number, batch)
                yield batch

        try:
            async with self._inner.exchange(body, path=path, stream=stream) as natives:
                is_own = False
                yield heard(natives)
        except ProviderFailure as error:
            if is_own:
                self._tape.failed(number, error)
                settled = True
            raise
        finally:
            if not settled:
                self._tape.ended(number, "left")


class RecordingModel(Model, kw_only=True):
    """A model whose requests and answers are recorded. Made by ``recording_model``."""

    inner: Model
    tape: RunRecorder

    async def batches(
        self,
        canisters: Sequence[Canister],
        *,
        ensembles: Sequence[Ensemble] | Offer = (),
        controls: Controls | None = None,
        memory: dict[object, Any] | None = None,
        deltas: bool = True,  # noqa: ARG002  a replay may need them
    ) -> Batches:
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
        return self.inner.left_out(canisters)


def recording_model(model: Model, tape: RunRecorder) -> RecordingModel:
    """The model, recorded. Errors: ``UsageError`` for a model without a wire."""
    if isinstance(model, RecordingModel):
        return recording_model(model.inner, tape)
    links = [_recording_link(one, tape) for one in links_of(model)]
    return RecordingModel(provider=model.provider, name=model.name, inner=FallbackModel.of(links), tape=tape)


def links_of(model: Model) -> Sequence[Model]:
    """The models of a chain, or the single model."""
    return model.models if isinstance(model, FallbackModel) else (model,)


def _recording_link(model: Model, tape: RunRecorder) -> Model:
    if type(model) is not Model:
        raise UsageError(
            f"{model.identity} ({type(model).__name__}) has no wire, so it cannot be recorded. "
            "Record a model of a provider, or one of ripieno.testing.model_of."
        )
    transport = RecordingTransport(model.provider.transport, tape, model.identity)
    return dataclasses.replace(model, provider=dataclasses.replace(model.provider, transport=transport))


def recorded_model(model: Model) -> RecordedModel:
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
    with contextlib.suppress(ValueError):
        freeze(value)
        return True
    return False


class RecordingConfirmer:
    """Records the answers of another confirmer. ``recorder_of`` gives the recorder of a conversation's run."""

    def __init__(self, inner: Confirmer, recorder_of: Callable[[str], RunRecorder | None]) -> None:
        self.inner = inner
        self._recorder_of = recorder_of

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        answer: object = None
        try:
            given = answer = await self.inner.confirm(request)
        finally:
            tape = self._recorder_of(request.conversation)
            if tape is not None:
                tape.decision(request, answer)
        return given


class RecordingExecution(Execution):
    def __init__(self, inner: Execution, tape: RunRecorder) -> None:
        # All parts are shared with the inner execution.
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
        invocation, tape = prepared.invocation.identifier, self._tape

        def notify(event: Event) -> None:
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
        recorded = dataclasses.replace(scope, notify=notify)
        outcome = super().launch(prepared, recorded, early=early, seconds=seconds, settled=ended)
        if isinstance(outcome, ResultCanister):
            tape.result({**common, "result": serialize(outcome), "started": False})
        return outcome
