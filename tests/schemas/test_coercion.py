"""What refused arguments are read as, and what is never touched."""

import json
from typing import Any

import pytest
from hypothesis import given

from ripieno.schemas import Schema
from tests.schemas import schema_strategies
from tests.schemas.schema_examples import PATIENCE, spent

PLACE = {"type": "object", "properties": {"x": {"type": "integer"}, "note": {"type": "string"}}, "required": ["x"]}
MAP = {"type": "object", "additionalProperties": {"type": "integer"}}


def of(schema: Any, required: tuple[str, ...] = ()) -> Schema:
    return Schema.of({"type": "object", "properties": {"p": schema}, "required": list(required)})


@pytest.mark.parametrize(
    ("schema", "sent", "meant"),
    [
        ({"type": "integer"}, {"p": None}, {}),
        ({"type": "integer"}, {"p": "5"}, {"p": 5}),
        ({"type": "boolean"}, {"p": "true"}, {"p": True}),
        (PLACE, {"p": '{"x": 1}'}, {"p": {"x": 1}}),
        (PLACE, {"p": '{"x": "1", "note": null}'}, {"p": {"x": 1}}),
        ({"type": "array", "items": PLACE}, {"p": ['{"x": 1}', {"x": 2}]}, {"p": [{"x": 1}, {"x": 2}]}),
        (MAP, {"p": [{"key": "a", "value": 1}]}, {"p": {"a": 1}}),
        ({"type": "object"}, {"p": []}, {"p": {}}),
        ({"anyOf": [{"type": "null"}, PLACE]}, {"p": '{"x": 1}'}, {"p": {"x": 1}}),
        ({"anyOf": [{"type": "integer"}, {"type": "array"}]}, {"p": "[1]"}, {"p": [1]}),
        ({"enum": [{"a": 1}, 2]}, {"p": '{"a":1}'}, {"p": {"a": 1}}),
        ({"$ref": "#/properties/q"}, {"p": "7"}, {"p": 7}),
    ],
)
def test_what_was_meant(schema: Any, sent: dict[str, Any], meant: dict[str, Any]) -> None:
    whole = Schema.of({"type": "object", "properties": {"p": schema, "q": {"type": "integer"}}})
    before = json.dumps(sent)
    assert whole.coerce(sent) == meant
    assert json.dumps(sent) == before


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"type": "string"}, {"p": '{"x": 1}', "q": 5}),
        ({"type": ["string", "integer"]}, {"p": "5", "q": "x"}),
        ({"enum": ["1", 1]}, {"p": "1", "q": "x"}),
        ({"const": "[1]"}, {"p": "[1]", "q": "x"}),
        ({"type": ["integer", "null"]}, {"p": None, "q": "x"}),
    ],
)
def test_an_accepted_value_keeps_its_meaning_beside_one_that_is_mended(schema: Any, sent: dict[str, Any]) -> None:
    whole = Schema.of(
        {"type": "object", "properties": {"p": schema, "q": {"type": "string"}, "r": {"type": "integer"}}}
    )
    sent = {**sent, "q": "q", "r": "9"}
    assert whole.coerce(sent) == {**sent, "r": 9}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, "five"),
        ({"type": "integer"}, "1.5"),
        ({"type": "string"}, 5),
        ({"type": "number"}, "NaN"),
        ({"type": "number"}, "Infinity"),
        ({"type": "number"}, "1e999"),
        ({"type": "object"}, '{"a": 1, "a": 2}'),
        ({"type": "object"}, [{"key": "a", "value": 1}, {"key": "a", "value": 2}]),
        ({"type": "object"}, [{"key": 1, "value": 1}]),
        ({"type": "object"}, '"{}"'),
        ({"type": "integer", "maximum": 3}, "5"),
        ({"type": "array"}, "[" * 5000 + "]" * 5000),
    ],
)
def test_what_cannot_be_meant_stays_as_it_is(schema: Any, value: Any) -> None:
    sent = {"p": value}
    assert of(schema, ("p",)).coerce(sent) is sent


@pytest.mark.parametrize(
    "text", ["[" * 60 + "1" * 100_000 + "]" * 60, "x" * 1_000_000, "1" * 1_000_000, "{" * 1_000_000]
)
def test_long_texts_cost_little(text: str) -> None:
    schema = of(
        {"anyOf": [{"type": "integer"}, *({"type": "object", "required": [str(n)]} for n in range(50))]}, ("p",)
    )
    seconds, coerced = spent(lambda: schema.coerce({"p": text}))
    assert seconds < PATIENCE
    assert coerced["p"] is text


def test_recursion_and_many_forms_end() -> None:
    tree = {
        "anyOf": [
            {"type": "integer"},
            *({"type": "array", "items": {"$ref": "#/$defs/t"}, "minItems": n} for n in range(8)),
        ]
    }
    schema = Schema.of({"type": "object", "properties": {"p": {"$ref": "#/$defs/t"}}, "$defs": {"t": tree}})
    value: Any = "no"
    for _ in range(40):
        value = [value]
    seconds, coerced = spent(lambda: schema.coerce({"p": value}))
    assert seconds < PATIENCE
    assert coerced["p"] is value


@given(mapping=schema_strategies.schemas(), arguments=schema_strategies.arguments)
def test_what_is_coerced_was_refused_and_is_accepted(mapping: dict[str, Any], arguments: dict[str, Any]) -> None:
    schema = Schema.of(mapping)
    before = json.dumps(arguments)
    coerced = schema.coerce(arguments)
    assert json.dumps(arguments) == before
    if schema.validate(arguments):
        assert coerced is arguments or schema.validate(coerced) == ()
