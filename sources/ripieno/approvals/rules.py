"""The verdict of the rules on a call, and on a tool before any call.

The stricter rule applies: deny, then ``confirm = true`` and ask, then an effect or an approval that allows the call.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from ripieno.canisters.faults import Effect
from ripieno.descriptors import Policy
from ripieno.descriptors.rules import CallRules
from ripieno.values import Value


class Verdict(Value, kw_only=True):
    """The action for a call, and the rule that determined it.

    ``waivable``: it needs confirmation only because of its effect, and later calls may be allowed.
    """

    action: Literal["run", "ask", "deny"]
    reason: str
    waivable: bool = False


_BY_EFFECT: Mapping[Effect, Verdict] = {
    "none": Verdict(action="run", reason="its effect is none"),
    "read": Verdict(action="run", reason="its effect is read"),
    "write": Verdict(action="ask", reason="its effect is write", waivable=True),
    "destructive": Verdict(action="ask", reason="its effect is destructive", waivable=True),
}
_CONFIRMED = Verdict(action="ask", reason="its descriptor has confirm = true")
_ALLOWED = Verdict(action="run", reason="it was allowed in this conversation")


def judge(
    identity: str,
    policy: Policy,
    rules: CallRules,
    arguments: Mapping[str, Any],
    allows: Callable[[], bool] = lambda: False,
) -> Verdict:
    """Whether a call runs, needs confirmation, or is denied. ``arguments`` include the presets.

    ``allows`` says whether a person has allowed such calls since.
    A destructive tool is approved only by its full name, never by a wildcard; ``confirm = true`` always asks.
    """
    decision, harmless = rules.decide(identity, policy.effect, arguments), policy.harmless
    action = None if decision is None else decision.action
    if policy.confirm and action != "deny":
        return _CONFIRMED
    if decision is not None and not (action == "approve" and harmless):
        verdict = _verdict(decision.action, decision.pattern)
        if not decision.ascending:
            return verdict
        return dataclasses.replace(verdict, reason=f"{verdict.reason}, where {decision.ascending} may lead with '..'")
    if not harmless and allows():
        return _ALLOWED
    verdict = _BY_EFFECT[policy.effect]
    name = "" if harmless else rules.unapproved(identity, arguments)
    if not name:
        return verdict
    return dataclasses.replace(verdict, reason=f"{verdict.reason}; no approval covers {name}, since it has '..'")


class Outlook(Value, kw_only=True):
    """The verdict on a tool before any call. ``depends``: on the arguments; ``reason`` says how."""

    action: Literal["run", "ask", "deny", "depends"]
    reason: str


def expect(identity: str, policy: Policy, rules: CallRules) -> Outlook:
    """The verdict on calls of a tool, for all arguments."""
    possible = list(_possible(identity, policy, rules))
    *earlier, last = possible
    if all(verdict.action == last.action for verdict in earlier):
        # Conditions without an effect are not mentioned.
        return Outlook(action=last.action, reason=last.reason)
    cases = "; ".join(f"{verdict.action} where {verdict.reason}" for verdict in earlier)
    return Outlook(action="depends", reason=f"{cases}; otherwise {last.action}, because {last.reason}")


def _possible(identity: str, policy: Policy, rules: CallRules) -> Iterator[Verdict]:
    """All possible verdicts, the strictest first; the last one applies where no condition is met."""
    for pattern in rules.deny:
        if pattern.meets(identity):
            yield _verdict("deny", pattern.text)
            if not pattern.conditions or pattern.text == identity:
                return
    if policy.confirm:
        yield _CONFIRMED
        return
    for pattern in rules.ask:
        if pattern.meets(identity):
            yield _verdict("ask", pattern.text)
            if not pattern.conditions or pattern.text == identity:
                return
    if not policy.harmless:
        for pattern in rules.approve:
            if dataclasses.replace(pattern, conditions=()).fits(identity, policy.effect, {}):
                yield _verdict("approve", pattern.text)
                if not pattern.conditions or pattern.text == identity:
                    return
    yield _BY_EFFECT[policy.effect]


def _verdict(action: Literal["approve", "ask", "deny"], pattern: str) -> Verdict:
    return Verdict(action="run" if action == "approve" else action, reason=f"[confirmation] {action} has {pattern!r}")
