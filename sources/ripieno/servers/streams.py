"""Standard streams, taken from plugins and tools, which may print."""

import contextlib
import fcntl
import os
import sys
from collections.abc import Generator

from ripieno.exceptions import InputError


def claim_streams() -> tuple[int, int]:
    """Takes standard input and output from the rest of the process, permanently; returns both descriptors.

    Afterwards input is empty, and output goes to standard error. Call it before anything that may print. Errors:
    ``InputError`` if one of the streams is closed.
    """
    try:
        reading = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
        writing = _claim_output()
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        # The parent process may share the streams, and use them without blocking.
        os.set_blocking(reading, True)
        os.set_blocking(writing, True)
    except OSError as error:
        raise InputError(f"Standard input and output must be open for a client: {error}") from error
    if sys.stdout is not None:
        # Earlier output goes to the new target.
        sys.stdout.flush()
    return reading, writing


@contextlib.contextmanager
def printing_to_errors() -> Generator[None]:
    """Sends to standard error what plugins, tools and their processes print inside the block."""
    stdout = sys.stdout
    if stdout is None:
        # Standard output is closed.
        yield
        return
    stdout.flush()
    writing = _claim_output()
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        try:
            # A module may have kept the stream.
            stdout.flush()
        finally:
            os.dup2(writing, 1)
            os.close(writing)


def _claim_output() -> int:
    """Makes standard output go to standard error; returns a descriptor of its own target. Errors: ``OSError``."""
    writing = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    try:
        os.dup2(2, 1)
    except OSError:  # Standard error is closed.
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.close(nothing)
    return writing
