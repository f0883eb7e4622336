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


@dataclasses.dataclass(slots=True)
class _Used:
    """A workspace in which this process has calls: its open, locked folder, and since when it is locked.

    ``folder`` is None where it could not be locked: the next call tries it again.
    """

    folder: int | None = None
    alone: bool = False
    since: float = 0.0
    calls: int = 0

    def lock(self, workspace: str, *, alone: bool) -> bool:
        """Locks the folder. False if another process holds it. Errors: ``OSError`` if there are no locks."""
        kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
        folder = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY) if self.folder is None else self.folder
        locked = False
        try:
            fcntl.flock(folder, kind | fcntl.LOCK_NB)
            locked = True
        except BlockingIOError:
            return False
        finally:
            if self.folder is None and not locked:
                os.close(folder)
        if self.folder is None:
            self.folder, self.since = folder, time.monotonic()
        self.alone = alone
        return True


class WorkspaceLocks:
    """The workspaces that this process uses. Not thread-safe."""

    def __init__(self) -> None:
        self._used: dict[str, _Used] = {}
        #: Workspaces that could not be locked once; each is logged once.
        self._logged: set[str] = set()

    def enter(self, workspace: str, *, alone: bool, within: bool) -> bool:
        """Begins a call in a workspace, ``alone`` if it writes. False if it must wait: try again later.

        ``within`` another call of this process, which would wait for this one: it waits for no call of this process.
        It does not wait where there are no locks, as on some file systems.
        """
        used = self._used.get(workspace) or _Used()
        more = alone and not used.alone
        if used.folder is not None and not within and (more or time.monotonic() - used.since > _TURN):
            return False
        if used.folder is None or more:
            try:
                # If another process comes between, the call in which this one runs reads without a lock.
                if not used.lock(workspace, alone=alone):
                    return False
            except OSError as error:
                if workspace not in self._logged:
                    self._logged.add(workspace)
                    _LOG.warning("Workers cannot take turns in the workspace %s: %s", workspace, error)
        used.calls += 1
        self._used[workspace] = used
        return True

    def leave(self, workspace: str) -> None:
        """Ends a call. The last one releases the workspace."""
        used = self._used.get(workspace)
        if used is None:
            return  # It began before there were such locks.
        used.calls -= 1
        if not used.calls:
            del self._used[workspace]
            if used.folder is not None:
                os.close(used.folder)
