"""Locks between processes of one machine that work in the same workspace: the workspace's folder itself is locked.

A process holds the folder alone while one of its calls writes declared resources of the workspace, and together with
others while its calls only read. The system releases the locks of a process that dies.
"""

import dataclasses
import fcntl
import logging
import os
import time

#: Seconds for which a process takes in further calls while it holds a workspace. Then others have their turn.
_TURN = 2.0
_LOG = logging.getLogger("ripieno")


@dataclasses.dataclass(slots=True, kw_only=True)
class _Held:
    """A workspace that this process holds: its open folder, and the number of its calls."""

    folder: int
    alone: bool
    since: float
    calls: int = 1


class WorkspaceLocks:
    """The workspaces that this process holds. Not thread-safe."""

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}
        #: Workspaces whose file system has no locks; each is logged once.
        self._unlockable: set[str] = set()

    def enter(self, workspace: str, *, alone: bool, within: bool) -> bool:
        """Begins a call in a workspace, ``alone`` if it writes. False if it must wait: try again later.

        ``within`` another call of this process, which would wait for this one: it waits for no call of this process.
        """
        held = self._held.get(workspace)
        if held is None:
            folder = self._lock(workspace, alone=alone)
            if folder is not None:
                self._held[workspace] = _Held(folder=folder, alone=alone, since=time.monotonic())
            return folder is not None or workspace in self._unlockable
        if not within and (time.monotonic() - held.since > _TURN or (alone and not held.alone)):
            return False
        if alone and not held.alone:
            # If another process comes between, the call in which this one runs reads without a lock.
            if not self._change(held.folder, fcntl.LOCK_EX):
                return False
            held.alone = True
        held.calls += 1
        return True

    def leave(self, workspace: str) -> None:
        """Ends a call. The last one releases the workspace."""
        held = self._held.get(workspace)
        if held is not None:
            held.calls -= 1
            if not held.calls:
                del self._held[workspace]
                os.close(held.folder)

    def _lock(self, workspace: str, *, alone: bool) -> int | None:
        """The open, locked folder; None if another process holds it, or there are no locks."""
        folder = None
        try:
            folder = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)
            if self._change(folder, fcntl.LOCK_EX if alone else fcntl.LOCK_SH):
                return folder
        except OSError as error:
            if workspace not in self._unlockable:
                self._unlockable.add(workspace)
                _LOG.warning("Workers cannot take turns in the workspace %s: %s", workspace, error)
        if folder is not None:
            os.close(folder)
        return None

    @staticmethod
    def _change(folder: int, kind: int) -> bool:
        try:
            fcntl.flock(folder, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
