"""``Execution``, the pipeline: one object per assembly, used by conducting, the command line and every server.

A bare ``Execution()`` is strict: it allows only the effects ``none`` and ``read``.
"""

import asyncio
import dataclasses
import functools
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ripieno.approvals import Confirmer, Grants, RulesConfirmer
from ripieno.approvals.allowances import Allowances
from ripieno.approvals.questions import DEFERRED, Inquirer
from ripieno.canisters import InvocationCanister, ResultCanister, TextualContent
from ripieno.canisters.controls import Limits, Rules
from ripieno.canisters.events import Alert, ExecutionBegan, ExecutionProgress
from ripieno.canisters.faults import Fault
from ripieno.ensembles import Context, Ensemble, Invoker, Surroundings
from ripieno.ensembles.offers import Offer
from ripieno.ensembles.owner import reason
from ripieno.exceptions import InputError, JsonInvalidity, PermissionFault, ToolExecutionFailure
from ripieno.execution.approval import Approver, Judge
from ripieno.execution.cache import CachedCall, ResultCache
from ripieno.execution.call import Call, settle
from ripieno.execution.context import Circumstances, Deferred, Prepared, context_of
from ripieno.execution.preparation import Preparer
from ripieno.execution.records import NOT_RUN, UNRECORDED, Reporter, denied, record_of, start_of
from ripieno.execution.results import Keep
from ripieno.execution.retries import Attempts
from ripieno.jsonvalues import freeze
from ripieno.storage.outputs import READER
from ripieno.storage.records import Recorder

_logger = logging.getLogger(__name__)
#: The highest timeout that an argument can set, in seconds.
_LONGEST = 86_400.0
#: Characters of a shown change that a report keeps.
_CHANGE = 64 * 1024


class Execution:
    """Runs calls under one set of limits, rules, confirmer and recorder.

    ``allowances`` are permissions that a person gave for the lifetime of this object; ``grants`` are the unused
    approvals, in memory unless a store is given. Errors: ``PatternInvalidity`` for a rule that cannot be read.
    """

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        rules: Rules | None = None,
        confirmer: Confirmer | None = None,
        recorder: Recorder | None = None,
        surroundings: Surroundings | None = None,
        grants: Grants | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.rules = rules or Rules()
        self.confirmer: Confirmer = confirmer or RulesConfirmer()
        self.surroundings = surroundings
        self.reporter = Reporter(recorder, surroundings)
        self.allowances = Allowances()
        self.grants = grants or Grants()
        self._judge = Judge(self.rules, self.allowances)
        self._preparer = Preparer(self._judge, self.reporter)
        self._approver = Approver(self.confirmer, self.reporter, self._judge, self.grants)
        self._cache = ResultCache()
        #: Returns numbers from 0 to 1, for the backoff of retries.
        self._chance: Callable[[], float] = random.random

    async def execute(
        self,
        invocation: InvocationCanister,
        *,
        ensembles: Sequence[Ensemble],
        circumstances: Circumstances | None = None,
    ) -> ResultCanister:
        """The one result of a call, whatever the tool does.

        A call that its confirmer defers is denied. Cancelling this cancels the call; the cancellation is raised when
        the call has ended, at most two seconds later. A bug of the tool is logged with its traceback: unlike in a
        run, nothing raises it. Errors: ``InputError`` when the invoker is not hosted here.
        """
        call = await _run(self, invocation, Offer.of(ensembles), circumstances or Circumstances())
        if isinstance(call, ResultCanister):
            return call
        if call.bug is not None:
            _logger.error("The tool %s failed unexpectedly.", call.invoker.identity, exc_info=call.bug)
        return call.result.result()

    def prepare(self, invocation: InvocationCanister, offer: Offer, scope: Circumstances) -> Prepared | ResultCanister:
        """Resolves and validates a call, or returns the result that says why it cannot run."""
        return self._preparer.prepare(invocation, offer, scope)

    async def confirm(self, prepared: Prepared, scope: Circumstances) -> Prepared | ResultCanister | Deferred:
        """The call as approved or edited, the result of a denial, or the deferred call.

        An approval is valid once, for the call as it is now: ``launch`` refuses any other.
        """
        return await self._approver.confirm(prepared, scope)

    async def revise(
        self, invocation: InvocationCanister, offer: Offer, scope: Circumstances, arguments: Mapping[str, Any]
    ) -> Deferred:
        """A call with arguments that a person edited, with its request and binding; nothing runs.

        Errors: ``InputError`` if it would be refused.
        """
        prepared = self.prepare(invocation, offer, scope)
        if isinstance(prepared, ResultCanister):
            raise InputError(prepared.text)
        return await self._approver.revise(prepared, arguments, scope)

    def insist(
        self, confirmed: Prepared | ResultCanister | Deferred, scope: Circumstances
    ) -> Prepared | ResultCanister:
        """Denies a deferred call, for callers whose calls cannot stay open; returns anything else unchanged."""
        if not isinstance(confirmed, Deferred):
            return confirmed
        prepared = confirmed.prepared
        fault = denied(prepared.invoker, f"No one can approve it now ({confirmed.request.reason}).")
        return self.reporter.refuse(prepared.invocation, fault, scope, prepared.invoker)

    def launch(
        self,
        prepared: Prepared,
        scope: Circumstances,
        *,
        early: bool = False,
        seconds: float | None = None,
        settled: Callable[[Call], None] | None = None,
    ) -> Call | ResultCanister:
        """Starts a call, which from here on counts as begun. ``seconds`` are left for it.

        ``settled`` gets the call as soon as its result is recorded, and must not raise. A call that cannot be
        recorded, or differs from the one judged and approved, does not run and has its result at once.
        """
        fault = self._forbid(prepared, scope)
        if fault is not None:
            return self.reporter.refuse(prepared.invocation, fault, scope, prepared.invoker)
        invoker, invocation = prepared.invoker, prepared.invocation
        limit = min(one for one in (invoker.policy.output, self.limits.output, scope.output) if one is not None)
        cacheable = self._cache.cacheable(
            invoker,
            prepared.arguments,
            conversation=scope.conversation,
            namespaces=scope.namespaces,
            auxdata=scope.auxdata,
            output=limit,
        )
        cached = None if cacheable is None else self._cache.find(cacheable, invocation.identifier)

        confirmer, notify = scope.confirmer or self.confirmer, scope.notify
        inquirer = Inquirer(confirmer, invocation, invoker, scope.conversation, notify, inquire=scope.inquire)

        def finished(call: Call) -> None:
            result = call.outcome
            assert result is not None
            if inquirer.deferred:
                result = call.outcome = self._unasked(result, inquirer.deferred, scope, invoker)
            if end is not None:
                end(result)
            if prepared.edited or prepared.change:
                edited = invocation.arguments if prepared.edited else None
                report = dataclasses.replace(result.report, edited=edited, change=(prepared.change or "")[:_CHANGE])
                result = call.outcome = dataclasses.replace(result, report=report)
            if call.withdrawn:
                self.reporter.keep((record_of("refused", scope, invoker.identity, invocation, result),), scope)
            if call.withdrawn or self.reporter.recorder is None:
                show(call)
                return
            record = record_of("finished", scope, invoker.identity, invocation, result)
            self.reporter.end(record, scope, functools.partial(show, call), reads=invoker.policy.harmless)

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
        if self.reporter.recorder is not None and not self.reporter.start(
            start_of(prepared, scope), scope, lambda: call.withdraw(UNRECORDED), reads=invoker.policy.harmless
        ):
            refused = ResultCanister(invocation_id=invocation.identifier, error=UNRECORDED, report=NOT_RUN)
            self.reporter.keep((record_of("refused", scope, invoker.identity, invocation, refused),), scope)
            return refused
        if notify is not None:
            notify(ExecutionBegan(invocation=invocation, tool=invoker.identity, early=early))

        def progress(done: float, total: float | None = None, message: str = "") -> None:
            if notify is not None:
                event = ExecutionProgress(
                    invocation_id=invocation.identifier, tool=invoker.identity, done=done, total=total, message=message
                )
                call.notify(notify, event)

        keep = self._keep(prepared, scope)
        end = self._cache.begin(invoker, prepared.arguments, cacheable)
        call = Call(
            invocation=invocation,
            invoker=invoker,
            context=context_of(
                prepared,
                scope,
                self.reporter.surroundings,
                progress=progress,
                inquire=inquirer,
                kept=0 if keep is None else self.limits.spill,
                barred=self._judge.bar(prepared),
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
            recorded=self.reporter.written(),
            alert=lambda message: self.reporter.alert(scope, Alert(message=message, tool=invoker.identity)),
        )
        inquirer.pause = call.paused
        return call

    def _unasked(
        self, result: ResultCanister, questions: Sequence[str], scope: Circumstances, invoker: Invoker
    ) -> ResultCanister:
        """The result of a call whose questions no one could answer: it says so to the model, and an alert to people."""
        asked = " ".join(questions)
        message = f"No one can answer during this run what it asked: {asked} Continue the conversation with the answer."
        self.reporter.alert(scope, Alert(message=message, tool=invoker.identity))
        if result.error is None:
            return dataclasses.replace(result, content=(*result.content, TextualContent(text=f" {DEFERRED}")))
        suggestion = " ".join(filter(None, (result.error.suggestion, DEFERRED)))
        return dataclasses.replace(result, error=dataclasses.replace(result.error, suggestion=suggestion))

    async def conclude(self, call: Call, scope: Circumstances) -> None:
        """Waits until a call has its result, and until that is recorded. A cancellation meanwhile cancels the call."""
        try:
            await settle((call,))
        finally:
            self.reporter.flush(scope.owner, scope.conversation)

    def _keep(self, prepared: Prepared, scope: Circumstances) -> Keep | None:
        """The function that stores texts too long to be shown; None if the model cannot read them from there."""
        surroundings = prepared.invoker.ensemble.surroundings or self.reporter.surroundings
        outputs = None if surroundings is None else surroundings.outputs
        if outputs is None or prepared.reader is None or prepared.invoker.identity == READER:
            return None
        return functools.partial(
            outputs.keep_rest, conversation=scope.conversation, limit=self.limits.spill, reader=prepared.reader
        )

    def _forbid(self, prepared: Prepared, scope: Circumstances) -> Fault | None:
        """Why a call may not start as it is now; or None, and its approval is used up."""
        invoker = prepared.invoker
        verdict = self._judge.judge(invoker, prepared.arguments, scope)
        if verdict.action == "deny":
            return denied(invoker, f"It is not allowed here ({verdict.reason}).")
        if verdict.action == "run" and prepared.verdict.action == "run":
            return None
        try:
            self.grants.redeem(prepared.token, self._judge.bind(prepared, scope, now=True))
        except PermissionFault as fault:
            return Fault.raised(fault)
        except JsonInvalidity as invalidity:
            return denied(invoker, f"Its arguments are not JSON: {invalidity}")
        return None

    def discard(self, call: Call, scope: Circumstances) -> None:
        """Records that a result is not shown, because the model's answer that requested it was lost."""
        result = call.result.result()
        self.reporter.start(record_of("discarded", scope, call.invoker.identity, call.invocation, result), scope)


async def _run(
    execution: Execution, invocation: InvocationCanister, offer: Offer, scope: Circumstances
) -> Call | ResultCanister:
    prepared = execution.prepare(invocation, offer, scope)
    if isinstance(prepared, Prepared):
        prepared = execution.insist(await execution.confirm(prepared, scope), scope)
    if isinstance(prepared, ResultCanister):
        call: Call | ResultCanister = prepared
    else:
        call = execution.launch(prepared, scope, seconds=scope.seconds)
    if isinstance(call, Call):
        await execution.conclude(call, scope)
    elif (written := execution.reporter.written()) is not None:
        await asyncio.shield(written)
    return call


async def execute_invoker(invoker: Invoker, arguments: Mapping[str, Any], context: Context) -> ResultCanister:
    """Runs one invoker through the strict pipeline (seed 002, "Error handling strategy").

    Errors: ``ToolExecutionFailure`` when the tool has a bug and its policy has ``on_error = "abort"``.
    """
    invocation = InvocationCanister(
        identifier=context.invocation or "call_0", name=invoker.exposed, arguments=freeze(arguments)
    )
    scope = Circumstances(
        owner=context.owner,
        conversation=context.conversation,
        turn=context.turn,
        auxdata=context.auxdata,
        namespaces={invoker.ensemble.name: context.namespace},
    )
    call = await _run(Execution(surroundings=context.surroundings), invocation, Offer((invoker,)), scope)
    if isinstance(call, ResultCanister):
        return call
    if call.bug is not None and invoker.policy.on_error == "abort":
        raise ToolExecutionFailure(invoker.identity, reason(call.bug)) from call.bug
    return call.result.result()


def _timeout(prepared: Prepared) -> float:
    policy = prepared.invoker.policy
    if policy.timeout_argument is not None:
        value = prepared.arguments.get(policy.timeout_argument)
        if isinstance(value, int | float) and value > 0:
            return float(min(value, _LONGEST))
    return policy.timeout
