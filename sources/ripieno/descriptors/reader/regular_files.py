"""Opens regular files only: any other, such as a pipe, may wait for another program, or have effects."""

import errno
import os
import stat


def open_regular(path: str, flags: int) -> int:
    """An opener for ``open``. Errors: ``OSError``, also for what is not a regular file, which is not waited for."""
    require_regular(os.stat(path), path)
    # It may have been replaced meanwhile.
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        require_regular(os.fstat(descriptor), path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def require_regular(status: os.stat_result, path: str) -> None:
    """Errors: ``OSError`` for the status of what is not a regular file."""
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", path)


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a regular file. Errors: ``OSError``, those of ``open_regular``."""
    with open(path, "rb", opener=open_regular) as file:
        return file.read()
