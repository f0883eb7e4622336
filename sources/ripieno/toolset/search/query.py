"""What is searched: a query, what engines answer, and where it lies in the workspace."""

import asyncio
import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ripieno.ensembles import Context
from ripieno.exceptions import ResourceFault, TimeoutFault
from ripieno.origins.command.programs import resolve, surroundings_of
from ripieno.toolset.search.gitignore import Rules, rules_in
from ripieno.toolset.workspace.workspace import Workspace

#: Bytes of a file that is searched, and of one that is counted when it is binary.
FILE_BYTES, COUNTED_BYTES = 1 << 30, 1 << 26
#: Seconds before the deadline, and the share of all the time, that are kept to show what was found until then.
_RESERVE, _SHARE = 2.0, 0.25


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is looked for. ``directory`` is where, from the workspace; ``file`` is the only one that is searched."""

    pattern: str
    directory: str
    file: str | None = None
    literal: bool = True
    case_sensitive: bool = True
    include: str | None = None
    exclude: str | None = None
    hidden: bool = False
    ignored: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Which files have lines that fit, and how many. Paths are from the query's directory.

    ``searched`` counts files, also those that are left out because they are ``binary``, as far as those were counted.
    With ``late``, time was up before all of them were searched: these are those that were.
    """

    counts: Mapping[str, int]
    searched: int | None
    binary: int | None = None
    #: Some files could not be read.
    partial: bool = False
    late: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Spot:
    """A line that fits: its number from 1, the byte at which it begins, and the byte in it that fits."""

    number: int
    offset: int
    column: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """Where the lines are, by path; with ``late``, those that were found before time was up."""

    spots: Mapping[str, Sequence[Spot]]
    late: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Hours:
    """When to stop, in the event loop's time; None: never. What was found until then is worth more than nothing.

    Files with lines that fit are looked for until ``counting``, these lines until ``locating``.
    """

    began: float
    counting: float | None = None
    locating: float | None = None

    @classmethod
    def of(cls, context: Context) -> "Hours":
        """Those of a call that begins to search now."""
        now = asyncio.get_running_loop().time()
        if context.deadline is None:
            return cls(began=now)
        reserve = min(_RESERVE, _SHARE * max(context.deadline - now, 0.0))
        return cls(began=now, counting=context.deadline - reserve, locating=context.deadline - reserve / 2)


def late(began: float, found: str = "") -> TimeoutFault:
    """A search took too long. ``found`` is what it would have said of what it had found (seed 000, section 6.3)."""
    seconds = asyncio.get_running_loop().time() - began
    said = f" What was found until then:\n{found}" if found else " Nothing was found until then."
    return TimeoutFault(
        f"The search was not done after {seconds:.3g} s, and was ended.{said}",
        code="timeout",
        details={"timeout_seconds": round(seconds, 3), "partial_output": found},
        suggestion="Search a smaller path, fewer files with include_pattern and exclude_pattern, or for a pattern that "
        "fits less.",
    )


class Engine(Protocol):
    """Looks through files. What it says is read again, by descriptors, before it is shown."""

    @property
    def name(self) -> str:
        """What the result calls it."""
        ...

    async def count(self, query: Query, hours: Hours) -> Tally:
        """All that fits. Errors: ``ToolFault``."""
        ...

    async def locate(self, query: Query, paths: Sequence[str], most: int, hours: Hours) -> Located:
        """The first lines of each of these files that fit, at most as many. Errors: ``ToolFault``."""
        ...


def find(context: Context, room: Workspace, path: str) -> tuple[str, str | None]:
    """The directory relative to the workspace (``.`` for itself) and the file name. Errors: those of ``Workspace``."""
    try:
        with room.open_directory(path):
            pass
    except ResourceFault as fault:
        if fault.code != "not_a_directory":
            raise
        file, true = room.find_file(path)
        file.close()
        directory, _, name = true.rpartition("/")
        return directory or ".", name
    named = os.fspath(surroundings_of(context).workspace)
    root = os.path.realpath(named)
    return os.path.relpath(resolve(root, path, named), root), None


def rules_above(room: Workspace, directory: str) -> list[tuple[Rules, str]]:
    """The rules that count in a directory and lie above it, nearest first, with the way from there to it."""
    found: list[tuple[Rules, str]] = []
    names = [] if directory == "." else directory.split("/")
    for depth in reversed(range(len(names))):
        with room.open_directory("/".join(names[:depth]) or ".") as opened:
            rules = rules_in(opened)
            if rules is not None:
                found.append((rules, "/".join(names[depth:]) + "/"))
    return found


def text(arguments: Mapping[str, Any], name: str) -> str | None:
    """An argument that may be missing; an empty one counts as missing."""
    value: str | None = arguments.get(name)
    return value or None


def names_hidden(glob: str | None) -> bool:
    """Whether a glob has a name that is hidden: whoever gives it means that."""
    return glob is not None and any(part.startswith(".") for part in glob.split("/"))
