"""Starts a call: recorded before it runs and when it has its result, and told of meanwhile."""

import functools
import random
from collections.abc import Callable

from ripieno.approvals import Confirmer
from ripieno.approvals.questions import Inquirer
from ripieno.canisters import ResultCanister
from ripieno.canisters.controls import Limits
from ripieno.canisters.events import Alert, ExecutionBegan, ExecutionProgress
from ripieno.ensembles import Invoker
from ripieno.execution.cache import Recalled, ResultCache
from ripieno.execution.call import Call
from ripieno.execution.context import Circumstances, Prepared, context_of
from ripieno.execution.records import NOT_RUN, UNRECORDED, Reporter, record_of
from ripieno.execution.results import Keep
from ripieno.execution.retries import Attempts
from ripieno.storage.outputs import READER, Keeper

#: Seconds; no argument of a call can ask for more.
_LONGEST = 86_400.0


class Launcher:
    """Starts calls under one set of limits. ``chance`` gives numbers from 0 to 1, for the backoff of retries."""

    def __init__(
        self,
        limits: Limits,
        confirmer: Confirmer,
        reporter: Reporter,
        *,
        cache: ResultCache | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._limits = limits
        self._confirmer = confirmer
        self._reporter = reporter
        self._cache = ResultCache() if cache is None else cache
        self._chance = chance

    def launch(
        self,
        prepared: Prepared,
        around: Circumstances,
        *,
        early: bool = False,
        seconds: float | None = None,
        settled: Callable[[Call], None] | None = None,
    ) -> Call | ResultCanister:
        """Starts a call, as ``Execution.launch`` says; or one that has an earlier call's result, where that may be."""
        invoker, invocation = prepared.invoker, prepared.invocation
        room = self._room(invoker, around)
        asked = self._cache.ask(
            invoker,
            prepared.arguments,
            conversation=around.conversation,
            namespaces=around.namespaces,
            auxdata=around.auxdata,
            output=room,
        )
        found = None if asked is None else self._cache.find(asked, invocation.identifier)

        def finished(call: Call) -> None:
            result = call.outcome
            assert result is not None
            if kept is not None:
                kept.end(result)
            if call.withdrawn:
                show(call)
                return
            record = record_of("finished", around, invoker.identity, invocation, result)
            self._reporter.end(record, around, functools.partial(show, call))

        def show(call: Call) -> None:
            call.deliver()
            if settled is not None:
                settled(call)

        kept = None
        if found is not None:
            return Recalled(invocation=invocation, invoker=invoker, result=found, early=early, settled=finished)
        timeout = _timeout(prepared)
        if seconds is not None:
            timeout = min(timeout, max(seconds, 0.001))
        started = record_of("started", around, invoker.identity, invocation)
        if not self._reporter.start(started, around, lambda: call.withdraw(UNRECORDED)):
            return ResultCanister(invocation_id=invocation.identifier, error=UNRECORDED, report=NOT_RUN)
        notify = around.notify
        if notify is not None:
            notify(ExecutionBegan(invocation=invocation, tool=invoker.identity, early=early))

        def progress(done: float, total: float | None = None, message: str = "") -> None:
            if notify is not None:
                event = ExecutionProgress(
                    invocation_id=invocation.identifier, tool=invoker.identity, done=done, total=total, message=message
                )
                call.tell(notify, event)

        inquirer = Inquirer(self._confirmer, invocation, invoker, around.conversation, notify, inquire=around.inquire)
        keep = self._keep(prepared, around)
        kept = self._cache.begin(invoker, prepared.arguments, asked)
        call = Call(
            invocation=invocation,
            invoker=invoker,
            context=context_of(
                prepared,
                around,
                self._reporter.surroundings,
                progress=progress,
                inquire=inquirer,
                kept=0 if keep is None else self._limits.spill,
            ),
            arguments=prepared.arguments,
            timeout=timeout,
            latest=seconds,
            limit=room,
            keep=keep,
            early=early,
            attempts=Attempts(invoker.policy, self._chance),
            progress=progress,
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

    def _keep(self, prepared: Prepared, around: Circumstances) -> Keep | None:
        """What keeps texts that are too long to be shown; None where the model could not read on in them."""
        surroundings = prepared.invoker.ensemble.surroundings or self._reporter.surroundings
        outputs = None if surroundings is None else surroundings.outputs
        if outputs is None or prepared.reader is None or prepared.invoker.identity == READER:
            return None
        return Keeper(
            outputs=outputs, conversation=around.conversation, limit=self._limits.spill, reader=prepared.reader
        ).keep


def _timeout(prepared: Prepared) -> float:
    policy = prepared.invoker.policy
    if policy.timeout_argument is not None:
        value = prepared.arguments.get(policy.timeout_argument)
        if isinstance(value, int | float) and value > 0:
            return float(min(value, _LONGEST))
    return policy.timeout
