"""What is typed as ``key=value`` becomes the arguments of a tool, by the types in its schema."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from ripieno.exceptions import JsonInvalidity
from ripieno.jsonvalues import is_table, parse

_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_TEXT = frozenset({"string"})
_DEPTH = 8


def read_pairs(pairs: Sequence[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of ``key=value`` texts. What fits no type stays text: validation says it better.

    Errors: ``click.UsageError`` for a text without "=", and for a key that stands twice.
    """
    arguments: dict[str, Any] = {}
    properties: Mapping[str, Any] = schema.get("properties", {})
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise click.UsageError(f"Arguments are written key=value, such as path=README.rst; not {pair!r}.")
        if key in arguments:
            raise click.UsageError(f"The argument {key!r} is given twice.")
        arguments[key] = read_value(text, properties.get(key, True), schema)
    return arguments


def read_value(text: str, schema: Any, root: Mapping[str, Any]) -> Any:
    """The value that a text means under a schema: JSON where that fits a type it allows, otherwise the text itself."""
    types = types_of(schema, root)
    if types == _TEXT:
        return text
    try:
        value = parse(text)
    except JsonInvalidity:
        return text
    kind = _type_of(value)
    if kind in types or (kind == "integer" and "number" in types):
        return value
    # 1.0 is an integer to JSON Schema; anything else that has the wrong type is told so by validation.
    return text if "string" in types else value


def types_of(schema: Any, root: Mapping[str, Any], depth: int = _DEPTH) -> frozenset[str]:
    """The types that a schema allows, as far as it says so: all of them otherwise."""
    if not is_table(schema) or depth == 0:
        return _TYPES
    types = _TYPES
    if "type" in schema:
        declared = schema["type"]
        types = frozenset({declared} if isinstance(declared, str) else declared)
    if "enum" in schema:
        types &= {_type_of(value) for value in schema["enum"]}
    if "const" in schema:
        types &= {_type_of(schema["const"])}
    reference = schema.get("$ref")
    if isinstance(reference, str):
        types &= types_of(_follow(reference, root), root, depth - 1)
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            types &= frozenset[str]().union(*(types_of(one, root, depth - 1) for one in schema[keyword]))
    return types


def _follow(reference: str, root: Mapping[str, Any]) -> Any:
    """What a local reference names, or a schema that allows anything."""
    value: Any = root
    if not reference.startswith("#"):
        return True
    for part in reference[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if not is_table(value) or name not in value:
            return True
        value = value[name]
    return value


#: The names that JSON Schema has for what Python has, as far as they are simple.
_NAMES: Mapping[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
}


def _type_of(value: object) -> str:
    return _NAMES.get(type(value)) or ("object" if is_table(value) else "array")


def read_object(text: str) -> dict[str, Any]:
    """The arguments of a JSON text. Errors: ``click.UsageError`` when it is no strict JSON, or no object."""
    try:
        value = parse(text)
    except JsonInvalidity as error:
        raise click.UsageError(f"--arguments is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise click.UsageError('--arguments must be a JSON object, such as {"path": "README.rst"}.')
    return value
