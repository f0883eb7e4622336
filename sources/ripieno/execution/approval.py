"""Applies the rules to calls, asks the confirmer about the others, and binds each approval to one call.

A rule about the path of a file also holds for every symbolic link to it.
"""

import asyncio
import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

from ripieno.approvals import Answer, Approve, ConfirmationRequest, Confirmer, Defer, Deny, Edit, Given, Grants
from ripieno.approvals.allowances import Allowance, Allowances
from ripieno.approvals.grants import Binding, digest_definition, digest_rules
from ripieno.approvals.presentation import Presentation, present
from ripieno.approvals.requests import ask, checked
from ripieno.approvals.rules import Verdict, judge
from ripieno.canisters import ResultCanister
from ripieno.canisters.controls import Rules
from ripieno.canisters.events import Alert, ConfirmationRequested
from ripieno.canisters.faults import Fault
from ripieno.descriptors.rules import CallRules
from ripieno.ensembles import Invoker
from ripieno.ensembles.threads import run_in_thread
from ripieno.exceptions import InputError, JsonInvalidity, PermissionFault
from ripieno.execution.context import Circumstances, Deferred, Prepared, complete, context_of
from ripieno.execution.found_paths import bar_found, resolve_links
from ripieno.execution.records import UNRECORDED, Reporter, denied, record_of, unfit
from ripieno.jsonvalues import EMPTY, digest, freeze, thaw
from ripieno.storage.records import Stage

_STRICTNESS = ("run", "ask", "deny")


class Judge:
    """Judges calls by one set of rules and by the permissions that a person has given since.

    Errors: ``PatternInvalidity`` for a rule that cannot be read.
    """

    def __init__(self, rules: Rules, allowances: Allowances) -> None:
        self.allowances = allowances
        self._rules = CallRules.of(rules)
        self._digest = digest_rules(rules)
        patterns = (*self._rules.approve, *self._rules.ask, *self._rules.deny)
        self._conditional = any(pattern.conditions for pattern in patterns)

    def judge(self, invoker: Invoker, arguments: dict[str, object], scope: Circumstances) -> Verdict:
        """The verdict of the rules on a call. ``arguments`` fit its schema and lack the presets.

        Paths are judged as written, and with links resolved; the stricter verdict counts.
        """
        arguments = complete(invoker, arguments)
        verdict = self._judge(invoker, arguments, scope)
        surroundings = invoker.ensemble.surroundings
        if not self._conditional or verdict.action == "deny" or surroundings is None:
            return verdict
        resolved = resolve_links(arguments, str(surroundings.workspace))
        if resolved is None:
            return verdict
        other = self._judge(invoker, resolved, scope)
        return other if _STRICTNESS.index(other.action) > _STRICTNESS.index(verdict.action) else verdict

    def _judge(self, invoker: Invoker, arguments: dict[str, object], scope: Circumstances) -> Verdict:
        identity, policy = invoker.identity, invoker.policy
        allows = functools.partial(self.allowances.allows, scope, identity, policy.effect, arguments)
        return judge(identity, policy, self._rules, arguments, allows)

    def relent(self, prepared: Prepared, scope: Circumstances) -> Prepared:
        """The call, which may run now if a person has allowed it since it was judged, in the same answer for example.

        A call with an answer of its own is left as it is: its person may have denied or edited it.
        """
        if not prepared.verdict.waivable or prepared.invocation.identifier in scope.answers:
            return prepared
        verdict = self.judge(prepared.invoker, prepared.arguments, scope)
        return dataclasses.replace(prepared, verdict=verdict) if verdict.action == "run" else prepared

    def bar(self, prepared: Prepared) -> Callable[..., str | None] | None:
        """``Context.barred`` of a call that may run."""
        surroundings = prepared.invoker.ensemble.surroundings
        if not self._conditional or surroundings is None:
            return None
        workspace = str(surroundings.workspace)
        return bar_found(self._rules, prepared.invoker.identity, prepared.all_arguments, workspace)

    def bind(self, prepared: Prepared, scope: Circumstances, *, now: bool = False) -> Binding:
        """The call that an approval is valid for; with ``now``, with the ensemble's current definition of the tool.

        The definition of a tool that no longer exists matches no approval. Errors: ``JsonInvalidity``.
        """
        invoker: Invoker | None = prepared.invoker
        if now:
            invoker = prepared.invoker.ensemble.invokers.get(prepared.invoker.name)
        definition = ""
        surroundings = prepared.invoker.ensemble.surroundings
        if invoker is not None:
            # An approval counts only in its workspace, wherever that comes from: a worker, or a terminal in the folder.
            where = "" if surroundings is None else f" in {surroundings.workspace}"
            definition = digest_definition(
                description=invoker.description,
                schema=invoker.schema.mapping,
                effect=invoker.policy.effect,
                origin=f"{invoker.origin}{where}",
                presets=invoker.presets,
            )
        shown = prepared.all_arguments
        # Where links in its paths lead is part of a call.
        places = None if surroundings is None else resolve_links(shown, str(surroundings.workspace))
        parts = [shown, *(one for one in (prepared.change, places) if one is not None)]
        return Binding(
            conversation=scope.conversation,
            invocation=prepared.invocation.identifier,
            tool=prepared.invoker.identity,
            definition=definition,
            arguments=digest(parts if len(parts) > 1 else shown),
            rules=self._digest,
        )


#: Seconds that a preview may take.
_PREVIEW_TIMEOUT = 10.0

#: An approved call, the result of a refused one, or a call that waits for an answer.
Outcome = Prepared | ResultCanister | Deferred


class Approver:
    """Asks one confirmer. Each approved call gets a grant, which is valid once and only for that call."""

    def __init__(self, confirmer: Confirmer, reporter: Reporter, judge: Judge, grants: Grants) -> None:
        self._confirmer = confirmer
        self._reporter = reporter
        self._judge = judge
        self._grants = grants

    async def confirm(self, prepared: Prepared, scope: Circumstances) -> Outcome:
        """The call as approved or edited, with its grant; the result of a denial; or the deferred call."""
        prepared = self._judge.relent(prepared, scope)
        if prepared.verdict.action == "run":
            return prepared
        try:
            presentation = await self._present(prepared, scope)
            prepared = dataclasses.replace(prepared, change=presentation.change)
            binding = self._judge.bind(prepared, scope)
        except JsonInvalidity as invalidity:
            return self._refuse(prepared, denied(prepared.invoker, f"It cannot be shown: {invalidity}"), scope)
        given, changes = _given(prepared, binding, scope), dict[str, str | None]()
        if given is not None and given.edited is not None and isinstance(given.answer, Edit):
            # What was shown of the edited call must be what runs.
            try:
                revised = await self.revise(prepared, given.answer.arguments, scope)
                changes[digest(revised.prepared.arguments)] = revised.prepared.change
                given = given if revised.binding == given.edited else None
            except InputError:
                given = None
        if given is not None:
            return await self._apply(prepared, given, binding, scope, changes)
        if prepared.invocation.identifier in scope.answers:
            message = (
                f"The answer to {prepared.invocation.identifier} is no longer valid: the call, its changes, its tool "
                "or the rules changed after the call was shown. A new confirmation is requested."
            )
            self._reporter.alert(scope, Alert(message=message, tool=prepared.invoker.identity))
        return await self._ask(prepared, presentation, binding, scope)

    async def _ask(
        self, prepared: Prepared, presentation: Presentation, binding: Binding, scope: Circumstances
    ) -> Outcome:
        request = _request(prepared, presentation, scope)
        #: The changes that a person was shown for edited arguments, by the digests of these.
        changes: dict[str, str | None] = {}

        async def revise(arguments: Mapping[str, Any]) -> ConfirmationRequest:
            revised = await self.revise(prepared, arguments, scope)
            changes[digest(revised.prepared.arguments)] = revised.prepared.change
            return dataclasses.replace(revised.request, revise=revise)

        lasting = self._judge.allowances.lifetime is not None
        request = dataclasses.replace(request, revise=revise, lasting=lasting)
        asked = {"reason": request.reason, "effect": request.effect, "arguments_digest": presentation.digest}
        if not await self._record("asked", prepared, scope, asked):
            return self._refuse(prepared, UNRECORDED, scope)
        if scope.notify is not None:
            scope.notify(
                ConfirmationRequested(
                    invocation=prepared.invocation,
                    tool=request.tool,
                    effect=request.effect,
                    reason=request.reason,
                    request=freeze(request.mapping()),
                )
            )
        answer = await ask(scope.confirmer or self._confirmer, request)
        if isinstance(answer, Defer):
            if not await self._record("answered", prepared, scope, _details_of(answer)):
                return self._refuse(prepared, UNRECORDED, scope)
            return Deferred(prepared=prepared, request=request, binding=binding)
        return await self._apply(prepared, Given(answer=answer, binding=binding), binding, scope, changes)

    async def revise(self, prepared: Prepared, arguments: Mapping[str, Any], scope: Circumstances) -> Deferred:
        """The call with edited arguments, its request and binding. Errors: ``InputError`` if it would be refused."""
        invoker = prepared.invoker
        try:
            own = edited_arguments(invoker, Edit(arguments))
        except (TypeError, ValueError) as error:
            raise InputError(str(error)) from None
        if problems := invoker.schema.validate(own):
            raise InputError(" ".join(one.message for one in problems))
        edited = _with_arguments(prepared, own)
        verdict = self._judge.judge(invoker, edited.arguments, scope)
        if verdict.action == "deny":
            raise InputError(f"It is not allowed here ({verdict.reason}).")
        shown = await self._present(edited, scope)
        edited = dataclasses.replace(edited, change=shown.change)
        request = dataclasses.replace(_request(edited, shown, scope), waivable=False)
        return Deferred(prepared=edited, request=request, binding=self._judge.bind(edited, scope))

    async def _present(self, prepared: Prepared, scope: Circumstances) -> Presentation:
        """The presentation of a call. A preview reads files, so it runs in a thread, with a time limit."""
        invoker = prepared.invoker
        show = functools.partial(
            present,
            tool=invoker.identity,
            effect=invoker.policy.effect,
            reason=prepared.verdict.reason,
            arguments=freeze(prepared.all_arguments),
            notes=invoker.policy.notes,
            claim=invoker.claim,
            # A connection's description may be the server's.
            description=invoker.description if invoker.claim is None else "",
        )
        if invoker.preview is None:
            return show()
        context = context_of(prepared, scope, self._reporter.surroundings, progress=lambda *_: None)
        preview = functools.partial(invoker.preview, context)
        look = functools.partial(show, preview=preview)
        try:
            async with asyncio.timeout(_PREVIEW_TIMEOUT):
                return await run_in_thread(look, name=f"preview of {invoker.identity}", patient=False)
        except TimeoutError:
            return show(preview=lambda _: "The changes are not known: the preview takes too long.")

    async def _apply(
        self,
        prepared: Prepared,
        given: Given,
        binding: Binding,
        scope: Circumstances,
        changes: Mapping[str, str | None] = EMPTY,
    ) -> Outcome:
        invoker, answer, allowance = prepared.invoker, given.answer, None
        details = _details_of(answer)
        if isinstance(answer, Approve) and answer.always and prepared.verdict.waivable:
            allowance = self._allowance(prepared, exact=answer.exact)
            details |= allowance.details()
        if not await self._record("answered", prepared, scope, details):
            return self._refuse(prepared, UNRECORDED, scope)
        if isinstance(answer, Deny):
            return self._refuse(prepared, denied(invoker, answer.advice), scope)
        if isinstance(answer, Edit):
            return self._edited(prepared, given, binding, scope, changes)
        if allowance is not None:
            # After its record: what other programs read there is then all that counts here.
            self._judge.allowances.add(scope, allowance)
        return self._granted(prepared, binding, scope, given.token)

    def _allowance(self, prepared: Prepared, *, exact: bool) -> Allowance:
        invoker = prepared.invoker
        surroundings = invoker.ensemble.surroundings
        return self._judge.allowances.make(
            invoker.identity,
            invoker.policy.effect,
            prepared.all_arguments,
            exact=exact,
            workspace="" if surroundings is None else str(surroundings.workspace),
        )

    def _edited(
        self,
        prepared: Prepared,
        given: Given,
        binding: Binding,
        scope: Circumstances,
        changes: Mapping[str, str | None],
    ) -> Outcome:
        """The call with edited arguments, which are validated, judged and bound like those of any call.

        ``changes`` are those that a person was shown.
        """
        invoker, edit = prepared.invoker, given.answer
        assert isinstance(edit, Edit)
        try:
            if given.token:
                # The grant is for the call as shown; the edited call uses it up.
                self._grants.redeem(given.token, binding)
            arguments = edited_arguments(invoker, edit)
            problems = invoker.schema.validate(arguments)
            if problems:
                return self._refuse(prepared, unfit(invoker, problems), scope)
            changed = _with_arguments(prepared, arguments)
            changed = dataclasses.replace(changed, change=changes.get(digest(changed.arguments)))
            rebound = self._judge.bind(changed, scope)
        except PermissionFault as fault:
            return self._refuse(prepared, Fault.raised(fault), scope)
        except (TypeError, ValueError) as error:
            advice = f"The edited arguments are invalid: {error}"
            return self._refuse(prepared, denied(invoker, advice), scope)
        verdict = self._judge.judge(invoker, changed.arguments, scope)
        if verdict.action == "deny":
            return self._refuse(changed, denied(invoker, f"It is not allowed here ({verdict.reason})."), scope)
        return self._granted(changed, rebound, scope)

    def _granted(self, prepared: Prepared, binding: Binding, scope: Circumstances, token: str = "") -> Outcome:
        try:
            return dataclasses.replace(prepared, token=token or self._grants.issue(binding).token)
        except InputError as error:
            return self._refuse(prepared, denied(prepared.invoker, f"The approval cannot be kept: {error}"), scope)

    def _refuse(self, prepared: Prepared, fault: Fault, scope: Circumstances) -> ResultCanister:
        return self._reporter.refuse(prepared.invocation, fault, scope, prepared.invoker)

    async def _record(self, stage: Stage, prepared: Prepared, scope: Circumstances, details: dict[str, Any]) -> bool:
        record = record_of(stage, scope, prepared.invoker.identity, prepared.invocation, details=details)
        return await self._reporter.recorded((record,), scope)


def _given(prepared: Prepared, binding: Binding, scope: Circumstances) -> Given | None:
    """The answer given in advance, if it is valid: a denial always is, any other answer only for this exact call."""
    found = scope.answers.get(prepared.invocation.identifier)
    if found is None:
        return None
    given = found if isinstance(found, Given) else Given(answer=found)
    answer = checked(given.answer)
    if isinstance(answer, Defer) or not (isinstance(answer, Deny) or given.binding == binding):
        return None
    return dataclasses.replace(given, answer=answer)


def _request(prepared: Prepared, presentation: Presentation, scope: Circumstances) -> ConfirmationRequest:
    invoker = prepared.invoker
    return ConfirmationRequest(
        invocation=prepared.invocation.identifier,
        tool=invoker.identity,
        effect=invoker.policy.effect,
        arguments=freeze(prepared.all_arguments),
        reason=prepared.verdict.reason,
        conversation=scope.conversation,
        presentation=presentation,
        waivable=prepared.verdict.waivable,
    )


def _with_arguments(prepared: Prepared, arguments: Mapping[str, Any]) -> Prepared:
    """The call with arguments that a person edited. With the same ones it is not an edited call."""
    if digest(arguments) == digest(prepared.arguments):
        return dataclasses.replace(prepared, change=None)
    return dataclasses.replace(
        prepared,
        arguments=thaw(arguments),
        change=None,
        edited=True,
        # The conversation keeps the arguments that were sent; these are recorded and run.
        invocation=dataclasses.replace(prepared.invocation, arguments=freeze(arguments)),
    )


def _details_of(answer: Answer) -> dict[str, Any]:
    match answer:
        case Approve():
            lasting = {"always": True, "exact": answer.exact} if answer.always else {}
            return {"answer": "approve", **lasting}
        case Deny():
            return {"answer": "deny", **({"advice": answer.advice} if answer.advice else {})}
        case Edit():
            with contextlib.suppress(TypeError, ValueError):
                return {"answer": "edit", "arguments_digest": digest(dict(answer.arguments))}
            return {"answer": "edit"}
        case Defer():
            return {"answer": "defer", **({"advice": answer.reason} if answer.reason else {})}


def edited_arguments(invoker: Invoker, edit: Edit) -> Mapping[str, Any]:
    """Edited arguments with their defaults and without the presets. Errors: ``ValueError`` if a preset was edited."""
    arguments = freeze(dict(edit.arguments))
    for name, value in invoker.presets.items():
        if name in arguments and digest(arguments[name]) != digest(value):
            raise ValueError(f"{name} is a preset and cannot be edited.")
    own: dict[str, Any] = {name: value for name, value in arguments.items() if name not in invoker.presets}
    return invoker.schema.complete(freeze(own))
