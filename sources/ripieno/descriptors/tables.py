"""Plain tables and lists: what they are, and how one table is laid over another."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from frozendict import frozendict

#: A table without keys.
EMPTY: frozendict[str, Any] = frozendict()


def is_table(value: object) -> TypeGuard[Mapping[Any, Any]]:
    """Whether a value is a table. Its keys are strings in TOML; a program may have anything."""
    return isinstance(value, dict) or isinstance(value, Mapping)  # noqa: SIM101  the second is ten times slower


def is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether a value is a list."""
    return isinstance(value, list | tuple)


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> frozendict[str, Any]:
    """``over`` laid over ``base``, level by level: later keys win, lists are replaced. As frozen as both were."""
    if not over:
        return base if isinstance(base, frozendict) else frozendict(base)
    merged = dict(base)
    for name, value in over.items():
        below = merged.get(name)
        merged[name] = merge(below, value) if is_table(value) and is_table(below) else value
    return frozendict(merged)
