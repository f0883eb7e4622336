"""Parameters of a request that nobody here can honour: each is refused by its name, unless it asks for nothing.

A wire has one table of them. A request is looked through once; what no table has is read elsewhere, or changes nothing.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ripieno.exceptions import RequestInvalidity
from ripieno.jsonvalues import is_list
from ripieno.processors import Native

#: Looks at the value of a parameter, whose name comes first. Errors: ``RequestInvalidity``.
Check = Callable[[str, Any], None]
Checks = Mapping[str, Check]
#: How much of a value an error shows.
_SHOWN = 60


def check(native: Native, checks: Checks, within: str = "") -> None:
    """Refuses what a request asks for in vain; null asks for nothing. Errors: ``RequestInvalidity``.

    ``within`` is put before the names, for parameters of an object in the request.
    """
    for key, value in native.items():
        if value is not None and (judge := checks.get(key)) is not None:
            judge(within + key, value)


def refused(why: str) -> Check:
    """Refuses any value. ``why`` is a sentence in which ``{key}`` and ``{value}`` may stand."""

    def judge(key: str, value: Any) -> None:
        raise RequestInvalidity(why.format(key=key, value=_shown(value)), parameter=key)

    return judge


def unless(*harmless: Any, why: str) -> Check:
    """Refuses all values but these, which ask for nothing that is not done anyway."""
    refuse = refused(why)

    def judge(key: str, value: Any) -> None:
        if value not in harmless:
            refuse(key, value)

    return judge


def among(*known: str) -> Check:
    """Refuses a list that has anything but these words."""

    def judge(key: str, value: Any) -> None:
        if not is_list(value):
            raise RequestInvalidity(f"{key} is a list.", parameter=key)
        for one in value:
            if one not in known:
                raise RequestInvalidity(
                    f"{key} has {_shown(one)}, which nobody knows here; known are {', '.join(known)}.", parameter=key
                )

    return judge


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
