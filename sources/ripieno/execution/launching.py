"""Starts a call: recorded before it runs and when it has its result, and told of meanwhile."""

from collections.abc import Callable

from ripieno.calls import Call
from ripieno.canisters import ResultCanister
from ripieno.confirmation import Confirmer
from ripieno.controls import Limits
from ripieno.ensembles import Context, Invoker
from ripieno.events import Alert, ExecutionBegan, ExecutionProgress
from ripieno.execution.circumstances import Circumstances, Prepared
from ripieno.execution.refusals import NOT_RUN, UNRECORDED
from ripieno.execution.reporting import Reporter
from ripieno.inquiring import Inquirer

#: Seconds; no argument of a call can ask for more.
_LONGEST = 86_400.0


class Launcher:
    """Starts calls under one set of limits."""

    def __init__(self, limits: Limits, confirmer: Confirmer, reporter: Reporter) -> None:
        self._limits = limits
        self._confirmer = confirmer
        self._reporter = reporter

    def launch(
        self,
        prepared: Prepared,
        around: Circumstances,
        *,
        early: bool = False,
        seconds: float | None = None,
        settled: Callable[[Call], None] | None = None,
    ) -> Call | ResultCanister:
        """Starts a call, as ``Execution.launch`` says."""
        invoker, invocation = prepared.invoker, prepared.invocation
        timeout = _timeout(prepared)
        if seconds is not None:
            timeout = min(timeout, max(seconds, 0.001))
        if not self._reporter.note("started", around, invoker.identity, invocation):
            return ResultCanister(invocation_id=invocation.identifier, error=UNRECORDED, report=NOT_RUN)
        notify = around.notify
        if notify is not None:
            notify(ExecutionBegan(invocation=invocation, tool=invoker.identity, early=early))

        def finished(call: Call) -> None:
            self._reporter.note("finished", around, invoker.identity, invocation, call.result.result())
            if settled is not None:
                settled(call)

        def progress(done: float, total: float | None = None, message: str = "") -> None:
            if notify is not None:
                event = ExecutionProgress(
                    invocation_id=invocation.identifier, tool=invoker.identity, done=done, total=total, message=message
                )
                call.tell(notify, event)

        inquirer = Inquirer(self._confirmer, invocation, invoker, around.conversation, notify, inquire=around.inquire)
        call = Call(
            invocation=invocation,
            invoker=invoker,
            context=self._context(prepared, around, progress, inquirer),
            arguments=prepared.arguments,
            timeout=timeout,
            latest=seconds,
            limit=self._room(invoker, around),
            early=early,
            settled=finished,
            alert=lambda message: self._reporter.alert(around, Alert(message=message, tool=invoker.identity)),
        )
        inquirer.pause = call.paused
        return call

    def _room(self, invoker: Invoker, around: Circumstances) -> int:
        room = invoker.policy.output
        for limit in (self._limits.output, around.output):
            if limit is not None and limit < room:
                room = limit
        return room

    def _context(
        self, prepared: Prepared, around: Circumstances, progress: Callable[..., None], inquirer: Inquirer
    ) -> Context:
        invoker = prepared.invoker
        ensemble = invoker.ensemble
        return Context(
            invoker=invoker,
            invocation=prepared.invocation.identifier,
            conversation=around.conversation,
            turn=around.turn,
            auxdata=around.auxdata,
            namespace=around.namespaces.setdefault(ensemble.name, {}),
            connection=ensemble.connection,
            configuration=invoker.configuration or ensemble.configuration,
            surroundings=ensemble.surroundings or self._reporter.surroundings,
            deadline=None,
            progress=progress,
            inquire=inquirer,
        )


def _timeout(prepared: Prepared) -> float:
    policy = prepared.invoker.policy
    if policy.timeout_argument is not None:
        value = prepared.arguments.get(policy.timeout_argument)
        if isinstance(value, int | float) and value > 0:
            return float(min(value, _LONGEST))
    return policy.timeout
