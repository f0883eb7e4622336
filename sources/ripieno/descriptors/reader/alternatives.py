"""Texts with placeholders for arguments and variables, and lists of alternatives."""

from typing import Any, TypeAlias

from ripieno.descriptors.reader.kinds import INVALID, Several, Text, refuse
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems, subject
from ripieno.descriptors.templates import Template
from ripieno.exceptions import InputError
from ripieno.jsonvalues import is_list
from ripieno.values import Value

#: One text, or several alternatives; None if the key is absent.
Choice: TypeAlias = str | tuple[str, ...] | None
_ADVICE = 'Write a variable as "{env:NAME}", and a literal brace as "{{".'


class TemplateText(Value, kw_only=True):
    """A string that is a template; stored parsed. ``variables``: whether it may have ``{env:NAME}``."""

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


class Variables(Value, kw_only=True):
    """A text that may have variables but no arguments. It is stored as written."""

    expected: str = "a string, with {env:NAME} where a variable goes"
    text: Text = Text()

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        text = self.text.read(value, path, problems)
        if text is INVALID:
            return INVALID
        try:
            template = Template.parse(text, variables=True)
        except InputError:
            # The error's message would repeat the text, which may be a key.
            problems.add(path, f"{subject(path)} has braces that are not a variable", _ADVICE)
            return INVALID
        if template.placeholders:
            name = template.placeholders[0]
            problems.add(path, f"{{{name}}} in {subject(path)} is an argument, but there are no arguments", _ADVICE)
            return INVALID
        return text

    def schema(self) -> dict[str, Any]:
        return self.text.schema()


class Alternatives(Value, kw_only=True):
    """One text with variables, or a list of them, stored as a tuple. Only the last may have no variables."""

    expected: str = "a string, or a list of strings (the first whose variables are set is used)"
    several: Several = Several(Variables(), "strings", once=True)

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if isinstance(value, str):
            return self.several.item.read(value, path, problems)
        if not is_list(value):
            return refuse(self, value, path, problems)
        if not value:
            problems.add(path, f"{subject(path)} is an empty list", "Name a variable, or delete the key.")
            return INVALID
        texts = self.several.read(value, path, problems)
        if texts is INVALID:
            return INVALID
        for index, text in enumerate(texts[:-1]):
            if not variables_in(text):
                message = f"{subject((*path, index))} names no variable, so the strings after it are never used"
                problems.add((*path, index), message, "Put it last, or delete the others.")
                return INVALID
        return texts

    def schema(self) -> dict[str, Any]:
        one = self.several.item.schema()
        return {"anyOf": [one, {**self.several.schema(), "minItems": 1}]}


def alternatives(choice: Choice) -> tuple[str, ...]:
    """The alternatives, in their order."""
    return (choice,) if isinstance(choice, str) else choice or ()


def variables_in(text: str) -> tuple[str, ...]:
    """The variables of a text. Errors: ``InputError`` for a text that is not a template."""
    return Template.parse(text, variables=True).variables
