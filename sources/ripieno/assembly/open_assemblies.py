"""A mark of each open assembly in the user's state, which tells an author's changes of files from those of tools.

The file has a byte for each assembly that was ever entered, and each open one holds a shared lock on it.
"""

import contextlib
import fcntl
import os
import pathlib
from collections.abc import Generator

from ripieno.storage.files import make_private

_NAME = "assemblies"
_OPEN = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def marked(state: pathlib.Path | None) -> Generator[None, None, None]:
    """Marks an assembly as open inside the block. A state that cannot be written is no error: it has no trust."""
    with contextlib.ExitStack() as stack:
        if state is not None:
            with contextlib.suppress(OSError):
                make_private(state)
                descriptor = os.open(state / _NAME, _OPEN, 0o600)
                stack.callback(os.close, descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_SH)
                os.write(descriptor, b".")
        yield


def count_entered(state: pathlib.Path) -> int | None:
    """The number of assemblies that were entered so far; None while one is open. Errors: ``OSError``."""
    descriptor = os.open(state / _NAME, _OPEN, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.fstat(descriptor).st_size
    except BlockingIOError:
        return None
    finally:
        os.close(descriptor)
