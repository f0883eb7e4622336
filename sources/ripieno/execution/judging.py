"""Judges calls by one set of rules, and says what an approval of a call is bound to."""

from ripieno.approvals.grants import Binding, digest_definition, digest_rules
from ripieno.approvals.rules import Allowances, Verdict, judge
from ripieno.canisters.controls import Rules
from ripieno.descriptors.rules import CallRules
from ripieno.ensembles import Invoker
from ripieno.execution.circumstances import Circumstances, Prepared, complete
from ripieno.execution.linking import as_links_lead
from ripieno.jsonvalues import digest

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
