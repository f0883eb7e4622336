"""Inserts lines, some only while their writer holds the conversation."""

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence

from frozendict import frozendict

from ripieno.storage.databases.contract import Connection, Fence
from ripieno.storage.journal.lines import Line
from ripieno.storage.journal.summaries import Key

#: All but the number, which the database gives.
_FIELDS = Line._fields[1:]
#: Lines written by one statement, which has a parameter for each field.
MOST = 1000


def insert(connection: Connection, lines: Sequence[Line], fences: Mapping[Key, Fence] = frozendict()) -> None:
    """Inserts lines at the ends of their conversations. Errors: ``Superseded`` of the fences."""
    for fence, part in _parts(lines, fences):
        values = [value for line in part for value in line[1:]]
        if fence is None:
            connection.execute(_insertion(len(part)), values)
        elif not connection.execute(_insertion(len(part), fence.query), (*fence.parameters, *values)).rowcount:
            raise fence.lost()


@functools.lru_cache(maxsize=32)
def _insertion(count: int, held: str | None = None) -> str:
    """The statement that inserts lines; where the query ``held`` has no row, it inserts none."""
    row = f"({', '.join('?' * len(_FIELDS))})"
    target, values = f"INSERT INTO lines ({', '.join(_FIELDS)})", f"VALUES {', '.join([row] * count)}"
    if held is None:
        return f"{target} {values}"
    return f"WITH held AS ({held}) {target} SELECT added.* FROM ({values}) AS added, held"


def _parts(lines: Sequence[Line], fences: Mapping[Key, Fence]) -> Iterator[tuple[Fence | None, Sequence[Line]]]:
    """The lines of one statement each, with their fence."""
    whole = itertools.groupby(lines, lambda line: fences.get((line.conversation, line.owner)))
    for fence, some in whole:
        part = list(some)
        for start in range(0, len(part), MOST):
            yield fence, part[start : start + MOST]
