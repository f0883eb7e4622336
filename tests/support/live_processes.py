"""Detects the end of all processes of a test, without process numbers, which could be reused."""

import asyncio
import contextlib
import os
import pathlib
import select
from collections.abc import Iterator

import pytest

from ripieno.sandbox import ProcessLimits
from ripieno.sandbox.capture import Capture
from ripieno.sandbox.local_processes import LocalProcess
from ripieno.sandbox.processes import LocalSpawner, clean_environment

#: Limits of processes that need not be asked for long.
QUICK = ProcessLimits(grace=0.2)


class Living:
    """A named pipe that processes hold open by ``exec 9>$ALIVE``; children inherit it."""

    def __init__(self, path: pathlib.Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    @property
    def anybody(self) -> bool:
        """Whether a process holds it open."""
        try:
            return os.read(self._reader, 1) != b""
        except BlockingIOError:
            return True

    def all_gone(self, seconds: float) -> bool:
        """Whether no process holds it open after at most ``seconds``."""
        # A pipe reports the end of its writers only if there has been one.
        os.close(os.open(self.path, os.O_WRONLY | os.O_NONBLOCK))
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


async def start_living(script: str, alive: Living, limits: ProcessLimits = QUICK) -> LocalProcess:
    """Runs a shell script that holds it open, and has called ``ready``."""
    argv = ["sh", "-c", f'exec 9>"$ALIVE"; ready() {{ echo ready; }}; {script}']
    environment = clean_environment({"ALIVE": str(alive.path)})
    process = await LocalSpawner().start(argv, environment, "/", limits, pipe_stdin=True)
    assert await process.stdout.read(6) == b"ready\n"
    return process


class Outputs:
    """The output of programs that this process has read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._data = b""
        feed = Capture.feed

        def keep(capture: Capture, data: bytes) -> None:
            feed(capture, data)
            self._data += data

        monkeypatch.setattr(Capture, "feed", keep)

    async def have(self, text: bytes, times: int = 1) -> None:
        """Waits until a text was read a number of times."""
        while self._data.count(text) < times:  # noqa: ASYNC110
            await asyncio.sleep(0)
