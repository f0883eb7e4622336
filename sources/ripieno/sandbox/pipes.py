"""Our ends of a process's pipes, as asynchronous byte streams without buffers.

Unread data stays in the pipe and blocks the writer, so a flood costs no memory here. A pipe that another process keeps
open can be closed at any time, which asyncio's own transports do not allow (measured on Python 3.11: they wait for the
end of the stream, even long after the process has ended).
"""

import collections
import dataclasses
import os
from typing import IO, Protocol

from ripieno.exceptions import UsageError
from ripieno.lazy.modules import asyncio

#: Bytes read at once: the capacity of a pipe on most systems.
CHUNK = 64 * 1024
_CLOSED = "The pipe to the process is closed."


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

        After a cancellation, all of it is written or nothing, unless the stream ends before. Errors:
        ``BrokenPipeError`` when the reader is gone.
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
        _wake(self._waiter)
        self._file.close()


@dataclasses.dataclass(slots=True, eq=False)
class _Write:
    """Data that waits for room in a pipe; ``done`` when all of it is written."""

    data: memoryview
    done: "asyncio.Future[None]"
    begun: bool


class PipeWriter:
    """The writing end. A write takes no turn of the event loop if the pipe has room.

    The event loop writes what waits for room, not the task that waits: so a cancelled task leaves no part of a message.
    """

    def __init__(self, file: IO[bytes]) -> None:
        os.set_blocking(file.fileno(), False)
        self._file = file
        self._waiting: collections.deque[_Write] = collections.deque()

    async def write(self, data: bytes) -> None:
        written = 0 if self._waiting else self._push(data)
        if written < len(data):
            await self._wait(memoryview(data)[written:], begun=written > 0)

    async def _wait(self, rest: memoryview, *, begun: bool) -> None:
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.add_writer(self._file.fileno(), self._drain)
        write = _Write(rest, loop.create_future(), begun)
        self._waiting.append(write)
        try:
            await write.done
        except asyncio.CancelledError:
            if not write.begun and write in self._waiting:
                self._waiting.remove(write)
                self._unwatch()
            raise

    def _push(self, data: bytes | memoryview) -> int:
        """Writes what the pipe has room for; returns its size. Errors: ``BrokenPipeError``."""
        if self._file.closed:
            raise BrokenPipeError(_CLOSED)
        try:
            return os.write(self._file.fileno(), data)
        except BlockingIOError:
            return 0

    def _drain(self) -> None:
        """Goes on with the first write that waits."""
        first = self._waiting[0]
        try:
            written = self._push(first.data)
        except OSError as error:
            self._fail(error)
            return
        first.begun = first.begun or written > 0
        first.data = first.data[written:]
        if not first.data:
            self._waiting.popleft()
            _wake(first.done)
            self._unwatch()

    def _unwatch(self) -> None:
        """Ends the watching of the descriptor when no write waits."""
        if not self._waiting:
            asyncio.get_running_loop().remove_writer(self._file.fileno())

    def _fail(self, error: OSError) -> None:
        """Ends all writes that wait."""
        failed = list(self._waiting)
        self._waiting.clear()
        if failed:
            failed[0].done.get_loop().remove_writer(self._file.fileno())
        for write in failed:
            if not write.done.done():
                write.done.set_exception(error)

    def close(self) -> None:
        """Closes the descriptor and wakes the waiting tasks; may be called twice."""
        self._fail(BrokenPipeError(_CLOSED))
        self._file.close()


def _wake(waiter: "asyncio.Future[None] | None") -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
