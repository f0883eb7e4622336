"""JSON Schemas for editors and the reference, generated from the tables of keys."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.descriptors.configuration import CONFIGURATION
from ripieno.descriptors.ensembles import CONNECTION, ENSEMBLE
from ripieno.descriptors.invokers import INVOCABLE, INVOKER
from ripieno.descriptors.profiles import PROFILE
from ripieno.descriptors.providers import PROVIDER
from ripieno.descriptors.reader.keys import Table
from ripieno.exceptions import NameAbsence
from ripieno.jsonvalues import EMPTY, is_list, is_table

FILES: Mapping[str, Table] = {
    "ensemble": ENSEMBLE,
    "invoker": INVOKER,
    "provider": PROVIDER,
    "profile": PROFILE,
    "config": CONFIGURATION,
}
#: The tables to which an origin adds keys.
_OPEN: Mapping[str, Table] = {"connection": CONNECTION, "invocable": INVOCABLE}


def _table(kind: str) -> Table:
    if kind not in FILES:
        raise NameAbsence("kind of file", kind, FILES)
    return FILES[kind]


def settings_table(name: str, own: Table) -> Table:
    """The whole table ``name`` of an origin: the keys of all origins, and its own."""
    table = _OPEN[name]
    return dataclasses.replace(own, keys=(*table.keys, *(key for key in own.keys if key.name not in table.known)))


def schema(kind: str, origins: Mapping[str, Mapping[str, Table]] = EMPTY) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a kind of file, for editors. Errors: ``NameAbsence``.

    ``origins`` has the tables of each origin; an origin without tables accepts any keys.
    """
    table = _table(kind)
    rules = {name: [_rule(name, origin, tables) for origin, tables in origins.items() if tables] for name in _OPEN}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"ripieno: {table.title}",
        **_with_rules(table.schema(), rules),
    }


def _rule(name: str, origin: str, tables: Mapping[str, Table]) -> dict[str, Any]:
    """The rule of a table with this origin. A table without an origin has the default, if there is one."""
    key = _OPEN[name].known["origin"]
    named: dict[str, Any] = {"properties": {"origin": {"const": origin}}}
    if key.default != origin:
        named["required"] = ["origin"]
    return {"if": named, "then": settings_table(name, tables[name]).schema() if name in tables else False}


def _with_rules(value: Any, rules: Mapping[str, Sequence[Any]]) -> Any:
    """The schema with the rules of the origins at each table that they add keys to."""
    if is_list(value):
        return [_with_rules(item, rules) for item in value]
    if not is_table(value):
        return value
    whole = {name: _with_rules(item, rules) for name, item in value.items()}
    for name in _OPEN:
        if is_table(whole.get("properties")) and name in whole["properties"] and rules[name]:
            whole["properties"][name]["allOf"] = rules[name]
    return whole
