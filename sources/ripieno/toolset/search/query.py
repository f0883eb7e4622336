"""A search: the query, the results of engines, and the place in the workspace."""

import asyncio
import os
from collections.abc import Mapping, Sequence

from ripieno.ensembles import Context
from ripieno.exceptions import ResourceFault, TimeoutFault
from ripieno.origins.command.programs import true_path
from ripieno.toolset.search.gitignore import Rules, rules_in
from ripieno.toolset.workspace.workspace import Workspace
from ripieno.values import Value

#: Bytes of the largest file that is searched, and of the largest that is counted if binary.
FILE_BYTES, COUNTED_BYTES = 1 << 30, 1 << 26
#: Seconds before the deadline, and the share of the time, reserved for showing partial results.
_RESERVE, _SHARE = 2.0, 0.25


class Query(Value, kw_only=True):
    """A search. ``directory`` is relative to the workspace; ``file`` is the only searched file, if given."""

    pattern: str
    directory: str
    file: str | None = None
    literal: bool = True
    case_sensitive: bool = True
    include: str | None = None
    exclude: str | None = None
    hidden: bool = False
    ignored: bool = False


class Tally(Value, kw_only=True):
    """The files with matching lines, and their numbers. Paths are relative to the query's directory.

    ``searched`` counts files, including ``binary`` ones, which are left out, as far as those were counted. ``partial``:
    some files could not be read. ``late``: time was up; these are the results until then. ``barred`` counts entries
    that rules about paths leave out.
    """

    counts: Mapping[str, int]
    searched: int | None
    binary: int | None = None
    partial: bool = False
    late: bool = False
    barred: int = 0


class Spot(Value):
    """A matching line: its number from 1, its byte offset, and the offset of the match in it."""

    number: int
    offset: int
    column: int


class Located(Value, kw_only=True):
    """The matching lines by path; with ``late``, those found before time was up."""

    spots: Mapping[str, Sequence[Spot]]
    late: bool = False


class SearchDeadlines(Value, kw_only=True):
    """The time to stop at, in the event loop's time, or never (None), so that partial results can be returned.

    Matching files are counted until ``counting``, and their lines located until ``locating``. ``timeout`` is the limit
    of the call in seconds.
    """

    began: float
    counting: float | None = None
    locating: float | None = None
    timeout: float | None = None

    @classmethod
    def of(cls, context: Context) -> "SearchDeadlines":
        """The deadlines of a call that begins now."""
        now = asyncio.get_running_loop().time()
        if context.deadline is None:
            return cls(began=now)
        reserve = min(_RESERVE, _SHARE * max(context.deadline - now, 0.0))
        end = context.deadline
        return cls(began=now, counting=end - reserve, locating=end - reserve / 2, timeout=context.timeout)


def late(deadlines: SearchDeadlines, found: str = "") -> TimeoutFault:
    """The fault of a search that took too long. ``found``: text of partial results (seed 000, section 6.3)."""
    seconds = deadlines.timeout or asyncio.get_running_loop().time() - deadlines.began
    results = f" Found until then:\n{found}" if found else " Nothing was found until then."
    return TimeoutFault(
        f"The search did not finish within {seconds:.6g} s and was ended.{results}",
        code="timeout",
        details={"timeout_seconds": round(seconds, 3), "partial_output": found},
        suggestion="Search a smaller path, fewer files with include_pattern and exclude_pattern, or for a more "
        "specific pattern.",
    )


def find(context: Context, workspace: Workspace, path: str) -> tuple[str, str | None]:
    """The directory relative to the workspace (``.`` for itself) and the file name. Errors: those of ``Workspace``."""
    try:
        with workspace.open_directory(path):
            pass
    except ResourceFault as fault:
        if fault.code != "not_a_directory":
            raise
        file, true = workspace.find_file(path)
        file.close()
        workspace.check_found(path, path=true)
        directory, _, name = true.rpartition("/")
        return directory or ".", name
    return os.path.relpath(true_path(context, path), true_path(context, ".")), None


def rules_above(workspace: Workspace, directory: str) -> list[tuple[Rules, str]]:
    """The rules of the folders above a directory, nearest first, with the path from there to it."""
    found: list[tuple[Rules, str]] = []
    names = [] if directory == "." else directory.split("/")
    for depth in reversed(range(len(names))):
        with workspace.open_directory("/".join(names[:depth]) or ".") as opened:
            rules = rules_in(opened)
            if rules is not None:
                found.append((rules, "/".join(names[depth:]) + "/"))
    return found


def names_hidden(glob: str | None) -> bool:
    """Whether a glob has a hidden name, which then includes hidden files."""
    return glob is not None and any(part.startswith(".") for part in glob.split("/"))
