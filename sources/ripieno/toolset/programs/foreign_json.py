"""JSON of foreign programs: unexpected values count as absent."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ripieno.jsonvalues import is_list, is_table


def parse(text: str | bytes) -> Any:
    """The value; None for invalid JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def table(value: object) -> Mapping[str, Any]:
    """The object; an empty one for anything else."""
    return value if is_table(value) else {}


def tables(value: object) -> Iterator[Mapping[str, Any]]:
    """The objects of an array; none for anything else."""
    return (one for one in value if is_table(one)) if is_list(value) else iter(())


def number(value: object) -> int | None:
    """The whole number; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def text(value: object) -> str | None:
    """The string; None for anything else."""
    return value if isinstance(value, str) else None
