"""Serves an ASGI application over HTTP in the running loop, as long as it is entered."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Collection
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ripieno.exceptions import InputError

#: Seconds that open answers have to end when the server closes; then their connections are cut.
GRACE = 0.3
#: Seconds in which all headers of a request must come, from the connection or their first byte on.
HEADER_SECONDS = 10.0


class _Prompt(H11Protocol):
    """Ends connections whose next request does not come; the library's own limit ends with the first byte (measured).

    Bodies are bounded by whoever reads them.
    """

    _overdue: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # What answers the last request that has all its headers.
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete:
            self._expect()
        else:
            self._expect_nothing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        super().connection_lost(exc)

    def _expect(self) -> None:
        if self._overdue is None:
            self._overdue = asyncio.get_running_loop().call_later(HEADER_SECONDS, self.transport.abort)

    def _expect_nothing(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None


@contextlib.asynccontextmanager
async def serve(application: Any, *, host: str = "127.0.0.1", port: int = 0) -> AsyncGenerator[str, None]:
    """Serves an ASGI application in the running loop, and gives its URL. Port 0 is any that is free.

    Takes no signals. At the end open answers have ``GRACE`` seconds, then they are cut. Errors: ``InputError`` when the
    port cannot be had.
    """
    listener = _listen(host, port)
    config = uvicorn.Config(
        application,
        http=_Prompt,
        log_config=None,
        log_level="error",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    # Its own main loop would take the signals of this program; it only stamps dates beside that.
    await server.startup(sockets=[listener])
    try:
        number = listener.getsockname()[1]
        yield f"http://[{host}]:{number}" if ":" in host else f"http://{host}:{number}"
    finally:
        cut = asyncio.get_running_loop().call_later(GRACE, _cut, server.server_state.connections)
        try:
            await server.shutdown(sockets=[listener])
        finally:
            cut.cancel()
            _cut(server.server_state.connections)


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise InputError(f"There is no port {port}. Choose one from 1 to 65535, or 0 for a free one.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with contextlib.ExitStack() as stack:
            # Named as TCP, because asyncio switches Nagle's algorithm off only where it is: a stream of small events
            # would wait for acknowledgements (measured: 50 events take 44 ms with it, 5 ms without).
            listener = stack.enter_context(socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind((host, port))
            listener.listen()
            stack.pop_all()
            return listener
    except OSError as error:
        raise InputError(
            f"Cannot listen at {host}, port {port}: {error}. Choose another, or 0 for a free one."
        ) from error


def _cut(connections: Collection[Any]) -> None:
    """Ends connections at once; whoever still answers on them is told, and stops."""
    for connection in tuple(connections):
        connection.transport.abort()
