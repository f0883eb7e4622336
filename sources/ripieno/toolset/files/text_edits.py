"""Replacement of a text in another, with help when it is not found. Pure text, no files.

Source of the argument ``occurrence``: seed 000, section 3.2.4. Left out, the text must be unique.
"""

import bisect
import difflib
from collections.abc import Sequence

from ripieno.exceptions import ValidationFault
from ripieno.values import Value

#: Lines searched for those most similar to a missing one, and characters compared of each.
_COMPARED = 5_000
_LINE = 400
#: Matches listed by line.
_NAMED = 12
_SHOWN_LINES = 12


class Edited(Value, kw_only=True):
    """The text after an edit, and the lines at which its replacements begin."""

    text: str
    lines: tuple[int, ...]


def edit(text: str, old: str, new: str, occurrence: str | None, path: str) -> Edited:
    """Replaces ``old`` by ``new``: "first", "last", "all", or, with None, the only occurrence.

    Errors: ``ValidationFault``: no occurrence, with similar lines; several, with their lines.
    """
    if not old:
        raise ValidationFault(
            "old_content is empty.", code="invalid_content", suggestion="Give the text to replace, or use write_file."
        )
    if old == new:
        raise ValidationFault("old_content and new_content are the same: nothing would change.", code="no_change")
    found = _find(text, old)
    if not found:
        raise _missing(text, old, path)
    if occurrence is None and len(found) > 1:
        lines = _lines_of(text, found)
        raise ValidationFault(
            f"{path!r} has old_content {len(found)} times, at lines {listed(lines)}.",
            code="ambiguous",
            details={"lines": list(lines[:1000])},
            suggestion='Give more of the text around it, or occurrence = "first", "last" or "all".',
        )
    chosen = {"first": found[:1], "last": found[-1:]}.get(occurrence or "", found)
    pieces: list[str] = []
    starts: list[int] = []
    position = length = 0
    for start in chosen:
        pieces += (text[position:start], new)
        length += start - position
        starts.append(length)
        length += len(new)
        position = start + len(old)
    pieces.append(text[position:])
    after = "".join(pieces)
    return Edited(text=after, lines=tuple(_lines_of(after, starts)))


def excerpt(text: str, first: int, count: int) -> str:
    """Numbered lines of a text, with one more before and after, at most a dozen."""
    lines = text.split("\n")
    begin, end = max(1, first - 1), min(len(lines), first + count)
    shown = range(begin, min(end, begin + _SHOWN_LINES - 1) + 1)
    rows = [f"{number:>6} | {lines[number - 1]}".rstrip() for number in shown]
    return "\n".join([*rows, "       ..."] if shown[-1] < end else rows)


def _find(text: str, old: str) -> list[int]:
    """The positions of ``old``, without overlaps."""
    found: list[int] = []
    position = text.find(old)
    while position >= 0:
        found.append(position)
        position = text.find(old, position + len(old))
    return found


def _lines_of(text: str, positions: Sequence[int]) -> list[int]:
    """The line numbers of ascending positions."""
    lines: list[int] = []
    line, last = 1, 0
    for position in positions:
        line += text.count("\n", last, position)
        last = position
        lines.append(line)
    return lines


def listed(lines: Sequence[int]) -> str:
    """The first dozen of line numbers."""
    more = f" and {len(lines) - _NAMED} more" if len(lines) > _NAMED else ""
    return ", ".join(map(str, lines[:_NAMED])) + more


def _missing(text: str, old: str, path: str) -> ValidationFault:
    message = f"{path!r} does not have old_content."
    suggestion = "Read the file again, and give the text exactly as it is there."
    details: dict[str, object] = {}
    if "\r\n" in text and "\r" not in old and old.replace("\n", "\r\n") in text:
        message += " It differs only in line ends: the file's lines end with \\r\\n, not with \\n."
        suggestion = "Write \\r\\n at the end of each line of old_content and new_content."
    elif at := _spaced(text, old):
        first, last = at
        message += (
            f" Lines {first} to {last} differ from it only in white space:\n{excerpt(text, first, last - first + 1)}"
        )
        suggestion = "Give the white space exactly as it is there: tabs, spaces, and indentation."
        details = {"first": first, "last": last}
    elif near := _nearest(text, old):
        rows = "\n".join(f"{number:>6} | {line[:_LINE]}".rstrip() for number, line in near)
        message += f" Lines most similar to its first line:\n{rows}"
        details = {"lines": [number for number, _ in near]}
    return ValidationFault(message, code="no_match", details=details, suggestion=suggestion)


def _spaced(text: str, old: str) -> tuple[int, int] | None:
    """The first and last line of a text that equals ``old`` except for white space; None without one."""
    squeezed, numbers = list[str](), list[int]()
    position = 0
    starts: list[int] = []
    for number, line in enumerate(text.split("\n"), 1):
        if kept := "".join(line.split()):
            starts.append(position)
            numbers.append(number)
            squeezed.append(kept)
            position += len(kept)
    wanted = "".join(old.split())
    at = "".join(squeezed).find(wanted) if wanted else -1
    if at < 0:
        return None
    first = numbers[bisect.bisect_right(starts, at) - 1]
    return first, numbers[bisect.bisect_right(starts, at + len(wanted) - 1) - 1]


def _nearest(text: str, old: str) -> list[tuple[int, str]]:
    """The lines most similar to the first nonblank line of ``old``."""
    wanted = next((line.strip() for line in old.split("\n") if line.strip()), "")[:_LINE]
    lines = [(number, line) for number, line in enumerate(text.split("\n")[:_COMPARED], 1) if line.strip()]
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted)
    scored: list[tuple[float, int, str]] = []
    for number, line in lines:
        matcher.set_seq1(line.strip()[:_LINE])
        if matcher.real_quick_ratio() > 0.5 and matcher.quick_ratio() > 0.5 and (ratio := matcher.ratio()) > 0.5:
            scored.append((-ratio, number, line))
    return [(number, line) for _, number, line in sorted(scored)[:3]]
