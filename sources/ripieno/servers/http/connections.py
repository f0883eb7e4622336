"""Connections of a server: how long they may wait for a request, how large its headers are, and how many there are."""

import asyncio
import contextlib
import dataclasses
import fcntl
import struct
import termios
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

#: Connections beyond the bound that are told so, at once; what comes beyond these is only cut.
_TOLD = 32


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What one server takes of its clients, in bytes and seconds.

    ``header_seconds`` is for all headers of a request, from the connection or their first byte on; ``idle_seconds`` is
    how long a connection stays without a request, ``stalled_seconds`` how long a client may take nothing of an answer
    that waits for it. ``connections`` None is as many as there may be. ``grace`` is what
    open answers have at the end; then they are cut, or, with ``farewell``, cancelled, and have this to say so.
    """

    header_bytes: int = 64 * 1024
    header_seconds: float = 10.0
    idle_seconds: float = 5.0
    stalled_seconds: float = 30.0
    connections: int | None = None
    grace: float = 0.3
    farewell: float = 0.0


class ConnectionQueue:
    """The connections of one server that wait for a request. Where there are too many, who has waited longest goes.

    So whoever holds connections open loses them to those who ask for something.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._waiting: dict[Connection, None] = {}
        self._told: dict[Connection, None] = {}

    def join(self, connection: "Connection") -> None:
        """It waits for a request; whoever does already keeps its place."""
        if connection not in self._told:
            self._waiting.setdefault(connection)

    def leave(self, connection: "Connection") -> None:
        """It waits no longer."""
        self._waiting.pop(connection, None)

    def forget(self, connection: "Connection") -> None:
        """It has ended."""
        self.leave(connection)
        self._told.pop(connection, None)

    def admits(self, newcomer: "Connection", count: int) -> bool:
        """Makes room for one more, of which there are ``count`` now; False where all others are being answered."""
        if self.bounds.connections is None or count - len(self._told) <= self.bounds.connections:
            return True
        self.leave(newcomer)
        if self._waiting:
            next(iter(self._waiting)).cut()
            self.join(newcomer)
            return True
        if len(self._told) >= _TOLD:
            next(iter(self._told)).cut()
        self._told[newcomer] = None
        return False


class Connection(H11Protocol):
    """Ends when its next request does not come; the library's own limit ends with the first byte (measured).

    Bodies are bounded by whoever reads them.
    """

    _overdue: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None
    #: How much of an answer waited for its client the last time that anybody looked.
    _unsent = 0

    def __init__(self, line: ConnectionQueue, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._line = line

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()
        if not self._line.admits(self, len(self.connections)):
            self.app = turn_away

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # What answers the last request that has all its headers.
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete:
            self._expect()
        else:
            self._expect_nothing()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        cycle: Any = self.cycle
        if cycle.response_complete and not self.transport.is_closing():
            self._line.join(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._watch_nobody()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        self._watch_nobody()
        self._line.forget(self)
        super().connection_lost(exc)

    def cut(self) -> None:
        """Ends at once, and counts no longer."""
        self._line.forget(self)
        self.connections.discard(self)
        self.transport.abort()

    def _watch_reader(self) -> None:
        """A client that takes nothing is cut; one that is only slow is not."""
        self._unsent = self._count_unsent()
        seconds = self._line.bounds.stalled_seconds
        self._stalled = asyncio.get_running_loop().call_later(seconds, self._judge_reader)

    def _judge_reader(self) -> None:
        if self._count_unsent() < self._unsent:
            self._watch_reader()
        else:
            self.cut()

    def _count_unsent(self) -> int:
        """Bytes that the client has not taken. What the system holds of them moves first, and long before ours does."""
        held = struct.pack("i", 0)
        # Elsewhere nobody can tell: there, a client that is very slow is taken for one that stands still.
        with contextlib.suppress(OSError, AttributeError):
            held = fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, held)
        return self.transport.get_write_buffer_size() + int(struct.unpack("i", held)[0])

    def _watch_nobody(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _expect(self) -> None:
        self._line.join(self)
        if self._overdue is None:
            seconds = self._line.bounds.header_seconds
            self._overdue = asyncio.get_running_loop().call_later(seconds, self.transport.abort)

    def _expect_nothing(self) -> None:
        self._line.leave(self)
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None


async def turn_away(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers that there are too many connections."""
    del scope, receive
    await _refuse(send, 503, b"There are too many connections. Try again later.\n", (b"retry-after", b"1"))


def bounded(application: ASGIApp, header_bytes: int) -> ASGIApp:
    """The same for requests whose line and headers are no larger than that.

    The library bounds only those that come in pieces (measured: 200 KiB in one segment are taken with any limit).
    """

    async def bound(scope: Scope, receive: Receive, send: Send) -> None:
        size = len(scope["raw_path"]) + len(scope["query_string"])
        for name, value in scope["headers"]:
            size += len(name) + len(value) + 4
        if size > header_bytes:
            await _refuse(send, 431, b"The headers are too large: %d bytes are taken.\n" % header_bytes)
            return
        await application(scope, receive, send)

    return bound


async def _refuse(send: Send, status: int, text: bytes, *more: tuple[bytes, bytes]) -> None:
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"%d" % len(text)),
        (b"connection", b"close"),
        *more,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text})
