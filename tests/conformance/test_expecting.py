"""The list of what is expected not to pass: it is read, and findings are judged by it in both directions."""

import pathlib

import pytest

from tests.conformance.expecting import Expectation, idle, judge, read
from tests.conformance.suite import ERAS, Finding, Side

LIST = [
    Expectation(reason="why", side="server", scenarios=("a-*",)),
    Expectation(reason="why", side="server", scenarios=("b",), eras=(ERAS[0],), checks=("one", "two")),
    Expectation(reason="why", side="client", scenarios=("c",), hollow=True),
]


def finding(scenario: str, *wrong: str, side: Side = "server", era: str = ERAS[0]) -> Finding:
    pairs = tuple((name, "it said") for name in wrong)
    return Finding(side=side, era=era, scenario=scenario, required=True, passed=not wrong, wrong=pairs)


@pytest.mark.parametrize(
    ("found", "verdict", "part"),
    [
        (finding("other"), "passed", ""),
        (finding("other", "one"), "news", "one: it said"),
        (finding("a-1", "one"), "expected", ""),
        (finding("a-1", "one", side="client"), "news", "one: it said"),
        (finding("a-1"), "news", "It passes: take it off the list (why)"),
        (finding("b", "one"), "expected", ""),
        (finding("b", "one", "three"), "news", "Other checks than expected: three"),
        (finding("b", "one", era=ERAS[1]), "news", "one: it said"),
        (finding("c", side="client"), "hollow", ""),
        (finding("c", "one", side="client"), "news", "one: it said"),
    ],
)
def test_findings_are_judged(found: Finding, verdict: str, part: str) -> None:
    assert judge(found, LIST) == (verdict, part)


def test_a_list_that_names_what_is_not_there_is_out_of_date() -> None:
    assert idle(LIST, [finding("a-1"), finding("b", era=ERAS[1])]) == ["server: b", "client: c"]


def test_every_entry_of_the_list_has_a_reason() -> None:
    entries = read(pathlib.Path(__file__).parent / "expected.toml")
    assert entries
    for entry in entries:
        assert entry.side in ("server", "client")
        assert set(entry.eras) <= set(ERAS)
        assert entry.reason.endswith(".")
        assert entry.scenarios
