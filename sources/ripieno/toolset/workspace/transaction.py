"""Changes of a workspace, one or several as one: all are prepared, written into the journal, then made.

An operation examines the place, reads its content and prepares the new one beside it, by descriptors that it keeps;
what it decided on is compared again with what it displaced. When one of several fails, those that were made are taken
back. Nobody else changes the workspace through a room meanwhile.
"""

import abc
import contextlib
import os
import threading
from collections.abc import Generator, Sequence

from ripieno.exceptions import ResourceFault
from ripieno.storage.undo import NOWHERE, Cause, Step, UndoLog
from ripieno.toolset.workspace.entries import explaining, look
from ripieno.toolset.workspace.walk import Walk

#: Locks of workspaces that have no journal to lock, by device and inode.
_LOCKS: dict[tuple[int, int], threading.Lock] = {}


class Site:
    """The workspace in which operations are done: its root, the names that absolute paths may begin with, its journal.

    ``protected`` are folded names, from the root, of what nobody changes here.
    """

    def __init__(
        self,
        root: int,
        bases: tuple[list[str], ...],
        journal: UndoLog | None = None,
        cause: Cause = NOWHERE,
        protected: tuple[list[str], ...] = (),
    ) -> None:
        self.root = root
        self.bases = bases
        self.protected = protected
        self.journal = journal
        self.cause = cause

    def walk(
        self,
        path: str,
        *,
        follow: bool = False,
        guarded: bool = True,
        created: list[str] | None = None,
        unless: str = "",
    ) -> Walk:
        """A walk to a path, done; the caller closes it. Errors: those of ``Walk.go``.

        ``unless`` is the argument with which directories that are missing on the way would have been made.
        """
        walk = Walk(path, self.root, self.bases, guarded=guarded, protected=self.protected)
        try:
            walk.go(follow=follow, created=created)
        except BaseException as error:
            walk.close()
            if unless and created is None and isinstance(error, ResourceFault) and error.code == "not_found":
                error.suggestion = f"{error.suggestion} {unless} makes the directories that are missing."
            raise
        return walk

    def keep(self, data: bytes) -> None:
        """Gives a content to the journal, if there is one."""
        if self.journal is not None:
            self.journal.keep(data)

    @contextlib.contextmanager
    def locked(self) -> Generator[None, None, None]:
        """While it is entered, no other room changes this workspace."""
        if self.journal is not None:
            with self.journal.locked():
                yield
            return
        about = os.fstat(self.root)
        with _LOCKS.setdefault((about.st_dev, about.st_ino), threading.Lock()):
            yield


class Operation(abc.ABC):
    """One change of one path. ``prepare`` fills ``steps``; what it holds is released by ``close``, always called."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.steps: list[Step] = []
        self.created: list[str] = []
        self.made = False

    @abc.abstractmethod
    def prepare(self, site: Site) -> None:
        """Looks, reads, and lays ready; changes nothing that others see but missing parent directories."""

    @abc.abstractmethod
    def commit(self) -> None:
        """Makes the change, at once. When it fails, everything is as it was."""

    def finish(self) -> None:  # noqa: B027  most displace nothing
        """Clears away what was displaced."""

    def close(self) -> None:  # noqa: B027  most hold nothing
        """Releases what is held."""


class ReversibleOperation(Operation):
    """One that may be done together with others: when one of them fails, it is taken back."""

    @abc.abstractmethod
    def revert(self) -> None:
        """Takes the change back, after ``commit``."""


def perform(site: Site, operations: Sequence[ReversibleOperation] | tuple[Operation]) -> list[Step]:
    """Does all, or none, and gives the steps; one alone need not be reversible. Errors: ``ToolFault``.

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
        return steps


def _tidy(site: Site, operation: Operation) -> None:
    """Removes the directories that were made for a operation that was not done."""
    if operation.made:
        return
    for path in reversed(operation.created):
        with contextlib.suppress(Exception):
            walk = site.walk(path)
            try:
                os.rmdir(walk.name, dir_fd=walk.directory)
            finally:
                walk.close()


def discard(directory: int, name: str) -> None:
    """Deletes a temporary file, if it is there."""
    if look(directory, name) is not None:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=directory)
