"""Asks about a call that the rules do not settle: the call as it was approved or edited, or the result of a denial."""

import dataclasses

from ripieno.canisters import ResultCanister
from ripieno.confirmation import Approve, ConfirmationRequest, Confirmer, Edit, ask
from ripieno.events import ConfirmationRequested
from ripieno.execution.circumstances import Circumstances, Prepared
from ripieno.execution.refusals import denied, unfit
from ripieno.execution.reporting import Reporter
from ripieno.jsonvalues import freeze, thaw


class Approver:
    """Asks one confirmer."""

    def __init__(self, confirmer: Confirmer, reporter: Reporter) -> None:
        self._confirmer = confirmer
        self._reporter = reporter

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
        answer = await ask(self._confirmer, request)
        if isinstance(answer, Approve):
            return prepared
        if isinstance(answer, Edit):
            return self._edited(prepared, answer, around)
        return self._reporter.refuse(prepared.invocation, denied(invoker, answer.advice), around, invoker)

    def _edited(self, prepared: Prepared, edit: Edit, around: Circumstances) -> Prepared | ResultCanister:
        invocation, invoker = prepared.invocation, prepared.invoker
        try:
            arguments = invoker.schema.complete(freeze(dict(edit.arguments)))
        except (TypeError, ValueError) as error:
            advice = f"The confirmation gave arguments that are none: {error}"
            return self._reporter.refuse(invocation, denied(invoker, advice), around, invoker)
        problems = invoker.schema.validate(arguments)
        if problems:
            return self._reporter.refuse(invocation, unfit(invoker, problems), around, invoker)
        return dataclasses.replace(prepared, arguments=thaw(arguments))
