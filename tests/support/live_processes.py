"""Tells when every process of a test is dead, without looking at numbers that could be used again."""

import contextlib
import os
import pathlib
import select
from collections.abc import Iterator


class Living:
    """A named pipe that processes hold open by ``exec 9>$ALIVE``; children inherit it."""

    def __init__(self, path: pathlib.Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    @property
    def anybody(self) -> bool:
        """Whether somebody holds it now."""
        try:
            return os.read(self._reader, 1) != b""
        except BlockingIOError:
            return True

    def all_gone(self, seconds: float) -> bool:
        """Whether nobody holds it, at the latest after ``seconds``. Somebody must have held it before."""
        waiting = select.poll()
        waiting.register(self._reader, select.POLLIN)
        waiting.poll(seconds * 1000)
        return not self.anybody

    def close(self) -> None:
        os.close(self._reader)


@contextlib.contextmanager
def living(path: pathlib.Path) -> Iterator[Living]:
    """A ``Living`` at that path."""
    alive = Living(path)
    try:
        yield alive
    finally:
        alive.close()
