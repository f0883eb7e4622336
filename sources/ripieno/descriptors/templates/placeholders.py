"""Places in a template, and the values that fill them."""

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any

from ripieno.exceptions import InputError, ValidationFault

NO_VARIABLES: Mapping[str, str] = {}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Placeholder:
    """A place for the value of an argument, or of a variable."""

    name: str
    variable: bool = False

    def __str__(self) -> str:
        return f"{{env:{self.name}}}" if self.variable else f"{{{self.name}}}"


def read_place(token: str, where: str, variables: bool) -> Placeholder:
    """The place that a token in braces stands for. Errors: ``InputError`` that says where and what to write."""
    if token == "{":
        raise InputError(f'the brace {where} is never closed; write "{{{{" for a brace that is text')
    if token == "}":
        raise InputError(f'the brace {where} closes nothing; write "}}}}" for a brace that is text')
    prefix, colon, name = token[1:-1].rpartition(":")
    if not colon:
        if not _NAME.match(name):
            raise InputError(f"{token} {where} names no argument; an argument's place is {{name}}")
        return Placeholder(name=name)
    if prefix != "env" or not _VARIABLE.match(name):
        raise InputError(f"{token} {where} is no place; arguments are {{name}}, variables {{env:NAME}}")
    if not variables:
        raise InputError(f"{token} {where}: variables cannot be used here, where others could read them")
    return Placeholder(name=name, variable=True)


def value_of(place: Placeholder, arguments: Mapping[str, Any], variables: Mapping[str, str]) -> str:
    """What fills a place. Errors: as ``Template`` says."""
    if not place.variable:
        return scalar(place, arguments.get(place.name))
    if place.name not in variables:
        raise InputError(f"There is no variable {place.name}.")
    return scalar(place, variables[place.name])


def scalar(place: Placeholder, value: Any) -> str:
    """One value as text, which some encoding can write and C can hold. Errors: as ``Template`` says."""
    if value is None:
        raise refusal(place.name, "is needed", code="missing_required")
    if not isinstance(value, str | bool | int | float):
        raise refusal(place.name, "must be one value, not a list or an object", code="invalid_type")
    text = value if isinstance(value, str) else json.dumps(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise unfit(place, "has half of a surrogate pair, which no encoding can write") from None
    if "\0" in text:
        raise unfit(place, "may not contain NUL")
    return text


def unfit(place: Placeholder, problem: str) -> InputError | ValidationFault:
    """The error of whoever gave the value: the model, or the operator."""
    return InputError(f"The variable {place.name} {problem}.") if place.variable else refusal(place.name, problem)


def refusal(name: str, problem: str, suggestion: str | None = None, code: str = "invalid_value") -> ValidationFault:
    """What a model reads of an argument that does not fit its place."""
    return ValidationFault(
        f"The argument {name!r} {problem}.", code=code, details={"parameter": name}, suggestion=suggestion
    )
