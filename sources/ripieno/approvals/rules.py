"""What the rules say of a call, and of a tool before there is a call of it.

The stricter rule holds: deny, then ``confirm = true`` and ask, then what an effect or an approval lets run.
"""

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from ripieno.canisters.faults import Effect
from ripieno.descriptors import Policy
from ripieno.descriptors.rules import CallRules, Pattern
from ripieno.jsonvalues import canonical


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the rules say of a call, and which of them said it.

    ``waivable``: it is asked about for its effect alone, and may be allowed for good.
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
_ALLOWED = Verdict(action="run", reason="it was allowed for the rest of this session")


class Allowances:
    """What a person allowed for as long as the program runs: a tool, or a tool with just these arguments.

    It lets run what is asked about for its effect alone, and weakens no rule. A tool that can destroy is allowed with
    just these arguments only.
    """

    def __init__(self) -> None:
        self._tools: set[str] = set()
        self._calls: set[tuple[str, str]] = set()

    def add(self, identity: str, effect: Effect, arguments: Mapping[str, Any], *, exact: bool) -> None:
        """Allows a tool, or with ``exact`` a tool with these arguments. Errors: ``JsonInvalidity``."""
        if exact or effect == "destructive":
            self._calls.add((identity, _digest(arguments)))
        else:
            self._tools.add(identity)

    def allows(self, identity: str, effect: Effect, arguments: Mapping[str, Any]) -> bool:
        """Whether a call was allowed: its tool by its full name, or all of it."""
        if effect != "destructive" and identity in self._tools:
            return True
        return bool(self._calls) and (identity, _digest(arguments)) in self._calls

    @property
    def tools(self) -> tuple[str, ...]:
        """The full names of the tools that were allowed, whatever their arguments: rules that could be written down."""
        return tuple(sorted(self._tools))


def judge(
    identity: str,
    policy: Policy,
    rules: CallRules,
    arguments: Mapping[str, Any],
    allowances: Allowances | None = None,
) -> Verdict:
    """Whether a call runs, is asked about, or is denied. ``arguments`` are all of them, presets too.

    A tool that can destroy is approved only by its full name, never by a wildcard; ``confirm = true`` always asks.
    """
    decision = rules.decide(identity, policy.effect, arguments)
    action = None if decision is None else decision.action
    if policy.confirm and action != "deny":
        return _CONFIRMED
    if decision is not None and not (action == "approve" and policy.harmless):
        return _said(decision.action, decision.pattern)
    if policy.harmless or allowances is None or not allowances.allows(identity, policy.effect, arguments):
        return _BY_EFFECT[policy.effect]
    return _ALLOWED


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What the rules say of a tool before it is called. ``depends``: on the arguments; ``reason`` says on what."""

    action: Literal["run", "ask", "deny", "depends"]
    reason: str


def expect(identity: str, policy: Policy, rules: CallRules) -> Outlook:
    """What would become of calls of a tool, whatever their arguments."""
    possible = list(_possible(identity, policy, rules))
    *earlier, last = possible
    if all(verdict.action == last.action for verdict in earlier):
        # Conditions that change nothing are no reason.
        return Outlook(action=last.action, reason=last.reason)
    told = "; ".join(f"{verdict.action} where {verdict.reason}" for verdict in earlier)
    return Outlook(action="depends", reason=f"{told}; otherwise {last.action}, because {last.reason}")


def _possible(identity: str, policy: Policy, rules: CallRules) -> Iterator[Verdict]:
    """All verdicts that calls may have, from the strictest down; the last one is what holds where no condition does."""
    for pattern in rules.deny:
        if pattern.meets(identity):
            yield _said("deny", pattern.text)
            if not pattern.conditions or pattern.text == identity:
                return
    if policy.confirm:
        yield _CONFIRMED
        return
    for pattern in rules.ask:
        if pattern.meets(identity):
            yield _said("ask", pattern.text)
            if not pattern.conditions or pattern.text == identity:
                return
    if not policy.harmless:
        for pattern in rules.approve:
            if _may_approve(pattern, identity, policy.effect):
                yield _said("approve", pattern.text)
                if not pattern.conditions or pattern.text == identity:
                    return
    yield _BY_EFFECT[policy.effect]


def _may_approve(pattern: Pattern, identity: str, effect: Effect) -> bool:
    return dataclasses.replace(pattern, conditions=()).fits(identity, effect, {})


def _said(action: Literal["approve", "ask", "deny"], pattern: str) -> Verdict:
    return Verdict(action="run" if action == "approve" else action, reason=f"[confirmation] {action} has {pattern!r}")


def _digest(arguments: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical(arguments)).hexdigest()
