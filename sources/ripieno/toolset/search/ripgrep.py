"""Searching with ripgrep: it only reports files, counts and positions, never content.

The first of two short runs counts the lines of each file, with as many threads as ripgrep chooses, so that the files
can be sorted and all omissions are known. The second locates the lines of the shown files. Neither outputs content, so
that no line is too long and no exchanged link reveals anything.

It uses no configuration, starts no program, and reads only the files and their ``.gitignore``.
"""

import asyncio
import dataclasses
import os
import re
from collections.abc import Iterable, Iterator, Sequence

from ripieno.ensembles import Context
from ripieno.ensembles.requirements import find_shown
from ripieno.exceptions import ExecutionFault
from ripieno.origins.command.programs import GRACE, launch, surroundings_of, workspace_of
from ripieno.sandbox import ProcessLimits
from ripieno.sandbox.capture import Capture
from ripieno.sandbox.processes import Completed, collect
from ripieno.toolset.search.expressions import explain, invalid
from ripieno.toolset.search.gitignore import as_rule
from ripieno.toolset.search.query import COUNTED_BYTES, FILE_BYTES, Located, Query, SearchDeadlines, Spot, Tally
from ripieno.toolset.workspace.tree import MAX_DEPTH

#: Bytes kept of its output, bytes of its arguments, and the size of a compiled expression.
_OUTPUT, _ARGUMENTS, _EXPRESSION = 32 * 1024 * 1024, 64 * 1024, "16M"
_ALWAYS = (
    # Line buffering keeps partial results of an early end.
    *("--no-config", "--line-buffered", "--color=never", "--no-heading", "--with-filename", "--null", "--no-mmap"),
    *("--no-pre", "--no-search-zip", "--no-follow", "--encoding=none", "--no-crlf", "--no-require-git"),
    *("--no-ignore-dot", "--no-ignore-exclude", "--no-ignore-global", "--no-ignore-messages"),
    f"--max-filesize={FILE_BYTES}",
    *(f"--regex-size-limit={_EXPRESSION}", f"--dfa-size-limit={_EXPRESSION}"),
)
#: Searched files up to which binary ones are counted; more would cost too much.
_COUNTED = 5000
_NUL = r"\x00"
_SEARCHED = re.compile(rb"^(\d+) files searched$", re.MULTILINE)
_COUNT = re.compile(rb"([^\0]*)\0(\d+)\n")
#: A rule that cannot be read, which matches nothing. It is an error only in a folder above (measured: exit code 2).
_RULE_ERROR = re.compile(r"/\.gitignore: line \d+: ")
_SPOT = re.compile(rb"([^\0]*)\0(\d+):(\d+):(\d+):[^\n]*\n")


def program(context: Context) -> str | None:
    """The path of ripgrep outside of the workspace; None without one that the sandbox shows, or where none may run."""
    surroundings = surroundings_of(context)
    if surroundings.sandbox is not None and surroundings.sandbox.missing is not None:
        return None
    found = find_shown("rg", surroundings)
    inside = found is not None and os.path.realpath(found).startswith(workspace_of(surroundings).rstrip("/") + "/")
    return None if inside else found


class Ripgrep:
    """The search engine, used as ``Fallback`` is. ``program`` is the path of ripgrep."""

    name = "ripgrep"

    def __init__(self, context: Context, program: str) -> None:
        self._context = context
        self._program = program

    async def count(self, query: Query, deadlines: SearchDeadlines) -> Tally:
        options = [*_matching(query), "--count", "--stats", *_choosing(query)]
        output, completed = await self._run(options, query, deadlines.counting)
        if completed is None:
            return Tally(counts=_read_counts(output, query), searched=None, late=True)
        _check(query, completed)
        data, _, statistics = output.rpartition(b"\n\n")
        counts = _read_counts(data + b"\n", query)
        total = _SEARCHED.search(statistics)
        searched = len(counts) if total is None else int(total[1])
        binary = await self._binary(query, deadlines) if searched <= _COUNTED else None
        errors = [line for line in completed.stderr.text.splitlines() if not _RULE_ERROR.search(line)]
        return Tally(counts=counts, searched=searched, binary=binary, partial=completed.exit_code == 2 and bool(errors))

    async def _binary(self, query: Query, deadlines: SearchDeadlines) -> int | None:
        """The number of files with a NUL, which a search without them does not report; None when time was up."""
        # A file without line ends is held in memory.
        small = f"--max-filesize={COUNTED_BYTES}"
        everything = dataclasses.replace(query, pattern=_NUL)
        options = ["--text", "--files-with-matches", *_choosing(query), small]
        output, completed = await self._run(options, everything, deadlines.counting)
        return None if completed is None else output.count(b"\0")

    async def locate(self, query: Query, paths: Sequence[str], most: int, deadlines: SearchDeadlines) -> Located:
        found: dict[str, list[Spot]] = {path: [] for path in paths}
        always = [*_matching(query), "--line-number", "--byte-offset", "--column", "--max-columns=1"]
        always += [f"--max-count={most}", "--max-depth=1", "--hidden", "--no-ignore"]
        for options, folders in _parts(paths):
            output, completed = await self._run([*always, *options], query, deadlines.locating, sorted(folders))
            for path, number, column, offset in _SPOT.findall(output):
                spots = found.get(os.fsdecode(path.removeprefix(b"./")))
                if spots is not None:
                    spots.append(Spot(int(number), int(offset), int(column) - 1))
            if completed is None:
                return Located(spots=found, late=True)
        return Located(spots=found)

    async def _run(
        self, options: Sequence[str], query: Query, until: float | None, folders: Iterable[str] = ("./",)
    ) -> tuple[bytes, Completed | None]:
        """Its output, and its outcome, or None at the deadline. Errors: those of ``launch``; ``ExecutionFault``."""
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
            raise ExecutionFault(f"ripgrep failed with exit code {completed.exit_code}: {_errors(completed)}")
        return captures[0].captured().head, completed


def _read_counts(output: bytes, query: Query) -> dict[str, int]:
    counts = {os.fsdecode(path.removeprefix(b"./")): int(count) for path, count in _COUNT.findall(output)}
    return {path: count for path, count in counts.items() if query.file in (None, path)}


def _check(query: Query, completed: Completed) -> None:
    """Errors: ``ToolFault`` for a failed search."""
    # 1 means no match; 2 is an error, possibly with matches.
    if completed.exit_code == 2 and not completed.stdout.total_bytes:
        raise _fault(query, _errors(completed))
    if completed.stdout.truncated:
        raise ExecutionFault(
            "Too many files match.", code="too_many", suggestion="Search a smaller path, or for a longer pattern."
        )


def _matching(query: Query) -> Iterator[str]:
    """Options for the pattern."""
    if query.literal:
        yield "--fixed-strings"
    if not query.case_sensitive:
        yield "--ignore-case"


def _choosing(query: Query) -> Iterator[str]:
    """Options for the files. A single file is also found by a glob, so that it is judged as text like others."""
    if query.file is not None:
        yield from ("--max-depth=1", f"--glob=/{_escape(query.file)}")
        return
    yield f"--max-depth={MAX_DEPTH}"
    if query.hidden:
        yield "--hidden"
    if query.ignored:
        yield "--no-ignore"
    elif query.directory == ".":
        # Rules above the workspace are ignored; those of its own folders apply.
        yield "--no-ignore-parent"
    if query.include is not None:
        yield f"--glob={as_rule(query.include, include=True)}"
    if query.exclude is not None:
        yield f"--glob=!{as_rule(query.exclude)}"
    if query.hidden or query.include is not None:
        # The last glob decides. Otherwise .git is hidden anyway; another glob costs a fifth of the time.
        yield "--glob=!.git"


def _escape(name: str) -> str:
    """A glob that matches a name, and, if that is not UTF-8, similar ones."""
    name = "".join("?" if "\udc80" <= one <= "\udcff" else f"[{one}]" if one.isspace() else one for one in name)
    return re.sub(r"[*{}\\,]|\[(?!\s\])|(?<!\s)\]", lambda found: f"\\{found[0]}", name)


def _parts(paths: Sequence[str]) -> Iterator[tuple[list[str], set[str]]]:
    """The paths in groups that fit a command line: options with globs, and folders.

    A file argument would be opened whatever it is by then, and a pipe would block. Folders end in a slash, so that a
    replaced one is not entered.
    """
    options, folders = list[str](), set[str]()
    size = 0
    for path in paths:
        glob, folder = f"--glob=/{_escape(path)}", f"./{path.rpartition('/')[0]}/".replace("//", "/")
        more = len(os.fsencode(glob)) + len(os.fsencode(folder)) + 32
        if folders and size + more > _ARGUMENTS:
            yield options, folders
            options, folders, size = [], set[str](), 0
        options.append(glob)
        folders.add(folder)
        size += more
    if folders:
        yield options, folders


def _errors(completed: Completed) -> str:
    return completed.stderr.text.strip()[:1000]


def _fault(query: Query, output: str) -> Exception:
    """The fault for ripgrep's error before any search."""
    reason = re.search(r"^error: (.*)", output, re.MULTILINE)
    if query.literal or "regex" not in output:
        return ExecutionFault(f"ripgrep cannot search: {output}", code="ripgrep")
    position = explain(query.pattern)[1]
    for line, marks in zip(output.splitlines(), output.splitlines()[1:], strict=False):
        # It wraps the expression in a group, which it reports when one is not closed.
        if re.fullmatch(r" +\^+", marks) and query.pattern in line and "unclosed group" not in output:
            position = max(marks.index("^") - line.index(query.pattern), 0)
    return invalid(query.pattern, output.splitlines()[-1] if reason is None else reason[1], position)
