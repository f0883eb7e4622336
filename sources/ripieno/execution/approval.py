"""Asks about a call that the rules do not settle: the call as it was approved or edited, or what else became of it.

Arguments as links lead: what a rule about paths says of a file holds for every link to it.

Judges calls by one set of rules, and says what an approval of a call is bound to.
"""

import asyncio
import dataclasses
import functools
import os
from collections.abc import Mapping
from typing import Any

from frozendict import frozendict

from ripieno.approvals import Answer, Approve, ConfirmationRequest, Confirmer, Defer, Deny, Edit, Given, Grants
from ripieno.approvals.grants import Binding, digest_definition, digest_rules
from ripieno.approvals.presentation import Presentation, present
from ripieno.approvals.requests import ask, checked
from ripieno.approvals.rules import Allowances, Verdict, judge
from ripieno.canisters import ResultCanister
from ripieno.canisters.controls import Rules
from ripieno.canisters.events import Alert, ConfirmationRequested
from ripieno.canisters.faults import Fault
from ripieno.descriptors.rules import CallRules
from ripieno.ensembles import Invoker
from ripieno.ensembles.threads import run_in_thread
from ripieno.exceptions import InputError, JsonInvalidity, PermissionFault
from ripieno.execution.context import Circumstances, Deferred, Prepared, complete, context_of
from ripieno.execution.records import UNRECORDED, Reporter, denied, unfit
from ripieno.jsonvalues import digest, freeze, is_list, thaw
from ripieno.storage.records import Record, Stage

#: Characters of the longest text that is looked at as a path.
_LONGEST = 1024


def as_links_lead(arguments: Mapping[str, Any], workspace: str) -> dict[str, Any] | None:
    """The arguments with the true paths of what they name beneath a workspace; None where no link is on the way.

    A path that leads out of the workspace is an absolute one. Texts that are no paths stay as they are: nothing is
    there under them. Hard links have no other path, and are not seen.
    """
    root = os.path.realpath(workspace)
    changed = {name: _follow(value, root) for name, value in arguments.items()}
    return changed if any(changed[name] is not value for name, value in arguments.items()) else None


def _follow(value: Any, root: str) -> Any:
    if is_list(value):
        items = [_follow(item, root) for item in value]
        return items if any(one is not other for one, other in zip(items, value, strict=True)) else value
    if not isinstance(value, str) or not value or len(value) > _LONGEST or "\n" in value or "\0" in value:
        return value
    whole = os.path.normpath(os.path.join(root, value))
    try:
        true = os.path.realpath(os.path.join(root, value))
    except (OSError, ValueError):
        return value
    if true == whole:
        return value
    return os.path.relpath(true, root) if true == root or true.startswith(f"{root}{os.sep}") else true


_STRICTNESS = ("run", "ask", "deny")


class Judge:
    """One set of rules, read once, and what a person allowed beside them.

    Errors: ``PatternInvalidity`` for a rule that cannot be read.
    """

    def __init__(self, rules: Rules, allowances: Allowances) -> None:
        self.allowances = allowances
        self._rules = CallRules.of(rules)
        self._digest = digest_rules(rules)
        patterns = (*self._rules.approve, *self._rules.ask, *self._rules.deny)
        self._conditional = any(pattern.conditions for pattern in patterns)

    def judge(self, invoker: Invoker, arguments: dict[str, object]) -> Verdict:
        """What the rules say of a call. ``arguments`` are those that fit its schema, without presets.

        Paths are judged as they are written, and as links lead; the stricter verdict counts.
        """
        whole = complete(invoker, arguments)
        verdict = self._judge(invoker, whole)
        surroundings = invoker.ensemble.surroundings
        if not self._conditional or verdict.action == "deny" or surroundings is None:
            return verdict
        followed = as_links_lead(whole, str(surroundings.workspace))
        if followed is None:
            return verdict
        other = self._judge(invoker, followed)
        return other if _STRICTNESS.index(other.action) > _STRICTNESS.index(verdict.action) else verdict

    def _judge(self, invoker: Invoker, whole: dict[str, object]) -> Verdict:
        return judge(invoker.identity, invoker.policy, self._rules, whole, allowances=self.allowances)

    def bind(self, prepared: Prepared, around: Circumstances, *, now: bool = False) -> Binding:
        """What an approval of a call is good for; with ``now``, with its definition as its ensemble has it now.

        A tool that is not there any more has a definition that no approval has. Errors: ``JsonInvalidity``.
        """
        invoker: Invoker | None = prepared.invoker
        if now:
            invoker = prepared.invoker.ensemble.invokers.get(prepared.invoker.name)
        return Binding(
            conversation=around.conversation,
            invocation=prepared.invocation.identifier,
            tool=prepared.invoker.identity,
            definition="" if invoker is None else _definition(invoker),
            arguments=digest(prepared.whole if prepared.change is None else [prepared.whole, prepared.change]),
            rules=self._digest,
        )


def _definition(invoker: Invoker) -> str:
    return digest_definition(
        description=invoker.description,
        schema=invoker.schema.mapping,
        effect=invoker.policy.effect,
        origin=invoker.origin,
        presets=invoker.presets,
    )


#: Seconds in which a preview says what a call would change.
_FORESIGHT = 10.0

#: What becomes of a call that was asked about.
Outcome = Prepared | ResultCanister | Deferred


class Approver:
    """Asks one confirmer, and gives each call that it approved a grant, which is good for just that call, once."""

    def __init__(self, confirmer: Confirmer, reporter: Reporter, judge: Judge, grants: Grants) -> None:
        self._confirmer = confirmer
        self._reporter = reporter
        self._judge = judge
        self._grants = grants

    async def confirm(self, prepared: Prepared, around: Circumstances) -> Outcome:
        """The call as it was approved or edited, with its grant; the result of a denial; or that it has to wait."""
        if prepared.verdict.action == "run":
            return prepared
        try:
            presentation = await self._present(prepared, around)
            prepared = dataclasses.replace(prepared, change=presentation.change)
            binding = self._judge.bind(prepared, around)
        except JsonInvalidity as invalidity:
            return self._refuse(prepared, denied(prepared.invoker, f"It cannot be shown: {invalidity}"), around)
        given = _given(prepared, binding, around)
        if given is not None:
            return self._settle(prepared, given, binding, around)
        if prepared.invocation.identifier in around.answers:
            message = (
                f"An answer to {prepared.invocation.identifier} does not count any more: the call, what it would "
                "change, its tool or the rules are not what they were when it was shown. It is asked about again."
            )
            self._reporter.alert(around, Alert(message=message, tool=prepared.invoker.identity))
        return await self._ask(prepared, presentation, binding, around)

    async def _ask(
        self, prepared: Prepared, presentation: Presentation, binding: Binding, around: Circumstances
    ) -> Outcome:
        """Asks the confirmer; nobody is asked what cannot be recorded."""
        request = self._request(prepared, presentation, around)
        asked = {"reason": request.reason, "effect": request.effect, "arguments_digest": presentation.digest}
        if not self._record("asked", prepared, around, asked):
            return self._refuse(prepared, UNRECORDED, around)
        if around.notify is not None:
            around.notify(
                ConfirmationRequested(
                    invocation=prepared.invocation, tool=request.tool, effect=request.effect, reason=request.reason
                )
            )
        answer = await ask(self._confirmer, request)
        if isinstance(answer, Defer):
            if not self._record("answered", prepared, around, _said(answer)):
                return self._refuse(prepared, UNRECORDED, around)
            return Deferred(prepared=prepared, request=request, binding=binding)
        return self._settle(prepared, Given(answer=answer, binding=binding), binding, around)

    def _request(self, prepared: Prepared, presentation: Presentation, around: Circumstances) -> ConfirmationRequest:
        invoker = prepared.invoker
        return ConfirmationRequest(
            invocation=prepared.invocation.identifier,
            tool=invoker.identity,
            effect=invoker.policy.effect,
            arguments=freeze(prepared.whole),
            reason=prepared.verdict.reason,
            conversation=around.conversation,
            presentation=presentation,
            waivable=prepared.verdict.waivable,
        )

    async def _present(self, prepared: Prepared, around: Circumstances) -> Presentation:
        """What is shown of a call. A preview reads files, so it runs in a thread; one that hangs is not waited for."""
        invoker = prepared.invoker
        show = functools.partial(
            present,
            tool=invoker.identity,
            effect=invoker.policy.effect,
            reason=prepared.verdict.reason,
            arguments=freeze(prepared.whole),
            notes=invoker.policy.notes,
            claim=invoker.claim,
        )
        if invoker.preview is None:
            return show()
        context = context_of(prepared, around, self._reporter.surroundings, progress=_nobody_follows)
        preview = functools.partial(invoker.preview, context)
        look = functools.partial(show, preview=preview)
        try:
            async with asyncio.timeout(_FORESIGHT):
                return await run_in_thread(look, name=f"preview of {invoker.identity}", patient=False)
        except TimeoutError:
            return show(preview=lambda _: "What would change is not known: the preview takes too long.")

    def _settle(self, prepared: Prepared, given: Given, binding: Binding, around: Circumstances) -> Outcome:
        """What an answer makes of a call: nothing of it counts before it is recorded."""
        invoker, answer = prepared.invoker, given.answer
        if not self._record("answered", prepared, around, _said(answer)):
            return self._refuse(prepared, UNRECORDED, around)
        if isinstance(answer, Deny):
            return self._refuse(prepared, denied(invoker, answer.advice), around)
        if isinstance(answer, Edit):
            return self._edited(prepared, given, answer, binding, around)
        if isinstance(answer, Approve) and answer.always and prepared.verdict.waivable:
            self._judge.allowances.add(invoker.identity, invoker.policy.effect, prepared.whole, exact=answer.exact)
        return self._granted(prepared, binding, around, given.token)

    def _edited(self, prepared: Prepared, given: Given, edit: Edit, binding: Binding, around: Circumstances) -> Outcome:
        """The call with other arguments, which are validated, judged and bound like those of any call."""
        invoker = prepared.invoker
        try:
            if given.token:
                # It was for the call as it was asked about, and is used up by what it became.
                self._grants.redeem(given.token, binding)
            arguments = invoker.schema.complete(_without_presets(prepared, edit))
            problems = invoker.schema.validate(arguments)
            if problems:
                return self._refuse(prepared, unfit(invoker, problems), around)
            changed = dataclasses.replace(
                prepared,
                arguments=thaw(arguments),
                change=None,
                # What was sent stays in the conversation; what is recorded and run is this.
                invocation=dataclasses.replace(prepared.invocation, arguments=freeze(arguments)),
            )
            rebound = self._judge.bind(changed, around)
        except PermissionFault as fault:
            return self._refuse(prepared, Fault.raised(fault), around)
        except (TypeError, ValueError) as error:
            advice = f"The confirmation gave arguments that are none: {error}"
            return self._refuse(prepared, denied(invoker, advice), around)
        verdict = self._judge.judge(invoker, changed.arguments)
        if verdict.action == "deny":
            return self._refuse(changed, denied(invoker, f"It is not allowed here ({verdict.reason})."), around)
        return self._granted(changed, rebound, around)

    def _granted(self, prepared: Prepared, binding: Binding, around: Circumstances, token: str = "") -> Outcome:
        try:
            return dataclasses.replace(prepared, token=token or self._grants.issue(binding).token)
        except InputError as error:
            return self._refuse(prepared, denied(prepared.invoker, f"The approval cannot be kept: {error}"), around)

    def _refuse(self, prepared: Prepared, fault: Fault, around: Circumstances) -> ResultCanister:
        return self._reporter.refuse(prepared.invocation, fault, around, prepared.invoker)

    def _record(self, stage: Stage, prepared: Prepared, around: Circumstances, details: dict[str, Any]) -> bool:
        if self._reporter.recorder is None:
            return True
        record = Record(
            stage=stage,
            conversation=around.conversation,
            turn=around.turn,
            tool=prepared.invoker.identity,
            invocation=prepared.invocation,
            details=details,
        )
        return self._reporter.record((record,), around)


def _nobody_follows(done: float, total: float | None = None, message: str = "") -> None:
    """Nothing is told of a preview."""


def _given(prepared: Prepared, binding: Binding, around: Circumstances) -> Given | None:
    """The answer that was given ahead, if it still counts: a denial does always, all else for just this call."""
    found = around.answers.get(prepared.invocation.identifier)
    if found is None:
        return None
    given = found if isinstance(found, Given) else Given(answer=found)
    answer = checked(given.answer)
    if isinstance(answer, Defer) or not (isinstance(answer, Deny) or given.binding == binding):
        return None
    return dataclasses.replace(given, answer=answer)


def _said(answer: Answer) -> dict[str, Any]:
    """What is recorded of an answer."""
    match answer:
        case Approve():
            lasting = {"always": True, "exact": answer.exact} if answer.always else {}
            return {"answer": "approve", **lasting}
        case Deny():
            return {"answer": "deny", **({"advice": answer.advice} if answer.advice else {})}
        case Edit():
            return {"answer": "edit", **_digest_of(answer)}
        case Defer():
            return {"answer": "defer", **({"advice": answer.reason} if answer.reason else {})}


def _digest_of(edit: Edit) -> dict[str, str]:
    try:
        return {"arguments_digest": digest(dict(edit.arguments))}
    except (TypeError, ValueError):
        return {}


def _without_presets(prepared: Prepared, edit: Edit) -> frozendict[str, object]:
    """Edited arguments without those that are fixed. Errors: ``ValueError`` when one of these is another."""
    arguments = freeze(dict(edit.arguments))
    for name, value in prepared.invoker.presets.items():
        if name in arguments and digest(arguments[name]) != digest(value):
            raise ValueError(f"{name} is fixed, and cannot be edited.")
    return frozendict({name: value for name, value in arguments.items() if name not in prepared.invoker.presets})
