"""Access to the files beneath one directory, and to nothing outside it.

Each decision about a file is made on the descriptor that is then used. A written file is exchanged whole: a reader sees
the old or the new one.
"""

import contextlib
import io
import os
import stat
from collections.abc import Generator, Sequence
from typing import Self

from ripieno.exceptions import ResourceFault
from ripieno.storage.undo import NOWHERE, Cause, State, Step, UndoLog
from ripieno.toolset.workspace import entries
from ripieno.toolset.workspace.copy import CopyTree, read_source
from ripieno.toolset.workspace.directories import ChangeMode, MakeDirectory
from ripieno.toolset.workspace.guard import fold
from ripieno.toolset.workspace.move import Move, check_kind
from ripieno.toolset.workspace.remove import Remove
from ripieno.toolset.workspace.replace import Content, Replace
from ripieno.toolset.workspace.syscalls import find_beneath
from ripieno.toolset.workspace.transaction import Operation, ReversibleOperation, Site, perform
from ripieno.toolset.workspace.tree import Shown
from ripieno.toolset.workspace.walk import Barred, Walk, check_path, split
from ripieno.values import Value


class Written(Value, kw_only=True):
    """The result of a write: whether the file is new, the written bytes, and the steps, last that of the file."""

    created: bool
    size: int
    steps: tuple[Step, ...]


class Workspace:
    """A directory and the files beneath it. A context manager.

    Paths are relative to it; an absolute path that is lexically beneath it is accepted. Links are followed while they
    stay beneath it; a changed file is never reached by a link as its last name. Each refusal is a ``ToolFault`` with
    the path as given: ``PermissionFault`` for a forbidden file, ``ResourceFault`` for a missing or unusable one,
    ``ValidationFault`` for an invalid path.

    Never changed are files with other names (hard links), pipes, devices, and the control files of git and ripieno,
    existing or not; ``protected`` are the true paths of others. Changes are written into the ``journal`` before they
    are made, as those of ``cause``. ``barred`` is ``Context.barred``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        journal: UndoLog | None = None,
        cause: Cause = NOWHERE,
        protected: Sequence[str] = (),
        barred: Barred | None = None,
    ) -> None:
        root = os.path.abspath(path)
        try:
            bases = (split(root), split(os.path.realpath(root)))
            self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ResourceFault(
                f"The workspace {root!r} cannot be opened: {error.strerror}.", code="workspace"
            ) from error
        journal = journal if journal is not None and journal.apart else None
        self._site = Site(self._root, bases, journal, cause, _within(bases[1], protected), barred)

    @property
    def journalled(self) -> bool:
        """Whether changes can be undone."""
        return self._site.journal is not None

    def close(self) -> None:
        """Closes the root. May be called once."""
        os.close(self._root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        """Closes the root. An error of the system in the block becomes a ``ToolFault``."""
        self.close()
        if isinstance(error, OSError):
            raise entries.fault(error, error.filename if isinstance(error.filename, str) else ".") from error

    def open_file(self, path: str) -> io.BufferedReader:
        """Opens a regular file for reading. The caller closes it."""
        return self.find_file(path)[0]

    def find_file(self, path: str) -> tuple[io.BufferedReader, str]:
        """As ``open_file``, with the file's true path from the root: without links and ``..``."""
        descriptor = self._find(path)
        if descriptor is not None:
            return os.fdopen(descriptor, "rb"), "/".join(split(path))
        with self._reach(path) as place:
            entries.check_regular(entries.status(place), path)
            descriptor = os.open(place.name, os.O_RDONLY | entries.SAFELY, dir_fd=place.directory)
            with entries.closing_on_error(descriptor):
                entries.check_regular(os.fstat(descriptor), path)
                return os.fdopen(descriptor, "rb"), place.true_path

    def _find(self, path: str) -> int | None:
        """A regular file with a plain path, opened at once; None for any other, which a walk explains."""
        check_path(path)
        names = split(path)
        if path.startswith("/") or ".." in names or not names:
            return None
        found = find_beneath(self._root, path)
        if found is None:
            return None
        try:
            if not stat.S_ISREG(os.fstat(found).st_mode):
                return None
            # The examined file itself, opened only now that it is known to be an ordinary one.
            return os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            return None
        finally:
            os.close(found)

    def open_found(self, path: str) -> io.BufferedReader:
        """As ``open_file``, for a path that a tool found. Errors: also ``PermissionFault`` if rules keep it from it."""
        file, true_path = self.find_file(path)
        try:
            self.check_found(path, path=true_path)
        except BaseException:
            file.close()
            raise
        return file

    def check_found(self, shown: str, **found: str) -> None:
        """Errors: ``PermissionFault`` if rules keep the call from a path, given by the name of its argument."""
        self._site.check_found(shown, **found)

    @contextlib.contextmanager
    def open_tree(self, path: str) -> Generator[tuple[int, Shown], None, None]:
        """As ``open_directory``, for a tool that shows what is beneath it, with what of that may be shown."""
        descriptor, true_path = self._enter(path)
        try:
            self.check_found(path, path=true_path)
            yield descriptor, Shown(self._site.barred, true_path)
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def open_directory(self, path: str) -> Generator[int, None, None]:
        """A descriptor of a directory, for ``os.scandir`` or ``dir_fd``. Closed at the end."""
        descriptor, _ = self._enter(path)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _enter(self, path: str) -> tuple[int, str]:
        """An open directory, and its true path."""
        with self._reach(path) as place:
            found = entries.status(place)
            if not stat.S_ISDIR(found.st_mode):
                raise ResourceFault(
                    f"{path!r} is not a directory.", code="not_a_directory", suggestion="Read it as a file instead."
                )
            return os.open(place.name, entries.DIRECTORY, dir_fd=place.directory), place.true_path

    def state(self, path: str) -> State | None:
        """The present state of a path, not following a link, with the hash of a small file; None if it is free."""
        with contextlib.ExitStack() as stack:
            try:
                place = stack.enter_context(self._reach(path, follow=False))
            except ResourceFault as fault:
                if fault.code in ("not_found", "not_a_directory"):
                    return None
                raise
            found = entries.look(place.directory, place.name)
            return None if found is None else entries.state_of(place.directory, place.name, found, path)

    def write_file(
        self,
        path: str,
        data: Content,
        *,
        append: bool = False,
        create_directories: bool = True,
        new: bool = False,
        existing: bool = False,
    ) -> Written:
        """Writes a whole file, or appends to it; arguments as for ``Replace``.

        Appending adds to the present file, so that simultaneous appenders lose nothing of each other.
        """
        operation = Replace(
            path, data, append=append, create_directories=create_directories, new=new, existing=existing
        )
        steps = self.perform((operation,))
        return Written(created=operation.is_new, size=operation.size, steps=tuple(steps))

    def delete(self, path: str, *, kind: str, recursive: bool = False) -> tuple[tuple[Step, ...], int]:
        """Deletes a file or link, or a directory; returns the steps and the number of deleted entries."""
        operation = Remove(path, kind=kind, recursive=recursive)
        return tuple(self.perform((operation,))), operation.count

    def move(
        self,
        source: str,
        destination: str,
        *,
        kind: str = "any",
        overwrite: bool = False,
        create_directories: bool = False,
    ) -> tuple[Step, ...]:
        """Moves a file or directory to a new path. Only a file can be replaced, by a file."""
        operation = Move(source, destination, kind=kind, overwrite=overwrite, create_directories=create_directories)
        return tuple(self.perform((operation,)))

    def copy(
        self,
        source: str,
        destination: str,
        *,
        kind: str = "any",
        recursive: bool = False,
        overwrite: bool = False,
        create_directories: bool = False,
    ) -> tuple[Step, ...]:
        """Copies a file, or with ``recursive`` a directory, with their permissions."""
        with self._reach(source, guarded=True) as place:
            found = entries.status(place)
            check_kind(found, place, kind)
        if stat.S_ISDIR(found.st_mode):
            if not recursive:
                raise ResourceFault(
                    f"{source!r} is a directory.",
                    code="is_directory",
                    suggestion="Set recursive = true to copy it with all that is in it.",
                )
            return tuple(self.perform((CopyTree(source, destination, create_directories=create_directories),)))
        with entries.explaining(source):
            data, mode = read_source(self._site, source)
        operation = Replace(destination, data, new=not overwrite, create_directories=create_directories, mode=mode)
        return tuple(self.perform((operation,)))

    def make_directory(self, path: str, *, parents: bool = False) -> tuple[Step, ...]:
        """Makes a directory; with ``parents`` also those above it, and an existing one is accepted."""
        return tuple(self.perform((MakeDirectory(path, parents=parents),)))

    def change_mode(self, path: str, mode: int) -> tuple[Step, ...]:
        """Sets the permission bits of a file or directory."""
        return tuple(self.perform((ChangeMode(path, mode),)))

    def perform(self, operations: Sequence[ReversibleOperation] | tuple[Operation]) -> list[Step]:
        """Does all operations, or none."""
        return perform(self._site, operations)

    @contextlib.contextmanager
    def _reach(self, path: str, *, guarded: bool = False, follow: bool = True) -> Generator[Walk, None, None]:
        site = self._site
        walk = Walk(path, site.root, site.bases, guarded=guarded, protected=site.protected, barred=site.barred)
        try:
            with entries.explaining(path):
                walk.go(follow=follow)
                yield walk
        finally:
            walk.close()


def _within(base: Sequence[str], paths: Sequence[str]) -> tuple[list[str], ...]:
    """The folded names, from the root, of the paths beneath it."""
    named = (split(path) for path in paths)
    return tuple(
        [fold(name) for name in names[len(base) :]]
        for names in named
        if len(names) > len(base) and names[: len(base)] == base
    )
