"""What is written down of calls, and who is told: a recorder that fails is no reason to lose a result.

Calls that start together are one commit, before any of them runs; and so are those that end in the same step of the
event loop, before their results are shown.

The words for a call that is not run.
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Generator, Sequence

from frozendict import frozendict

from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.canisters.events import Alert
from ripieno.canisters.faults import Fault, Report
from ripieno.ensembles import Invoker, Surroundings
from ripieno.ensembles.owner import reason
from ripieno.execution.context import Circumstances
from ripieno.schemas import SchemaProblem
from ripieno.storage.records import Record, Recorder, Stage

NOT_RUN = Report(attempts=0)
UNRECORDED = Fault(
    category="resource",
    code="not_recorded",
    message="The call could not be recorded, and so it was not run.",
    recoverable=False,
    suggestion="Tell the user that the journal of calls cannot be written.",
)


def unfit(invoker: Invoker, problems: Sequence[SchemaProblem]) -> Fault:
    """Arguments that do not fit their schema."""
    return Fault(
        category="validation",
        message=" ".join(problem.message for problem in problems),
        code=problems[0].code,
        details=frozendict({"parameters": tuple(problem.parameter for problem in problems)}),
        suggestion=f"Mend the arguments of {invoker.name!r} and call it again.",
    )


def denied(invoker: Invoker, advice: str) -> Fault:
    """What a rule or a person does not allow; ``advice`` is for the model."""
    return Fault(
        category="denied",
        message=f"The call of {invoker.name!r} was denied.",
        recoverable=False,
        suggestion=advice or None,
    )


def record_of(
    stage: Stage,
    around: Circumstances,
    tool: str,
    invocation: InvocationCanister,
    result: ResultCanister | None = None,
) -> Record:
    """The record of one stage of a call."""
    return Record(
        stage=stage,
        conversation=around.conversation,
        turn=around.turn,
        tool=tool,
        invocation=invocation,
        result=result,
    )


def _nothing() -> None:
    """There is nothing to take back."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """A record that waits for others, and what to do then: where it was kept, or where it was not."""

    record: Record
    around: Circumstances
    then: Callable[[bool], None]


class Reporter:
    """Writes records, and tells alerts, on behalf of one execution."""

    def __init__(self, recorder: Recorder | None, surroundings: Surroundings | None) -> None:
        self.recorder = recorder
        self.surroundings = surroundings
        #: By event loop, since threads may share an execution: calls that start, and calls that have ended.
        self._starting: dict[asyncio.AbstractEventLoop, list[_Held]] = {}
        self._ended: dict[asyncio.AbstractEventLoop, list[_Held]] = {}

    def record(self, records: Sequence[Record], around: Circumstances) -> bool:
        """Whether the recorder took them, all in one commit."""
        if self.recorder is None or not records:
            return True
        try:
            self.recorder.record(records)
        except Exception as error:
            self.alert(around, Alert(message=f"The recorder failed with {reason(error)}", tool=records[0].tool))
            return False
        return True

    @contextlib.contextmanager
    def together(self) -> Generator[None, None, None]:
        """Calls that start meanwhile are one commit at the end. Nothing may be waited for: none runs before that."""
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

    def start(self, record: Record, around: Circumstances, lost: Callable[[], None]) -> bool:
        """Whether a call that starts is written down, or will be at the end of ``together``; or else it is ``lost``."""
        held = self._starting.get(asyncio.get_running_loop()) if self._starting else None
        if held is None:
            return self.record((record,), around)
        held.append(_Held(record=record, around=around, then=lambda kept: None if kept else lost()))
        return True

    def end(self, record: Record, around: Circumstances, then: Callable[[], None]) -> None:
        """A call has ended. ``then`` is called when that is written down, or cannot be; it must not raise."""
        if self.recorder is None:
            then()
            return
        loop = asyncio.get_running_loop()
        if loop not in self._ended:
            self._ended[loop] = []
            loop.call_soon(self._finish, loop)
        self._ended[loop].append(_Held(record=record, around=around, then=lambda _: then()))

    def _finish(self, loop: asyncio.AbstractEventLoop) -> None:
        self._keep(self._ended.pop(loop))

    def _keep(self, held: Sequence[_Held]) -> None:
        """One commit, whosever the calls are."""
        if not held:
            return
        kept = self.record([one.record for one in held], held[0].around)
        for one in held:
            one.then(kept)

    def note(
        self,
        stage: Stage,
        around: Circumstances,
        tool: str,
        invocation: InvocationCanister,
        result: ResultCanister | None = None,
    ) -> bool:
        """Whether the recorder took the record of one call, or will, with those that start together."""
        if self.recorder is None:
            return True
        return self.start(record_of(stage, around, tool, invocation, result), around, _nothing)

    def refuse(
        self, invocation: InvocationCanister, fault: Fault, around: Circumstances, invoker: Invoker | None = None
    ) -> ResultCanister:
        """The result of a call that is not run, recorded as refused."""
        result = ResultCanister(invocation_id=invocation.identifier, error=fault, report=NOT_RUN)
        self.note("refused", around, invoker.identity if invoker else invocation.name, invocation, result)
        return result

    def alert(self, around: Circumstances, alert: Alert) -> None:
        """Tells whoever follows this call, and the application, if it listens."""
        if around.notify is not None:
            around.notify(alert)
        if self.surroundings is None:
            return
        try:
            self.surroundings.alert(alert)
        except Exception as error:
            context = {"message": f"The application failed to take an alert: {alert.message}", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
