"""Lowering: of schemas as tools really have them, of each shape that a dialect cannot say; and its laws."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from ripieno.exceptions import SchemaInvalidity
from ripieno.jsonvalues import encode
from ripieno.models.protocols.common.dialects import ANTHROPIC_STRICT, DIALECTS, GEMINI, OPENAI_STRICT
from ripieno.schemas import Schema
from ripieno.schemas.lowering import PLAIN, Dialect, Loss, lower
from tests.counts import ATTACK
from tests.schemas import schema_strategies
from tests.schemas.lowering_strategies import instance, is_accounted, is_explained, keywords, nearest, violations

TOOLS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parents[1] / "data/schemas/tools.json").read_text())
#: Of each tool.
INSTANCES = 200 if ATTACK else 2
dialects = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
PAIR = {
    "type": "object",
    "properties": {"key": {"type": "string"}, "value": {"type": "integer"}},
    "required": ["key", "value"],
    "additionalProperties": False,
}


def said(schema: dict[str, Any], dialect: Dialect) -> tuple[dict[str, Any], tuple[Loss, ...]]:
    lowered = lower(Schema.of(schema), dialect)
    assert not lowered.reason
    return json.loads(encode(lowered.schema)), lowered.losses


def said_of(schema: Any, dialect: Dialect, **definitions: Any) -> Any:
    """How a required property of this schema is said."""
    whole = {"type": "object", "properties": {"p": schema}, "required": ["p"]}
    lowered, _ = said({**whole, "$defs": definitions} if definitions else whole, dialect)
    return lowered["properties"]["p"]


@dialects
def test_every_keyword_of_a_real_tool_is_said_or_reported(dialect: Dialect) -> None:
    structure = {"type", "properties", "required", "items", "anyOf", "$ref", "$defs", "additionalProperties"}
    for name, schema in TOOLS.items():
        lowered = lower(Schema.of(schema), dialect)
        mapping = json.loads(encode(lowered.schema))
        assert [at for at in keywords(schema) if not is_accounted(*at, mapping, lowered.losses)] == [], name
        assert mapping["type"] == "object", name
        again = lower(Schema.of(mapping), dialect)
        assert lowered.reason or json.loads(encode(again.schema)) == mapping, name
        used = {keyword for _, keyword in keywords(mapping)}
        assert dialect is PLAIN or lowered.reason or used <= dialect.keywords | structure, name


@dialects
def test_what_fits_a_lowered_tool_fits_the_tool_or_is_reported(dialect: Dialect) -> None:
    chance = random.Random(4)
    tried = 0
    for name, schema in TOOLS.items():
        original = Schema.of(schema)
        if name == "anchored" or "draft-0" in schema.get("$schema", "") or "2019" in schema.get("$schema", ""):
            continue  # The other validator is asked in the latest dialect, and finds pointers only.
        lowered = lower(original, dialect)
        mapping = json.loads(encode(lowered.schema))
        for _ in range(INSTANCES):
            value = instance(mapping, mapping, chance)
            if list(violations(mapping, value)):
                continue
            tried += 1
            coerced = json.loads(encode(nearest(original, value)))
            wrong = [one for one in violations(schema, coerced) if not is_explained(one, schema, lowered.losses)]
            assert wrong == [], (name, value, coerced)
    assert tried > INSTANCES * 50


def test_plain_is_untouched_but_for_a_choice_at_the_root() -> None:
    for name, schema in TOOLS.items():
        lowered, losses = said(schema, PLAIN)
        assert name.startswith(("root_", "only_")) or losses or lowered == schema
        assert not {"anyOf", "oneOf", "allOf", "not", "enum"} & lowered.keys()
    lowered, losses = said(TOOLS["root_any"], PLAIN)
    assert set(lowered["properties"]) == {"query", "limit", "id"}
    assert [(one.keyword, one.pointer, one.outcome) for one in losses] == [("anyOf", "", "kept")]


def test_openai_wants_all_properties_and_closed_objects() -> None:
    lowered, losses = said(TOOLS["fetch"], OPENAI_STRICT)
    assert lowered["required"] == ["url", "max_length", "start_index", "raw"]
    assert lowered["additionalProperties"] is False
    assert lowered["properties"]["max_length"] == {
        "type": ["integer", "null"],
        "description": "Maximum number of characters to return. (default: 5000)",
        "title": "Max Length",
        "exclusiveMinimum": 0,
        "exclusiveMaximum": 1000000,
    }
    assert ("format", "/properties/url", "moved") in [(one.keyword, one.pointer, one.outcome) for one in losses]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "minLength": 3}, {"type": "string", "description": "(minLength: 3)"}),
        ({"const": 5}, {"type": "integer", "const": 5}),
        ({"enum": ["a", 1, None]}, {"type": ["string", "integer", "null"], "enum": ["a", 1, None]}),
        ({"type": "string", "pattern": "^(?!x)"}, {"type": "string", "description": '(pattern: "^(?!x)")'}),
        ({"type": "object", "description": "A"}, {"type": "string", "description": "A (an object, as JSON text)"}),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"type": "array", "items": PAIR, "description": "(a map, as pairs whose keys differ)"},
        ),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ({"allOf": [{"type": "integer", "minimum": 1}, {"minimum": 3}]}, {"type": "integer", "minimum": 3}),
        ({}, {"type": ["string", "number", "boolean", "null"]}),
        ({"$ref": "#/$defs/E", "description": "Which"}, {"type": "string", "enum": ["a"], "description": "Which"}),
    ],
)
def test_how_openai_strict_says_it(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    assert said_of(schema, OPENAI_STRICT, E={"enum": ["a"]}) == expected


def test_a_reference_stays_a_reference_and_can_still_be_described() -> None:
    tree = {"type": "object", "properties": {"below": {"type": "array", "items": {"$ref": "#/$defs/T"}}}}
    assert said_of({"$ref": "#/$defs/T"}, GEMINI, T=tree) == {"$ref": "#/$defs/T"}
    described = said_of({"$ref": "#/$defs/T", "description": "Root"}, OPENAI_STRICT, T=tree)
    assert described == {"anyOf": [{"$ref": "#/$defs/T"}], "description": "Root"}


def test_what_cannot_be_strict_says_so_and_is_sent_plain() -> None:
    for name, dialect, reason in (
        ("linked_list", ANTHROPIC_STRICT, "refers to itself"),
        ("anything_goes", OPENAI_STRICT, "any name"),
        ("headers_only", ANTHROPIC_STRICT, "any name"),
        ("deep", OPENAI_STRICT, "levels of objects"),
    ):
        lowered = lower(Schema.of(TOOLS[name]), dialect)
        assert (lowered.strict, reason in lowered.reason) == (False, True), name
        assert json.loads(encode(lowered.schema)) == TOOLS[name]
        assert "sent plain" in lowered.losses[-1].note


def test_too_many_properties_literals_and_characters_are_refused() -> None:
    wide = {"type": "object", "properties": {f"p{place}": {"enum": [place]} for place in range(1100)}}
    assert "literals" in lower(Schema.of(wide), OPENAI_STRICT).reason
    long = {"type": "object", "properties": {"p": {"enum": [f"{place:060}" for place in range(300)]}}}
    assert "enumeration" in lower(Schema.of(long), OPENAI_STRICT).reason


def test_what_unfolds_without_end_ends() -> None:
    one = {"type": "object", "properties": {"x": {"$ref": "#/$defs/one"}, "y": {"$ref": "#/$defs/two"}}}
    two = {"type": "object", "properties": {"x": {"$ref": "#/$defs/two"}, "y": {"$ref": "#/$defs/one"}}}
    both = {"allOf": [{"$ref": "#/$defs/one"}, {"$ref": "#/$defs/two"}]}
    chain = {f"c{place}": {"$ref": f"#/$defs/c{place + 1}"} for place in range(900)} | {"c900": {"type": "string"}}
    many = {"anyOf": [{"properties": {"a": {"const": place}}} for place in range(20)]}
    for definitions, schema in (
        ({"one": one, "two": two}, both),
        (chain, {"type": "object", "properties": {"c": {"$ref": "#/$defs/c0"}}}),
        ({}, {"type": "object", "allOf": [many, many, many, many]}),
    ):
        whole = {"type": "object", "properties": {"p": schema}, "$defs": definitions}
        for dialect in DIALECTS.values():
            lowered = lower(Schema.of(whole), dialect)
            assert len(encode(lowered.schema)) < 1_000_000
            assert lowered.schema["type"] == "object"


def test_a_required_recursion_may_be_absent_for_gemini() -> None:
    lowered, losses = said(TOOLS["mutual"], GEMINI)
    assert "required" not in lowered["$defs"]["Pong"] or lowered["$defs"]["Pong"]["required"] == []
    assert ("required", "/$defs/Pong", "dropped") in [(one.keyword, one.pointer, one.outcome) for one in losses]


def test_names_that_gemini_documents_to_refuse_are_sent_and_reported() -> None:
    good = {"a": {}, "_b9": {"properties": {"x-y": {}}}, "n" * 64: {}}
    odd = ["", "9a", "x-y", "a.b", "$filter", "größe", "a b", "a\n", "n" * 65]
    whole = {"type": "object", "properties": {**good, **{name: {} for name in odd}}, "required": ["x-y"]}
    lowered, losses = said(whole, GEMINI)
    assert list(lowered["properties"]) == [*good, *odd]
    assert lowered["required"] == ["x-y"]
    assert [(one.keyword, one.pointer, one.outcome, one.matters) for one in losses] == [
        ("properties", "", "doubtful", True) for _ in odd
    ]
    assert all(repr(name) in one.note for name, one in zip(odd, losses, strict=True))
    for dialect in DIALECTS.values():
        if dialect is not GEMINI:
            assert not any(one.outcome == "doubtful" for one in lower(Schema.of(whole), dialect).losses)


def test_names_in_every_form_of_a_root_are_reported_where_they_stand() -> None:
    forms = [{"properties": {"x-y": {"type": "string"}}}, {"properties": {"a b": {"type": "string"}}}]
    for keyword, pointers in (("allOf", ["/allOf/0", "/allOf/1"]), ("anyOf", ["/anyOf", "/anyOf"])):
        _, losses = said({"type": "object", keyword: forms}, GEMINI)
        assert [one.pointer for one in losses if one.outcome == "doubtful"] == pointers


def _of(mapping: dict[str, Any]) -> Schema:
    try:
        return Schema.of(mapping)
    except SchemaInvalidity:
        assume(False)
        raise


@dialects
@given(mapping=schema_strategies.schemas(), seed=st.integers(0, 2**32))
@example(mapping={"type": "object", "required": ["a"], "additionalProperties": False}, seed=0)
@example(mapping={"type": "object", "properties": {"a": False}}, seed=36)
@example(mapping={"type": "object", "additionalProperties": {"prefixItems": [False]}}, seed=170676031)
def test_what_fits_the_lowered_fits_the_original_or_is_reported(
    dialect: Dialect, mapping: dict[str, Any], seed: int
) -> None:
    schema = _of(mapping)
    lowered = lower(schema, dialect)
    said = json.loads(encode(lowered.schema))
    value = instance(said, said, random.Random(seed))
    assume(not list(violations(said, value)))
    coerced = json.loads(encode(nearest(schema, value)))
    wrong = [one.message for one in violations(mapping, coerced) if not is_explained(one, mapping, lowered.losses)]
    assert wrong == [], (said, value, coerced, lowered.losses)


@dialects
@given(mapping=schema_strategies.schemas())
def test_lowering_is_idempotent(dialect: Dialect, mapping: dict[str, Any]) -> None:
    once = lower(_of(mapping), dialect)
    assume(not once.reason)
    said = json.loads(encode(once.schema))
    twice = lower(_of(said), dialect)
    assert json.loads(encode(twice.schema)) == said
    assert not twice.reason


@dialects
@given(mapping=schema_strategies.schemas())
# What is closed twice: once by a word that has nothing left to say.
@example(
    mapping={
        "type": "object",
        "additionalProperties": {"$ref": "#/$defs/0"},
        "unevaluatedProperties": False,
        "$defs": {"0": {"properties": {"a": {}}}, "1": {"items": {"$ref": "#/$defs/0"}}},
    }
)
@example(mapping={"type": "object", "additionalProperties": {"items": {}, "prefixItems": [{}]}})
@example(
    mapping={"type": "object", "additionalProperties": {"minimum": 1}, "allOf": [{"unevaluatedProperties": False}]}
)
def test_every_keyword_is_said_or_reported(dialect: Dialect, mapping: dict[str, Any]) -> None:
    lowered = lower(_of(mapping), dialect)
    said = json.loads(encode(lowered.schema))
    lost = [at for at in keywords(mapping, vacuous=False) if not is_accounted(*at, said, lowered.losses)]
    assert lost == []
