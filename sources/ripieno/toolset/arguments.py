"""Checks of arguments, and plurals in messages. Pure."""

from collections.abc import Collection, Mapping
from typing import Any

from ripieno.exceptions import ValidationFault


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
