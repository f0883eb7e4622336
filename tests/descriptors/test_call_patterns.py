"""Patterns over arguments: never looser than an oracle that reads them in another way."""

import re
import time
import unicodedata
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.canisters.controls import Rules
from ripieno.canisters.faults import Effect
from ripieno.descriptors.rules import CallRules, Pattern
from ripieno.exceptions import PatternInvalidity


def fits(pattern: str, effect: Effect = "write", /, **arguments: object) -> bool:
    return Pattern.parse(pattern).fits("io.write_file", effect, arguments)


def covers(pattern: str, /, **arguments: object) -> bool:
    return Pattern.parse(pattern).covers("io.write_file", arguments)


#: Values of ``path``, by whether ``path=docs/**`` approves them, and whether it covers them.
VALUES_OF: dict[tuple[bool, bool], tuple[object, ...]] = {
    (True, True): ("docs/a.rst", "docs/a/b.rst"),
    (False, False): ("src/a.py", "docsx/a", "/etc/passwd", "src/one... two"),
    (False, True): (
        *("docs/../src/a.py", "src/../docs/a", "..\\docs", "Docs/a.rst", "docs\\a.rst", "./docs//a.rst", "docs"),
        *("/home/me/docs/a.rst", "~/docs/a.rst", "docs/%2e%2e/src", "%64ocs/a", "docs/a\n", "docs/\u202e"),
        *("\uff44ocs/a", "docs/$(rm)", 1, None, ["src/a"], {"a": 1}),
    ),
}


@pytest.mark.parametrize(("approved", "covered"), VALUES_OF)
def test_what_is_in_doubt_is_not_approved_and_is_asked_or_denied(approved: bool, covered: bool) -> None:
    for value in VALUES_OF[approved, covered]:
        assert fits("io.write_file(path=docs/**)", path=value) == approved, value
        assert covers("io.write_file(path=docs/**)", path=value) == covered, value


def test_what_is_missing_is_not_approved_and_is_asked_or_denied() -> None:
    assert not fits("io.write_file(path=**)", content="a")
    assert covers("io.write_file(path=docs/**)", content="a")
    assert not covers("io.read_file(path=docs/**)", content="a")


@pytest.mark.parametrize(
    ("glob", "approved", "others"),
    [
        ("*", ["a.rst"], ["a/b.rst"]),
        ("?.rst", ["a.rst"], ["/.rst"]),
        ("**/b", ["a/x/b"], []),
        ("a/**/b", ["a/x/b"], []),
        ("**", [], ["/etc/passwd", "~/x", "C:/x"]),
        ("/etc/**", ["/etc/passwd"], []),
        ("git **", ["git log -1"], ["git log; rm -rf x", "git log `x`"]),
        ("a\\;b", ["a;b"], []),
        ("\\*", ["*"], ["a"]),
        ("a\\,b\\)", ["a,b)"], []),
        ("\\true", ["true"], []),
        ("https://example.com/**", ["https://example.com/a"], []),
        ("a\\ ", ["a "], []),
    ],
)
def test_a_glob_fits_a_text(glob: str, approved: list[str], others: list[str]) -> None:
    for value in (*approved, *others):
        assert fits(f"io.write_file( path = {glob})", path=value) == (value in approved)


@pytest.mark.parametrize(
    ("glob", "value"),
    [("a/**/b", "a/b"), ("**/.env", ".env"), ("**/.env", "x/.ENV"), ("/etc/**", "etc/passwd"), ("a//b", "a/./b"),
     ("straße/*", "STRASSE/x"), ("docs/.*", "DOCS/.x"), ("a/**/*.env", "a/.env"), ("a/*", "a/\ud800\udcff"),
     ("a", "a/"), ("a/b", "A/b//"), ("a/*", "a/b/."), ("a/b", "/x/a/b/")],
)  # fmt: skip
def test_another_way_to_write_it_is_covered(glob: str, value: str) -> None:
    assert covers(f"io.write_file(path={glob})", path=value)


@pytest.mark.parametrize(
    ("glob", "value"), [("**/.env", "prod.env"), ("a/*", "a/b/c"), ("secret", "secrets"), ("a/*", "b/\ud800")]
)
def test_what_is_certainly_another_text_is_not_covered(glob: str, value: str) -> None:
    assert not covers(f"io.write_file(path={glob})", path=value)


@pytest.mark.parametrize(
    ("written", "same", "doubtful", "others"),
    [
        ("true", True, [1, "true"], [False]),
        ("1", 1, [True, 1.0, "1"], [2]),
        ("1.5", 1.5, [], []),
        ("null", None, [0], []),
    ],
)
def test_values_that_are_no_text(written: str, same: object, doubtful: list[object], others: list[object]) -> None:
    pattern = f"io.write_file(path={written})"
    assert fits(pattern, path=same)
    assert not any(fits(pattern, path=value) for value in (*doubtful, *others))
    assert all(covers(pattern, path=value) for value in (same, *doubtful))
    assert not any(covers(pattern, path=value) for value in others)


def test_a_tool_cannot_be_named_like_the_pattern_that_approves_some_calls() -> None:
    name = "srv.a(path=docs/**)"
    assert not Pattern.parse(name).fits(name, "write", {"path": "docs/a"})
    assert Pattern.parse(name).covers(name, {})
    assert Pattern.parse(r"srv.a\(1\)").fits("srv.a(1)", "destructive", {})


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("(path=a)", 0),
        ("io.x(", 5),
        ("io.x()", 5),
        ("io.x)", 4),
        ("io.x(path", 9),
        ("io.x(path)", 9),
        ("io.x(path=)", 10),
        ("io.x(path=a", 11),
        ("io.x(path=a,)", 12),
        ("io.x(path=a)b", 12),
        ("io.x(path=a, path=b)", 19),
        ("io.x(pa th=a)", 5),
        ("io.x(path=a\\", 11),
    ],
)
def test_what_is_written_wrong_is_told_with_its_place_and_what_to_write(text: str, position: int) -> None:
    with pytest.raises(PatternInvalidity) as caught:
        Pattern.parse(text)
    assert caught.value.position == position
    assert f"at character {position} of the pattern {text!r}" in str(caught.value)
    assert caught.value.hint in str(caught.value)


def test_a_glob_that_is_too_large_is_refused() -> None:
    with pytest.raises(PatternInvalidity, match="The value of path is too long") as caught:
        Pattern.parse("io.x(path=" + "?" * 100_000 + ")")
    assert caught.value.position == 10


@given(st.text(alphabet="io.x(=,)*?\\ a1", max_size=20))
def test_any_text_is_a_pattern_or_is_refused(text: str) -> None:
    position = 0
    try:
        assert Pattern.parse(text).text == text
    except PatternInvalidity as invalidity:
        position = invalidity.position
    assert 0 <= position <= len(text)


def test_a_long_text_and_many_wildcards_take_no_long_time() -> None:
    text = "a" * 200_000
    began = time.process_time()
    assert not covers("io.write_file(path=" + "**a" * 30 + "b)", path=text)
    # A bound against hanging: backtracking would take longer than the world has been there.
    assert time.process_time() - began < 60


# Against an oracle.

NAMES = ("path", "force", "count")
LITERALS: dict[str, Any] = {"true": True, "1": 1, "null": None}
GLOBS = ("docs/**", "docs/*", "*", "**", "?", "src/a.py", "*.py", "**/a.py", "D*", "/etc/**", "a **", *LITERALS)
VALUES = ("docs/a", "docs/a/b", "docs/../x", "..", "a.py", "src/a.py", "SRC/a.py", "/etc/x", "a; b", "a b", "D",
          "", "a\x1b", "docs", "docs\\a", True, False, 1, 1.0, 2, None, ["docs/a"], {"a": 1}, "é",
          "e\u0301", "docs/.\u200b./x")  # fmt: skip
conditions = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(GLOBS)), max_size=2, unique_by=lambda one: one[0]
)
tools = st.sampled_from(["io.move", "io.*", "*", "io", "git.*", "io.m?ve"])


@st.composite
def patterns(draw: st.DrawFn) -> str:
    tool, tests = draw(tools), draw(conditions)
    return f"{tool}({', '.join(f'{name}={glob}' for name, glob in tests)})" if tests else tool


rule_sets = st.builds(
    Rules, **{name: st.lists(patterns(), max_size=3).map(tuple) for name in ("approve", "ask", "deny")}
)
calls = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES))
STRICTNESS = {"approve": 0, None: 1, "ask": 2, "deny": 3}


def read(pattern: str) -> tuple[re.Pattern[str], bool, dict[str, str]]:
    """A pattern by another way: the tool as a regular expression, whether it has a wildcard, and its conditions."""
    tool, _, inside = pattern.partition("(")
    full = tool if "." in tool or tool == "*" else f"{tool}.*"
    expression = re.escape(full).replace(r"\*", ".*").replace(r"\?", ".")
    given = dict(one.strip().split("=") for one in inside.rstrip(")").split(",")) if inside else {}
    return re.compile(expression, re.DOTALL), full != "io.move", given


def same(glob: str, value: object) -> bool:
    """Whether a value is, plainly read, what a condition names."""
    if glob in LITERALS:
        return type(value) is type(LITERALS[glob]) and value == LITERALS[glob]
    expression = (
        re.escape(glob).replace(r"\*\*", "\0").replace(r"\*", "[^/]*").replace(r"\?", "[^/]").replace("\0", ".*")
    )
    return isinstance(value, str) and re.fullmatch(expression, value, re.DOTALL) is not None


def suspicious(value: object) -> bool:
    """Whether nobody should approve it for what a wildcard says."""
    return isinstance(value, str) and (
        ".." in value or not value.isprintable() or ";" in value or unicodedata.normalize("NFC", value) != value
    )


def expected(rules: Rules, effect: Effect, arguments: Mapping[str, Any]) -> str | None:
    """The loosest that may be decided: what plainly matches is denied or asked, and only it may be approved."""

    def named(pattern: str) -> bool:
        tool, _, given = read(pattern)
        kinds: dict[str, Any] = {"true": bool, "1": (int, float), "null": type(None)}
        return bool(tool.fullmatch("io.move")) and all(
            name not in arguments
            or same(glob, arguments[name])
            or not isinstance(arguments[name], kinds.get(glob, str))
            or (glob == "1" and isinstance(arguments[name], bool))
            or (glob not in kinds and arguments[name] in ("..", "docs/../x"))
            for name, glob in given.items()
        )  # fmt: skip

    def approved(pattern: str) -> bool:
        tool, wild, given = read(pattern)
        return bool(tool.fullmatch("io.move")) and not (wild and effect == "destructive") and all(
            name in arguments and same(glob, arguments[name]) and not suspicious(arguments[name])
            and not (str(arguments[name]).startswith("/") and not glob.startswith("/"))
            for name, glob in given.items()
        )  # fmt: skip

    if any(map(named, rules.deny)):
        return "deny"
    if any(map(named, rules.ask)):
        return "ask"
    return "approve" if any(map(approved, rules.approve)) else None


def decided(rules: Rules, effect: Effect, arguments: Mapping[str, Any]) -> int:
    """How strict the decision is."""
    decision = CallRules.of(rules).decide("io.move", effect, arguments)
    return STRICTNESS[None if decision is None else decision.action]


@given(rule_sets, st.sampled_from(["write", "destructive"]), calls)
def test_no_decision_is_looser_than_the_oracles(rules: Rules, effect: Effect, arguments: dict[str, Any]) -> None:
    assert decided(rules, effect, arguments) >= STRICTNESS[expected(rules, effect, arguments)]


@given(rule_sets, rule_sets, st.sampled_from(["write", "destructive"]), calls)
def test_more_rules_that_ask_or_deny_are_never_looser(
    rules: Rules, more: Rules, effect: Effect, arguments: dict[str, Any]
) -> None:
    stricter = Rules(approve=rules.approve, ask=rules.ask + more.ask, deny=rules.deny + more.deny)
    assert decided(stricter, effect, arguments) >= decided(rules, effect, arguments)


@given(patterns(), calls)
def test_what_fits_is_covered(pattern: str, arguments: dict[str, Any]) -> None:
    read_once = Pattern.parse(pattern)
    if read_once.fits("io.move", "write", arguments):
        assert read_once.covers("io.move", arguments)
