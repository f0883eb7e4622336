"""Connections of a server: limits on idle time, headers, stalled clients and their number."""

import asyncio
import contextlib
import fcntl
import struct
import termios
from typing import Any

from h11 import RemoteProtocolError
from h11._receivebuffer import ReceiveBuffer
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from ripieno.values import Value

#: Connections beyond the limit that get an answer at the same time; further ones are only closed.
_ANSWERED = 32


#: The beginnings of headers that give the length of a body.
_LENGTHS = (b"content-length:", b"transfer-encoding:")
_SHOWN = 18
#: Bytes of an answer that are written at once: of a client that reads slowly, no more than a few such pieces are held.
_PIECE = 64 * 1024
#: Bytes that are read at once, since nothing else runs while they are parsed: 256 KiB in chunks of one byte take 250 ms
#: of the processor, these 10 ms (measured).
_READ = 8 * 1024


class Bounds(Value, kw_only=True):
    """The limits of one server, in bytes and seconds.

    ``header_seconds`` is for all headers of a request, from the connection or their first byte on. ``idle_seconds``
    limits a connection without a request, ``stalled_seconds`` a client that reads nothing of a waiting answer.
    ``connections`` None means no limit. Open answers have ``grace`` at the end. Then they are cut off, or, with
    ``farewell``, cancelled, with this time to report it. ``message_bytes`` limits a message to a WebSocket; 0 means
    that there are no WebSockets.
    """

    header_bytes: int = 64 * 1024
    header_seconds: float = 10.0
    idle_seconds: float = 5.0
    stalled_seconds: float = 30.0
    connections: int | None = None
    grace: float = 0.3
    farewell: float = 0.0
    message_bytes: int = 0


class ConnectionQueue:
    """The idle connections of one server. Beyond the limit, the one that is idle longest is closed."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._waiting: dict[Connection, None] = {}
        self._refused: dict[Connection, None] = {}

    def join(self, connection: "Connection") -> None:
        """Adds an idle connection; one that is in the queue keeps its place."""
        if connection not in self._refused:
            self._waiting.setdefault(connection)

    def leave(self, connection: "Connection") -> None:
        """Removes a connection that is no longer idle."""
        self._waiting.pop(connection, None)

    def forget(self, connection: "Connection") -> None:
        """Removes a connection that has ended."""
        self.leave(connection)
        self._refused.pop(connection, None)

    def admits(self, newcomer: "Connection", count: int) -> bool:
        """Makes space for a new one, if ``count`` now exceeds the limit. False if all others are in use."""
        if self.bounds.connections is None or count - len(self._refused) <= self.bounds.connections:
            return True
        self.leave(newcomer)
        if self._waiting:
            next(iter(self._waiting)).cut()
            self.join(newcomer)
            return True
        if len(self._refused) >= _ANSWERED:
            next(iter(self._refused)).cut()
        self._refused[newcomer] = None
        return False


class _StrictHeaders(ReceiveBuffer):
    """Refuses headers that give two lengths of a body, on which programs between client and server may disagree.

    The library accepts equal lengths, and a length beside chunks (measured).
    """

    def maybe_extract_lines(self) -> list[bytearray] | None:
        """The lines of the headers, if all are there. Errors: ``RemoteProtocolError``, which is answered with 400."""
        lines = super().maybe_extract_lines()
        lengths = [line for line in lines or () if line[:_SHOWN].lower().startswith(_LENGTHS)]
        if len(lengths) > 1 or (lengths and b"," in lengths[0]):
            raise RemoteProtocolError("the body has two lengths")
        return lines


class ReaderWatch:
    """Ends a connection whose client reads nothing of what waits for it. A slow client may continue."""

    transport: asyncio.Transport
    stalled_seconds: float
    _stalled: asyncio.TimerHandle | None = None
    #: Unread bytes of an answer at the last check.
    _unsent = 0

    def cut(self) -> None:
        """Closes the connection at once."""
        self.transport.abort()

    def _watch_reader(self) -> None:
        self._unsent = self._count_unsent()
        self._stalled = asyncio.get_running_loop().call_later(self.stalled_seconds, self._check_reader)

    def _check_reader(self) -> None:
        if self._count_unsent() < self._unsent:
            self._watch_reader()
        else:
            self.cut()

    def _count_unsent(self) -> int:
        """The bytes that the client has not read: the system's buffer, which empties first, and ours."""
        held = struct.pack("i", 0)
        # Not available everywhere. Without it, a very slow client counts as stalled.
        with contextlib.suppress(OSError, AttributeError):
            held = fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, held)
        return self.transport.get_write_buffer_size() + int(struct.unpack("i", held)[0])

    def _stop_watching(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None


class Connection(ReaderWatch, H11Protocol):
    """A connection that ends if its next request does not arrive.

    The library's limit ends with the first byte (measured). Bodies are bounded by their readers.
    """

    _overdue: asyncio.TimerHandle | None = None
    #: Whether a WebSocket has taken over the connection.
    _upgraded = False

    def __init__(self, queue: ConnectionQueue, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._queue = queue
        self.stalled_seconds = queue.bounds.stalled_seconds
        self.conn._receive_buffer = _StrictHeaders()  # pyright: ignore[reportPrivateUsage]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # The loop's transport reads so many bytes at once; those of other loops may not tell.
        with contextlib.suppress(AttributeError):
            transport.max_size = _READ  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
        self._expect()
        if not self._queue.admits(self, len(self.connections)):
            self.app = turn_away

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._upgraded:
            return
        # The cycle answers the last request with complete headers.
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete:
            self._expect()
        else:
            self._expect_nothing()

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._upgraded = True
        self._expect_nothing()
        super().handle_websocket_upgrade(event)

    def _should_upgrade(self) -> bool:
        # A connection beyond the limit gets its answer; so does a request for an upgrade that is not known here.
        wanted = self.ws_protocol_class is not None and self.app is not turn_away
        return wanted and self._get_upgrade() == b"websocket"

    def on_response_complete(self) -> None:
        super().on_response_complete()
        cycle: Any = self.cycle
        if cycle.response_complete and not self.transport.is_closing():
            self._queue.join(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_watching()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        self._stop_watching()
        self._queue.forget(self)
        super().connection_lost(exc)

    def cut(self) -> None:
        """Closes the connection at once, and stops counting it."""
        self._queue.forget(self)
        self.connections.discard(self)
        self.transport.abort()

    def _expect(self) -> None:
        self._queue.join(self)
        if self._overdue is None:
            seconds = self._queue.bounds.header_seconds
            self._overdue = asyncio.get_running_loop().call_later(seconds, self.transport.abort)

    def _expect_nothing(self) -> None:
        self._queue.leave(self)
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None


async def turn_away(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers that there are too many connections."""
    del scope, receive
    await _refuse(send, 503, b"There are too many connections. Try again later.\n", (b"retry-after", b"1"))


def bounded(application: ASGIApp, header_bytes: int) -> ASGIApp:
    """The application, for requests whose line and headers have at most ``header_bytes``. Answers are sent in pieces.

    The library limits only headers that arrive in pieces (measured: 200 KiB in one segment pass with any limit).
    """

    async def bound(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            send = denying(send)
        size = len(scope["raw_path"]) + len(scope["query_string"])
        for name, value in scope["headers"]:
            size += len(name) + len(value) + 4
        if size > header_bytes:
            await _refuse(send, 431, b"The headers are larger than %d bytes.\n" % header_bytes)
            return

        async def send_pieces(message: Message) -> None:
            body = message.get("body", b"")
            if len(body) > _PIECE:
                last = (len(body) - 1) // _PIECE * _PIECE
                for at in range(0, last, _PIECE):
                    # Waits until the client has read enough of those before.
                    await send({"type": "http.response.body", "body": body[at : at + _PIECE], "more_body": True})
                message = {**message, "body": body[last:]}
            await send(message)

        await application(scope, receive, send_pieces)

    return bound


def denying(send: Send) -> Send:
    """The function for answers to the request for a WebSocket that is refused: HTTP, as for other requests."""

    async def deny(message: Message) -> None:
        if message["type"].startswith("http.response."):
            message = {**message, "type": f"websocket.{message['type']}"}
        await send(message)

    return deny


async def _refuse(send: Send, status: int, text: bytes, *more: tuple[bytes, bytes]) -> None:
    length = b"%d" % len(text)
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", length), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *more]})
    await send({"type": "http.response.body", "body": text})
