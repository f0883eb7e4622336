"""Checks of arguments, globs, and plurals in messages. Pure."""

import functools
from collections.abc import Collection, Mapping
from typing import Any

from ripieno.descriptors.rules.globs import Matcher, translate
from ripieno.exceptions import ValidationFault

#: Characters of a glob, and bytes of its compiled form.
_GLOB, _COMPILED = 1000, 256 * 1024


def refuse_unused(arguments: Mapping[str, Any], chosen: str, uses: Mapping[str, Collection[str]]) -> None:
    """Refuses arguments that the chosen mode does not use. ``uses`` are those of each mode; others belong to all.

    Modes are written like arguments: ``action = "list"``. False and an empty list count as absent. Errors:
    ``ValidationFault`` with the modes that use them.
    """
    choices = {
        name: [choice for choice, used in uses.items() if name in used] for used in uses.values() for name in used
    }
    unused = [name for name in choices if chosen not in choices[name] and _is_given(arguments.get(name, False))]
    if unused:
        fitting = [choice for choice in uses if all(choice in choices[name] for name in unused)]
        advice = f"give {' or '.join(fitting)}, or " if fitting else ""
        raise ValidationFault(
            f"{' and '.join(unused)} {'is' if len(unused) == 1 else 'are'} not used with {chosen}.",
            suggestion=f"Nothing was done: {advice}leave {'it' if len(unused) == 1 else 'them'} out.",
        )


def _is_given(value: object) -> bool:
    return value is not False and value not in ([], ())


def encoded(text: str, name: str, code: str = "invalid_content") -> bytes:
    """A text as UTF-8. Errors: ``ValidationFault`` for half of a surrogate pair."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValidationFault(
            f"The {name} contains half of a surrogate pair, at position {error.start}.", code=code
        ) from None


def several(number: int, what: str, many: str | None = None) -> str:
    """``1 byte``, ``2 bytes``, ``0 bytes``; ``many`` is an irregular plural."""
    return f"{number} {what if number == 1 else many or f'{what}s'}"


@functools.lru_cache(maxsize=256)
def matcher(glob: str, *, names: bool) -> Matcher:
    """Matches whole paths, or with ``names``, for a glob without slashes, their last names.

    Errors: ``ValidationFault`` with the defect of the glob.
    """
    check_glob(glob)
    expression = translate(glob.strip("/"))
    if names and "/" not in glob:
        expression = f"(?:.*/)?{expression}"
    return Matcher([expression])


def check_glob(glob: str) -> None:
    """Errors: ``ValidationFault`` for an invalid glob."""
    try:
        if not glob.strip("/"):
            raise ValueError("it is empty")
        if len(glob) > _GLOB:
            raise ValueError(f"it has more than {_GLOB} characters")
        if "\0" in glob or "\n" in glob:
            raise ValueError("it has a NUL or a line end")
        glob.encode()
        translate(glob.strip("/"))
        Matcher([translate(glob)], _COMPILED)
    except ValueError as error:
        reason = str(error) if type(error) is ValueError else "it is too large or has an invalid range"
        raise ValidationFault(
            f"The glob {glob[:200]!r} cannot be read: {reason}.",
            code="invalid_glob",
            suggestion="Use globs like '*.py', 'src/**/*.{js,ts}' or 'test_[a-z]*'; a backslash escapes a character.",
        ) from None
