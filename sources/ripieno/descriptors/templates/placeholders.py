"""Placeholders of a template, and the values that fill them."""

import json
from collections.abc import Mapping
from typing import Any

from ripieno.exceptions import InputError, ValidationFault
from ripieno.lazy.expressions import expression
from ripieno.values import Value

_NAME = expression(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
_VARIABLE = expression(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Placeholder(Value, kw_only=True):
    """A placeholder for the value of an argument or a variable."""

    name: str
    variable: bool = False

    def __str__(self) -> str:
        return f"{{env:{self.name}}}" if self.variable else f"{{{self.name}}}"


def read_place(token: str, where: str, variables: bool) -> Placeholder:
    """The placeholder of a token in braces. Errors: ``InputError`` with the place and what to write."""
    if token == "{":
        raise InputError(f'the brace {where} is never closed; write "{{{{" for a literal brace')
    if token == "}":
        raise InputError(f'the brace {where} closes nothing; write "}}}}" for a literal brace')
    prefix, colon, name = token[1:-1].rpartition(":")
    if not colon:
        if not _NAME.match(name):
            raise InputError(
                f'{token} {where} names no argument; write an argument as {{name}}, a literal brace as "{{{{"'
            )
        return Placeholder(name=name)
    if prefix != "env" or not _VARIABLE.match(name):
        forms = 'arguments are {name}, variables {env:NAME}, a literal brace is "{{"'
        raise InputError(f"{token} {where} is not a placeholder; {forms}")
    if not variables:
        raise InputError(f"{token} {where}: variables are not allowed here, because others could read them")
    return Placeholder(name=name, variable=True)


def value_of(place: Placeholder, arguments: Mapping[str, Any], variables: Mapping[str, str]) -> str:
    """The value of a placeholder. Errors: see ``Template``."""
    if not place.variable:
        return scalar(place, arguments.get(place.name))
    if place.name not in variables:
        raise InputError(f"The variable {place.name} is not set.")
    return scalar(place, variables[place.name])


def scalar(place: Placeholder, value: Any) -> str:
    """One value as text without lone surrogates and NUL. Errors: see ``Template``."""
    if value is None:
        raise refusal(place.name, "is required", code="missing_required")
    if not isinstance(value, str | bool | int | float):
        raise refusal(place.name, "must be one value, not a list or an object", code="invalid_type")
    text = value if isinstance(value, str) else json.dumps(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise unfit(place, "has half of a surrogate pair, which cannot be encoded") from None
    if "\0" in text:
        raise unfit(place, "must not contain NUL")
    return text


def unfit(place: Placeholder, problem: str) -> InputError | ValidationFault:
    """The error for the author of the value: the operator of a variable, or the model of an argument."""
    return InputError(f"The variable {place.name} {problem}.") if place.variable else refusal(place.name, problem)


def refusal(name: str, problem: str, suggestion: str | None = None, code: str = "invalid_value") -> ValidationFault:
    """The fault of an argument that does not fit its placeholder."""
    return ValidationFault(
        f"The argument {name!r} {problem}.", code=code, details={"parameter": name}, suggestion=suggestion
    )
