"""Argument schemas: what is one, what is accepted, dialects, defaults, hidden properties."""

import copy
import dataclasses
import pickle
import subprocess
import sys
import types
from typing import Any

import pytest
from frozendict import frozendict

from ripieno.exceptions import InputError, SchemaInvalidity
from ripieno.jsonvalues import freeze
from ripieno.schemas import Schema
from tests.schemas.schema_examples import READ

# --- What a schema is --------------------------------------------------------------------------------


def test_a_schema_is_immutable_and_no_copy_of_its_source_changes_it() -> None:
    source = copy.deepcopy(READ)
    schema = Schema.of(source)
    encoded = schema.encoded
    source["properties"]["path"]["type"] = "integer"
    assert schema.validate({"path": "a"}) == ()
    for field in dataclasses.fields(schema):
        with pytest.raises(AttributeError):
            setattr(schema, field.name, None)
    assert isinstance(schema.mapping, frozendict)
    assert isinstance(schema.mapping["properties"], frozendict)
    assert schema.encoded == encoded
    assert not hasattr(schema, "__dict__")


def test_schemas_are_equal_when_their_text_is() -> None:
    schema = Schema.of(READ)
    assert schema == Schema.of(freeze(READ)) == Schema.of(types.MappingProxyType(READ))
    assert hash(schema) == hash(Schema.of(copy.deepcopy(READ)))
    assert schema != Schema.of(READ, closed=True)
    assert Schema.of({"const": 1}) != Schema.of({"const": True})
    assert schema != Schema.of_results(READ)
    for again in (pickle.loads(pickle.dumps(schema)), copy.deepcopy(schema), copy.copy(schema)):
        assert again == schema
        assert again.validate({"path": 1}) == schema.validate({"path": 1})


def test_arguments_are_an_object_and_a_missing_type_is_added() -> None:
    assert Schema.of({}).encoded == b'{"type":"object"}'
    assert Schema.of({"properties": {}}).encoded == b'{"type":"object","properties":{}}'
    assert Schema.of({}).validate({"anything": 1}) == ()
    for kind in ("array", "string", ["object", "null"], None):
        with pytest.raises(SchemaInvalidity, match="must be an object") as caught:
            Schema.of({"type": kind})
        assert caught.value.pointer == "/type"


def test_results_may_be_of_any_type() -> None:
    schema = Schema.of_results({"type": "array", "items": {"type": "integer"}})
    assert schema.validate([1, 2]) == ()
    assert [(problem.code, problem.parameter) for problem in schema.validate([1, "x"])] == [("invalid_type", "[1]")]
    assert Schema.of_results({}).validate("text") == ()
    assert Schema.of_results({"type": "object"}).encoded == b'{"type":"object"}'


# --- Closing -----------------------------------------------------------------------------------------


def test_closing_refuses_what_is_not_declared_unless_the_schema_says_otherwise() -> None:
    properties = {"a": {"type": "integer"}}
    assert Schema.of({"properties": properties}).validate({"b": 1}) == ()
    closed = Schema.of({"properties": properties}, closed=True)
    assert closed.mapping["additionalProperties"] is False
    assert [problem.code for problem in closed.validate({"b": 1})] == ["unknown_parameter"]
    for opened in ({"additionalProperties": True}, {"additionalProperties": {"type": "integer"}}):
        assert Schema.of({"properties": properties, **opened}, closed=True).validate({"b": 1}) == ()
    nested = Schema.of({"properties": {"a": {"type": "object"}}}, closed=True)
    assert nested.validate({"a": {"b": 1}}) == ()


def test_closing_a_schema_of_parts_counts_what_the_parts_declare() -> None:
    parts = {"allOf": [{"properties": {"a": {"type": "integer"}}}], "properties": {"b": {}}}
    schema = Schema.of(parts, closed=True)
    assert schema.validate({"a": 1, "b": 2}) == ()
    (problem,) = schema.validate({"a": 1, "c": 2})
    assert (problem.code, problem.parameter) == ("unknown_parameter", "c")
    with pytest.raises(SchemaInvalidity, match="allOf, anyOf or the like cannot be closed"):
        Schema.of({"$schema": "http://json-schema.org/draft-07/schema#", **parts}, closed=True)


# --- Dialects ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dialect", "schema", "valid", "invalid"),
    [
        ("http://json-schema.org/draft-04/schema#", {"maximum": 1, "exclusiveMaximum": True}, 0, 1),
        ("http://json-schema.org/draft-06/schema#", {"exclusiveMaximum": 1}, 0, 1),
        ("http://json-schema.org/draft-07/schema#", {"items": [True], "additionalItems": False}, [1], [1, 2]),
        ("https://json-schema.org/draft/2019-09/schema", {"dependentRequired": {"a": ["b"]}}, {}, {"a": 1}),
        ("https://json-schema.org/draft/2020-12/schema", {"prefixItems": [{"type": "integer"}]}, [1], ["a"]),
        ("https://json-schema.org/schema", {"prefixItems": [{"type": "integer"}]}, [1], ["a"]),
    ],
)
def test_each_dialect_means_what_it_says(dialect: str, schema: Any, valid: Any, invalid: Any) -> None:
    whole = Schema.of({"$schema": dialect, "properties": {"x": schema}})
    assert whole.validate({"x": valid}) == ()
    problems = whole.validate({"x": invalid})
    assert problems
    assert all(problem.parameter.startswith("x") for problem in problems)


def test_before_draft_2019_a_reference_hides_what_stands_beside_it() -> None:
    schema = {"definitions": {"any": {}}, "properties": {"x": {"$ref": "#/definitions/any", "type": "string"}}}
    assert Schema.of({"$schema": "http://json-schema.org/draft-07/schema#", **schema}).validate({"x": 1}) == ()
    assert Schema.of(schema).validate({"x": 1})[0].code == "invalid_type"


def test_what_only_older_dialects_have_is_explained_too() -> None:
    older = {"$schema": "http://json-schema.org/draft-07/schema#"}
    schema = Schema.of({**older, "dependencies": {"a": ["b"], "c": {"required": ["d"]}}, "properties": {"b": {}}})
    assert [problem.parameter for problem in schema.validate({"a": 1, "c": 1})] == ["b", "d"]
    encoded = Schema.of({**older, "properties": {"x": {"contentEncoding": "base64"}}})
    assert encoded.validate({"x": "no!"})[0].expected == 'text encoded as "base64"'
    named = {**older, "definitions": {"n": {"$id": "#name", "type": "integer"}}, "properties": {"x": {"$ref": "#name"}}}
    assert Schema.of(named).validate({"x": "y"})[0].code == "invalid_type"


@pytest.mark.parametrize(
    "dialect",
    ["http://json-schema.org/draft-03/schema#", "urn:a", "", "https://example.org/draft/2020-12/schema", 5, "draft-07"],
)
def test_an_unknown_dialect_is_refused(dialect: Any) -> None:
    with pytest.raises(SchemaInvalidity, match="Unknown dialect") as caught:
        Schema.of({"$schema": dialect})
    assert caught.value.pointer == "/$schema"


# --- What is no schema --------------------------------------------------------------------------------


@pytest.mark.parametrize("thing", [None, True, [], "object", 5])
def test_what_is_no_object_is_no_schema(thing: Any) -> None:
    for make in (Schema.of, Schema.of_results):
        with pytest.raises(SchemaInvalidity, match="A schema must be an object"):
            make(thing)


@pytest.mark.parametrize(
    ("schema", "says", "pointer"),
    [
        ({"properties": {"a/b": {"type": "strin"}}}, "type must be one or several of", "/properties/a~1b/type"),
        ({"properties": 5}, "Not a JSON Schema: 5 is not of type", "/properties"),
        ({"properties": {"a": {"minLength": -1}}}, "Not a JSON Schema", "/properties/a/minLength"),
        ({"required": "path"}, "Not a JSON Schema", "/required"),
        ({"properties": {"a": 1}}, "Not a JSON Schema", "/properties/a"),
        ({"properties": {"a": {"pattern": "(("}}}, "regular expression '((' is broken", "/properties/a/pattern"),
        ({"patternProperties": {"[": {}}}, "regular expression '[' is broken", "/patternProperties/["),
        ({"default": float("nan")}, "A schema must be JSON", ""),
        ({"default": b"x"}, "A schema must be JSON. At the value['default']: bytes", ""),
        *(
            ({"properties": {"a": {"$ref": to}}, "required": ["a"], "h": [{}]}, "leads to no", "/properties/a/$ref")
            for to in ("#/required", "#/h/" + "1" * 5000, "#/h/\u0660")
        ),
        ({"properties": {"a": {"$ref": "#/$defs/a b"}}, "$defs": {"a b": {}}}, "cannot be compiled", ""),
    ],
)
def test_what_is_no_schema_is_refused_with_a_pointer(schema: Any, says: str, pointer: str) -> None:
    with pytest.raises(SchemaInvalidity) as caught:
        Schema.of(schema)
    assert says in str(caught.value)
    assert caught.value.pointer == pointer
    assert isinstance(caught.value, InputError)


# --- Defaults ----------------------------------------------------------------------------------------


def test_defaults_fill_what_is_missing_also_in_nested_objects() -> None:
    schema = Schema.of(READ)
    assert schema.complete({"path": "a"}) == {"path": "a", "start": 1}
    assert schema.complete({"path": "a", "start": 5, "options": {}})["options"] == {"case": True}
    full = {"path": "a", "start": 5, "options": {"case": False}}
    assert schema.complete(full) is full
    assert schema.complete({"options": 7}) == {"options": 7, "start": 1}
    frozen = freeze(full)
    assert schema.complete(frozen) is frozen
    bare: dict[str, Any] = {}
    assert Schema.of({"properties": {"a": {"type": "string"}}}).complete(bare) is bare


def test_completing_changes_neither_the_arguments_nor_the_default() -> None:
    schema = Schema.of({"properties": {"a": {"default": {"b": [1]}, "properties": {"c": {"default": []}}}}})
    arguments: dict[str, Any] = {"x": {}}
    first: Any = schema.complete(arguments)
    assert arguments == {"x": {}}
    assert first == {"x": {}, "a": {"b": [1], "c": []}}
    first["a"]["b"].append(2)
    first["a"]["c"].append(3)
    assert schema.complete({}) == {"a": {"b": [1], "c": []}}


def test_defaults_are_found_through_references_and_recursion() -> None:
    node = {"$ref": "#/$defs/node"}
    properties = {"root": node, "all": {"allOf": [node], "default": {}}, "kind": {"$ref": "#/$defs/kind"}}
    definitions = {"node": {"properties": {"size": {"default": 0}, "next": node}}, "kind": {"default": "k"}}
    schema = Schema.of({"$defs": definitions, "properties": properties})
    assert schema.complete({"root": {"next": {"next": {"size": 3}}}}) == {
        "root": {"size": 0, "next": {"size": 0, "next": {"size": 3}}},
        "all": {"size": 0},
        "kind": "k",
    }
    for null in (None, False, 0, ""):
        assert Schema.of({"properties": {"a": {"default": null}}}).complete({}) == {"a": null}


# --- Hiding ------------------------------------------------------------------------------------------


def test_hidden_properties_are_neither_declared_nor_required() -> None:
    schema = Schema.of({**READ, "required": ["path", "limit"]}, closed=True)
    hidden = schema.without({"limit": 5, "tags": []})
    assert hidden.properties == ("path", "start", "options")
    assert hidden.required == ("path",)
    assert hidden.validate({"path": "a"}) == ()
    assert [problem.code for problem in hidden.validate({"path": "a", "limit": 1})] == ["unknown_parameter"]
    assert "required" not in schema.without(["path", "limit"]).mapping
    assert schema.without([]) == schema
    assert schema.without(["nothing"]) == schema
    assert Schema.of({}).without(["a"]) == Schema.of({})
    with pytest.raises(SchemaInvalidity, match="leads to no subschema"):
        Schema.of({"properties": {"a": {}, "b": {"$ref": "#/properties/a"}}}).without(["a"])


def test_the_validator_is_imported_with_the_first_schema_and_the_oracle_never() -> None:
    program = (
        "import sys, ripieno.schemas, ripieno.schemas.functions\n"
        "print('jsonschema_rs' in sys.modules)\n"
        "assert ripieno.schemas.Schema.of({'required': ['a']}).validate({})\n"
        "import ripieno.cli.check.checks, ripieno.schemas.refused_schemas\n"
        "print('jsonschema_rs' in sys.modules, 'jsonschema' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "False"]
