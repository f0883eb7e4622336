"""Our ends of a process's pipes, as asynchronous byte streams without buffers.

Unread data stays in the pipe and blocks the writer, so a flood costs no memory here. A pipe that another process keeps
open can be closed at any time, which asyncio's own transports do not allow (measured on Python 3.11: they wait for the
end of the stream, even long after the process has ended).
"""

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import IO, Protocol

from ripieno.exceptions import UsageError

#: Bytes read at once: the capacity of a pipe on most systems.
CHUNK = 64 * 1024


class ByteReader(Protocol):
    """A source of bytes."""

    async def read(self, size: int = CHUNK) -> bytes:
        """The next bytes, at least one and at most ``size``; ``b""`` at the end, or after ``close``.

        Cancelling loses nothing. Errors: ``UsageError`` when another task is reading.
        """
        ...

    def close(self) -> None:
        """Closes the stream; may be called twice. A waiting reader gets ``b""``."""
        ...


class ByteWriter(Protocol):
    """A destination of bytes."""

    async def write(self, data: bytes) -> None:
        """Writes all of ``data``, in order with other tasks' writes.

        Cancelling may leave a part written. Errors: ``BrokenPipeError`` when the reader is gone.
        """
        ...

    def close(self) -> None:
        """Ends the stream; may be called twice."""
        ...


class _Pipe:
    """A descriptor that one task at a time waits for."""

    def __init__(self, file: IO[bytes]) -> None:
        os.set_blocking(file.fileno(), False)
        self._file = file
        self._waiter: asyncio.Future[None] | None = None

    async def _ready(self, add: Callable[..., object], remove: Callable[[int], object]) -> bool:
        """Waits for readiness; False when the pipe is closed."""
        if self._file.closed:
            return False
        if self._waiter is not None:
            raise UsageError("Two tasks cannot use the same end of a pipe at the same time.")
        self._waiter = asyncio.get_running_loop().create_future()
        add(self._file.fileno(), _settle, self._waiter)
        try:
            await self._waiter
        finally:
            self._waiter = None
            # The number of a closed descriptor may be in use again.
            if not self._file.closed:
                remove(self._file.fileno())
        return not self._file.closed

    def close(self) -> None:
        """Closes the descriptor and wakes the waiting task; may be called twice."""
        if self._file.closed:
            return
        if self._waiter is not None:
            loop = self._waiter.get_loop()
            loop.remove_reader(self._file.fileno())
            loop.remove_writer(self._file.fileno())
            _settle(self._waiter)
        self._file.close()


def _settle(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class PipeReader(_Pipe):
    """The reading end. Each read takes one turn of the event loop, so that a flood starves no other task."""

    async def read(self, size: int = CHUNK) -> bytes:
        loop = asyncio.get_running_loop()
        while await self._ready(loop.add_reader, loop.remove_reader):
            with contextlib.suppress(BlockingIOError):
                return os.read(self._file.fileno(), size)
        return b""


class PipeWriter(_Pipe):
    """The writing end."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self._turn = asyncio.Lock()

    async def write(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        async with self._turn:
            rest = memoryview(data)
            open_ = not self._file.closed
            while rest and open_:
                try:
                    rest = rest[os.write(self._file.fileno(), rest) :]
                except BlockingIOError:
                    open_ = await self._ready(loop.add_writer, loop.remove_writer)
            if rest:
                raise BrokenPipeError("The pipe to the process is closed.")
