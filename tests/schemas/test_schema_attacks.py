"""Hostile schemas and arguments: nothing is fetched, nothing hangs, nothing crashes."""

import contextlib
import itertools
import json
import select
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.exceptions import SchemaInvalidity
from ripieno.schemas import Schema, validator
from tests.schemas.schema_examples import LARGEST, PATIENCE, spent
from tests.schemas.schema_strategies import instances

# --- References ---------------------------------------------------------------------------------------


@pytest.fixture
def address() -> Iterator[str]:
    """Where somebody listens on loopback, whom nobody asks."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        assert select.select([listener], [], [], 0)[0] == []


def targets(address: str, path: Path) -> list[str]:
    web = f"http://{address}/schema"
    return [
        *(web, f"HTTP://{address}/schema#/$defs/x", f"http://user@{address}/a/../b.json#anchor", f" {web}"),
        *(f"https://{address}/schema", f"//{address}/schema", "data:application/json,{}", "json-schema:///x"),
        *(path.as_uri(), f"{path.as_uri()}#/properties", str(path), path.name, f"./{path.name}", f"../{path.name}#"),
        *("?query#", "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66"),
    ]


def places(keyword: str, target: str) -> Iterator[dict[str, Any]]:
    bad = {keyword: target}
    yield {**bad}
    yield {"properties": {"a": bad}}
    yield {"properties": {"a": {"items": {"anyOf": [{"type": "string"}, bad]}}}}
    yield {"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"not": bad}}}
    yield {"properties": {"a": {"$ref": "#/hidden/deep"}}, "hidden": {"deep": bad}}
    yield {"patternProperties": {"^a": bad}, "$defs": {"c": {"if": True, "then": bad}}}
    yield {"properties": {"a": {"const": 1, "default": {}}}, "dependentSchemas": {"a": bad}}


def shapes(address: str, path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every target, under every keyword, in every place: each is one schema that reaches outside."""
    for keyword, target in itertools.product(("$ref", "$dynamicRef", "$id"), targets(address, path)):
        for schema in places(keyword, target):
            yield target, schema
    for target in targets(address, path):
        yield target, {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"$ref": target}}}
        yield target, {"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"a": {"id": target}}}
        yield target, {"$schema": "https://json-schema.org/draft/2019-09/schema", "items": {"$recursiveRef": target}}
        yield target, {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#", "allOf": [{"$ref": target}]}
        # A base elsewhere, from which a local-looking reference would be resolved.
        yield target, {"properties": {"a": {"$id": target, "$ref": "#/$defs/x"}}, "$defs": {"x": {}}}


def test_no_schema_reaches_outside_itself(address: str, tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text('{"type": "string"}')
    corpus = list(shapes(address, path))
    assert len(corpus) >= 200
    for target, schema in corpus:
        with pytest.raises(SchemaInvalidity) as caught:
            Schema.of(schema)
        assert repr(target[:80]) in str(caught.value)
        assert caught.value.pointer.endswith(("ref", "Ref", "id"))


def test_the_second_wall_stands_by_itself(address: str, tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text('{"type": "string"}')
    assert jsonschema_rs.Draft202012Validator({"$ref": path.as_uri()}).is_valid("x")  # It is there to be fetched.
    for target in (f"http://{address}/schema", path.as_uri()):
        for schema in ({"$ref": target}, {"$id": target, "properties": {"a": {"$ref": "other"}}}):
            with pytest.raises(SchemaInvalidity, match="cannot be compiled"):
                validator.compiled(schema, validator.LATEST, None)


def test_a_dialect_is_never_fetched(address: str) -> None:
    with pytest.raises(SchemaInvalidity, match="Unknown dialect"):
        Schema.of({"$schema": f"http://{address}/json-schema.org/draft-07/schema"})
    nested = Schema.of({"properties": {"a": {"$schema": f"http://{address}/schema", "type": "integer"}}})
    assert nested.validate({"a": "x"})


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}}},
        {"properties": {"a": {"default": {"$ref": "http://example.org/"}, "enum": [{"$id": "http://example.org/"}]}}},
        {"examples": [{"$ref": "other.json"}], "properties": {"a": {"const": {"$schema": "urn:x"}}}},
        {"$defs": {"a/b~c%": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/a~1b~0c%25"}}},
        {"$defs": {"n": {"$anchor": "name"}}, "properties": {"a": {"$ref": "#name"}}},
        {"$dynamicAnchor": "node", "properties": {"a": {"$dynamicRef": "#node"}}},
        {"properties": {"a": {"$ref": "#"}}},
        {"properties": {"a": {"$ref": "#/hidden/1"}}, "hidden": [False, {"type": "integer"}]},
    ],
)
def test_what_only_looks_like_a_reference_is_accepted(schema: dict[str, Any]) -> None:
    assert Schema.of(schema).validate({}) == ()


# --- Bombs --------------------------------------------------------------------------------------------


def nested(depth: int, wrap: Callable[[Any], Any]) -> Any:
    schema: Any = {}
    for _ in range(depth):
        schema = wrap(schema)
    return schema


def doubling(keyword: str, levels: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {"l0": {"type": "integer"}}
    for level in range(1, levels + 1):
        definitions[f"l{level}"] = {keyword: [{"$ref": f"#/$defs/l{level - 1}"}] * 2}
    return {"$defs": definitions, "properties": {"x": {"$ref": f"#/$defs/l{levels}"}}}


BOMBS: dict[str, tuple[Any, str]] = {
    "bytes": ({"description": "x" * 65536}, "too large"),
    "depth": (nested(40, lambda inner: {"properties": {"a": inner}}), "too"),
    "depth of lists": (nested(33, lambda inner: {"not": inner}), "nested too deeply"),
    "depth of values": ({"default": nested(70, lambda inner: [inner])}, "nested too deeply"),
    "endless depth": (nested(50_000, lambda inner: {"items": inner}), "nested too deeply"),
    "subschemas": ({"properties": {f"p{index}": {} for index in range(2001)}}, "more than 2000 subschemas"),
    "in hiding": (
        {"x": {f"p{i}": {} for i in range(9)}, "allOf": [{"$ref": f"#/x/p{i % 9}"} for i in range(2000)]},
        "more",
    ),
    "allOf": (doubling("allOf", 24), "unfolds into more than 100000"),
    "anyOf": (doubling("anyOf", 40), "unfolds into more than 100000"),
    "oneOf": (doubling("oneOf", 17), "unfolds into more than 100000"),
    "itself": ({"$ref": "#"}, "without end"),
    "itself in parts": ({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}, "without end"),
    "a circle": (
        {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}},
        "without end",
    ),
    "a circle of names": ({"$dynamicAnchor": "n", "if": {"$dynamicRef": "#n"}}, "without end"),
    "patterns": ({"patternProperties": {f"{index}$": {} for index in range(201)}}, "more than 200 regular expressions"),
    "a pattern": ({"properties": {"a": {"pattern": "^((a{1,100}){1,100}){1,100}$"}}}, "too large when compiled"),
    "large patterns": ({"allOf": [{"pattern": f"^(?:.x){{1,{n}}}$"} for n in range(900, 920)]}, "too large together"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_in_no_time(name: str) -> None:
    schema, says = BOMBS[name]

    def refused() -> str:
        with pytest.raises(SchemaInvalidity) as caught:
            Schema.of(schema)
        return str(caught.value)

    seconds, message = spent(refused)
    assert says in message
    assert seconds < PATIENCE
    while isinstance(schema, dict) and "items" in schema:  # Freeing it in one go would exhaust the stack.
        schema = schema.pop("items")


@given(
    st.recursive(
        st.booleans() | st.fixed_dictionaries({}, optional={"$ref": st.sampled_from(["#", "#/$defs/a", "#/$defs/b"])}),
        lambda inner: (
            st.dictionaries(
                st.sampled_from(["allOf", "anyOf", "oneOf"]), st.lists(inner, min_size=1, max_size=4), min_size=1
            )
            | st.dictionaries(st.sampled_from(["items", "not", "additionalProperties", "unevaluatedProperties"]), inner)
            | st.fixed_dictionaries({"properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2)})
        ),
        max_leaves=25,
    ).map(lambda part: {"properties": {"x": part}}),
    st.dictionaries(st.sampled_from("ab"), st.just({"type": "object"}), min_size=2),
    instances,
)
def test_law_recursion_is_bounded_in_time(root: Any, definitions: Any, leaf: Any) -> None:
    parts = root["properties"]["x"]
    definitions |= {"a": {"properties": {"a": parts}}, "b": {"items": parts, "type": "object"}}
    schema = {**root, "$defs": definitions}
    value = leaf
    for _ in range(60):
        value = {"a": [value]} if isinstance(leaf, list) else {"a": value}

    def accepted_or_refused() -> None:
        with contextlib.suppress(SchemaInvalidity):
            Schema.of(schema).validate({"x": value})

    assert spent(accepted_or_refused)[0] < PATIENCE


def test_explaining_does_not_double_with_each_level() -> None:
    for keyword in ("allOf", "anyOf", "oneOf"):
        schema = Schema.of({"properties": {"a": {keyword: [{"$ref": "#"}] * 5}}})
        arguments: Any = 1
        for _ in range(60):
            arguments = {"a": arguments}
        seconds, problems = spent(lambda: schema.validate(arguments))  # noqa: B023
        assert problems
        assert seconds < PATIENCE


def large(schema: Any, value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    whole = {"properties": {"x": schema}}
    assert len(json.dumps(whole, separators=(",", ":"))) < 64 * 1024
    return whole, {"x": value}


#: Within the bounds of schemas and of arguments, and minutes together. Some are refused, some are validated.
PRODUCTS: dict[str, tuple[Any, Any]] = {
    "enum of objects": ({"items": {"not": {"enum": [{"a": n} for n in range(5000)]}}}, [{"a": 0.5}] * 25_000),
    "enum of arrays": ({"items": {"not": {"enum": [[n] for n in range(2000)]}}}, [[-1]] * 60_000),
    "enum of numbers": ({"items": {"enum": list(range(10_000, 20_000))}}, [7] * 120_000),
    "const of numbers": ({"items": {"not": {"anyOf": [{"const": n} for n in range(1900)]}}}, [-1] * 85_000),
    "const of tables": ({"items": {"not": {"anyOf": [{"const": {"a": n}} for n in range(900)]}}}, [{"a": -1}] * 25_000),
    "bounds": ({"items": {"anyOf": [{"minimum": n} for n in range(100, 1990)]}}, [7] * 120_000),
    "unevaluated items": (
        {"unevaluatedItems": {"type": "integer"}, "anyOf": [{"contains": {"const": n}} for n in range(950)]},
        [1] * 120_000,
    ),
    "unevaluated properties": (
        {"unevaluatedProperties": False, "anyOf": [{"properties": {f"a{n}": True}} for n in range(950)]},
        {f"k{n}": 1 for n in range(20_000)},
    ),
    "dependencies": ({"items": {"dependentRequired": {f"p{n}": ["q"] for n in range(4000)}}}, [{"a": 1}] * 40_000),
    "patterns": (
        {"items": {"not": {"anyOf": [{"pattern": f"[a-z]*{n}z"} for n in range(199)]}}},
        ["abcdefghi"] * 20_000,
    ),
    "names": ({"patternProperties": {f"^[a-z]*{n}$": {} for n in range(199)}}, {f"k{n}": 1 for n in range(25_000)}),
    "unlike items": ({"uniqueItems": True}, [[n] for n in range(40_000)]),
    "wrong items": ({"items": {"type": "string"}}, list(range(45_000))),
    "wrong alternatives": ({"items": {"anyOf": [{"type": "string"}, {"maxItems": 0}]}}, [[1]] * 60_000),
    "wrong rows": (
        {"items": {"properties": {name: {"type": "string"} for name in "abcdefgh"}, "additionalProperties": False}},
        [dict.fromkeys("abcdefgh", 1)] * 5000,
    ),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_no_product_of_schema_and_arguments_takes_long(name: str) -> None:
    mapping, arguments = large(*PRODUCTS[name])
    making, schema = spent(lambda: Schema.of(mapping))
    assert making < PATIENCE
    assert spent(lambda: schema.validate(arguments))[0] < PATIENCE
    assert spent(lambda: schema.validate({"x": "text"}))[0] < PATIENCE


def test_what_is_too_much_is_a_problem_of_its_parameter() -> None:
    mapping, arguments = large(*PRODUCTS["enum of objects"])
    problem = Schema.of(mapping).validate({**arguments, "y": "small"})[0]
    assert (problem.code, problem.parameter) == ("out_of_range", "x")
    assert "too large to be validated" in problem.message
    assert Schema.of(mapping).validate({"x": [{"a": 0.5}], "y": "z" * LARGEST}) == ()


def test_results_are_bounded_like_arguments() -> None:
    schema = Schema.of_results(PRODUCTS["enum of objects"][0])
    seconds, problems = spent(lambda: schema.validate(PRODUCTS["enum of objects"][1]))
    assert seconds < PATIENCE
    assert [(problem.code, problem.parameter) for problem in problems] == [("out_of_range", "")]


def test_ordinary_schemas_have_no_limit_but_that_of_parsing() -> None:
    rows = [dict.fromkeys("abcdefgh", 1)] * 5000
    properties = {name: {"anyOf": [{"type": "integer"}, {"type": "null"}]} for name in "abcdefgh"}
    schema = Schema.of({"properties": {"x": {"items": {"properties": properties, "additionalProperties": False}}}})
    assert schema.validate({"x": rows}) == ()
    writing = Schema.of({"properties": {"path": {"pattern": r"^(?!.*\.\.)[^\x00]{1,255}$"}, "content": {}}})
    assert writing.validate({"path": "a/b", "content": "x" * LARGEST}) == ()
    assert writing.validate({"path": "a/../b", "content": ""})[0].code == "invalid_value"
    assert Schema.of({"properties": {"data": {"pattern": "^[A-Za-z0-9+/=]*$"}}}).validate({"data": "A" * 250_000}) == ()
    assert Schema.of({"properties": {"text": {"pattern": "^.{1,1000}$"}}}).validate({"text": "é" * 1000}) == ()


def union_of(kinds: int) -> dict[str, Any]:
    """An expression of many kinds, each of which may hold all of them: what generators make of recursive unions."""
    forms = [{"$ref": f"#/$defs/k{index}"} for index in range(kinds)]
    definitions = {
        f"k{index}": {
            "type": "object",
            "properties": {"kind": {"const": f"k{index}"}, "parts": {"type": "array", "items": {"anyOf": forms}}},
            "required": ["kind"],
        }
        for index in range(kinds)
    }
    return {"$defs": definitions, "properties": {"x": {"anyOf": forms}}}


def test_recursive_unions_have_room() -> None:
    schema = Schema.of(union_of(15))
    arguments: Any = {"kind": "k0"}
    for level in range(25):
        arguments = {"kind": f"k{level % 15}", "parts": [{"kind": "k1"}, arguments, {"kind": "k2", "parts": []}]}
    assert schema.validate({"x": arguments}) == ()
    arguments["parts"][1]["parts"][1]["kind"] = "k99"
    problems = schema.validate({"x": arguments})
    assert [problem.parameter for problem in problems] == ["x.parts[1].parts[1]"]


def test_recursive_unions_take_no_longer_for_being_large() -> None:
    for kinds in (5, 15, 40):
        making, schema = spent(lambda: Schema.of(union_of(kinds)))  # noqa: B023
        assert making < PATIENCE
        for width in (1, 10, 100, 20_000):
            arguments: Any = {"kind": "none", "parts": [1] * width}
            for _ in range(20):
                arguments = {"kind": "k3", "parts": [arguments]}
            seconds, problems = spent(lambda: schema.validate({"x": arguments}))  # noqa: B023
            assert problems
            assert seconds < PATIENCE
