"""What is written down of calls, and who is told: a recorder that fails is no reason to lose a result."""

import asyncio
from collections.abc import Sequence

from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.ensembles import Invoker, Surroundings
from ripieno.events import Alert
from ripieno.execution.circumstances import Circumstances
from ripieno.execution.refusals import NOT_RUN
from ripieno.faults import Fault
from ripieno.owning import reason
from ripieno.recording import Record, Recorder, Stage


class Reporter:
    """Writes records, and tells alerts, on behalf of one execution."""

    def __init__(self, recorder: Recorder | None, surroundings: Surroundings | None) -> None:
        self.recorder = recorder
        self.surroundings = surroundings

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

    def note(
        self,
        stage: Stage,
        around: Circumstances,
        tool: str,
        invocation: InvocationCanister,
        result: ResultCanister | None = None,
    ) -> bool:
        """Whether the recorder took the record of one call."""
        if self.recorder is None:
            return True
        record = Record(
            stage=stage,
            conversation=around.conversation,
            turn=around.turn,
            tool=tool,
            invocation=invocation,
            result=result,
        )
        return self.record((record,), around)

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
