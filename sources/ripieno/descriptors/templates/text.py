"""A template that fills one place with text."""

import dataclasses
import re
import urllib.parse
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ripieno.descriptors.templates.checks import Complaint, Declared
from ripieno.descriptors.templates.placeholders import NO_VARIABLES, Placeholder, read_place, refusal, unfit, value_of

_TOKEN = re.compile(r"[^{}]+|\{\{|\}\}|\{[^{}]*\}|.", re.DOTALL)
#: What a header may hold: visible ASCII, spaces and tabs (RFC 9110, section 5.5, without the obsolete bytes).
_HEADER = re.compile(r"[\t\x20-\x7e]*\Z")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A parsed template. The methods that expand it are named after the place that they fill.

    All of them raise ``ValidationFault``, naming the argument, for a value that does not fit the place, and
    ``InputError`` for a variable that is missing or does not fit.
    """

    parts: tuple[str | Placeholder, ...] = ()

    @classmethod
    def parse(cls, text: str, *, variables: bool = False) -> "Template":
        """Errors: ``InputError`` with the character, from 1, at which the text stops making sense."""
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
        """The arguments it has places for, each once, in order."""
        return self._names(variable=False)

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables it has places for, each once, in order."""
        return self._names(variable=True)

    @property
    def literal(self) -> str | None:
        """Its text, when it has no places."""
        return None if self.placeholders or self.variables else "".join(map(str, self.parts))

    @property
    def beginning(self) -> str:
        """The text before the first place."""
        return self.parts[0] if self.parts and isinstance(self.parts[0], str) else ""

    def _names(self, *, variable: bool) -> tuple[str, ...]:
        places = (part for part in self.parts if isinstance(part, Placeholder))
        return tuple(dict.fromkeys(place.name for place in places if place.variable is variable))

    def text(self, arguments: Mapping[str, Any], variables: Mapping[str, str] = NO_VARIABLES) -> str:
        """For a place that takes any text without NUL: standard input, or a variable in a process's environment."""
        return self._fill(arguments, variables, lambda _, value: value)

    def element(self, arguments: Mapping[str, Any], *, terminated: bool = False) -> str:
        """For one element of an argv. ``terminated``: a literal ``--`` stands before it, so ``-`` begins no option."""
        text = self.text(arguments)
        if terminated or not text.startswith("-") or not self.placeholders:
            return text
        if not self.beginning:
            raise refusal(
                self.placeholders[0],
                f"may not begin with '-': {text!r} would be taken for an option",
                "If it is a path, write ./ before it.",
            )
        if text == self.beginning and not text.startswith("--"):
            # An option such as -C5 that has lost its value takes the next element for it.
            raise refusal(self.placeholders[0], "may not be empty")
        return text

    def segment(self, arguments: Mapping[str, Any]) -> str:
        """For one segment of a URL's path. Values are percent-encoded; a segment that climbs or vanishes is refused."""
        text = self._fill(arguments, NO_VARIABLES, lambda _, value: urllib.parse.quote(value, safe=""))
        if text in ("", ".", "..") and self.placeholders:
            raise refusal(self.placeholders[0], f"cannot stand in a path: it would become {text!r}")
        return text

    def query(self, arguments: Mapping[str, Any], variables: Mapping[str, str] = NO_VARIABLES) -> str:
        """For one value of a URL's query; all of it percent-encoded, the literal text too."""
        return urllib.parse.quote(self.text(arguments, variables), safe="")

    def header(self, arguments: Mapping[str, Any], variables: Mapping[str, str] = NO_VARIABLES) -> str:
        """For the value of one header: ASCII without control characters."""

        def check(place: Placeholder, value: str) -> str:
            if not _HEADER.match(value):
                problem = "has characters that a header cannot hold: only ASCII without control characters fits"
                raise unfit(place, problem)
            return value

        return self._fill(arguments, variables, check)

    def _fill(
        self,
        arguments: Mapping[str, Any],
        variables: Mapping[str, str],
        encode: Callable[[Placeholder, str], str],
    ) -> str:
        return "".join(
            part if isinstance(part, str) else encode(part, value_of(part, arguments, variables)) for part in self.parts
        )

    def check(self, schema: Mapping[str, Any], given: Collection[str] = ()) -> tuple[Complaint, ...]:
        """What is wrong with its places for arguments of this JSON Schema; ``given`` always have a value."""
        return tuple(Declared.of(schema, given).complain_all(self.placeholders, ()))
