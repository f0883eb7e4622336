"""JSON Schemas for editors and the reference, generated from the tables of keys."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ripieno.descriptors.configuration import CONFIGURATION, ENSEMBLES, TableOrEnsembles
from ripieno.descriptors.ensembles import CONNECTION, ENSEMBLE
from ripieno.descriptors.invokers import INVOCABLE, INVOKER
from ripieno.descriptors.profiles import PROFILE
from ripieno.descriptors.providers import PROVIDER
from ripieno.descriptors.reader.keys import UNSET, Key, Table, toml_line
from ripieno.descriptors.reader.kinds import Named, Several
from ripieno.descriptors.reader.references import OrReference
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


def reference(kind: str) -> str:
    """The reference of a kind of file as reStructuredText: every table, every key. Errors: ``NameAbsence``."""
    return "\n".join(
        _section(f"``{name}``" if name else table.title[:1].upper() + table.title[1:], table)
        for name, table in _tables("", _table(kind))
    )


def origin_reference(origins: Mapping[str, Mapping[str, Table]]) -> str:
    """The reference of the keys that origins add, as reStructuredText."""
    return "\n".join(
        _section(f'``{name}`` with ``origin = "{origin}"``', table)
        for origin, tables in origins.items()
        for path, whole in tables.items()
        for name, table in _tables(path, whole)
    )


def _section(heading: str, table: Table) -> str:
    return f"{heading}\n{'-' * len(heading)}\n\n{table.documentation}\n\n{_keys(table)}"


def _tables(path: str, table: Table) -> Iterator[tuple[str, Table]]:
    """A table and all tables in it, with their TOML names."""
    yield f"[{path}]" if path else "", table
    for key in table.keys:
        name = f"{path}.{key.name}" if path else key.name
        kind: Any = key.kind
        if isinstance(kind, TableOrEnsembles):
            kind = ENSEMBLES
        if isinstance(kind, Named):
            name, kind = f"{name}.<name>", kind.kind
        several = isinstance(kind, Several)
        if isinstance(kind, Several):
            kind = kind.item
        if isinstance(kind, OrReference):
            kind = kind.kind
        if isinstance(kind, Table):
            for inner, found in _tables(name, kind):
                yield (f"[{inner}]" if several and inner == f"[{name}]" else inner), found


def _keys(table: Table) -> str:
    """A definition list of the keys of a table."""
    entries: list[str] = []
    for key in table.keys:
        lines = [f"``{key.name}``", f"    {key.documentation}", "", f"    {_expectation(key)}"]
        if key.example is not UNSET:
            example = "\n".join(f"        {line}" for line in toml_line(key.name, key.example).splitlines())
            lines += ["", "    .. code-block:: toml", "", example]
        entries.append("\n".join(lines) + "\n")
    return "\n".join(entries)


def _expectation(key: Key) -> str:
    """The expected value of a key, whether it is required, and its default."""
    text = key.kind.expected.replace("*", "\\*")
    text = text[:1].upper() + text[1:]
    if key.required:
        return f"{text}. Required."
    if key.default is UNSET or is_table(key.default):
        return f"{text}."
    return f"{text}. Default: ``{_in_one_line(key.default)}``."


def _in_one_line(value: Any) -> str:
    """A value as TOML, lists in one line, as a literal in reStructuredText requires."""
    if is_list(value):
        return f"[{', '.join(map(_in_one_line, value))}]"
    return toml_line("", value).partition("= ")[2]
