"""Patterns of rules over a tool and its arguments, such as ``io.write_file(path=docs/**, overwrite=false)``.

::

    pattern   = tool [ "(" condition { "," condition } ")" ]
    tool      = a pattern over ``ensemble.tool``, as it stands without conditions; ``\\(`` is a parenthesis
    condition = name "=" value
    value     = true | false | null | a number | text

In a text ``*`` stands for any characters but ``/``, ``**`` for any at all, ``?`` for one that is no ``/``, and a
backslash takes the meaning from the next character. A value with a backslash in it is always a text. Spaces around
names and values do not count. All conditions have to hold.

A pattern is read for one of two purposes, each of which errs on the strict side. ``fits`` is for approving: what is
missing, of another type or in doubt does not fit. ``covers`` is for asking and denying: there it does.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from ripieno.canisters.controls import Rules
from ripieno.canisters.faults import Effect
from ripieno.descriptors.names import is_wildcard, matches
from ripieno.descriptors.rules.globs import Glob
from ripieno.exceptions import PatternInvalidity

Action = Literal["approve", "ask", "deny"]
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?\Z")
_WORDS: Mapping[str, bool | None] = {"true": True, "false": False, "null": None}
#: The same grammar, as far as a regular expression can say it. Names of arguments come once each.
FORM = (
    r"^(?:[^\\()\s]|\\[^\s])+"
    r"(?:\s*\((?:\s*[A-Za-z_][A-Za-z0-9_.-]*\s*=\s*(?:[^\\,)\s]|\\.)(?:[^\\,)]|\\.)*)"
    r"(?:,\s*[A-Za-z_][A-Za-z0-9_.-]*\s*=\s*(?:[^\\,)\s]|\\.)(?:[^\\,)]|\\.)*)*\))?$"
)
_FORM = "Write it like io.write_file(path=docs/**, overwrite=false)."


@dataclasses.dataclass(frozen=True, slots=True)
class Literally:
    """A value of JSON that is no text."""

    value: bool | int | float | None

    def fits(self, value: object) -> bool:
        """Whether it is just this value, of just this type."""
        return type(value) is type(self.value) and value == self.value

    def covers(self, value: object) -> bool:
        """Whether it may be this value: numbers are compared as numbers, and another type may be anything."""
        return _kind(value) != _kind(self.value) or value == self.value


Wanted: TypeAlias = Glob | Literally


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """One pattern, read. ``text`` is as it was written, ``tool`` without conditions."""

    text: str
    tool: str
    conditions: tuple[tuple[str, Wanted], ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Pattern":
        """Reads a pattern. Errors: ``PatternInvalidity``."""
        return _Reader(text).pattern()

    def fits(self, identity: str, effect: Effect, arguments: Mapping[str, Any]) -> bool:
        """Whether it approves a call, which for a tool that can destroy takes the tool's full name."""
        if not matches(self.tool, identity) or (effect == "destructive" and is_wildcard(self.tool)):
            return False
        return all(name in arguments and wanted.fits(arguments[name]) for name, wanted in self.conditions)

    def meets(self, identity: str) -> bool:
        """Whether it is about a tool, whatever the arguments."""
        return self.text == identity or matches(self.tool, identity)

    def covers(self, identity: str, arguments: Mapping[str, Any]) -> bool:
        """Whether a call is, or may be, one that it names."""
        if not self.meets(identity):
            return False
        if self.text == identity:
            return True
        return all(name not in arguments or wanted.covers(arguments[name]) for name, wanted in self.conditions)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What rules say of a call, and the pattern that says it, as it was written."""

    action: Action
    pattern: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CallRules:
    """The patterns of rules, read once."""

    approve: tuple[Pattern, ...] = ()
    ask: tuple[Pattern, ...] = ()
    deny: tuple[Pattern, ...] = ()

    @classmethod
    def of(cls, rules: Rules) -> "CallRules":
        """Reads the patterns of rules. Errors: ``PatternInvalidity``."""
        return cls(approve=_read(rules.approve), ask=_read(rules.ask), deny=_read(rules.deny))

    def decide(self, identity: str, effect: Effect, arguments: Mapping[str, Any]) -> Decision | None:
        """What the strictest pattern says that a call matches, or None where none does."""
        for pattern in self.deny:
            if pattern.covers(identity, arguments):
                return Decision(action="deny", pattern=pattern.text)
        for pattern in self.ask:
            if pattern.covers(identity, arguments):
                return Decision(action="ask", pattern=pattern.text)
        for pattern in self.approve:
            if pattern.fits(identity, effect, arguments):
                return Decision(action="approve", pattern=pattern.text)
        return None


def _read(texts: Sequence[str]) -> tuple[Pattern, ...]:
    return tuple(map(Pattern.parse, texts))


def _kind(value: object) -> object:
    return "number" if type(value) in (int, float) else type(value)


@dataclasses.dataclass(slots=True)
class _Reader:
    """Reads one pattern from left to right."""

    text: str
    position: int = 0

    def pattern(self) -> Pattern:
        tool = self._until("(", ")")
        if not tool.strip():
            raise self._wrong("There is no tool")
        if self.position == len(self.text):
            return Pattern(text=self.text, tool=_unescaped(tool))
        if self.text[self.position] == ")":
            raise self._wrong("A parenthesis is closed that was not opened", "In the name of a tool, write \\).")
        conditions: dict[str, Wanted] = {}
        while self.text[self.position] != ")":
            name, wanted = self._condition()
            if name in conditions:
                raise self._wrong(f"{name} has two values", "Write two patterns for two values.")
            conditions[name] = wanted
        if self.position != len(self.text) - 1:
            self.position += 1
            raise self._wrong("Text goes on after the last parenthesis")
        return Pattern(text=self.text, tool=_unescaped(tool).rstrip(), conditions=tuple(conditions.items()))

    def _condition(self) -> tuple[str, Wanted]:
        """Reads from behind a parenthesis or comma up to the next one."""
        self.position += 1
        start = self.position
        name = self._until("=", ",)").strip()
        if not _NAME.match(name):
            self.position = start
            raise self._wrong("There is no name of an argument" if not name else f"{name!r} is no name of an argument")
        if self.position == len(self.text) or self.text[self.position] != "=":
            raise self._wrong(f"{name} has no value", "Write = and a value after the name; * is any text without a /.")
        self.position += 1
        start = self.position
        value = _trimmed(self._until(",)", ""))
        if self.position == len(self.text):
            raise self._wrong("The parenthesis is not closed", "Write ) at the end.")
        if not value:
            self.position = start
            raise self._wrong(f"{name} has an empty value", "Write a value after the =; * is any text without a /.")
        try:
            return name, _wanted(value)
        except ValueError:
            self.position = start
            raise self._wrong(f"The value of {name} is too long", "Write a shorter one.") from None

    def _until(self, ends: str, bad: str) -> str:
        """The text up to one of some characters, or to the end; escapes stay in it."""
        start = self.position
        while self.position < len(self.text) and self.text[self.position] not in ends + bad:
            if self.text[self.position] == "\\":
                if self.position + 1 == len(self.text):
                    raise self._wrong("A backslash stands at the end", "Write two for one.")
                self.position += 1
            self.position += 1
        return self.text[start : self.position]

    def _wrong(self, message: str, hint: str = _FORM) -> PatternInvalidity:
        return PatternInvalidity(self.text, self.position, message, hint)


def _unescaped(tool: str) -> str:
    return tool.replace("\\(", "(").replace("\\)", ")")


def _trimmed(value: str) -> str:
    """Without spaces around it, but for one at the end that a backslash keeps."""
    stripped = value.strip(" \t")
    slashes = len(stripped) - len(stripped.rstrip("\\"))
    return f"{stripped} " if slashes % 2 else stripped


def _wanted(value: str) -> Wanted:
    if value in _WORDS:
        return Literally(_WORDS[value])
    if _NUMBER.match(value):
        return Literally(float(value) if "." in value else int(value))
    return Glob.of(value)
