"""WebSockets of a server: limits on messages, fragments, stalled clients, and an end that lets answers finish."""

import asyncio
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame

from ripieno.servers.http.connections import Bounds, ReaderWatch

#: The message that tells an application that the server ends: an open answer may finish, and nothing new begins.
ENDING = "websocket.ending"
#: Fragments of one message. The library bounds only their bytes, and an empty one needs memory, too.
_FRAGMENTS = 1024


class Socket(ReaderWatch, WebSocketsSansIOProtocol):
    """A WebSocket. The library pauses reading while a message waits for the application, and bounds its bytes."""

    def __init__(self, bounds: Bounds, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.stalled_seconds = bounds.stalled_seconds

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_watching()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watching()
        super().connection_lost(exc)

    def handle_ping(self) -> None:
        # Without this, pings of a client that does not read fill the memory with answers to them.
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) >= _FRAGMENTS:
            self.conn.fail(CloseCode.MESSAGE_TOO_BIG, "too many fragments")
            self.handle_parser_exception()
            return
        super().handle_cont(event)

    def shutdown(self) -> None:
        # The application closes the socket, at once or after its answer.
        if self.handshake_complete and not self.close_sent:
            self.stop_keepalive()
            ending: Any = {"type": ENDING}
            self.queue.put_nowait(ending)
        else:
            super().shutdown()


def make_socket(bounds: Bounds, **arguments: Any) -> asyncio.Protocol:
    """The protocol of one connection that becomes a WebSocket."""
    return Socket(bounds, **arguments)
