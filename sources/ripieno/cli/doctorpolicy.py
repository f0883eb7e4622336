"""``ripieno doctor --policy``: whether each tool runs, asks or is denied, and which rule says so."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from ripieno.approvals.rules import expect
from ripieno.assembly.configuration import Gathered
from ripieno.cli.tables import print_table
from ripieno.cli.trials import Trial
from ripieno.conducting.observers.console import clean
from ripieno.descriptors import Policy
from ripieno.descriptors.rules import CallRules


def policy_facts(gathered: Gathered, trials: Mapping[str, Trial]) -> dict[str, Any]:
    """What applies to each tool, as JSON. Of ensembles that were not connected, the tools that they declare."""
    rules = gathered.configuration.confirmation
    read = CallRules.of(rules)
    tools: list[dict[str, Any]] = []
    for identity, policy in sorted(_policies(gathered, trials).items()):
        outlook = expect(identity, policy, read)
        tools.append(
            {"tool": identity, "effect": policy.effect, "action": outlook.action, "reason": f"{outlook.reason}."}
        )
    return {
        "confirmation": {"approve": list(rules.approve), "ask": list(rules.ask), "deny": list(rules.deny)},
        "tools": tools,
        "failures": [f"{name}: {one.reason}" for name, one in trials.items() if one.reason is not None],
    }


def print_policy(facts: Mapping[str, Any]) -> None:
    """The same for people."""
    rows = [(one["tool"], one["effect"], one["action"], one["reason"]) for one in facts["tools"]]
    print_table(("TOOL", "EFFECT", "CALLS", "WHY"), rows)
    lists: Mapping[str, Sequence[str]] = facts["confirmation"]
    told = "; ".join(f"{name}: {', '.join(patterns)}" for name, patterns in lists.items() if patterns)
    click.echo(clean(f"\n[confirmation] {told or 'has no rules'}"))
    for failure in facts["failures"]:
        click.echo(clean(f"Not connected: {failure}"))


def _policies(gathered: Gathered, trials: Mapping[str, Trial]) -> Mapping[str, Policy]:
    found: dict[str, Policy] = {}
    for descriptor in gathered.ensembles:
        trial = trials.get(descriptor.name)
        if trial is None or trial.reason is not None:
            found.update((f"{descriptor.name}.{one.name}", one.policy) for one in descriptor.invokers if one.enabled)
        else:
            found.update(trial.policies)
    return found
