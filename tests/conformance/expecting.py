"""What is expected not to pass, and why: ``expected.toml``, and findings compared with it."""

import dataclasses
import fnmatch
import pathlib
import tomllib
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from tests.conformance.suite import ERAS, Finding

#: ``hollow``: it passes and proves nothing. ``news``: it fails or passes against the list.
Verdict = Literal["passed", "expected", "hollow", "news"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """Scenarios that do not pass, for one reason. ``checks``: only these may be wrong; empty means any."""

    reason: str
    side: str
    scenarios: tuple[str, ...]
    eras: tuple[str, ...] = ERAS
    checks: tuple[str, ...] = ()
    hollow: bool = False

    def covers(self, finding: Finding) -> bool:
        """Whether it speaks of that scenario."""
        return (
            finding.side == self.side
            and finding.era in self.eras
            and any(fnmatch.fnmatchcase(finding.scenario, pattern) for pattern in self.scenarios)
        )

    def judge(self, finding: Finding) -> tuple[Verdict, str]:
        """Whether that is what was expected; otherwise what is new."""
        if self.hollow:
            return ("hollow", "") if finding.passed else ("news", _said(finding))
        if finding.passed:
            return "news", f"It passes: take it off the list ({self.reason})"
        others = [name for name, _ in finding.wrong if self.checks and name not in self.checks]
        return ("news", f"Other checks than expected: {', '.join(others)}") if others else ("expected", "")


def read(file: pathlib.Path) -> list[Expectation]:
    """The list. Errors: ``TypeError`` for an entry without side, scenarios or reason, or with another key."""
    entries: list[dict[str, Any]] = tomllib.loads(file.read_text())["expected"]
    return [
        Expectation(**{key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()})
        for entry in entries
    ]


def judge(finding: Finding, expectations: Iterable[Expectation]) -> tuple[Verdict, str]:
    """What a finding is, and what to say of it."""
    for expectation in expectations:
        if expectation.covers(finding):
            return expectation.judge(finding)
    return ("passed", "") if finding.passed else ("news", _said(finding))


def idle(expectations: Iterable[Expectation], findings: Sequence[Finding]) -> list[str]:
    """Patterns of the list that no scenario has."""
    return [
        f"{expectation.side}: {pattern}"
        for expectation in expectations
        for pattern in expectation.scenarios
        if not any(dataclasses.replace(expectation, scenarios=(pattern,)).covers(finding) for finding in findings)
    ]


def _said(finding: Finding) -> str:
    return "; ".join(f"{name}: {why}" for name, why in finding.wrong)
