"""Refusals of what an ensemble cannot do: a call without its connection, two tools of one name."""

from collections import Counter
from collections.abc import Iterable
from typing import Protocol, TypeVar

from ripieno.exceptions import InputError, ResourceFault


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_Defined = TypeVar("_Defined", bound=_Named)


def disconnected(ensemble: str, tool: str) -> ResourceFault:
    """The fault of a call after its ensemble was disconnected."""
    return ResourceFault(
        f"The tool {tool!r} cannot run: the ensemble {ensemble!r} is disconnected.",
        code="disconnected",
        suggestion="It is not reconnected automatically. Continue without its tools.",
    )


def without_doubles(ensemble: str, definitions: Iterable[_Defined]) -> tuple[_Defined, ...]:
    """The definitions. Errors: ``InputError`` if two of them have one name."""
    kept = tuple(definitions)
    for name, times in Counter(one.name for one in kept).items():
        if times > 1:
            raise InputError(f"The ensemble {ensemble!r} has {times} tools named {name!r}. Give each its own name.")
    return kept
