"""A private folder in the temporary folder, and the removal of those that killed applications have left there.

The owner of a folder holds a lock on a file in it, which ends with the process, however that ends.
"""

import contextlib
import fcntl
import os
import stat
import tempfile
import threading
from typing import Self

from ripieno.lazy.expressions import expression
from ripieno.sandbox.removal import empty, open_folder, remove

_PREFIX = "ripieno-private-"
#: Other names are never ours, whatever they contain.
_NAME = expression(rf"{_PREFIX}[a-z0-9_]{{8}}")
_LOCK = "lock"
_OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
#: Attempts at a new folder: another application that starts may take one for abandoned before it is locked.
_ATTEMPTS = 100


class PrivateFolder:
    """A new folder that only this user can enter, until ``close``. ``path`` has no links.

    Errors on creation: ``OSError``.
    """

    def __init__(self) -> None:
        self.path, self._folder, self._lock = _create()
        self._removing = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def remove(self, name: str) -> None:
        """Removes a folder in it, as far as possible; may be called on any thread."""
        with self._removing:
            if self._folder >= 0:
                remove(name, self._folder)

    def close(self) -> None:
        """Removes it with everything in it; may be called twice."""
        with self._removing:
            if self._folder >= 0:
                _remove(self.path, self._folder)
                os.close(self._folder)
                os.close(self._lock)
                self._folder = -1


def sweep() -> None:
    """Removes the private folders of this user's applications that have ended without doing so; raises no ``OSError``.

    Only a folder that is this user's, closed to others, and has a lock file that no process holds is removed.
    """
    above = os.path.realpath(tempfile.gettempdir())
    with contextlib.suppress(OSError):
        for name in os.listdir(above):
            if _NAME.fullmatch(name):
                with contextlib.suppress(OSError):
                    _sweep(f"{above}/{name}")


def _sweep(path: str) -> None:
    folder = open_folder(path)
    try:
        if not _is_ours(os.fstat(folder)):
            return
        try:
            lock = os.open(_LOCK, _OPEN, dir_fd=folder)
        except FileNotFoundError:
            # Its owner was killed in the moment before the lock. Its owner creates another one if it was not.
            os.rmdir(path)
            return
        try:
            status = os.fstat(lock)
            if _is_ours(status) and stat.S_ISREG(status.st_mode):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(path, folder)
        finally:
            os.close(lock)
    finally:
        os.close(folder)


def _is_ours(status: os.stat_result) -> bool:
    """Whether it belongs to this user, and to no other."""
    return status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _create() -> tuple[str, int, int]:
    """A folder, with a descriptor of it and of its locked file. Errors: ``OSError``."""
    for _ in range(_ATTEMPTS):
        path = os.path.realpath(tempfile.mkdtemp(prefix=_PREFIX))
        with contextlib.ExitStack() as stack, contextlib.suppress(FileNotFoundError, BlockingIOError):
            folder = open_folder(path)
            stack.callback(os.close, folder)
            lock = os.open(_LOCK, _OPEN | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
            stack.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Another application may have removed it before the lock.
            if os.path.samestat(os.stat(_LOCK, dir_fd=folder), os.fstat(lock)):
                stack.pop_all()
                return path, folder, lock
    raise OSError(f"no private folder could be made in {tempfile.gettempdir()}")


def _remove(path: str, folder: int) -> None:
    """Removes a locked folder. The lock goes last: without it, a folder that is not empty is never removed."""
    empty(folder, spare=_LOCK)
    with contextlib.suppress(OSError):
        if os.listdir(folder) == [_LOCK]:
            os.unlink(_LOCK, dir_fd=folder)
            os.rmdir(path)
