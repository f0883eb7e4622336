"""A template of one text."""

import re
import urllib.parse
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ripieno.descriptors.templates.checks import Complaint, Declared
from ripieno.descriptors.templates.placeholders import Placeholder, read_place, refusal, unfit, value_of
from ripieno.jsonvalues import EMPTY
from ripieno.lazy.expressions import expression
from ripieno.values import Value

_TOKEN = expression(r"[^{}]+|\{\{|\}\}|\{[^{}]*\}|.", re.DOTALL)
#: The value of a header: visible ASCII, spaces and tabs (RFC 9110, section 5.5, without the obsolete bytes).
_HEADER = expression(r"[\t\x20-\x7e]*\Z")


class Template(Value, kw_only=True):
    """A parsed template. The methods that expand it are named after the place that they fill.

    Errors of these methods: ``ValidationFault``, with the argument's name, for a value that does not fit the place;
    ``InputError`` for a variable that is missing or does not fit.
    """

    parts: tuple[str | Placeholder, ...] = ()

    @classmethod
    def parse(cls, text: str, *, variables: bool = False) -> "Template":
        """Parses a text. Errors: ``InputError`` with the character, from 1, of the first error."""
        parts: list[str | Placeholder] = []
        for match in _TOKEN.finditer(text):
            token = match.group()
            if token in ("{{", "}}") or token[0] not in "{}":
                literal = token[0] if token in ("{{", "}}") else token
                if parts and isinstance(parts[-1], str):
                    parts[-1] += literal
                else:
                    parts.append(literal)
            else:
                parts.append(read_place(token, f"at character {match.start() + 1} of {text!r}", variables))
        return cls(parts=tuple(parts))

    @property
    def placeholders(self) -> tuple[str, ...]:
        """The arguments of its placeholders, each once, in order."""
        return self._names(variable=False)

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of its placeholders, each once, in order."""
        return self._names(variable=True)

    @property
    def literal(self) -> str | None:
        """Its text; None if it has placeholders."""
        return None if self.placeholders or self.variables else "".join(map(str, self.parts))

    @property
    def beginning(self) -> str:
        """The text before the first placeholder."""
        return self.parts[0] if self.parts and isinstance(self.parts[0], str) else ""

    def _names(self, *, variable: bool) -> tuple[str, ...]:
        places = (part for part in self.parts if isinstance(part, Placeholder))
        return tuple(dict.fromkeys(place.name for place in places if place.variable is variable))

    def text(self, arguments: Mapping[str, Any], variables: Mapping[str, str] = EMPTY) -> str:
        """Any text without NUL, for standard input or a variable in a process's environment."""
        return self._fill(arguments, variables, lambda _, value: value)

    def element(self, arguments: Mapping[str, Any], *, terminated: bool = False) -> str:
        """One element of an argv. ``terminated``: it follows a literal ``--``, so that ``-`` begins no option."""
        text = self.text(arguments)
        if terminated or not text.startswith("-") or not self.placeholders:
            return text
        if not self.beginning:
            name = self.placeholders[0]
            # Also after an option: which options take a value is not known here, so -5 may be an option of its own.
            advice = (
                "If it is a path, write ./ before it."
                if isinstance(arguments.get(name), str)
                else "The author of this tool can allow negative numbers: write an option and its number as one "
                f'element, such as "--number={{{name}}}", or "--" before the number.'
            )
            raise refusal(name, f"must not begin with '-': {text!r} would be read as an option", advice)
        if text == self.beginning and not text.startswith("--"):
            # An option such as -C5 without its value would take the next element as the value.
            raise refusal(self.placeholders[0], "must not be empty")
        return text

    def segment(self, arguments: Mapping[str, Any]) -> str:
        """One segment of a URL's path, with values percent-encoded. Empty segments, ``.`` and ``..`` are refused."""
        text = self._fill(arguments, EMPTY, lambda _, value: urllib.parse.quote(value, safe=""))
        if text in ("", ".", "..") and self.placeholders:
            raise refusal(self.placeholders[0], f"cannot be used in a path: the segment would be {text!r}")
        return text

    def query(self, arguments: Mapping[str, Any], variables: Mapping[str, str] = EMPTY) -> str:
        """One value of a URL's query, percent-encoded including the literal text."""
        return urllib.parse.quote(self.text(arguments, variables), safe="")

    def header(self, arguments: Mapping[str, Any], variables: Mapping[str, str] = EMPTY) -> str:
        """The value of one header: ASCII without control characters."""

        def check(place: Placeholder, value: str) -> str:
            if not _HEADER.match(value):
                raise unfit(place, "has characters that a header cannot contain: use ASCII without control characters")
            return value

        return self._fill(arguments, variables, check)

    def _fill(
        self, arguments: Mapping[str, Any], variables: Mapping[str, str], encode: Callable[[Placeholder, str], str]
    ) -> str:
        return "".join(
            part if isinstance(part, str) else encode(part, value_of(part, arguments, variables)) for part in self.parts
        )

    def check(self, schema: Mapping[str, Any], given: Collection[str] = ()) -> tuple[Complaint, ...]:
        """The problems of its placeholders with a JSON Schema of arguments; those in ``given`` always have a value."""
        return tuple(Declared.of(schema, given).complain_all(self.placeholders, ()))
