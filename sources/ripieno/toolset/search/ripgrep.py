"""Searches with ripgrep: which files, how often, and where; what stands there is never taken from it.

Two short runs: the first counts the lines of each file, in as many threads as there are, so that the files can be
sorted and all that is left out is known; the second says where the lines of those files are that are shown. Neither
writes what it finds, so that no line is too long and no link that is put in the way meanwhile shows anything.

It takes no configuration, starts no program, and reads nothing but the files and their ``.gitignore``.
"""

import asyncio
import dataclasses
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence

from ripieno.ensembles import Context
from ripieno.exceptions import ExecutionFault
from ripieno.origins.command.programs import GRACE, launch, surroundings_of, workspace_of
from ripieno.sandbox import ProcessLimits
from ripieno.sandbox.capture import Capture
from ripieno.sandbox.processes import Completed, clean_environment, collect
from ripieno.toolset.search.expressions import explain, invalid
from ripieno.toolset.search.gitignore import as_rule
from ripieno.toolset.search.query import COUNTED_BYTES, FILE_BYTES, Hours, Located, Query, Spot, Tally
from ripieno.toolset.workspace.tree import MAX_DEPTH

#: Bytes of what it writes that are kept, of its arguments, and of an expression when it is compiled.
_OUTPUT, _ARGUMENTS, _EXPRESSION = 32 * 1024 * 1024, 64 * 1024, "16M"
_ALWAYS = (
    # Whoever ends it early has what it had found until then.
    *(
        "--no-config",
        "--line-buffered",
        "--color=never",
        "--no-heading",
        "--with-filename",
        "--null",
        "--no-mmap",
        "--no-pre",
    ),
    *("--no-search-zip", "--no-follow", "--encoding=none", "--no-crlf", "--no-require-git", "--no-ignore-dot"),
    *("--no-ignore-exclude", "--no-ignore-global", "--no-ignore-messages"),
    f"--max-filesize={FILE_BYTES}",
    *(f"--regex-size-limit={_EXPRESSION}", f"--dfa-size-limit={_EXPRESSION}"),
)
#: Files whose binary ones are counted: more would cost too much.
_COUNTED = 5000
_NUL = r"\x00"
_SEARCHED = re.compile(rb"^(\d+) files searched$", re.MULTILINE)
_COUNT = re.compile(rb"([^\0]*)\0(\d+)\n")
_SPOT = re.compile(rb"([^\0]*)\0(\d+):(\d+):(\d+):[^\n]*\n")


def program(context: Context) -> str | None:
    """The path of ripgrep, unless the workspace has it; None where there is none, or where no program may be run."""
    surroundings = surroundings_of(context)
    if surroundings.sandbox is not None and surroundings.sandbox.missing is not None:
        return None
    found = shutil.which("rg", path=clean_environment()["PATH"])
    inside = found is not None and os.path.realpath(found).startswith(workspace_of(surroundings).rstrip("/") + "/")
    return None if inside else found


class Ripgrep:
    """The engine. ``program`` is its path."""

    name = "ripgrep"

    def __init__(self, context: Context, program: str) -> None:
        self._context = context
        self._program = program

    async def count(self, query: Query, hours: Hours) -> Tally:
        said = await self._run([*_meant(query), "--count", "--stats", *_choosing(query)], query, hours.counting)
        if said.completed is None:
            return Tally(counts=_read_counts(said.output, query), searched=None, late=True)
        _check(query, said.completed)
        data, _, statistics = said.output.rpartition(b"\n\n")
        counts = _read_counts(data + b"\n", query)
        told = _SEARCHED.search(statistics)
        searched = len(counts) if told is None else int(told[1])
        binary = await self._binary(query, hours) if searched <= _COUNTED else None
        return Tally(counts=counts, searched=searched, binary=binary, partial=said.completed.exit_code == 2)

    async def _binary(self, query: Query, hours: Hours) -> int | None:
        """How many files have a NUL, which a search that leaves them out does not tell; None when time was up."""
        # What has no line end is held in memory as a whole.
        small = f"--max-filesize={COUNTED_BYTES}"
        everything = dataclasses.replace(query, pattern=_NUL)
        options = ["--text", "--files-with-matches", *_choosing(query), small]
        said = await self._run(options, everything, hours.counting)
        return None if said.completed is None else said.output.count(b"\0")

    async def locate(self, query: Query, paths: Sequence[str], most: int, hours: Hours) -> Located:
        found: dict[str, list[Spot]] = {path: [] for path in paths}
        where = ["--line-number", "--byte-offset", "--column", "--max-columns=1", f"--max-count={most}"]
        for part in _parts(paths):
            said = await self._run([*_meant(query), *where, *part.options], query, hours.locating, sorted(part.folders))
            for path, number, column, offset in _SPOT.findall(said.output):
                spots = found.get(os.fsdecode(path.removeprefix(b"./")))
                if spots is not None:
                    spots.append(Spot(int(number), int(offset), int(column) - 1))
            if said.completed is None:
                return Located(spots=found, late=True)
        return Located(spots=found)

    async def _run(
        self, options: Sequence[str], query: Query, until: float | None, folders: Iterable[str] = ("./",)
    ) -> "_Said":
        """Runs it to its end, or for as long as there is time. Errors: those of ``launch``; ``ExecutionFault``."""
        argv = [self._program, *_ALWAYS, *options, "--", query.pattern, *folders]
        limits = ProcessLimits(output_bytes=2 * _OUTPUT, grace=GRACE)
        captures = Capture(limits.output_bytes), Capture(limits.output_bytes)
        completed = None
        clock = asyncio.timeout_at(until)
        try:
            async with clock:
                process = await launch(self._context, argv, directory=query.directory, write=False, limits=limits)
                async with process:
                    completed = await collect(process, captures)
        except TimeoutError:
            if not clock.expired():
                raise
        if completed is not None and (completed.flooded or completed.exit_code not in (0, 1, 2)):
            raise ExecutionFault(f"ripgrep failed with exit code {completed.exit_code}: {_told(completed)}")
        return _Said(output=captures[0].captured().head, completed=completed)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """What it wrote; ``completed`` is None when it was ended because time was up."""

    output: bytes
    completed: Completed | None


def _read_counts(output: bytes, query: Query) -> dict[str, int]:
    counts = {os.fsdecode(path.removeprefix(b"./")): int(count) for path, count in _COUNT.findall(output)}
    return {path: count for path, count in counts.items() if query.file in (None, path)}


def _check(query: Query, completed: Completed) -> None:
    """Errors: ``ToolFault`` for a search that came to nothing."""
    # 1 is nothing found; 2 is an error, although something may have been found.
    if completed.exit_code == 2 and not completed.stdout.total_bytes:
        raise _fault(query, _told(completed))
    if completed.stdout.truncated:
        raise ExecutionFault(
            "Too many files fit to be sorted.", code="too_many", suggestion="Search a smaller path, or for more."
        )


def _meant(query: Query) -> Iterator[str]:
    """How the pattern is read."""
    if query.literal:
        yield "--fixed-strings"
    if not query.case_sensitive:
        yield "--ignore-case"


def _choosing(query: Query) -> Iterator[str]:
    """Which files are searched. A file that is named is found like others, so that it is no less text than those."""
    if query.file is not None:
        yield from ("--max-depth=1", f"--glob=/{_escape(query.file)}")
        return
    yield f"--max-depth={MAX_DEPTH}"
    if query.hidden:
        yield "--hidden"
    if query.ignored:
        yield "--no-ignore"
    elif query.directory == ".":
        # What is above the workspace says nothing here. Folders of it have their rules above them.
        yield "--no-ignore-parent"
    if query.include is not None:
        yield f"--glob={as_rule(query.include, include=True)}"
    if query.exclude is not None:
        yield f"--glob=!{as_rule(query.exclude)}"
    if query.hidden or query.include is not None:
        # The last one decides. Otherwise it is hidden; a glob more costs a fifth of the time.
        yield "--glob=!.git"


def _escape(name: str) -> str:
    """A glob that fits a name, and where that is no UTF-8, some like it."""
    name = "".join("?" if "\udc80" <= one <= "\udcff" else f"[{one}]" if one.isspace() else one for one in name)
    return re.sub(r"[*{}\\,]|\[(?!\s\])|(?<!\s)\]", lambda found: f"\\{found[0]}", name)


@dataclasses.dataclass(slots=True, kw_only=True)
class _Part:
    """Files as ripgrep finds them: one that is named it would open whatever it is by then, and wait at a pipe."""

    options: list[str] = dataclasses.field(default_factory=lambda: ["--max-depth=1", "--hidden", "--no-ignore"])
    #: With a slash at the end: what is no folder any more is not entered.
    folders: set[str] = dataclasses.field(default_factory=set[str])


def _parts(paths: Sequence[str]) -> Iterator[_Part]:
    """As many paths at a time as a command line surely takes."""
    part = _Part()
    size = 0
    for path in paths:
        glob, folder = f"--glob=/{_escape(path)}", f"./{path.rpartition('/')[0]}/".replace("//", "/")
        more = len(os.fsencode(glob)) + len(os.fsencode(folder)) + 32
        if part.folders and size + more > _ARGUMENTS:
            yield part
            part, size = _Part(), 0
        part.options.append(glob)
        part.folders.add(folder)
        size += more
    if part.folders:
        yield part


def _told(completed: Completed) -> str:
    return completed.stderr.text.strip()[:1000]


def _fault(query: Query, said: str) -> Exception:
    """What ripgrep complains of, before it has searched anything."""
    reason = re.search(r"^error: (.*)", said, re.MULTILINE)
    if query.literal or "regex" not in said:
        return ExecutionFault(f"ripgrep cannot search: {said}", code="ripgrep")
    position = explain(query.pattern)[1]
    for line, marks in zip(said.splitlines(), said.splitlines()[1:], strict=False):
        # It puts a group around the expression, which is what it complains of when one is not closed.
        if re.fullmatch(r" +\^+", marks) and query.pattern in line and "unclosed group" not in said:
            position = max(marks.index("^") - line.index(query.pattern), 0)
    return invalid(query.pattern, said.splitlines()[-1] if reason is None else reason[1], position)
