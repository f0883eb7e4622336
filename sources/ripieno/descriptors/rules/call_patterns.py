"""Patterns of rules over a tool and its arguments, such as ``io.write_file(path=docs/**, overwrite=false)``.

::

    pattern   = tool [ "(" condition { "," condition } ")" ]
    tool      = a pattern over ``ensemble.tool``, as without conditions; ``\\(`` is a parenthesis
    condition = name "=" value
    value     = true | false | null | a number | text

In a text, ``*`` matches any characters except ``/``, ``**`` matches any characters, ``?`` matches one character except
``/``, and a backslash makes the next character literal. A value with a backslash is always a text. Spaces around
names and values are ignored. All conditions must be met.

There are two ways to match; both are strict. ``fits`` is for approval: an argument that is missing, of another type
or in doubt does not match. ``covers`` is for asking and denying: such an argument matches.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from ripieno.canisters.controls import Rules
from ripieno.canisters.faults import Effect
from ripieno.descriptors.names import is_wildcard, matches
from ripieno.descriptors.rules.globs import Glob, ascends
from ripieno.exceptions import PatternInvalidity
from ripieno.lazy.expressions import expression
from ripieno.values import Value

Action = Literal["approve", "ask", "deny"]
_NAME = expression(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
_NUMBER = expression(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?\Z")
_WORDS: Mapping[str, bool | None] = {"true": True, "false": False, "null": None}
#: The grammar as a regular expression; it cannot express that each argument occurs once.
FORM = (
    r"^(?:[^\\()\s]|\\[^\s])+"
    r"(?:\s*\((?:\s*[A-Za-z_][A-Za-z0-9_.-]*\s*=\s*(?:[^\\,)\s]|\\.)(?:[^\\,)]|\\.)*)"
    r"(?:,\s*[A-Za-z_][A-Za-z0-9_.-]*\s*=\s*(?:[^\\,)\s]|\\.)(?:[^\\,)]|\\.)*)*\))?$"
)
_FORM = "Write it like io.write_file(path=docs/**, overwrite=false)."


class Literally(Value):
    """A JSON value other than a text."""

    value: bool | int | float | None

    def fits(self, value: object) -> bool:
        """Whether it is this value, of this type."""
        return type(value) is type(self.value) and value == self.value

    def covers(self, value: object) -> bool:
        """Whether it may be this value. All numbers have one type; a value of another type may be any value."""
        return _kind(value) != _kind(self.value) or value == self.value


Wanted: TypeAlias = Glob | Literally


class Pattern(Value, kw_only=True):
    """One parsed pattern. ``text`` is the whole pattern, ``tool`` the part without conditions."""

    text: str
    tool: str
    conditions: tuple[tuple[str, Wanted], ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Pattern":
        """Parses a pattern. Errors: ``PatternInvalidity``."""
        return _Reader(text).pattern()

    def fits(self, identity: str, effect: Effect, arguments: Mapping[str, Any]) -> bool:
        """Whether it approves a call. Approval of a destructive tool requires the tool's full name."""
        if not matches(self.tool, identity) or (effect == "destructive" and is_wildcard(self.tool)):
            return False
        return all(name in arguments and wanted.fits(arguments[name]) for name, wanted in self.conditions)

    def meets(self, identity: str) -> bool:
        """Whether it is about a tool, with any arguments."""
        return self.text == identity or matches(self.tool, identity)

    def covers(self, identity: str, arguments: Mapping[str, Any]) -> bool:
        """Whether it matches a call, or may match it."""
        if not self.meets(identity):
            return False
        if self.text == identity:
            return True
        return all(name not in arguments or wanted.covers(arguments[name]) for name, wanted in self.conditions)

    def ascending(self, arguments: Mapping[str, Any]) -> str:
        """The first argument with a condition whose path has ``..``; empty if none has."""
        return next((name for name, _ in self.conditions if ascends(arguments.get(name))), "")


class Decision(Value, kw_only=True):
    """The decision of rules about a call, and the pattern that made it.

    ``ascending`` is the argument with ``..`` because of which a pattern may match.
    """

    action: Action
    pattern: str
    ascending: str = ""


class CallRules(Value, kw_only=True):
    """The parsed patterns of rules."""

    approve: tuple[Pattern, ...] = ()
    ask: tuple[Pattern, ...] = ()
    deny: tuple[Pattern, ...] = ()

    @classmethod
    def of(cls, rules: Rules) -> "CallRules":
        """Parses the patterns of rules. Errors: ``PatternInvalidity``."""
        approve, ask, deny = (tuple(map(Pattern.parse, texts)) for texts in (rules.approve, rules.ask, rules.deny))
        return cls(approve=approve, ask=ask, deny=deny)

    def decide(self, identity: str, effect: Effect, arguments: Mapping[str, Any]) -> Decision | None:
        """The decision of the strictest pattern that matches a call; None if none does."""
        for pattern in self.deny:
            if pattern.covers(identity, arguments):
                return Decision(action="deny", pattern=pattern.text, ascending=pattern.ascending(arguments))
        for pattern in self.ask:
            if pattern.covers(identity, arguments):
                return Decision(action="ask", pattern=pattern.text, ascending=pattern.ascending(arguments))
        for pattern in self.approve:
            if pattern.fits(identity, effect, arguments):
                return Decision(action="approve", pattern=pattern.text)
        return None

    def unapproved(self, identity: str, arguments: Mapping[str, Any]) -> str:
        """The argument with ``..`` because of which no pattern approves a call; empty if there is another reason."""
        tried = (pattern.ascending(arguments) for pattern in self.approve if pattern.meets(identity))
        return next(filter(None, tried), "")


def _kind(value: object) -> object:
    return "number" if type(value) in (int, float) else type(value)


@dataclasses.dataclass(slots=True)
class _Reader:
    text: str
    position: int = 0

    def pattern(self) -> Pattern:
        tool = self._until("(", ")")
        if not tool.strip():
            raise self._wrong("There is no tool")
        if self.position == len(self.text):
            return Pattern(text=self.text, tool=_unescaped(tool))
        if self.text[self.position] == ")":
            raise self._wrong("The closing parenthesis has no opening one", "In the name of a tool, write \\).")
        conditions: dict[str, Wanted] = {}
        while self.text[self.position] != ")":
            name, wanted = self._condition()
            if name in conditions:
                raise self._wrong(f"{name} has two values", "Write two patterns for two values.")
            conditions[name] = wanted
        if self.position != len(self.text) - 1:
            self.position += 1
            raise self._wrong("Text follows the last parenthesis")
        return Pattern(text=self.text, tool=_unescaped(tool).rstrip(), conditions=tuple(conditions.items()))

    def _condition(self) -> tuple[str, Wanted]:
        self.position += 1
        start = self.position
        name = self._until("=", ",)").strip()
        if not _NAME.match(name):
            self.position = start
            problem = f"{name!r} is not a name of an argument" if name else "The name of an argument is missing"
            raise self._wrong(problem)
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
                    raise self._wrong("The pattern ends with a backslash", "Write two for a literal one.")
                self.position += 1
            self.position += 1
        return self.text[start : self.position]

    def _wrong(self, message: str, hint: str = _FORM) -> PatternInvalidity:
        return PatternInvalidity(self.text, self.position, message, hint)


def _unescaped(tool: str) -> str:
    return tool.replace("\\(", "(").replace("\\)", ")")


def _trimmed(value: str) -> str:
    """A value without spaces around it, except an escaped one at its end."""
    stripped = value.strip(" \t")
    slashes = len(stripped) - len(stripped.rstrip("\\"))
    return f"{stripped} " if slashes % 2 else stripped


def _wanted(value: str) -> Wanted:
    if value in _WORDS:
        return Literally(_WORDS[value])
    if _NUMBER.match(value):
        return Literally(float(value) if "." in value else int(value))
    return Glob.of(value)
