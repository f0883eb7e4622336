"""Writes the keys of all files into the reference pages: run it after a change of a table of keys (make pages)."""

import pathlib
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ripieno.assembly.plugins import discover
from ripieno.descriptors.configuration import ENSEMBLES, TableOrEnsembles
from ripieno.descriptors.json_schema import FILES
from ripieno.descriptors.reader.keys import UNSET, Key, Table, toml_line
from ripieno.descriptors.reader.kinds import Named, Several
from ripieno.descriptors.reader.references import OrReference
from ripieno.ensembles.origin import tables_of
from ripieno.jsonvalues import is_list, is_table

PAGES = pathlib.Path(__file__).parents[1] / "reference"
#: What each page has after its introduction; ``origins`` are the keys that origins add.
KINDS = {"configuration.rst": ("config",), "descriptors.rst": ("ensemble", "invoker", "origins", "provider", "profile")}
#: The line after which a page is written.
MARK = ".. The rest is written by documentation/extensions/keys.py.\n"
_WIDTH = 110


def page(name: str) -> str:
    """A whole page: its introduction as it is, and the keys as the tables have them."""
    introduction, mark, _ = (PAGES / name).read_text(encoding="utf-8").partition(MARK)
    parts = [_origins() if kind == "origins" else reference(kind) for kind in KINDS[name]]
    return "\n".join((introduction + mark, *parts)).rstrip() + "\n"


def reference(kind: str) -> str:
    """The reference of a kind of file as reStructuredText: every table, every key."""
    return "\n".join(
        _section(f"``{name}``" if name else table.title[:1].upper() + table.title[1:], table, name)
        for name, table in _tables("", FILES[kind])
    )


def origin_reference(origins: Mapping[str, Mapping[str, Table]]) -> str:
    """The reference of the keys that origins add, as reStructuredText."""
    return "\n".join(
        _section(f'``{name}`` with ``origin = "{origin}"``', table, name)
        for origin, tables in origins.items()
        for path, whole in tables.items()
        for name, table in _tables(path, whole)
    )


def _section(heading: str, table: Table, name: str) -> str:
    return f"{heading}\n{'-' * len(heading)}\n\n{table.documentation}\n\n{_keys(table, name.strip('[]'))}"


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


def _keys(table: Table, path: str) -> str:
    """A definition list of the keys of the table at a path. Examples that are tables have its name, to be pasted."""
    entries: list[str] = []
    for key in table.keys:
        text = f"{key.documentation} {_expectation(key)}"
        example = "" if key.example is UNSET else _line(key.name, key.example)
        if path:
            example = re.sub(r"(?m)^\[", f"[{path.replace('<name>', 'name')}.", example)
        if example and "\n" not in example and "`" not in example:
            text += f" Example: ``{example}``"
            example = ""
        # A literal must not be broken at its spaces.
        words = re.findall(r"(?:``.*?``|\S)+", text)
        lines = [f"``{key.name}``", textwrap.indent(_filled(words), "    ")]
        if example:
            lines += ["", "    .. code-block:: toml", "", textwrap.indent(example, " " * 8)]
        entries.append("\n".join(lines) + "\n")
    return "\n".join(entries)


def _filled(words: Sequence[str]) -> str:
    """Words in lines of the pages' width."""
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + len(word) < _WIDTH:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return "\n".join(lines)


def _expectation(key: Key) -> str:
    """The expected value of a key, whether it is required, and its default."""
    text = key.kind.expected.replace("*", "\\*")
    text = text[:1].upper() + text[1:]
    if key.required:
        return f"{text}. Required."
    if key.default is UNSET or is_table(key.default):
        return f"{text}."
    return f"{text}. Default: ``{_in_one_line(key.default)}``."


def _line(name: str, value: Any) -> str:
    """A key with its value; a list in one line, or with an item on each. Lists of tables only stay tables."""
    if not is_list(value) or all(map(is_table, value)):
        return toml_line(name, value).rstrip()
    line = f"{name} = {_in_one_line(value)}"
    if len(line) < _WIDTH - 20:
        return line
    return "\n".join((f"{name} = [", *(f"    {_in_one_line(one)}," for one in value), "]"))


def _in_one_line(value: Any) -> str:
    """A value as TOML in one line, as a literal in reStructuredText requires."""
    if is_list(value):
        return f"[{', '.join(map(_in_one_line, value))}]"
    if is_table(value):
        return f"{{ {', '.join(f'{name} = {_in_one_line(one)}' for name, one in value.items())} }}"
    return toml_line("", value).partition("= ")[2]


def _origins() -> str:
    registry = discover()
    return origin_reference({name: tables_of(registry.resolve("origins", name)) for name in registry.origins})


if __name__ == "__main__":
    for each in KINDS:
        (PAGES / each).write_text(page(each), encoding="utf-8")
