"""Starts calls. Records each one before it runs and when it has its result; reports its progress."""

import functools
import random
from collections.abc import Callable

from ripieno.approvals import Confirmer
from ripieno.approvals.questions import Inquirer
from ripieno.canisters import ResultCanister
from ripieno.canisters.controls import Limits
from ripieno.canisters.events import Alert, ExecutionBegan, ExecutionProgress
from ripieno.execution.cache import CachedCall, ResultCache
from ripieno.execution.call import Call
from ripieno.execution.context import Circumstances, Prepared, context_of
from ripieno.execution.records import NOT_RUN, UNRECORDED, Reporter, record_of
from ripieno.execution.results import Keep
from ripieno.execution.retries import Attempts
from ripieno.storage.outputs import READER, Keeper

#: The highest timeout that an argument can set, in seconds.
_LONGEST = 86_400.0


class Launcher:
    """Starts calls under one set of limits. ``chance`` returns numbers from 0 to 1, for the backoff of retries."""

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
        scope: Circumstances,
        *,
        early: bool = False,
        seconds: float | None = None,
        settled: Callable[[Call], None] | None = None,
    ) -> Call | ResultCanister:
        """Starts a call (see ``Execution.launch``), or returns one with a cached result."""
        invoker, invocation = prepared.invoker, prepared.invocation
        limit = min(one for one in (invoker.policy.output, self._limits.output, scope.output) if one is not None)
        cacheable = self._cache.cacheable(
            invoker,
            prepared.arguments,
            conversation=scope.conversation,
            namespaces=scope.namespaces,
            auxdata=scope.auxdata,
            output=limit,
        )
        cached = None if cacheable is None else self._cache.find(cacheable, invocation.identifier)

        def finished(call: Call) -> None:
            result = call.outcome
            assert result is not None
            if end is not None:
                end(result)
            if call.withdrawn:
                show(call)
                return
            record = record_of("finished", scope, invoker.identity, invocation, result)
            self._reporter.end(record, scope, functools.partial(show, call))

        def show(call: Call) -> None:
            call.deliver()
            if settled is not None:
                settled(call)

        end = None
        if cached is not None:
            return CachedCall(invocation=invocation, invoker=invoker, result=cached, early=early, settled=finished)
        timeout = _timeout(prepared)
        if seconds is not None:
            timeout = min(timeout, max(seconds, 0.001))
        started = record_of("started", scope, invoker.identity, invocation)
        if not self._reporter.start(started, scope, lambda: call.withdraw(UNRECORDED)):
            return ResultCanister(invocation_id=invocation.identifier, error=UNRECORDED, report=NOT_RUN)
        notify = scope.notify
        if notify is not None:
            notify(ExecutionBegan(invocation=invocation, tool=invoker.identity, early=early))

        def progress(done: float, total: float | None = None, message: str = "") -> None:
            if notify is not None:
                event = ExecutionProgress(
                    invocation_id=invocation.identifier, tool=invoker.identity, done=done, total=total, message=message
                )
                call.notify(notify, event)

        inquirer = Inquirer(self._confirmer, invocation, invoker, scope.conversation, notify, inquire=scope.inquire)
        keep = self._keep(prepared, scope)
        end = self._cache.begin(invoker, prepared.arguments, cacheable)
        call = Call(
            invocation=invocation,
            invoker=invoker,
            context=context_of(
                prepared,
                scope,
                self._reporter.surroundings,
                progress=progress,
                inquire=inquirer,
                kept=0 if keep is None else self._limits.spill,
            ),
            arguments=prepared.arguments,
            timeout=timeout,
            latest=seconds,
            limit=limit,
            keep=keep,
            early=early,
            attempts=Attempts(invoker.policy, self._chance),
            progress=progress,
            settled=finished,
            alert=lambda message: self._reporter.alert(scope, Alert(message=message, tool=invoker.identity)),
        )
        inquirer.pause = call.paused
        return call

    def _keep(self, prepared: Prepared, scope: Circumstances) -> Keep | None:
        """The function that stores texts too long to be shown; None if the model cannot read them from there."""
        surroundings = prepared.invoker.ensemble.surroundings or self._reporter.surroundings
        outputs = None if surroundings is None else surroundings.outputs
        if outputs is None or prepared.reader is None or prepared.invoker.identity == READER:
            return None
        return Keeper(
            outputs=outputs, conversation=scope.conversation, limit=self._limits.spill, reader=prepared.reader
        ).keep


def _timeout(prepared: Prepared) -> float:
    policy = prepared.invoker.policy
    if policy.timeout_argument is not None:
        value = prepared.arguments.get(policy.timeout_argument)
        if isinstance(value, int | float) and value > 0:
            return float(min(value, _LONGEST))
    return policy.timeout
