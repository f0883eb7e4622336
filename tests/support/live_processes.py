"""Tells when every process of a test is dead, without looking at numbers that could be used again."""

import asyncio
import contextlib
import os
import pathlib
import select
from collections.abc import Iterator

import pytest

from ripieno.sandbox.capture import Capture


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


class Outputs:
    """What programs have written, as far as it has been read here."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._data = b""
        feed = Capture.feed

        def keep(capture: Capture, data: bytes) -> None:
            feed(capture, data)
            self._data += data

        monkeypatch.setattr(Capture, "feed", keep)

    async def have(self, text: bytes, times: int = 1) -> None:
        """Waits until a text has been read so often."""
        while self._data.count(text) < times:  # noqa: ASYNC110
            await asyncio.sleep(0)
