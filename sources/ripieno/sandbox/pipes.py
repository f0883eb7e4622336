"""Our ends of a process's pipes, as asynchronous byte streams without buffers.

Unread data stays in the pipe and blocks the writer, so a flood costs no memory here. A pipe that another process keeps
open can be closed at any time, which asyncio's own transports do not allow (measured on Python 3.11: they wait for the
end of the stream, even long after the process has ended).
"""

import os
from typing import IO, Protocol

from ripieno.exceptions import UsageError
from ripieno.postponed import asyncio

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


class PipeReader:
    """The reading end. Each read takes one turn of the event loop, so that a flood starves no other task.

    The descriptor stays watched from one read to the next, which saves two system calls for each message of a server,
    unless data comes while no task waits for it.
    """

    def __init__(self, file: IO[bytes]) -> None:
        os.set_blocking(file.fileno(), False)
        self._file = file
        self._waiter: asyncio.Future[None] | None = None
        #: The loop that watches the descriptor.
        self._watching: asyncio.AbstractEventLoop | None = None
        self._size = CHUNK
        #: What was read for a task that was cancelled before it got it.
        self._unread = b""

    async def read(self, size: int = CHUNK) -> bytes:
        if self._file.closed:
            return b""
        if self._waiter is not None:
            raise UsageError("Two tasks cannot use the same end of a pipe at the same time.")
        if not self._unread:
            await self._wait(size)
        data, self._unread = self._unread[:size], self._unread[size:]
        return data

    async def _wait(self, size: int) -> None:
        loop = asyncio.get_running_loop()
        self._size = size
        self._waiter = loop.create_future()
        if self._watching is None:
            self._watching = loop
            loop.add_reader(self._file.fileno(), self._receive)
        try:
            await self._waiter
        except BaseException:
            self._unwatch()
            raise
        finally:
            self._waiter = None

    def _receive(self) -> None:
        """Reads for the waiting task."""
        if self._waiter is None or self._waiter.done():
            self._unwatch()
            return
        try:
            self._unread = os.read(self._file.fileno(), self._size)
        except BlockingIOError:
            return
        except OSError as error:
            self._waiter.set_exception(error)
        else:
            self._waiter.set_result(None)

    def _unwatch(self) -> None:
        # The number of a closed descriptor may be in use again.
        if self._watching is not None and not self._file.closed:
            self._watching.remove_reader(self._file.fileno())
        self._watching = None

    def close(self) -> None:
        """Closes the descriptor and wakes the waiting task; may be called twice."""
        self._unwatch()
        _settle(self._waiter)
        self._file.close()


class PipeWriter:
    """The writing end."""

    def __init__(self, file: IO[bytes]) -> None:
        os.set_blocking(file.fileno(), False)
        self._file = file
        self._waiter: asyncio.Future[None] | None = None
        self._turn = asyncio.Lock()

    async def write(self, data: bytes) -> None:
        async with self._turn:
            rest = memoryview(data)
            while rest and not self._file.closed:
                try:
                    rest = rest[os.write(self._file.fileno(), rest) :]
                except BlockingIOError:
                    await self._wait()
            if rest:
                raise BrokenPipeError("The pipe to the process is closed.")

    async def _wait(self) -> None:
        """Waits until there is room, or the pipe is closed."""
        loop, number = asyncio.get_running_loop(), self._file.fileno()
        self._waiter = loop.create_future()
        loop.add_writer(number, _settle, self._waiter)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if not self._file.closed:
                loop.remove_writer(number)

    def close(self) -> None:
        """Closes the descriptor and wakes the waiting task; may be called twice."""
        if self._waiter is not None and not self._file.closed:
            self._waiter.get_loop().remove_writer(self._file.fileno())
        _settle(self._waiter)
        self._file.close()


def _settle(waiter: "asyncio.Future[None] | None") -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
