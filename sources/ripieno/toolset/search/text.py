"""Text search in files, with ripgrep or without it: the same files, lines and messages.

Source of names and arguments: seed 000, sections 3.2.5 and 11.3. Hidden and ignored files are searched only if named or
requested; binary files never are.
"""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ripieno.ensembles import Context
from ripieno.ensembles.threads import run_in_thread
from ripieno.exceptions import ResourceFault, ToolFault
from ripieno.origins.command.outcomes import MARK
from ripieno.sandbox.capture import Capture
from ripieno.toolset.arguments import check_glob, several
from ripieno.toolset.files.session import BINARY_PROBE, open_workspace, printable
from ripieno.toolset.search import expressions
from ripieno.toolset.search.python import Fallback
from ripieno.toolset.search.query import (
    FILE_BYTES,
    Query,
    SearchDeadlines,
    Spot,
    Tally,
    find,
    late,
    names_hidden,
)
from ripieno.toolset.search.ripgrep import Ripgrep, program
from ripieno.toolset.workspace.tree import left_out_by_rules
from ripieno.toolset.workspace.workspace import Workspace

#: Signs that a literal was intended as an expression.
_EXPRESSION_SIGNS = (".*", ".+", "\\s", "\\w", "\\d", "\\b", "|", "\\(", "\\.")


#: Files that are listed without their lines.
_NAMED = 20
#: Bytes shown of a line, and of these before the match; bytes read around a line.
_WIDTH, _BEFORE, _AROUND = 500, 100, 16 * 1024
_CUT = "[...]"


async def search(context: Context, arguments: Mapping[str, Any]) -> str:
    """The matching lines, grouped by file and sorted by path: ``path:line: text``, context with hyphens instead.

    The first line has the counts and the engine. Errors: those of ``Workspace`` for the path; ``ValidationFault`` for
    an invalid pattern or glob, with the position; ``TimeoutFault`` with partial results.
    """
    deadlines = SearchDeadlines.of(context)
    query = await run_in_thread(_query, context, arguments, name="search", patient=False)
    # ripgrep knows no rules, and what it counts would tell of what they leave out.
    path = program(context) if context.barred is None else None
    engine = Fallback(context) if path is None else Ripgrep(context, path)
    most: int = arguments.get("max_results", 50)
    tally = await engine.count(query, deadlines)
    chosen = _choose(tally.counts, most)
    if tally.late and query.file is not None and not chosen:
        chosen = [query.file]  # A file too large to be counted may have matches at its beginning.
    located = await engine.locate(query, chosen, most, deadlines)
    seen = {one: spots for one, spots in located.spots.items() if spots or not (tally.late or located.late)}
    lines = await run_in_thread(_show, context, query, seen, most, arguments.get("context_lines", 2))
    if not (tally.late or located.late):
        return "\n".join(_about(query, tally, engine, lines, most))
    raise late(deadlines, _within(_so_far(query, tally, seen, lines), context.invoker.policy.output // 2 - MARK))


def _within(text: str, limit: int) -> str:
    """As much of a text as ``limit`` bytes take, since a fault has it twice."""
    capture = Capture(max(limit, 0))
    capture.feed(text.encode(errors="replace"))
    return capture.captured().text


def _so_far(query: Query, tally: Tally, seen: Collection[str], lines: Sequence[str]) -> str:
    """The results before time was up; empty without any."""
    total, files = sum(tally.counts.values()), len(tally.counts)
    if not total and not lines:
        return ""
    found = f"At least {several(total, 'line')} in {several(files, 'file')}" if total else "Lines"
    rows = [f"{found} with {query.pattern[:200]!r}", *lines]
    more = [path for path in sorted(tally.counts, key=os.fsencode) if path not in seen]
    if more:
        shown = ", ".join(f"{printable(path)} ({several(tally.counts[path], 'line')})" for path in more[:_NAMED])
        rows.append(f"[Not shown: {shown}{f', and {len(more) - _NAMED} more' if len(more) > _NAMED else ''}]")
    return "\n".join(rows)


def _query(context: Context, arguments: Mapping[str, Any]) -> Query:
    pattern: str = arguments["pattern"]
    literal = arguments.get("type", "literal") == "literal"
    expressions.check(pattern, literal=literal)
    include: str | None = arguments.get("include_pattern") or None
    exclude: str | None = arguments.get("exclude_pattern") or None
    for glob in (include, exclude):
        if glob is not None:
            check_glob(glob)
    with open_workspace(context) as workspace:
        directory, file = find(context, workspace, arguments.get("path", "."))
        if file is not None:
            _check_text(workspace, f"{directory}/{file}")
    return Query(
        pattern=pattern,
        directory=directory,
        file=file,
        literal=literal,
        case_sensitive=arguments.get("case_sensitive", True),
        include=include,
        exclude=exclude,
        hidden=arguments.get("include_hidden", False) or names_hidden(include),
        ignored=arguments.get("include_ignored", False),
    )


def _check_text(workspace: Workspace, path: str) -> None:
    """Errors: ``ResourceFault`` for a named file that cannot be searched."""
    with workspace.open_file(path) as opened:
        size = os.fstat(opened.fileno()).st_size
        binary = b"\0" in opened.peek(BINARY_PROBE)[:BINARY_PROBE]
    shown = path.removeprefix("./")
    if binary:
        raise ResourceFault(
            f"{shown!r} is a binary file of {several(size, 'byte')}, not text.",
            code="binary_file",
            details={"size": size},
            suggestion="Search a text file or a directory.",
        )
    if size > FILE_BYTES:
        raise ResourceFault(
            f"{shown!r} has {size} bytes; files of at most {FILE_BYTES} can be searched.",
            code="too_large",
            details={"size": size, "limit": FILE_BYTES},
            suggestion="Search with a program that reads it as a stream, such as grep with bash.",
        )


def _choose(counts: Mapping[str, int], most: int) -> Sequence[str]:
    """The first files by path that have that many lines together."""
    chosen: list[str] = []
    total = 0
    for path in sorted(counts, key=os.fsencode):
        if total >= most:
            break
        chosen.append(path)
        total += counts[path]
    return chosen


def _show(context: Context, query: Query, spots: Mapping[str, Sequence[Spot]], most: int, around: int) -> list[str]:
    """The lines of each file, read now beneath the workspace; an empty line between files."""
    lines: list[str] = []
    with open_workspace(context) as workspace:
        for path, found in spots.items():
            shown = found[:most]
            most -= len(shown)
            full = path if query.directory == "." else f"{query.directory}/{path}"
            try:
                with workspace.open_found(full) as file:
                    part = list(_excerpt(file.fileno(), full, shown, around))
            except (ToolFault, OSError):
                part = []
            part = part or [f"{printable(full)}: it was changed during the search"]
            lines += ["", *part] if lines and around else part
    return lines


def _about(query: Query, tally: Tally, engine: Fallback | Ripgrep, lines: Sequence[str], most: int) -> list[str]:
    total, files = sum(tally.counts.values()), len(tally.counts)
    where = engine.name
    if query.file is None and tally.searched is not None:
        where = f"{several(tally.searched, 'file')} searched, {engine.name}"
    found = f"{several(total, 'line')} in {several(files, 'file')}" if total else "No line"
    rows = [f"{found} with {query.pattern[:200]!r} ({where})", *lines]
    if total > most:
        rows.append(f"[... {total - most} more: raise max_results, or search less ...]")
    if tally.binary:
        rows.append(f"[{several(tally.binary, 'binary file')} left out]")
    rows += left_out_by_rules(tally.barred)
    if tally.partial:
        rows.append("[Some files could not be read.]")
    if not total and query.literal and any(one in query.pattern for one in _EXPRESSION_SIGNS):
        rows.append('[The pattern was literal. For a regular expression, set type = "regex".]')
    return rows


def _excerpt(descriptor: int, path: str, spots: Sequence[Spot], around: int) -> Iterator[str]:
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
        piece = os.pread(descriptor, _WIDTH + 1, spot.offset + start).split(b"\n")[0]
        yield spot.number, True, (_CUT if start else "") + _shorten(piece, 0)
        return
    yield spot.number, True, _shorten(after[0], spot.column)
    for index, line in enumerate(after[1 : around + 1], 1):
        if index < len(after) - 1 or line:
            yield spot.number + index, False, _shorten(line, 0)


def _shorten(line: bytes, column: int) -> str:
    line = line.removesuffix(b"\r")
    if len(line) <= _WIDTH:
        return line.decode(errors="replace")
    start = max(0, min(column - _BEFORE, len(line) - _WIDTH))
    text = line[start : start + _WIDTH].decode(errors="replace").strip("\ufffd")
    return f"{_CUT if start else ''}{text}{_CUT if start + _WIDTH < len(line) else ''}"
