"""An HTTP server for an ASGI application, in the running loop."""

import asyncio
import contextlib
import functools
import socket
from collections.abc import AsyncGenerator, Collection
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from ripieno.servers.http.connections import Bounds, Connection, ConnectionQueue, bounded
from ripieno.servers.http.listeners import bind, taken, url_of

#: Connections accepted at once. One, so that processes share a listener (measured: with 16, one of two idle processes
#: takes all of a burst), and running requests continue meanwhile.
_ACCEPTED = 1
#: Seconds for answers to end after their connections were closed; then they are cancelled.
_LAST = 2.0


@contextlib.asynccontextmanager
async def serve(
    application: ASGIApp,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    listener: socket.socket | None = None,
    bounds: Bounds | None = None,
) -> AsyncGenerator[str, None]:
    """Serves an ASGI application for the duration of the block, and yields its URL. Port 0 means any free one.

    Serves and closes ``listener``, if given, which comes from ``bind``. Handles no signals. At the end, new connections
    are refused, and open answers have the grace of the bounds. Errors: ``InputError`` if the port cannot be used.
    """
    bounds = bounds or Bounds()
    listener = listener or bind(host, port)
    queue = ConnectionQueue(bounds)
    config = uvicorn.Config(
        bounded(application, bounds.header_bytes),
        http=functools.partial(Connection, queue),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        log_config=None,
        log_level="error",
        access_log=False,
        lifespan="off",
        ws=functools.partial(_open_socket, bounds) if bounds.message_bytes else "none",  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        ws_max_size=bounds.message_bytes,
        # Pings keep the connection open at proxies. A late answer is no failure: the client may read slowly.
        ws_ping_timeout=None,
        # Each compressed connection needs memory of its own, and a message would be larger than what was received.
        ws_per_message_deflate=False,
        server_header=False,
        backlog=_ACCEPTED,
        timeout_keep_alive=bounds.idle_seconds,  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        timeout_graceful_shutdown=bounds.grace + bounds.farewell + _LAST,  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        h11_max_incomplete_event_size=bounds.header_bytes,
        # Otherwise the next request of a connection may run in the context of the one before (measured with a body
        # that arrives in pieces).
        reset_contextvars=True,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    # Its main loop would handle this program's signals. Apart from that, it only updates the date.
    try:
        await server.startup(sockets=[listener])
    except OSError as error:
        raise taken(host, listener.getsockname()[1], error) from error
    try:
        yield url_of(listener, host)
    finally:
        loop, state = asyncio.get_running_loop(), server.server_state
        timers = [loop.call_later(bounds.grace + bounds.farewell, _cut, state.connections)]
        if bounds.farewell:
            timers.append(loop.call_later(bounds.grace, _cancel, state.tasks))
        try:
            await server.shutdown(sockets=[listener])
        finally:
            for timer in timers:
                timer.cancel()
            _cut(server.server_state.connections)


def _open_socket(bounds: Bounds, **arguments: Any) -> asyncio.Protocol:
    # Imported with the first WebSocket.
    from ripieno.servers.http.sockets import make_socket

    return make_socket(bounds, **arguments)


def _cancel(tasks: Collection["asyncio.Task[None]"]) -> None:
    """Cancels open answers, which then report it to their clients."""
    for task in tuple(tasks):
        task.cancel()


def _cut(connections: Collection[Any]) -> None:
    for connection in tuple(connections):
        connection.transport.abort()
