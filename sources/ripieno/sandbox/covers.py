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
from collections.abc import Generator, Iterator, Sequence

from ripieno.sandbox.removal import remove_empty

_OPEN = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Covers:
    """The covers of one workspace. A file in the temporary folder names them for all its applications.

    Each application holds a shared lock on the file while it runs programs, which ends with its process in any case.
    Who finds none of them, at its start or at the end of its last program, removes the covers and the file.
    """

    def __init__(self, workspace: str) -> None:
        self._workspace = workspace
        name = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:32]
        self._path = f"{os.path.realpath(tempfile.gettempdir())}/ripieno-covers-{os.geteuid()}-{name}"
        self._descriptor = -1
        self._programs = 0
        self._noted: list[str] = []
        #: The paths that were missing when they were last noted, also for other applications.
        self.absent: list[str] = []
        self.sweep()

    @contextlib.contextmanager
    def kept(self, protected: Sequence[str]) -> Generator[None, None, None]:
        """Keeps the covers while a program runs; those that no program needs are removed."""
        if not self._programs:
            self.note(protected)
        self._programs += 1
        try:
            yield
        finally:
            self._programs -= 1
            if not self._programs:
                self.close()

    def note(self, protected: Sequence[str]) -> None:
        """Notes the protected paths that are missing, before the first program runs."""
        if self._descriptor >= 0 or not protected:
            return
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
        self.absent = self._noted
        if self._descriptor >= 0:
            os.write(self._descriptor, b"".join(json.dumps(path).encode() + b"\n" for path in self._noted))
            self.absent = list(dict.fromkeys(_listed(self._descriptor)))

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
