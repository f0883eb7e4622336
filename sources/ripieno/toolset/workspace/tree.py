"""Walks through a tree of directories by descriptors: follows no link, with bounded depth and number."""

import dataclasses
import os
from collections.abc import Callable, Generator

from ripieno.exceptions import ResourceFault
from ripieno.toolset.arguments import several
from ripieno.toolset.workspace.entries import DIRECTORY
from ripieno.toolset.workspace.guard import controls, guarded
from ripieno.toolset.workspace.walk import Barred
from ripieno.values import Value

#: The depth to which a tree is followed, in folders, and the entries of it that are examined.
MAX_DEPTH = 64
MAX_ENTRIES = 1_000_000

#: The entries of an open directory to visit, in order: names, and whether each was a directory when it was listed. The
#: text is its path from the tree's root, with a slash at its end, or empty.
Lister = Callable[[int, str], list[tuple[str, bool]]]


class Visit(Value):
    """One entry: its path from the tree's root, and its name in the open ``directory``.

    A directory is visited a second time after its entries, with ``leaving``.
    """

    path: str
    name: str
    directory: int
    is_directory: bool
    leaving: bool = False


@dataclasses.dataclass(slots=True)
class Shown:
    """Whether entries of a tree may be shown by the rules about their paths. Counts the others.

    ``base`` is the true path of the tree's root in the workspace.
    """

    barred: Barred | None
    base: str
    left_out: int = 0

    def __call__(self, path: str) -> bool:
        """Whether an entry may be shown, by its path from the tree's root."""
        if self.barred is None or self.barred(path=beneath(self.base, path)) is None:
            return True
        self.left_out += 1
        return False


def left_out_by_rules(count: int) -> list[str]:
    """The line about entries that rules keep from being shown, if there are any."""
    return [f"[... {several(count, 'entry', 'entries')} left out by rules about paths ...]"] if count else []


def beneath(base: str, path: str) -> str:
    """A path from the workspace, of a path from a folder in it."""
    return path if base == "." else f"{base}/{path}"


def everything(directory: int, _: str = "") -> list[tuple[str, bool]]:
    """All entries of a directory. Errors: ``ResourceFault`` if there are too many."""
    with os.scandir(directory) as entries:
        found = [
            (entry.name, entry.is_dir(follow_symlinks=False))
            for entry, _ in zip(entries, range(MAX_ENTRIES + 1), strict=False)
        ]
    if len(found) > MAX_ENTRIES:
        raise too_many("A directory")
    return found


def visit(
    directory: int,
    *,
    lister: Lister = everything,
    depth: int = MAX_DEPTH,
    cut: bool = False,
    base: str = "",
) -> Generator[Visit, None, None]:
    """Everything beneath an open directory, parents before children. With ``cut``, deeper entries are left out.

    Errors: ``ResourceFault`` for a deeper tree; ``OSError``.
    """
    for name, is_directory in lister(directory, base):
        path = f"{base}{name}"
        yield Visit(path, name, directory, is_directory)
        if not is_directory or (cut and depth <= 1):
            continue
        if depth <= 1:
            raise ResourceFault(f"{path!r} is more than {MAX_DEPTH} folders deep.", code="too_deep")
        try:
            inner = os.open(name, DIRECTORY, dir_fd=directory)
        except OSError:
            if cut:
                continue  # It cannot be read, or was exchanged meanwhile.
            raise
        try:
            yield from visit(inner, lister=lister, depth=depth - 1, cut=cut, base=f"{path}/")
        finally:
            os.close(inner)
        yield Visit(path, name, directory, is_directory=True, leaving=True)


def refuse_controls(directory: int, path: str, check: Callable[[Visit], object]) -> None:
    """Refuses a tree that contains control files, or an entry that ``check`` refuses.

    Errors: ``PermissionFault``, ``ResourceFault``.
    """
    for count, one in enumerate(visit(directory)):
        if controls(one.name):
            raise guarded(path, one.path)
        if not one.leaving:
            check(one)
        if count > 2 * MAX_ENTRIES:
            raise too_many(repr(path))


def too_many(what: str) -> ResourceFault:
    """The fault of a tree that is too large to be examined."""
    return ResourceFault(f"{what} has more than {MAX_ENTRIES} entries.", code="too_many")


def empty(directory: int) -> None:
    """Deletes the contents of an open directory. Errors: ``OSError``."""
    for one in visit(directory):
        if one.is_directory and one.leaving:
            os.rmdir(one.name, dir_fd=one.directory)
        elif not one.is_directory:
            os.unlink(one.name, dir_fd=one.directory)
