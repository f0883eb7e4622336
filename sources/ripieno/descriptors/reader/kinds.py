"""Kinds of values: each reads a value, and describes its expectation in words and as JSON Schema.

A kind that refuses a value adds a problem to ``Problems`` and returns ``INVALID``; no kind raises.
"""

import enum
import re
from typing import Any, Final, Protocol

from frozendict import frozendict

from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems, describe, printable, spelling, subject
from ripieno.jsonvalues import EMPTY, freeze, is_list, is_table
from ripieno.lazy.expressions import expression
from ripieno.values import Value


class Refusal(enum.Enum):
    """The result of reading a refused value."""

    INVALID = "invalid"


INVALID: Final = Refusal.INVALID
#: Levels of nested tables and lists.
DEPTH: Final = 64
#: The largest integer: TOML's have 64 bits.
LARGEST: Final = 2**63 - 1


class Kind(Protocol):
    """One kind of value."""

    @property
    def expected(self) -> str:
        """The expectation, to follow "must be"."""
        ...

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        """The value as a descriptor stores it, or ``INVALID`` after its problems were added."""
        ...

    def schema(self) -> dict[str, Any]:
        """The expectation as JSON Schema, draft 2020-12."""
        ...


def refuse(kind: Kind, value: Any, path: Path, problems: Problems, hint: str | None = None) -> Refusal:
    """Adds a problem with the expected and the actual value."""
    problems.add(path, f"{subject(path)} must be {kind.expected}, not {describe(value)}", hint)
    return INVALID


class Text(Value, kw_only=True):
    """A string. ``shape`` describes ``pattern``, which must match the whole string."""

    pattern: str = ""
    shape: str = "a string"
    choices: tuple[str, ...] = ()
    blank: bool = False

    @property
    def expected(self) -> str:
        if self.choices:
            return "one of " + ", ".join(f'"{choice}"' for choice in self.choices)
        return self.shape

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if not isinstance(value, str):
            hint = None
            if isinstance(value, int | float | bool) and not self.choices:
                hint = f'Write it in quotes: "{describe(value).removeprefix("the number ")}".'
            return refuse(self, value, path, problems, hint)
        if self.choices:
            if value not in self.choices:
                return refuse(self, value, path, problems, spelling(value, self.choices))
        elif self.pattern:
            if re.fullmatch(self.pattern, value) is None:
                return refuse(self, value, path, problems)
        elif not (self.blank or value.strip()):
            return refuse(self, value, path, problems, "Write a text, or delete the key.")
        return value

    def schema(self) -> dict[str, Any]:
        if self.choices:
            return {"enum": list(self.choices)}
        if self.pattern:
            return {"type": "string", "pattern": f"^(?:{self.pattern})$"}
        return {"type": "string"} if self.blank else {"type": "string", "pattern": r"\S"}


class Pattern(Value, kw_only=True):
    """A regular expression that must match a whole text."""

    expected: str = "a regular expression"

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if not isinstance(value, str) or not value:
            return refuse(self, value, path, problems)
        try:
            re.compile(value)
        except re.error as error:
            problems.add(path, f"{subject(path)} is not a regular expression: {error}")
            return INVALID
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "format": "regex", "minLength": 1}


class Flag(Value, kw_only=True):
    """True or false."""

    expected: str = "true or false"

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if isinstance(value, bool):
            return value
        words = {"true": "true", "yes": "true", "on": "true", "false": "false", "no": "false", "off": "false"}
        word = words.get(value.casefold()) if isinstance(value, str) else None
        return refuse(self, value, path, problems, f"Write {word}, without quotes." if word else None)

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


class Number(Value, kw_only=True):
    """A finite number from ``minimum`` to ``maximum``, both included, and greater than ``above``."""

    whole: bool = False
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    unit: str = ""

    @property
    def expected(self) -> str:
        text = f"{'a whole number' if self.whole else 'a number'}{f' of {self.unit}' if self.unit else ''}"
        if self.above is not None:
            text += f" above {self.above:g}"
        if self.minimum is not None and self.maximum is not None:
            return f"{text} from {self.minimum:g} to {self.maximum:g}"
        if self.minimum is not None:
            return f"{text}, at least {self.minimum:g}"
        return text if self.maximum is None else f"{text}, at most {self.maximum:g}"

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return refuse(self, value, path, problems, self._advice(value, path))
        if self.whole and isinstance(value, float):
            hint = f"Write {int(value)}, without a point." if value.is_integer() and abs(value) < 2**53 else None
            return refuse(self, value, path, problems, hint)
        if (
            not abs(value) <= LARGEST
            or (self.minimum is not None and value < self.minimum)
            or (self.maximum is not None and value > self.maximum)
            or (self.above is not None and value <= self.above)
        ):
            return refuse(self, value, path, problems)
        return value

    def _advice(self, value: object, path: Path) -> str | None:
        if isinstance(value, str):
            if re.fullmatch(r"\s*[0-9]{1,15}(\.[0-9]{1,15})?\s*", value):
                return f"Write {value.strip()}, without quotes."
            if self.unit and re.fullmatch(r"\s*[0-9.]+\s*[a-z]+\s*", value):
                return f"Write a plain number of {self.unit}, without a unit."
            if path and isinstance(path[-1], str):
                least, most = self.minimum or 0, 10 if self.maximum is None else self.maximum
                return f"Write: {subject(path)} = {max(least, min(10, most)):g}"
        return None

    def schema(self) -> dict[str, Any]:
        bounds = {"minimum": self.minimum, "maximum": self.maximum, "exclusiveMinimum": self.above}
        return {
            "type": "integer" if self.whole else "number",
            **{name: bound for name, bound in bounds.items() if bound is not None},
        }


#: A whole number of things.
COUNT: Final = Number(whole=True, minimum=1)
_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SIZE = expression(r"\s*([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*(B|KiB|MiB|GiB)\s*")
_LOOSE_SIZE = expression(r"\s*([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([kmgKMG]?)i?[bB]?(?:ytes?)?\s*")


class Size(Value, kw_only=True):
    """A number of bytes: an integer, or a string such as ``"64 KiB"``; stored as an integer."""

    maximum: int = 2**30
    expected: str = 'a size such as "64 KiB" or "2 MiB", or a whole number of bytes above 0'

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        count: float = -1
        if isinstance(value, int) and not isinstance(value, bool):
            count = value
        elif isinstance(value, str) and (match := _SIZE.fullmatch(value)):
            count = float(match[1]) * _UNITS[match[2]]
        if count > self.maximum:
            problems.add(path, f"{subject(path)} must be at most {self.maximum // 2**20} MiB")
            return INVALID
        if count < 1 or count != int(count):
            return refuse(self, value, path, problems, self._advice(value))
        return int(count)

    def _advice(self, value: object) -> str | None:
        match = _LOOSE_SIZE.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            return None
        unit = f"{match[2].upper()}iB" if match[2] else "B"
        return f'Write "{match[1]} {unit}".'

    def schema(self) -> dict[str, Any]:
        return {
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": self.maximum},
                {"type": "string", "pattern": f"^{_SIZE.pattern}$"},
            ]
        }


class Several(Value):
    """A list of one kind, stored as a tuple. ``once`` refuses duplicates; ``bare`` accepts a text as one item."""

    item: Kind
    items: str
    once: bool = False
    bare: bool = False

    @property
    def expected(self) -> str:
        return f"a list of {self.items}"

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if self.bare and isinstance(value, str):
            read = self.item.read(value, path, problems)
            return INVALID if read is INVALID else (read,)
        if not is_list(value):
            hint = f'Write a list: ["{printable(value, 40)}"].' if isinstance(value, str) else None
            return refuse(self, value, path, problems, hint)
        before = len(problems)
        read = tuple(self.item.read(item, (*path, index), problems) for index, item in enumerate(value))
        if len(problems) > before:
            return INVALID
        if self.once and len(set(read)) < len(read):
            index = next(index for index, item in enumerate(read) if item in read[:index])
            problems.add((*path, index), f"{describe(read[index])} occurs twice in {subject(path)}")
            return INVALID
        return read

    def schema(self) -> dict[str, Any]:
        several = {"type": "array", "items": self.item.schema(), **({"uniqueItems": True} if self.once else {})}
        return {"anyOf": [several, self.item.schema()]} if self.bare else several


class Elements(Several):
    """A list whose elements are read later, with the rest of the table; stored unchanged."""

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if not is_list(value):
            hint = f"Write two brackets: [[{subject(path)}]]." if is_table(value) else None
            return refuse(self, value, path, problems, hint)
        return value


class Either(Value):
    """The first of several kinds that accepts the value."""

    kinds: tuple[Kind, ...]
    expected: str

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        refused: list[Problems] = []
        for kind in self.kinds:
            refused.append(Problems(problems.source))
            read = kind.read(value, path, refused[-1])
            if read is not INVALID:
                return read
        hints = (problem.hint for one in refused for problem in one.finished() if problem.hint)
        return refuse(self, value, path, problems, next(hints, None))

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [kind.schema() for kind in self.kinds]}


class Free(Value, kw_only=True):
    """A table of any JSON values, frozen."""

    expected: str = "a table"

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if not is_table(value):
            return refuse(self, value, path, problems)
        return plain(value, path, problems)

    def schema(self) -> dict[str, Any]:
        return {"type": "object"}


class Named(Value):
    """A table whose keys are names that the author chooses."""

    name: Text
    kind: Kind
    expected: str = "a table"

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if not is_table(value):
            return refuse(self, value, path, problems)
        before = len(problems)
        read: dict[str, Any] = {}
        for name, item in value.items():
            if self.name.read(name, (*path, str(name)), problems) is not INVALID:
                read[name] = self.kind.read(item, (*path, name), problems)
        frozen: frozendict[str, Any] = frozendict(read)
        return INVALID if len(problems) > before else frozen

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "propertyNames": self.name.schema(), "additionalProperties": self.kind.schema()}


def plain(value: Any, path: Path, problems: Problems) -> Any:
    """A frozen value; ``INVALID`` if a part of it is not JSON: a date, an infinite number, a key of another type."""
    if not value and is_table(value):
        return EMPTY
    before = len(problems)
    _inspect(value, path, problems)
    return INVALID if len(problems) > before else freeze(value)


def _inspect(value: Any, path: Path, problems: Problems) -> None:
    if isinstance(value, str | bool | None):
        return
    if isinstance(value, int | float):
        if not abs(value) <= LARGEST:
            problems.add(path, f"{subject(path)} must be a finite number of at most 64 bits")
    elif len(path) > DEPTH:
        problems.add(path, f"tables and lists are nested more than {DEPTH} deep")
    elif is_table(value):
        for name, item in value.items():
            if not isinstance(name, str):
                problems.add(path, f"a key must be a string, not {describe(name)}")
            elif not isinstance(item, str):
                _inspect(item, (*path, name), problems)
    elif is_list(value):
        for index, item in enumerate(value):
            if not isinstance(item, str):
                _inspect(item, (*path, index), problems)
    else:
        hint = "Write it in quotes." if type(value).__module__ == "datetime" else None
        problems.add(path, f"{subject(path)} must be a JSON value, not {describe(value)}", hint)
