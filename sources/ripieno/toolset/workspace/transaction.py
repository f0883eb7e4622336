"""Changes of a workspace, one or several as one: all are prepared, written into the journal, then made.

An operation examines the place, reads its content and prepares the new one beside it, by descriptors that it keeps.
The examined file is compared again with the displaced one. When one of several operations fails, the earlier ones are
reverted. No other ``Workspace`` changes the same directory meanwhile.
"""

import abc
import contextlib
import os
import threading
from collections.abc import Generator, Sequence

from ripieno.exceptions import PermissionFault, ResourceFault
from ripieno.storage.undo import NOWHERE, Cause, State, Step, UndoLog
from ripieno.toolset.workspace.entries import explaining
from ripieno.toolset.workspace.walk import Barred, Walk
from ripieno.values import Value

#: Locks of workspaces that have no journal to lock, by device and inode.
_LOCKS: dict[tuple[int, int], threading.Lock] = {}


class Site(Value):
    """The workspace of operations: its root, and the names with which absolute paths may begin.

    ``protected`` are folded names, from the root, of paths that are never changed. ``barred`` is ``Context.barred``.
    """

    root: int
    bases: tuple[list[str], ...]
    journal: UndoLog | None = None
    cause: Cause = NOWHERE
    protected: tuple[list[str], ...] = ()
    barred: Barred | None = None

    def walk(
        self,
        path: str,
        *,
        follow: bool = False,
        guarded: bool = True,
        created: list[str] | None = None,
        unless: str = "",
    ) -> Walk:
        """A finished walk to a path; the caller closes it. Errors: those of ``Walk.go``.

        ``unless`` is the argument that would have made missing directories on the way.
        """
        walk = Walk(path, self.root, self.bases, guarded=guarded, protected=self.protected, barred=self.barred)
        try:
            walk.go(follow=follow, created=created)
        except BaseException as error:
            walk.close()
            if unless and created is None and isinstance(error, ResourceFault) and error.code == "not_found":
                error.suggestion = f"{error.suggestion} {unless} makes the directories that are missing."
            raise
        return walk

    def check_found(self, shown: str, **found: str) -> None:
        """Refuses the call for ``shown`` if rules keep it from a path. Errors: ``PermissionFault`` with the rule."""
        reason = None if self.barred is None else self.barred(**found)
        if reason is not None:
            raise PermissionFault(
                f"{shown!r} is not allowed here ({reason}).",
                code="rule",
                suggestion="Name other paths, without what the rule is about.",
            )

    def keep(self, data: bytes) -> None:
        """Stores a content in the journal, if there is one."""
        if self.journal is not None:
            self.journal.keep(data)

    @contextlib.contextmanager
    def locked(self) -> Generator[None, None, None]:
        """Keeps every other ``Workspace`` from changing this directory."""
        if self.journal is not None:
            with self.journal.locked():
                yield
            return
        about = os.fstat(self.root)
        with _LOCKS.setdefault((about.st_dev, about.st_ino), threading.Lock()):
            yield


class Operation(abc.ABC):
    """One change of one path. ``prepare`` fills ``steps``; ``close``, which is always called, releases all it holds."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.steps: list[Step] = []
        self.created: list[str] = []
        self.made = False
        self._walk: Walk | None = None

    @property
    def walk(self) -> Walk:
        """The walk to the path, after ``prepare``."""
        assert self._walk is not None
        return self._walk

    @property
    def shown(self) -> list[Step]:
        """The steps with those of all that the operation takes along, for a report."""
        return self.steps

    def note_directories(self) -> None:
        """Adds the steps of the directories that were made on the way."""
        self.steps += [Step(path=one, before=None, after=State(kind="directory")) for one in self.created]

    @abc.abstractmethod
    def prepare(self, site: Site) -> None:
        """Examines, reads, and prepares; makes missing parent directories, and changes nothing else that is visible."""

    @abc.abstractmethod
    def commit(self) -> None:
        """Makes the change, at once. A failure changes nothing."""

    def finish(self) -> None:  # noqa: B027  most displace nothing
        """Deletes the displaced files."""

    def close(self) -> None:
        """Closes its descriptors."""
        if self._walk is not None:
            self._walk.close()


class ReversibleOperation(Operation):
    """An operation that can be one of several: when another one fails, it is reverted."""

    @abc.abstractmethod
    def revert(self) -> None:
        """Reverts the change, after ``commit``."""


def perform(site: Site, operations: Sequence[ReversibleOperation] | tuple[Operation]) -> list[Step]:
    """Does all operations, or none, and returns the shown steps. A single one need not be reversible.

    Errors: ``ToolFault``.

    A program that is killed meanwhile may leave some of several done: the journal has them all.
    """
    with site.locked(), contextlib.ExitStack() as stack:
        for operation in operations:
            stack.callback(_tidy, site, operation)
            stack.callback(operation.close)
            with explaining(operation.path):
                operation.prepare(site)
        steps = [step for operation in operations for step in operation.steps]
        entry = site.journal.add(steps, site.cause) if site.journal is not None and steps else None
        done: list[Operation] = []
        try:
            for operation in operations:
                with explaining(operation.path):
                    operation.commit()
                done.append(operation)
        except BaseException:
            for operation in reversed(done):
                if isinstance(operation, ReversibleOperation):
                    with explaining(operation.path):
                        operation.revert()
            if site.journal is not None and entry is not None:
                site.journal.drop(entry)
            raise
        for operation in operations:
            operation.made = True
        for operation in operations:
            with explaining(operation.path):
                operation.finish()
        return [step for operation in operations for step in operation.shown]


def _tidy(site: Site, operation: Operation) -> None:
    """Removes the directories that were made for an operation that was not done."""
    if operation.made:
        return
    for path in reversed(operation.created):
        with contextlib.suppress(Exception), contextlib.closing(site.walk(path)) as walk:
            os.rmdir(walk.name, dir_fd=walk.directory)


def discard(directory: int, name: str) -> None:
    """Deletes a temporary file, if it is there."""
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=directory)
