"""Requests of the generateContent wire in one spelling, and its schemas as JSON Schema."""

from collections.abc import Mapping
from typing import Any

from ripieno.jsonvalues import is_list, is_table

#: Keys whose values belong to applications and keep their spelling.
_FREE = frozenset(
    {"args", "response", "parameters", "parametersJsonSchema", "responseJsonSchema", "responseSchema", "partMetadata"}
)
#: Integer keywords, which this wire writes as text.
_COUNTS = frozenset({"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"})
#: Keywords that JSON Schema lacks.
_OWN = frozenset({"nullable", "propertyOrdering", "example"})


def respell(value: Any) -> Any:
    """A request with ``camelCase`` keys: clients send either spelling, and the official one sends both."""
    if is_list(value):
        return [respell(one) for one in value]
    if not is_table(value):
        return value
    respelled: dict[str, Any] = {}
    for key, inner in value.items():
        name = _camel(str(key))
        respelled[name] = inner if name in _FREE else respell(inner)
    return respelled


def _camel(name: str) -> str:
    if "_" not in name:
        return name
    first, *others = name.split("_")
    return first + "".join(one[:1].upper() + one[1:] for one in others)


def schema_of(native: Mapping[str, Any]) -> dict[str, Any]:
    """A schema of this wire as JSON Schema: the wire has capitalized types and a flag for null."""
    schema: dict[str, Any] = {}
    for key, value in native.items():
        name = _camel(str(key))
        if name in _OWN:
            continue
        if name == "type" and isinstance(value, str):
            schema[name] = value.lower()
        elif name == "properties" and is_table(value):
            schema[name] = {one: _inner(inner) for one, inner in value.items()}
        elif name in ("items", "additionalProperties") or is_list(value):
            schema[name] = [_inner(one) for one in value] if is_list(value) else _inner(value)
        elif name in _COUNTS and isinstance(value, str) and value.isdecimal():
            schema[name] = int(value)
        else:
            schema[name] = value
    if native.get("nullable") and "type" in schema:
        schema["type"] = [schema["type"], "null"]
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
    if schema.get("type") == "type_unspecified":
        del schema["type"]
    return schema


def _inner(value: Any) -> Any:
    return schema_of(value) if is_table(value) else value
