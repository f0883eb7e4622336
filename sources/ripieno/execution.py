"""The one pipeline from an invocation to its result: resolve, validate, confirm, run, bound, record.

One object for each assembly, used by conducting, the command line and every server. A bare ``Execution()`` is
the strict one: effects ``none`` and ``read`` only.
"""

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from frozendict import frozendict

from ripieno.calls import Call, settle
from ripieno.canisters import Canister, InvocationCanister, ResultCanister
from ripieno.confirmation import (
    Approve,
    ConfirmationRequest,
    Confirmer,
    Edit,
    RulesConfirmer,
    Verdict,
    ask,
    judge,
)
from ripieno.controls import Limits, Rules
from ripieno.ensembles import Context, Ensemble, Invoker, Surroundings
from ripieno.events import Alert, ConfirmationRequested, Event, ExecutionBegan, ExecutionProgress
from ripieno.exceptions import InputError, ToolExecutionFailure, ToolFault
from ripieno.faults import Fault, Report
from ripieno.inquiring import Inquire, Inquirer
from ripieno.jsonvalues import freeze, thaw
from ripieno.offers import Offer
from ripieno.owning import reason
from ripieno.recording import Record, Recorder
from ripieno.repeating import find_earlier
from ripieno.schemas import SchemaProblem

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """On whose behalf a call is made. ``notify`` is told what happens, and does not raise; None: nobody listens.

    ``seconds`` and ``output`` (bytes) bound each call beside its own policy. ``inquire`` is asked before the confirmer
    what a tool asks back. ``history`` is what stands in the conversation before this turn.
    """

    conversation: str = ""
    turn: int = 0
    auxdata: Any = None
    namespaces: dict[str, dict[str, object]] = dataclasses.field(default_factory=dict[str, dict[str, object]])
    notify: Callable[[Event], None] | None = None
    seconds: float | None = None
    output: int | None = None
    inquire: Inquire | None = None
    history: Sequence[Canister] = ()


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Prepared:
    """A call that is known to be well-formed, and what the rules say of it."""

    invocation: InvocationCanister
    invoker: Invoker
    arguments: dict[str, Any]
    verdict: Verdict

    @property
    def immediate(self) -> bool:
        """Whether it may start at once, beside others of its kind: it changes nothing and nobody is asked."""
        return self.verdict.action == "run" and self.invoker.policy.harmless


class Execution:
    """Runs calls under one set of limits, rules, confirmer and recorder."""

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        rules: Rules | None = None,
        confirmer: Confirmer | None = None,
        recorder: Recorder | None = None,
        surroundings: Surroundings | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.rules = rules or Rules()
        self.confirmer: Confirmer = confirmer or RulesConfirmer()
        self.recorder = recorder
        self.surroundings = surroundings

    async def execute(
        self,
        invocation: InvocationCanister,
        *,
        ensembles: Sequence[Ensemble],
        circumstances: Circumstances | None = None,
    ) -> ResultCanister:
        """The one result of a call; never raises for what the tool does.

        Errors: ``InputError`` when the invoker is not hosted here. Cancelling this cancels the call, and is raised
        when the call has ended, at the latest two seconds later.
        """
        around = circumstances or Circumstances()
        prepared = self.prepare(invocation, Offer.of(ensembles), around)
        if isinstance(prepared, Prepared):
            prepared = await self.confirm(prepared, around)
        if isinstance(prepared, ResultCanister):
            return prepared
        call = self.launch(prepared, around, seconds=around.seconds)
        if isinstance(call, ResultCanister):
            return call
        await settle((call,))
        return call.result.result()

    def prepare(self, invocation: InvocationCanister, offer: Offer, around: Circumstances) -> Prepared | ResultCanister:
        """Resolves and validates a call, or gives the result that says why it cannot run."""
        invoker = offer.named(invocation.name)
        if invoker is None:
            return self.refuse(invocation, offer.absence(invocation.name), around)
        if invoker.hosted != "here":
            raise InputError(f"{invoker.identity} is run by the {invoker.hosted}, not here.")
        if invocation.fault is not None:
            return self.refuse(invocation, invocation.fault, around, invoker)
        arguments: Mapping[str, Any] = invocation.arguments
        arguments = invoker.schema.complete(arguments)
        problems = invoker.schema.validate(arguments)
        if problems:
            coerced = invoker.schema.coerce(arguments)
            if coerced is arguments:
                return self.refuse(invocation, _unfit(invoker, problems), around, invoker)
            changed = (name for name in arguments if name not in coerced or coerced[name] != arguments[name])
            _logger.debug("Arguments of %s were coerced to its schema: %s", invoker.identity, ", ".join(changed))
            # What was sent stays in the conversation; what is recorded, shown and run is this.
            arguments, invocation = coerced, dataclasses.replace(invocation, arguments=freeze(coerced))
        verdict = judge(invoker.identity, invoker.policy, self.rules)
        if verdict.action == "deny":
            return self.refuse(
                invocation, _denied(invoker, f"It is not allowed here ({verdict.reason})."), around, invoker
            )
        prepared = Prepared(invocation=invocation, invoker=invoker, arguments=thaw(arguments), verdict=verdict)
        return prepared if invoker.policy.again_argument is None else self._again(prepared, offer, around)

    def _again(self, named: Prepared, offer: Offer, around: Circumstances) -> Prepared | ResultCanister:
        """The earlier call that an argument names, as if it were made now."""
        invoker, identifier = named.invoker, named.invocation.identifier
        try:
            earlier = find_earlier(str(named.arguments.get(str(invoker.policy.again_argument))), around.history, offer)
        except ToolFault as fault:
            return self.refuse(named.invocation, Fault.raised(fault), around, invoker)
        prepared = self.prepare(dataclasses.replace(earlier, identifier=identifier), offer, around)
        if isinstance(prepared, Prepared) and named.verdict.action == "ask":
            prepared.verdict = named.verdict
        return prepared

    async def confirm(self, prepared: Prepared, around: Circumstances) -> Prepared | ResultCanister:
        """The call as it was approved or edited, or the result that says it was denied."""
        if prepared.verdict.action == "run":
            return prepared
        invoker = prepared.invoker
        request = ConfirmationRequest(
            invocation=prepared.invocation.identifier,
            tool=invoker.identity,
            effect=invoker.policy.effect,
            arguments=freeze(prepared.arguments),
            reason=prepared.verdict.reason,
            conversation=around.conversation,
        )
        if around.notify is not None:
            around.notify(
                ConfirmationRequested(
                    invocation=prepared.invocation,
                    tool=invoker.identity,
                    effect=invoker.policy.effect,
                    reason=prepared.verdict.reason,
                )
            )
        answer = await ask(self.confirmer, request)
        if isinstance(answer, Approve):
            return prepared
        if isinstance(answer, Edit):
            return self._edited(prepared, answer, around)
        return self.refuse(prepared.invocation, _denied(invoker, answer.advice), around, invoker)

    def _edited(self, prepared: Prepared, edit: Edit, around: Circumstances) -> Prepared | ResultCanister:
        invocation, invoker = prepared.invocation, prepared.invoker
        try:
            arguments = invoker.schema.complete(freeze(dict(edit.arguments)))
        except (TypeError, ValueError) as error:
            advice = f"The confirmation gave arguments that are none: {error}"
            return self.refuse(invocation, _denied(invoker, advice), around, invoker)
        problems = invoker.schema.validate(arguments)
        if problems:
            return self.refuse(invocation, _unfit(invoker, problems), around, invoker)
        return dataclasses.replace(prepared, arguments=thaw(arguments))

    def launch(
        self,
        prepared: Prepared,
        around: Circumstances,
        *,
        early: bool = False,
        seconds: float | None = None,
        settled: Callable[[Call], None] | None = None,
    ) -> Call | ResultCanister:
        """Starts a call; it counts as begun from here on, and will have its result. ``seconds`` is what is left for it.

        ``settled`` is told of the result as soon as it is recorded, and must not raise. A call that the recorder
        cannot take is not run: it has its result at once.
        """
        invoker, invocation = prepared.invoker, prepared.invocation
        timeout = _timeout(prepared)
        if seconds is not None:
            timeout = min(timeout, max(seconds, 0.001))
        if not self._record("started", around, invoker.identity, invocation):
            return ResultCanister(invocation_id=invocation.identifier, error=_UNRECORDED, report=_NOT_RUN)
        notify = around.notify
        if notify is not None:
            notify(ExecutionBegan(invocation=invocation, tool=invoker.identity, early=early))

        def finished(call: Call) -> None:
            self._record("finished", around, invoker.identity, invocation, call.result.result())
            if settled is not None:
                settled(call)

        def progress(done: float, total: float | None = None, message: str = "") -> None:
            if notify is not None:
                event = ExecutionProgress(
                    invocation_id=invocation.identifier, tool=invoker.identity, done=done, total=total, message=message
                )
                call.tell(notify, event)

        inquirer = Inquirer(self.confirmer, invocation, invoker, around.conversation, notify, inquire=around.inquire)
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
            alert=lambda message: self._alert(around, Alert(message=message, tool=invoker.identity)),
        )
        inquirer.pause = call.paused
        return call

    def _room(self, invoker: Invoker, around: Circumstances) -> int:
        room = invoker.policy.output
        for limit in (self.limits.output, around.output):
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
            surroundings=ensemble.surroundings or self.surroundings,
            deadline=None,
            progress=progress,
            inquire=inquirer,
        )

    def refuse(
        self, invocation: InvocationCanister, fault: Fault, around: Circumstances, invoker: Invoker | None = None
    ) -> ResultCanister:
        """The result of a call that is not run, recorded as refused."""
        result = ResultCanister(invocation_id=invocation.identifier, error=fault, report=_NOT_RUN)
        self._record("refused", around, invoker.identity if invoker else invocation.name, invocation, result)
        return result

    def discard(self, call: Call, around: Circumstances) -> None:
        """Records that a result will not be shown, because the answer that asked for it was lost."""
        self._record("discarded", around, call.invoker.identity, call.invocation, call.result.result())

    def _record(
        self,
        stage: Literal["started", "finished", "refused", "discarded"],
        around: Circumstances,
        tool: str,
        invocation: InvocationCanister,
        result: ResultCanister | None = None,
    ) -> bool:
        """Whether the recorder took it; one that fails is no reason to lose a result."""
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
        try:
            self.recorder.record((record,))
        except Exception as error:
            self._alert(around, Alert(message=f"The recorder failed with {reason(error)}", tool=tool))
            return False
        return True

    def _alert(self, around: Circumstances, alert: Alert) -> None:
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


async def execute_invoker(invoker: Invoker, arguments: Mapping[str, Any], context: Context) -> ResultCanister:
    """Runs one invoker over the strict pipeline (seed 002, "Error handling strategy").

    Errors: ``ToolExecutionFailure`` when the tool has a bug and its policy says ``on_error = "abort"``.
    """
    invocation = InvocationCanister(
        identifier=context.invocation or "call_0", name=invoker.exposed, arguments=freeze(arguments)
    )
    execution = Execution(surroundings=context.surroundings)
    around = Circumstances(
        conversation=context.conversation,
        turn=context.turn,
        auxdata=context.auxdata,
        namespaces={invoker.ensemble.name: context.namespace},
    )
    prepared = execution.prepare(invocation, Offer((invoker,)), around)
    if isinstance(prepared, Prepared):
        prepared = await execution.confirm(prepared, around)
    if isinstance(prepared, ResultCanister):
        return prepared
    call = execution.launch(prepared, around)
    if isinstance(call, ResultCanister):
        return call
    await settle((call,))
    if call.bug is not None and invoker.policy.on_error == "abort":
        raise ToolExecutionFailure(invoker.identity, reason(call.bug)) from call.bug
    return call.result.result()


_NOT_RUN = Report(attempts=0)
_UNRECORDED = Fault(
    category="resource",
    code="not_recorded",
    message="The call could not be recorded, and so it was not run.",
    recoverable=False,
    suggestion="Tell the user that the journal of calls cannot be written.",
)
#: Seconds; no argument of a call can ask for more.
_LONGEST = 86_400.0


def _timeout(prepared: Prepared) -> float:
    policy = prepared.invoker.policy
    if policy.timeout_argument is not None:
        value = prepared.arguments.get(policy.timeout_argument)
        if isinstance(value, int | float) and value > 0:
            return float(min(value, _LONGEST))
    return policy.timeout


def _unfit(invoker: Invoker, problems: Sequence[SchemaProblem]) -> Fault:
    return Fault(
        category="validation",
        message=" ".join(problem.message for problem in problems),
        code=problems[0].code,
        details=frozendict({"parameters": tuple(problem.parameter for problem in problems)}),
        suggestion=f"Mend the arguments of {invoker.name!r} and call it again.",
    )


def _denied(invoker: Invoker, advice: str) -> Fault:
    return Fault(
        category="denied",
        message=f"The call of {invoker.name!r} was denied.",
        recoverable=False,
        suggestion=advice or None,
    )
