"""Regular expressions of strangers: what they mean, and that none takes long."""

import itertools
import random
from typing import Any

import pytest

from ripieno.exceptions import SchemaInvalidity
from ripieno.schemas import Schema
from tests.counts import ATTACK
from tests.schemas.schema_examples import PATIENCE, spent

TEMPLATES = (
    *("^({a}+)+$", "^({a}|{a}{a})+$", "({a}+{a}+)+{b}", "^({a}?){{{n}}}{a}{{{n}}}$", "({a}*)*\\1{b}"),
    *("({a}{{1,{n}}}){{1,{n}}}{b}", "[{a}{b}]*{a}[{a}{b}]{{{n}}}!", "(?:{a}|{b}|{a}{b}){{1,{n}}}!"),
    *("(?:.*{a}){{{n}}}!", "(.{{1,{n}}}{a}){{1,{n}}}!", "^(?:{a}|{a})*(?={b})\\w$", "(?!.*{b}){a}*c"),
    *("(?={a}*{b})c", "(?=[{a}{b}]*{a}[{a}{b}]{{{n}}}x)y", "(?!.*(?=[{a}{b}]*{a}[{a}{b}]{{{n}}}x))y.*z"),
    *("(.+)\\1+(.+)\\2+!", "(?<={a}.*){b}", "(?:(?!{a}{b}).)*$", "(?:\\p{{L}}|{a}){{1,{n}}}!"),
    "({a}|{b}|[{a}{b}])*?(?:{a}{{{n},}})+$",
)


def known_bad() -> list[str]:
    """500 regular expressions that make some engine exponential, quadratic, or large."""
    letters = (("a", "b"), ("0", "1"), ("x", "y"), ("é", "ß"), ("\\w", "-"))
    numbers = (3, 10, 30, 90, 400)
    return [template.format(a=a, b=b, n=n) for template, (a, b), n in itertools.product(TEMPLATES, letters, numbers)]


def texts(length: int) -> list[str]:
    generator = random.Random(1)
    pairs = ("a", "b"), ("0", "1"), ("x", "y"), ("é", "ß")
    return [
        text
        for a, b in pairs
        for text in (
            a * length,
            a * (length - 1) + "!",
            (a + b) * (length // 2),
            "".join(generator.choice(a + b) for _ in range(length)),
            a * (length // 2) + b * (length // 2),
        )
    ]


def test_known_bad_regular_expressions_never_take_long() -> None:
    patterns = known_bad()
    assert len(patterns) == 500
    chosen = random.Random(2).sample(patterns, 500 if ATTACK else 8)
    # Just below the lengths from which on some are refused unmatched, and the longest there are.
    candidates = [text for length in (40, 250, 380, 620, 1240, 2480, 24_900, 66_000, 249_000) for text in texts(length)]
    assert len(texts(40)) == 20
    slowest = [0.0]
    for pattern in chosen:
        making, schema = spent(lambda: accepted({"pattern": pattern}))  # noqa: B023
        slowest.append(making)
        if schema is not None:
            slowest += (spent(lambda: schema.validate({"x": text}))[0] for text in candidates)  # noqa: B023
    assert max(slowest) < PATIENCE


def accepted(value: dict[str, Any]) -> Schema | None:
    try:
        return Schema.of({"properties": {"x": value}})
    except SchemaInvalidity:
        return None


def test_most_of_the_known_bad_are_accepted_and_the_others_are_named() -> None:
    refused = [pattern for pattern in known_bad() if accepted({"pattern": pattern}) is None]
    assert len(refused) < 100
    for pattern in refused:
        with pytest.raises(SchemaInvalidity) as caught:
            Schema.of({"properties": {"x": {"pattern": pattern}}})
        assert repr(pattern[:80]) in str(caught.value)
        assert caught.value.pointer == "/properties/x/pattern"


def test_regular_expressions_mean_what_ecma_says() -> None:
    def matches(pattern: str, text: str) -> bool:
        return Schema.of({"properties": {"x": {"pattern": pattern}}}).validate({"x": text}) == ()

    assert matches("b", "abc")
    assert not matches("^[a-z]+$", "abc\n")
    assert not matches(r"^\d$", "\u0663")
    assert matches(r"^\p{L}+$", "éß")
    assert matches(r"^(?!\.)\w+$", "abc")
    assert not matches(r"^(?!\.)", ".abc")
    assert matches(r"^(a|b)\1$", "aa")


def test_a_match_that_would_take_too_long_is_refused_also_where_it_should_not_match() -> None:
    hard = {"pattern": r"^(?:a|a)*(?=b)\w$"}
    for schema in (hard, {"not": hard}):
        assert Schema.of({"properties": {"x": schema}}).validate({"x": "a" * 40})
        assert Schema.of({"properties": {"x": schema}}).validate({"x": "a" * 10_000})[0].code == "out_of_range"
