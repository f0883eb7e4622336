"""Writes the records of calls and sends alerts; and the faults of calls that are not run.

Calls that start together are recorded in one commit, before any of them runs. So are calls that end in the same step
of the event loop, before their results are shown. A recorder that fails loses no result.
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from frozendict import frozendict

from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.canisters.events import Alert
from ripieno.canisters.faults import Fault, Report
from ripieno.ensembles import Invoker, Surroundings
from ripieno.ensembles.owner import reason
from ripieno.execution.context import Circumstances, Prepared
from ripieno.jsonvalues import EMPTY
from ripieno.schemas import SchemaProblem
from ripieno.storage.records import Record, Recorder, Stage

NOT_RUN = Report(attempts=0)
UNRECORDED = Fault(
    category="resource",
    code="not_recorded",
    message="The call was not run: it could not be recorded.",
    recoverable=False,
    suggestion="Tell the user that the journal of calls cannot be written.",
)


def unfit(invoker: Invoker, problems: Sequence[SchemaProblem]) -> Fault:
    """The fault of arguments that do not match their schema."""
    return Fault(
        category="validation",
        message=" ".join(problem.message for problem in problems),
        code=problems[0].code,
        details=frozendict({"parameters": tuple(problem.parameter for problem in problems)}),
        suggestion=f"Fix the arguments of {invoker.exposed!r} and call it again.",
    )


def denied(invoker: Invoker, advice: str) -> Fault:
    """The fault of a call that a rule or a person does not allow; ``advice`` is for the model."""
    return Fault(
        category="denied",
        message=f"The call of {invoker.exposed!r} was denied.",
        recoverable=False,
        suggestion=advice or None,
    )


def record_of(
    stage: Stage,
    scope: Circumstances,
    tool: str,
    invocation: InvocationCanister,
    result: ResultCanister | None = None,
    *,
    details: Mapping[str, Any] = frozendict[str, Any](),
) -> Record:
    """The record of one stage of a call."""
    return Record(
        stage=stage,
        conversation=scope.conversation,
        turn=scope.turn,
        tool=tool,
        owner=scope.owner,
        invocation=invocation,
        result=result,
        details=details,
    )


def start_of(prepared: Prepared, scope: Circumstances) -> Record:
    """The record of a call that starts, with the rule that allowed it. A person's decision is in an earlier record."""
    verdict = prepared.verdict
    details = {"allowed": verdict.reason} if verdict.action == "run" else EMPTY
    return record_of("started", scope, prepared.invoker.identity, prepared.invocation, details=details)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _HeldRecord:
    """A record that waits for others. ``then`` gets whether it was written."""

    record: Record
    scope: Circumstances
    then: Callable[[bool], None]


class Reporter:
    """Writes records and sends alerts for one execution."""

    def __init__(self, recorder: Recorder | None, surroundings: Surroundings | None) -> None:
        self.recorder = recorder
        self.surroundings = surroundings
        #: By event loop, since threads may share an execution: calls that start, and calls that have ended.
        self._starting: dict[asyncio.AbstractEventLoop, list[_HeldRecord]] = {}
        self._ended: dict[asyncio.AbstractEventLoop, list[_HeldRecord]] = {}

    def record(self, records: Sequence[Record], scope: Circumstances) -> bool:
        """Writes records in one commit; returns whether that succeeded."""
        if self.recorder is None or not records:
            return True
        try:
            self.recorder.record(records)
        except Exception as error:
            self.alert(scope, Alert(message=f"The recorder failed with {reason(error)}", tool=records[0].tool))
            return False
        return True

    @contextlib.contextmanager
    def together(self) -> Generator[None, None, None]:
        """Records the calls that start within it in one commit at its end. The block must not await."""
        loop = asyncio.get_running_loop()
        if self.recorder is None or loop in self._starting:
            yield
            return
        held = self._starting[loop] = []
        try:
            yield
        finally:
            del self._starting[loop]
            self._keep(held)

    def start(self, record: Record, scope: Circumstances, lost: Callable[[], None] = lambda: None) -> bool:
        """Records a stage of a call, now or at the end of ``together``; calls ``lost`` if that fails later.

        Returns whether the call may start.
        """
        held = self._starting.get(asyncio.get_running_loop()) if self._starting else None
        if held is None:
            return self.record((record,), scope)
        held.append(_HeldRecord(record=record, scope=scope, then=lambda kept: None if kept else lost()))
        return True

    def end(self, record: Record, scope: Circumstances, then: Callable[[], None]) -> None:
        """Records that a call has ended. ``then`` is called when that is done or has failed; it must not raise."""
        loop = asyncio.get_running_loop()
        if loop not in self._ended:
            self._ended[loop] = []
            loop.call_soon(lambda: self._keep(self._ended.pop(loop)))
        self._ended[loop].append(_HeldRecord(record=record, scope=scope, then=lambda _: then()))

    def _keep(self, held: Sequence[_HeldRecord]) -> None:
        if not held:
            return
        kept = self.record([one.record for one in held], held[0].scope)
        for one in held:
            one.then(kept)

    def refuse(
        self, invocation: InvocationCanister, fault: Fault, scope: Circumstances, invoker: Invoker | None = None
    ) -> ResultCanister:
        """The result of a call that is not run, recorded as refused."""
        result = ResultCanister(invocation_id=invocation.identifier, error=fault, report=NOT_RUN)
        tool = invoker.identity if invoker else invocation.name
        self.start(record_of("refused", scope, tool, invocation, result), scope)
        return result

    def alert(self, scope: Circumstances, alert: Alert) -> None:
        """Sends an alert to the listener of this call and to the application."""
        if scope.notify is not None:
            scope.notify(alert)
        if self.surroundings is None:
            return
        try:
            self.surroundings.alert(alert)
        except Exception as error:
            context = {"message": f"The application failed to handle an alert: {alert.message}", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
