"""Matching lines with their context, read in small pieces of files of any size."""

import os
from collections.abc import Iterator, Sequence

from ripieno.toolset.files.session import printable
from ripieno.toolset.search.query import Spot

#: Bytes shown of a line, and of these before the match; bytes read around a line.
WIDTH, _BEFORE, _AROUND = 500, 100, 16 * 1024
_CUT = "[...]"


def excerpt(descriptor: int, path: str, spots: Sequence[Spot], around: int) -> Iterator[str]:
    """``path:12: text`` for each matching line, ``path-13- text`` for its context, ``--`` between groups."""
    lines: dict[int, tuple[bool, str]] = {}
    for spot in spots:
        for number, fits, text in _near(descriptor, spot, around):
            if fits or number not in lines:
                lines[number] = fits, text
    shown = printable(path)
    last = 0
    for number in sorted(lines):
        if around and last and number > last + 1:
            yield "--"
        last = number
        mark = ":" if lines[number][0] else "-"
        yield f"{shown}{mark}{number}{mark} {lines[number][1]}".rstrip(" ")


def _near(descriptor: int, spot: Spot, around: int) -> Iterator[tuple[int, bool, str]]:
    """The line of a match and its context: number, whether it is the line itself, text."""
    if around:
        begin = max(0, spot.offset - _AROUND)
        before = os.pread(descriptor, spot.offset - begin, begin).split(b"\n")[:-1]
        before = before[-around:] if begin == 0 or len(before) > around else [_CUT.encode() + before[0], *before[1:]]
        for index, line in enumerate(before[-around:]):
            yield spot.number - len(before[-around:]) + index, False, _shorten(line, 0)
    after = os.pread(descriptor, _AROUND, spot.offset).split(b"\n")
    if len(after) == 1 and len(after[0]) == _AROUND:
        # The line is longer than the read part: the match may be far in it.
        start = max(0, spot.column - _BEFORE)
        piece = os.pread(descriptor, WIDTH + 1, spot.offset + start).split(b"\n")[0]
        yield spot.number, True, (_CUT if start else "") + _shorten(piece, 0)
        return
    yield spot.number, True, _shorten(after[0], spot.column)
    for index, line in enumerate(after[1 : around + 1], 1):
        if index < len(after) - 1 or line:
            yield spot.number + index, False, _shorten(line, 0)


def _shorten(line: bytes, column: int) -> str:
    line = line.removesuffix(b"\r")
    if len(line) <= WIDTH:
        return line.decode(errors="replace")
    start = max(0, min(column - _BEFORE, len(line) - WIDTH))
    text = line[start : start + WIDTH].decode(errors="replace").strip("\ufffd")
    return f"{_CUT if start else ''}{text}{_CUT if start + WIDTH < len(line) else ''}"
