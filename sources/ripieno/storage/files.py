"""Private files of the user's state, replaced atomically."""

import contextlib
import fcntl
import os
import pathlib
import tempfile
from collections.abc import Generator


def replace_private(path: pathlib.Path, data: bytes, *, durable: bool = False) -> None:
    """Atomically replaces a file, with mode 0600. Creates its folder with mode 0700.

    With ``durable``, the file is on the disk on return. Errors: ``OSError``; the old file then stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}", suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


@contextlib.contextmanager
def locked(path: pathlib.Path) -> Generator[int, None, None]:
    """Holds the lock of a file, which is created if it is missing; yields its descriptor. It ends with its process."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def open_private(path: str, flags: int) -> int:
    """An opener for ``open`` that creates files with mode 0600."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
