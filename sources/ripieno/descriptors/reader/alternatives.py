"""Texts with places for arguments and variables; and lists of them, of which the first counts that is complete."""

import dataclasses
from typing import Any, TypeAlias

from ripieno.descriptors.reader.kinds import INVALID, Several, Text, refuse
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems, subject
from ripieno.descriptors.templates import Template
from ripieno.exceptions import InputError
from ripieno.jsonvalues import is_list

#: One text, or several to choose from; None where the key was left out.
Choice: TypeAlias = str | tuple[str, ...] | None
_ADVICE = 'Variables are "{env:NAME}"; write "{{" for a brace that is text.'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TemplateText:
    """A string that is a template; kept parsed. ``variables``: whether it may have ``{env:NAME}``."""

    variables: bool = False

    @property
    def expected(self) -> str:
        return "a string, with {argument}" + (" and {env:NAME}" if self.variables else "") + " where values go"

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if not isinstance(value, str):
            return refuse(self, value, path, problems)
        try:
            return Template.parse(value, variables=self.variables)
        except InputError as error:
            problems.add(path, str(error))
            return INVALID

    def schema(self) -> dict[str, Any]:
        return {"type": "string"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Variables:
    """A text in which variables may stand, and nothing else may. It is kept as it is written."""

    expected: str = "a string, with {env:NAME} where a variable goes"
    text: Text = Text()  # noqa: RUF009  frozen

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        text = self.text.read(value, path, problems)
        if text is INVALID:
            return INVALID
        try:
            template = Template.parse(text, variables=True)
        except InputError:
            # Its own words would repeat the text, which may be a key.
            problems.add(path, f"{subject(path)} has braces that stand for no variable", _ADVICE)
            return INVALID
        if template.placeholders:
            message = (
                f"{{{template.placeholders[0]}}} in {subject(path)} is the place of an argument, and there are none"
            )
            problems.add(path, message, _ADVICE)
            return INVALID
        return text

    def schema(self) -> dict[str, Any]:
        return self.text.schema()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Alternatives:
    """One such text, or a list of them, kept as a tuple. Only the last may do without variables: it always counts."""

    expected: str = "a string, or a list of strings of which the first counts whose variables are set"
    several: Several = Several(item=Variables(), items="strings", once=True)  # noqa: RUF009  frozen

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if isinstance(value, str):
            return self.several.item.read(value, path, problems)
        if not is_list(value):
            return refuse(self, value, path, problems)
        if not value:
            problems.add(path, f"{subject(path)} is an empty list", "Name a variable, or leave the key out.")
            return INVALID
        texts = self.several.read(value, path, problems)
        if texts is INVALID:
            return INVALID
        for index, text in enumerate(texts[:-1]):
            if not variables_in(text):
                message = f"{subject((*path, index))} names no variable, so what follows it never counts"
                problems.add((*path, index), message, "Put it last, or delete the others.")
                return INVALID
        return texts

    def schema(self) -> dict[str, Any]:
        one = self.several.item.schema()
        return {"anyOf": [one, {**self.several.schema(), "minItems": 1}]}


def alternatives(choice: Choice) -> tuple[str, ...]:
    """The texts to choose from, in their order."""
    return (choice,) if isinstance(choice, str) else choice or ()


def variables_in(text: str) -> tuple[str, ...]:
    """The variables that a text names. Errors: ``InputError`` for one that was not read by ``Variables``."""
    return Template.parse(text, variables=True).variables
