"""The covers that tier 2 leaves where a protected path is missing, and their removal when no application needs them.

Bubblewrap makes an empty file or folder to mount over. Without it, a running program loses its protection, also the
program of another application, and an application that is killed removes none.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence

from ripieno.sandbox.removal import remove_empty

_OPEN = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Covers:
    """The covers of one workspace. A file in the temporary folder names them for all its applications.

    Each application that runs programs holds a shared lock on the file, which ends with its process, however that ends.
    Who finds none of them, at its start or at its end, removes the covers and the file.
    """

    def __init__(self, workspace: str) -> None:
        self._workspace = workspace
        name = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:32]
        self._path = f"{os.path.realpath(tempfile.gettempdir())}/ripieno-covers-{os.geteuid()}-{name}"
        self._descriptor = -1
        self._noted: list[str] = []
        self.sweep()

    def note(self, protected: Sequence[str]) -> list[str]:
        """Notes the protected paths that are missing, before the first program runs. Returns also those of others."""
        with contextlib.suppress(OSError):
            while self._descriptor < 0:
                descriptor = self._open(os.O_CREAT)
                fcntl.flock(descriptor, fcntl.LOCK_SH)
                if self._is_there(descriptor):
                    self._descriptor = descriptor
                else:
                    # The last application before removed it.
                    os.close(descriptor)
        self._noted = [path for path in protected if not os.path.lexists(path.rstrip("/"))]
        if self._descriptor < 0:
            return self._noted
        os.write(self._descriptor, b"".join(json.dumps(path).encode() + b"\n" for path in self._noted))
        return list(dict.fromkeys(_listed(self._descriptor)))

    def sweep(self) -> None:
        """Removes the covers if no application uses the workspace; raises no ``OSError``."""
        with contextlib.suppress(OSError):
            descriptor = self._open(0)
            try:
                self._remove(descriptor)
            finally:
                os.close(descriptor)

    def close(self) -> None:
        """Removes the covers, unless another application needs them. Call it when no process runs any more."""
        if self._descriptor < 0:
            for path in self._noted:
                remove_empty(path, self._workspace)
            return
        with contextlib.suppress(OSError):
            self._remove(self._descriptor)
        # A process that was forked meanwhile has it, too.
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)
        self._descriptor = -1

    def _open(self, more: int) -> int:
        """Errors: ``OSError``, also for a file that another user has put there."""
        descriptor = os.open(self._path, _OPEN | more, 0o600)
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or status.st_mode & 0o077 or not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise PermissionError(f"{self._path} is not of this user alone.")
        return descriptor

    def _is_there(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.lstat(self._path), os.fstat(descriptor))
        except FileNotFoundError:
            return False

    def _remove(self, descriptor: int) -> None:
        """Errors: ``OSError``, for example if another application has the lock."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if self._is_there(descriptor):
            for path in _listed(descriptor):
                remove_empty(path, self._workspace)
            os.unlink(self._path)


def _listed(descriptor: int) -> Iterator[str]:
    data = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    for line in data.splitlines():
        # The last one may have been cut off.
        with contextlib.suppress(ValueError):
            yield str(json.loads(line))
