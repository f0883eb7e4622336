"""Replacements of a model, a confirmer and an execution that replay a cassette.

There is no key, no network, no tool and no process. Decoders, pipeline and loop are the real ones.
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any

from ripieno.approvals import Answer, ConfirmationRequest, Confirmer
from ripieno.canisters import Canister, Controls, InvocationCanister, ResultCanister
from ripieno.canisters.events import Alert, Batches, Event, ExecutionBegan
from ripieno.canisters.faults import Fault
from ripieno.canisters.serialization import deserialize
from ripieno.descriptors import RetryPolicy
from ripieno.ensembles import Ensemble, Invoker
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import ReplayDivergence, RipienoError, SerializationInvalidity
from ripieno.execution import Circumstances, Execution, Prepared
from ripieno.execution.call import Call
from ripieno.execution.records import NOT_RUN, UNRECORDED, record_of, start_of
from ripieno.models import Model, Protocol, Provider
from ripieno.models.fallback import FallbackModel
from ripieno.models.protocol import Natives, Transport
from ripieno.models.protocols.prompted import prompted_protocol
from ripieno.models.protocols.text_calls.interpreter import interpret
from ripieno.storage.redaction import Redactor
from ripieno.testing.cassettes.file import CassetteLine
from ripieno.testing.cassettes.player import Player
from ripieno.testing.cassettes.requests import differ, digest, lengthen, read_body, same
from ripieno.testing.cassettes.values import RecordedEvent, RecordedFailure, RecordedModel


class _ImmediateRetries(RetryPolicy, kw_only=True):
    """The recorded number of retries, without pauses."""

    def pause(self, failed: int, asked: float | None, chance: float) -> float | None:
        return None if RetryPolicy.pause(self, failed, asked, chance) is None else 0.0


class ReplayedTransport(Transport):
    """Gives the recorded answers. Requests must equal the recorded ones, unless it is ``lenient``."""

    def __init__(self, player: Player, redactor: Redactor, *, lenient: bool) -> None:
        self._player = player
        self._redactor = redactor
        self._lenient = lenient
        self._body: dict[str, Any] = {}

    @contextlib.asynccontextmanager
    async def exchange(self, body: bytes, *, path: str, stream: bool) -> AsyncGenerator[AsyncIterator[Natives], None]:
        """As ``Transport.exchange``. Errors: ``ReplayDivergence``, and recorded errors."""
        del path, stream
        line = await self._player.take("request")
        self._compare(line, body)
        number = line.fields["request"]
        natives = self._natives(number)
        try:
            async with contextlib.aclosing(natives):
                yield natives
        finally:
            self._player.skip(number)

    async def _natives(self, number: int) -> AsyncGenerator[Natives, None]:
        while True:
            line = await self._player.take("native", number)
            if line.kind == "failure":
                failure: RecordedFailure = line.read(RecordedFailure, "failure")
                raise failure.error()
            ended = line.fields.get("ended")
            if ended == "whole":
                return
            if ended is not None:
                raise self._player.diverged("the recording ends here: the answer was not received completely")
            yield line.fields["events"]

    def _compare(self, line: CassetteLine, body: bytes) -> None:
        try:
            recorded = self._body = lengthen(line.fields["body"], self._body)
        except ValueError as error:
            raise SerializationInvalidity(f"Line {line.number} of the cassette: {error}.") from None
        now = self._redactor.value(read_body(body))
        if digest(now) != line.fields["digest"] and not self._lenient:
            if not same(recorded, now):
                raise self._player.diverged(differ(recorded, now))
            raise self._player.diverged(
                f"line {line.number} was changed after it was recorded: its request does not have its digest. "
                "Record it again, or replay it with --lenient"
            )


class ReplayedModel(Model, kw_only=True):
    """A recorded model with the real decoder. ``live``, if set, continues after the end of the cassette."""

    inner: Model
    player: Player
    live: Model | None = None

    async def batches(
        self,
        canisters: Sequence[Canister],
        *,
        ensembles: Sequence[Ensemble] | Offer = (),
        controls: Controls | None = None,
        memory: dict[object, Any] | None = None,
        deltas: bool = True,
    ) -> Batches:
        live = self.live is not None and self.player.exhausted
        asked = self.live if self.live is not None and live else self.inner
        # Each wire has a memory of its own.
        kept = None if memory is None else memory.setdefault((ReplayedModel, live), {})
        batches = asked.batches(canisters, ensembles=ensembles, controls=controls, memory=kept, deltas=deltas)
        async with contextlib.aclosing(batches):
            async for batch in batches:
                yield batch if live else [self._timed(event) for event in batch]

    def _timed(self, event: Event) -> Event:
        """The event; an alert about a pause is replaced by the recorded one."""
        if not (isinstance(event, Alert) and "seconds" in event.details):
            return event
        line = self.player.take_now("alert")
        return event if line is None else _event(line)

    def left_out(self, canisters: Iterable[Canister]) -> Mapping[str, int]:
        return (self.live if self.live is not None and self.player.exhausted else self.inner).left_out(canisters)


def replayed_model(
    recorded: Sequence[RecordedModel],
    player: Player,
    protocol: Callable[[str], Protocol],
    redactor: Redactor,
    *,
    lenient: bool,
    live: Model | None = None,
) -> ReplayedModel:
    """The recorded model or chain."""
    transport = ReplayedTransport(player, redactor, lenient=lenient)
    inner = FallbackModel.of([_model(one, transport, protocol) for one in recorded])
    shown = live or inner
    return ReplayedModel(provider=shown.provider, name=shown.name, inner=inner, player=player, live=live)


def _model(recorded: RecordedModel, transport: ReplayedTransport, protocol: Callable[[str], Protocol]) -> Model:
    wire = protocol(recorded.protocol)
    if recorded.prompted:
        wire = prompted_protocol(wire)
    elif recorded.interpreted and wire.interpret is None:
        wire = dataclasses.replace(wire, interpret=interpret)
    provider = Provider(
        name=recorded.provider,
        protocol=wire,
        transport=transport,
        capabilities=lambda _: recorded.capabilities,
        retry=_ImmediateRetries(max_retries=recorded.retries),
    )
    return Model(provider=provider, name=recorded.name)


def _event(line: CassetteLine) -> RecordedEvent:
    event: RecordedEvent = line.read(RecordedEvent, "event")
    return event


class ReplayedConfirmer:
    """Gives the recorded answers. ``live``, if set, continues after the end of the cassette."""

    def __init__(self, player_of: Callable[[str], Player | None], live: Confirmer | None = None) -> None:
        self._player_of = player_of
        self._live = live

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        player = self._player_of(request.conversation)
        if self._live is not None and (player is None or player.exhausted or request.question is not None):
            return await self._live.confirm(request)
        if player is None:
            raise ReplayDivergence("a cassette", 0, f"the conversation {request.conversation} was not recorded")
        try:
            line = await player.take("decision", request.invocation)
        except ReplayDivergence as error:
            # The caller turns the error into a denial, so the next consumer must raise it.
            player.fail(error)
            raise
        answer: Answer = line.read(Answer, "answer")
        return answer


class ReplayedCall(Call):
    """A call that does not run: its result comes from the cassette."""

    def __init__(
        self, invocation: InvocationCanister, invoker: Invoker, *, early: bool, settled: Callable[[Call], None]
    ) -> None:
        self.invocation = invocation
        self.invoker = invoker
        self.early = early
        self.bug = None
        self.withdrawn = False
        self.outcome = None
        self.result = asyncio.get_running_loop().create_future()
        self._settled = settled

    def cancel(self) -> None:
        """Ends it without the recorded result."""
        self.settle(_fault(self.invocation, "cancelled", "The call was cancelled."))

    def settle(self, result: ResultCanister) -> None:
        if not self.result.done():
            self.outcome = result
            self.deliver()
            self._settled(self)


class ReplayedExecution(Execution):
    """An execution whose calls get the recorded results.

    With ``live``, calls run after the end of the cassette. A call without a recorded result ends the run.
    """

    def __init__(self, inner: Execution, player: Player, *, live: bool) -> None:
        # All parts are shared with the inner execution.
        self.__dict__.update(vars(inner))
        self._player = player
        self._live = live

    def launch(
        self,
        prepared: Prepared,
        scope: Circumstances,
        *,
        early: bool = False,
        seconds: float | None = None,
        settled: Callable[[Call], None] | None = None,
    ) -> Call | ResultCanister:
        if self._live and self._player.exhausted:
            return super().launch(prepared, scope, early=early, seconds=seconds, settled=settled)
        invocation, invoker = prepared.invocation, prepared.invoker
        line = self._player.launch(invocation.identifier)
        if line is not None:
            return deserialize(ResultCanister, line.fields["result"])
        if not self.reporter.start(start_of(prepared, scope), scope):
            return ResultCanister(invocation_id=invocation.identifier, error=UNRECORDED, report=NOT_RUN)
        if scope.notify is not None:
            scope.notify(ExecutionBegan(invocation=invocation, tool=invoker.identity, early=early))

        def ended(call: Call) -> None:
            result = call.result.result()
            self.reporter.start(record_of("finished", scope, invoker.identity, invocation, result), scope)
            if settled is not None:
                settled(call)

        call = ReplayedCall(invocation, invoker, early=early, settled=ended)
        task = asyncio.get_running_loop().create_task(self._play(call, scope))
        _TASKS.add(task)
        task.add_done_callback(_TASKS.discard)
        return call

    async def _play(self, call: ReplayedCall, scope: Circumstances) -> None:
        identifier = call.invocation.identifier
        try:
            while not call.result.done():
                line = await self._player.take("call", identifier)
                if line.kind == "result":
                    call.bug = _bug(line.fields.get("bug"))
                    call.settle(deserialize(ResultCanister, line.fields["result"]))
                elif scope.notify is not None:
                    scope.notify(_event(line))
        except RipienoError as error:
            if isinstance(error, ReplayDivergence):
                self._player.fail(error)
            call.settle(_fault(call.invocation, "fatal", str(error)))


def _fault(invocation: InvocationCanister, category: Any, message: str) -> ResultCanister:
    fault = Fault(category=category, message=message, recoverable=False)
    return ResultCanister(invocation_id=invocation.identifier, error=fault)


def _bug(text: object) -> BaseException | None:
    """An error with the recorded type and message."""
    if not isinstance(text, str):
        return None
    name, _, message = text.partition(": ")
    kind: Any = type(name if name.isidentifier() else "Exception", (Exception,), {})
    bug: BaseException = kind(message)
    return bug


#: Replayed calls; the event loop alone does not keep a task alive.
_TASKS: set[asyncio.Task[None]] = set()
