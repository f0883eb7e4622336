"""The validator: jsonschema-rs, without fetching and without format assertions. Importing it takes 25 ms."""

from collections.abc import Mapping
from typing import Any, NoReturn
from urllib.parse import quote

import jsonschema_rs

from ripieno.exceptions import SchemaInvalidity
from ripieno.jsonvalues import is_table
from ripieno.schemas.graph import Graph, escaped
from ripieno.schemas.regexes import Options, options_for

#: Each dialect's validator, and its number in a registry.
_DRAFTS: dict[str, tuple[type[jsonschema_rs.Validator], int]] = {
    "draft-04": (jsonschema_rs.Draft4Validator, jsonschema_rs.Draft4),
    "draft-06": (jsonschema_rs.Draft6Validator, jsonschema_rs.Draft6),
    "draft-07": (jsonschema_rs.Draft7Validator, jsonschema_rs.Draft7),
    "draft/2019-09": (jsonschema_rs.Draft201909Validator, jsonschema_rs.Draft201909),
    "draft/2020-12": (jsonschema_rs.Draft202012Validator, jsonschema_rs.Draft202012),
}
LATEST = "draft/2020-12"
_ADDRESS = "urn:schema"
_DIALECTS = {f"json-schema.org/{name}/schema": name for name in _DRAFTS} | {"json-schema.org/schema": LATEST}


TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")


def dialect_of(schema: Mapping[str, Any]) -> str:
    """The dialect of a schema; the latest if it declares none. Errors: ``SchemaInvalidity``."""
    declared = str(schema.get("$schema", f"https://json-schema.org/{LATEST}/schema"))
    scheme, _, name = declared.rstrip("#").partition("://")
    dialect = _DIALECTS.get(name) if scheme in ("http", "https") else None
    if dialect is None:
        known = ", ".join(f"https://{one}" for one in _DIALECTS)
        raise SchemaInvalidity(f"Unknown dialect {declared[:80]!r}. Known: {known}.", pointer="/$schema")
    return dialect


def check(schema: Any) -> None:
    """Refuses a schema that its dialect's meta-schema refuses. Errors: ``SchemaInvalidity``."""
    try:
        jsonschema_rs.meta.validate(schema)
    except jsonschema_rs.ValidationError as error:
        pointer = "".join(f"/{escaped(token)}" for token in error.instance_path)
        reason = _cut(error.message)
        if error.instance_path[-1:] == ["type"]:
            reason = f"type must be one or several of {', '.join(TYPES)}"
        raise SchemaInvalidity(f"Not a JSON Schema: {reason}.", pointer=pointer) from None


def options_of(graph: Graph) -> Options | None:
    """The engine for the regular expressions of a schema; None without any. Errors: ``SchemaInvalidity``."""
    found: dict[str, str] = {}
    for node in graph.nodes.values():
        if is_table(node.schema):
            if isinstance(pattern := node.schema.get("pattern"), str):
                found[pattern] = f"{node.pointer}/pattern"
            if is_table(patterns := node.schema.get("patternProperties")):
                found |= {one: f"{node.pointer}/patternProperties/{escaped(one)}" for one in patterns}
    return options_for(found) if found else None


def compiled(schema: Any, dialect: str, options: Options | None) -> jsonschema_rs.Validator:
    """A validator. Errors: ``SchemaInvalidity``."""
    try:
        return _DRAFTS[dialect][0](schema, validate_formats=False, retriever=_refuse, pattern_options=options)
    except ValueError as error:
        raise SchemaInvalidity(f"The schema cannot be compiled: {_cut(str(error))}") from None


def dispatcher(graph: Graph, dialect: str, options: Options | None) -> jsonschema_rs.Validator:
    """One validator for all subschemas: ``{pointer: value}`` is valid if that subschema accepts the value.

    Compiling each separately repeats shared definitions: 10 s for a union of 40 kinds, not 20 ms (measured).
    """
    make, draft = _DRAFTS[dialect]
    registry = jsonschema_rs.Registry([(_ADDRESS, graph.root.schema)], draft=draft, retriever=_refuse)
    references = {pointer: {"$ref": f"{_ADDRESS}#{quote(pointer, safe='/~')}"} for pointer in graph.nodes}
    return make(
        {"properties": references},
        registry=registry,
        validate_formats=False,
        retriever=_refuse,
        pattern_options=options,
    )


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"References outside the schema are not followed: {uri[:80]!r}.")


def _cut(message: str) -> str:
    line = message.splitlines()[0] if message else ""
    return line if len(line) <= 160 else f"{line[:160]}…"
