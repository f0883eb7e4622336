"""Walks through a tree of directories by descriptors: follows no link, with bounded depth and number."""

import dataclasses
import os
from collections.abc import Callable, Generator

from ripieno.exceptions import ResourceFault
from ripieno.toolset.workspace.entries import DIRECTORY
from ripieno.toolset.workspace.guard import controls, guarded

#: The depth to which a tree is followed, in folders, and the entries of it that are examined.
MAX_DEPTH = 64
MAX_ENTRIES = 1_000_000

#: The entries of an open directory to visit, in order.
Lister = Callable[[int], list["TreeEntry"]]


@dataclasses.dataclass(frozen=True, slots=True)
class TreeEntry:
    """A name, and whether it was a directory when it was listed."""

    name: str
    is_directory: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Visit:
    """One entry: its path from the tree's root, its name in the open ``directory``, and the directory's depth.

    A directory is visited a second time after its entries, with ``leaving``.
    """

    path: str
    name: str
    directory: int
    depth: int
    is_directory: bool
    leaving: bool = False


def everything(directory: int) -> list[TreeEntry]:
    """All entries of a directory. Errors: ``ResourceFault`` if there are too many."""
    with os.scandir(directory) as entries:
        found = [
            TreeEntry(entry.name, entry.is_dir(follow_symlinks=False))
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
    level: int = 0,
) -> Generator[Visit, None, None]:
    """Everything beneath an open directory, parents before children. With ``cut``, deeper entries are left out.

    Errors: ``ResourceFault`` for a deeper tree; ``OSError``.
    """
    for found in lister(directory):
        path = f"{base}{found.name}"
        yield Visit(path, found.name, directory, level, found.is_directory)
        if not found.is_directory or (cut and level + 1 >= depth):
            continue
        if level + 1 >= depth:
            raise ResourceFault(f"{path!r} is more than {depth} folders deep.", code="too_deep")
        try:
            inner = os.open(found.name, DIRECTORY, dir_fd=directory)
        except OSError:
            if cut:
                continue  # It cannot be read, or was exchanged meanwhile.
            raise
        try:
            yield from visit(inner, lister=lister, depth=depth, cut=cut, base=f"{path}/", level=level + 1)
        finally:
            os.close(inner)
        yield Visit(path, found.name, directory, level, is_directory=True, leaving=True)


def refuse_controls(directory: int, path: str) -> None:
    """Refuses a tree that contains control files. Errors: ``PermissionFault``, ``ResourceFault``."""
    for count, one in enumerate(visit(directory)):
        if controls(one.name):
            raise guarded(path, one.path)
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
