"""The search engine without ripgrep: the same files and lines, some ten times slower.

Of a line longer than the engine's block, only the beginning is searched for an expression.
"""

import asyncio
import errno
import functools
import itertools
import os
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from ripieno.ensembles import Context
from ripieno.ensembles.threads import run_in_thread
from ripieno.exceptions import ToolFault
from ripieno.toolset.files.session import open_workspace
from ripieno.toolset.search.expressions import Expression
from ripieno.toolset.search.gitignore import Filter, Globs
from ripieno.toolset.search.query import (
    COUNTED_BYTES,
    FILE_BYTES,
    Located,
    Query,
    SearchDeadlines,
    Spot,
    Tally,
    late,
    rules_above,
)
from ripieno.toolset.workspace.entries import SAFELY
from ripieno.toolset.workspace.tree import MAX_DEPTH, Shown, Visit, everything, visit
from ripieno.toolset.workspace.workspace import Workspace

#: Bytes read at a time, and bytes of the longest line that is searched as a whole.
_BLOCK, _LINE = 1 << 20, 10 << 20
#: A timer may be early by the resolution of its clock, and late by a turn of the loop.
_EARLY = 0.05
#: Errors of links, sockets and deleted files, which are not searched.
_NOTHING = (errno.ELOOP, errno.ENXIO, errno.ENOENT)

Answer = TypeVar("Answer")


class Fallback:
    """The search engine in Python: all matches are counted, then the first lines of some files are located.

    Results are read again, by descriptors, before they are shown. Errors of both: ``ToolFault``.
    """

    name = "without ripgrep"

    def __init__(self, context: Context) -> None:
        self._context = context

    async def count(self, query: Query, deadlines: SearchDeadlines) -> Tally:
        return await self._in_thread(functools.partial(_count, self._context, query), deadlines, deadlines.counting)

    async def locate(self, query: Query, paths: Sequence[str], most: int, deadlines: SearchDeadlines) -> Located:
        function = functools.partial(_locate, self._context, query, paths, most)
        return await self._in_thread(function, deadlines, deadlines.locating)

    async def _in_thread(
        self, function: Callable[[threading.Event], Answer], deadlines: SearchDeadlines, until: float | None
    ) -> Answer:
        stop = threading.Event()
        loop = asyncio.get_running_loop()
        timer = None if until is None else loop.call_at(until, stop.set)
        try:
            return await run_in_thread(function, stop, name="search", patient=False)
        except asyncio.CancelledError:
            deadline = self._context.deadline
            if deadline is None or loop.time() < deadline - _EARLY:
                raise
            raise late(deadlines) from None
        finally:
            stop.set()
            if timer is not None:
                timer.cancel()


class Stopped(Exception):
    """Time is up, or the call has ended."""


def _count(context: Context, query: Query, stop: threading.Event) -> Tally:
    expression = _expression(query)
    counts: dict[str, int] = {}
    searched = binary = 0
    partial = ended = False
    with open_workspace(context) as workspace, workspace.open_tree(query.directory) as (directory, shown):
        for path, parent, name in _files(workspace, query, directory, shown):
            if ended := stop.is_set():
                break
            try:
                descriptor = os.open(name, os.O_RDONLY | SAFELY, dir_fd=parent)
            except OSError as error:
                partial = partial or error.errno not in _NOTHING
                continue
            try:
                about = os.fstat(descriptor)
                if not stat.S_ISREG(about.st_mode) or about.st_size > FILE_BYTES:
                    continue
                searched += 1
                reading = Reading(descriptor, stop)
                count, ended = _count_spots(expression, reading)
            except OSError:
                partial = True
                continue
            finally:
                os.close(descriptor)
            binary += reading.binary and about.st_size <= COUNTED_BYTES
            if count and not reading.binary:
                counts[path] = count
            if ended:
                break
    return Tally(counts=counts, searched=searched, binary=binary, partial=partial, late=ended, barred=shown.left_out)


def _count_spots(expression: Expression, reading: "Reading") -> tuple[int, bool]:
    """The number of matching lines, and whether time was up before all were counted."""
    count = 0
    try:
        for data, _ in reading:
            count += sum(1 for _ in expression.spots(data))
    except Stopped:
        return count, True
    return count, False


def _locate(context: Context, query: Query, paths: Sequence[str], most: int, stop: threading.Event) -> Located:
    expression = _expression(query)
    found: dict[str, list[Spot]] = {path: [] for path in paths}
    with open_workspace(context) as workspace:
        for path, spots in found.items():
            try:
                with workspace.open_found(f"{query.directory}/{path}") as file:
                    for spot in itertools.islice(_spots(expression, Reading(file.fileno(), stop)), most):
                        spots.append(spot)
            except Stopped:
                return Located(spots=found, late=True)
            except (ToolFault, OSError):
                continue  # The result reports that it was changed.
    return Located(spots=found)


def _spots(expression: Expression, reading: "Reading") -> Iterator[Spot]:
    line = 1
    for data, offset in reading:
        counted = 0
        for start, _, column in expression.spots(data):
            line += data.count(b"\n", counted, start)
            counted = start
            yield Spot(line, offset + start, column)
        line += data.count(b"\n", counted)


def _expression(query: Query) -> Expression:
    return Expression(query.pattern, literal=query.literal, case_sensitive=query.case_sensitive)


class Reading:
    """A file in pieces of complete lines, with their offsets, up to the first NUL, which sets ``binary``.

    Errors: ``OSError``; ``Stopped``.
    """

    def __init__(self, descriptor: int, stop: threading.Event) -> None:
        self.binary = False
        self._descriptor = descriptor
        self._stop = stop

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        rest = b""
        position = begin = 0
        while not self.binary:
            if self._stop.is_set():
                raise Stopped
            data = os.pread(self._descriptor, _BLOCK, position)
            position += len(data)
            nul = data.find(b"\0")
            self.binary = nul >= 0
            data = rest + (data[:nul] if self.binary else data)
            end = len(data) if self.binary or position == begin + len(rest) else data.rfind(b"\n") + 1
            if len(data) > _LINE and not end:
                end = len(data)
            if end:
                yield data[:end], begin
            elif not data:
                return
            begin, rest = begin + end, data[end:]


def _files(workspace: Workspace, query: Query, directory: int, shown: Shown) -> Iterator[tuple[str, int, str]]:
    """The files to search: path, directory and name of each."""
    if query.file is not None:
        yield query.file, directory, query.file
        return
    chosen = Filter(
        globs=Globs(query.include, query.exclude),
        hidden=query.hidden,
        ignored=query.ignored,
        above=() if query.ignored else rules_above(workspace, query.directory),
    )
    for one in walk(directory, chosen, shown):
        if not one.is_directory:
            yield one.path, one.directory, one.name


def walk(directory: int, chosen: Filter, shown: Shown, *, depth: int = MAX_DEPTH) -> Iterator[Visit]:
    """The entries beneath an open directory that rules and filter let pass, sorted by name in each folder.

    Links are not followed. What rules leave out is counted whatever the filter is, so that it tells nothing of names.
    """

    def lister(opened: int, folder: str) -> list[tuple[str, bool]]:
        chosen.enter(folder, opened)
        allowed = (one for one in everything(opened) if shown(folder + one[0]))
        wanted = (one for one in allowed if chosen.wants(folder, one[0], is_directory=one[1]))
        return sorted(wanted, key=lambda one: os.fsencode(one[0]))

    for one in visit(directory, lister=lister, depth=depth, cut=True):
        if not one.leaving:
            yield one
