"""Output of tables and JSON: plain columns for programs and files, drawn by rich on a terminal."""

import itertools
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ripieno.approvals.visible_text import visible
from ripieno.canisters.display import DANGEROUS, brief, clean
from ripieno.jsonvalues import thaw

#: Characters between two columns at a terminal, and those that are left to the columns that wrap.
_GAP = 3
_LEAST = 8


def print_json(value: Any) -> None:
    """Prints an indented JSON value with terminal control characters escaped. Mappings may be frozen."""
    text = json.dumps(thaw(value), indent=2, ensure_ascii=False)
    print(DANGEROUS.sub(lambda found: json.dumps(found[0])[1:-1], text))


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, whole: Sequence[str] = ()) -> None:
    """Prints rows under optional headers. Long texts are wrapped on a terminal only.

    The columns ``whole``, the first of them first, are not wrapped while the others have room beside them.
    """
    cells = [[clean(cell).replace("\n", " ") for cell in row] for row in rows]
    lines = [headers, *cells] if headers else cells
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    if sys.stdout.isatty():
        _draw(headers, cells, [(header, widths[headers.index(header)]) for header in whole])
        return
    for row in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def abbreviated(identifiers: Iterable[str], least: int) -> Mapping[str, str]:
    """Each identifier for people: its shortest beginning that no other one has, of ``least`` characters or more."""
    texts = {one: visible(one) for one in identifiers}
    known = sorted(set(texts.values()))
    alike = [0, *itertools.starmap(_alike, itertools.pairwise(known)), 0]
    short = {one: one[: max(least, 1 + max(alike[place : place + 2]))] for place, one in enumerate(known)}
    return {one: short[text] for one, text in texts.items()}


def _alike(one: str, other: str) -> int:
    """The number of characters with which both begin."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def described(text: str, *, full: bool = False) -> str:
    """A description for a table cell, on one line: shortened, or in ``full``."""
    return " ".join(text.split()) if full else brief(text)


def _draw(headers: Sequence[str], rows: Sequence[Sequence[str]], whole: Iterable[tuple[str, int]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD if headers else None, pad_edge=False, show_edge=False, show_header=bool(headers))
    console = Console()
    room = console.width - _GAP * (len(headers) - 1) - _LEAST
    # Rich would cut off what it may not wrap and has no room for.
    kept = {header for header, width in whole if (room := room - width) >= 0}
    for header in headers:
        table.add_column(header, overflow="fold", no_wrap=header in kept)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)
