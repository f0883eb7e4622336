"""Declared keys of tables: the source of the reader, the JSON Schema and the reference."""

import functools
from collections.abc import Collection, Mapping
from typing import Any, Final

from frozendict import frozendict

from ripieno.descriptors.reader.kinds import INVALID, Kind, Text, refuse
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems, describe, dotted, is_slip, spelling
from ripieno.exceptions import nearest
from ripieno.jsonvalues import EMPTY, is_table, thaw
from ripieno.values import Value


class Unset:
    """The default of a key that has no default."""

    def __repr__(self) -> str:
        return "unset"


UNSET: Final = Unset()


class Key(Value):
    """One key of a table. ``documentation`` is one line; ``example`` is a value as TOML gives it."""

    name: str
    kind: Kind
    documentation: str
    default: Any = UNSET
    example: Any = UNSET
    required: bool = False

    @classmethod
    def rows(cls, defaults: object, *rows: tuple[str, Kind, str, Any]) -> tuple["Key", ...]:
        """Keys from (name, kind, documentation, example). Defaults are fields of a descriptor; None is no default."""
        return tuple(
            cls(
                name=name,
                kind=kind,
                documentation=documentation,
                default=UNSET if (default := getattr(defaults, name)) is None else default,
                example=example,
            )
            for name, kind, documentation, example in rows
        )


class Table(Value, dict=True):
    """A table with declared keys. ``title`` names it in messages: ``[defaults]``.

    ``others`` describes undeclared keys. Without it they are errors; with it, only those similar to a declared key
    are. ``elsewhere`` has the right table of keys that are often misplaced.
    """

    title: str
    documentation: str
    keys: tuple[Key, ...]
    others: str = ""
    elsewhere: frozendict[str, str] = EMPTY

    @functools.cached_property
    def known(self) -> dict[str, Key]:
        """The keys by their names."""
        return {key.name: key for key in self.keys}

    @functools.cached_property
    def required(self) -> tuple[str, ...]:
        """The names of the required keys."""
        return tuple(key.name for key in self.keys if key.required)

    @property
    def expected(self) -> str:
        return "a table"

    def key(self, name: str, *, default: Any = UNSET, required: bool = False) -> Key:
        """The key with this table."""
        return Key(name, self, self.documentation, default, required=required)

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        """The given declared keys, read; ``INVALID`` if any of them has a problem."""
        before = len(problems)
        read = self.read_parts(value, path, problems)
        return INVALID if len(problems) > before else read

    def read_parts(self, value: Any, path: Path, problems: Problems) -> dict[str, Any]:
        """The given declared keys without a problem, read."""
        if not is_table(value):
            refuse(self, value, path, problems)
            return {}
        read: dict[str, Any] = {}
        unknown: list[str] = []
        for name, item in value.items():
            key = self.known.get(name)
            if key is not None:
                result = key.kind.read(item, (*path, name), problems)
                if result is not INVALID:
                    read[name] = result
            elif not isinstance(name, str):
                problems.add(path, f"a key must be a string, not {describe(name)}")
            elif not self.others or any(is_slip(name, known) for known in self.known):
                unknown.append(name)
                hint = spelling(name, self.known)
                if name in self.elsewhere:
                    slip = any(is_slip(name, known) for known in self.known)
                    hint = f"{name} belongs in {self.elsewhere[name]}.{f' {hint}' if slip else ''}"
                problems.add((*path, name), f"{self.title} has no key {dotted((name,))}", hint)
        missing = [name for name in self.required if name not in value]
        if missing:
            # One misspelled key is one problem: the key that it resembles is not reported as missing.
            similar = {near for name in unknown for near in nearest(name, self.known)}
            for name in missing:
                if name not in similar:
                    hint = _example(self.known[name])
                    problems.add(path, f"{self.title} lacks {name}", hint)
        return read

    def part(self, name: str, read: Mapping[str, Any], value: Mapping[str, Any], default: Any) -> Any:
        """One key of ``read_parts``: its ``default`` if absent, ``INVALID`` if it has a problem or is misspelled."""
        if name in read:
            return read[name]
        return INVALID if name in value or self.resembles(name, value, self.known) else default

    def rest(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """The undeclared keys of a table that allows others."""
        return {name: item for name, item in value.items() if name not in self.known}

    def resembles(self, name: str, value: Mapping[Any, Any], others: Collection[str]) -> bool:
        """Whether a key looks like a misspelling of ``name``, and neither is nor resembles one of the ``others``."""
        return any(
            one not in others and isinstance(one, str) and nearest(one, (*others, name), 1) == (name,) for one in value
        )

    def schema(self) -> dict[str, Any]:
        """The table as JSON Schema; editors show the descriptions."""
        schema: dict[str, Any] = {
            "type": "object",
            "description": self.documentation,
            "properties": {key.name: _property(key) for key in self.keys},
            "additionalProperties": bool(self.others),
        }
        if self.required:
            schema["required"] = list(self.required)
        return schema


def description_key(documentation: str, example: str) -> Key:
    """The optional key with a description for people."""
    return Key("description", Text(blank=True), documentation, "", example)


def _property(key: Key) -> dict[str, Any]:
    schema = {**key.kind.schema(), "description": key.documentation}
    if key.default is not UNSET:
        schema["default"] = thaw(key.default)
    if key.example is not UNSET:
        schema["examples"] = [thaw(key.example)]
    return schema


def _example(key: Key) -> str:
    """A hint for a missing key; for a table, its header and its required keys."""
    if isinstance(key.kind, Table):
        lines = [toml_line(name, key.kind.known[name].example) for name in key.kind.required]
        return f"It begins with the line [{key.name}], followed by: {', '.join(lines)}"
    return f"Example: {toml_line(key.name, key.example)}" if key.example is not UNSET else ""


def toml_line(name: str, value: Any) -> str:
    """``name = value`` in TOML."""
    import tomli_w

    return tomli_w.dumps({name: thaw(value)}).rstrip()
