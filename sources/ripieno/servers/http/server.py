"""Serves an ASGI application over HTTP in the running loop, as long as it is entered.

``listening`` opens the listener, ``connections`` bounds who is connected, ``keys`` tells who has one, and ``receiving``
reads what comes.
"""

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

__all__ = ["Bounds", "serve"]

#: Connections that are taken at once: so processes that serve one listener share them (measured: with 16, one of two
#: idle processes takes all of a burst), and requests that run go on meanwhile.
_ACCEPTED = 1
#: Seconds in which answers end whose connections were cut; then they are cancelled.
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
    """Serves an ASGI application in the running loop, and gives its URL. Port 0 is any that is free.

    ``listener`` is one of ``bind`` that is served instead, and closed. Takes no signals. At the end nobody new is let
    in, and open answers have the grace of the bounds; then they are cut. Errors: ``InputError`` when the port cannot be
    had.
    """
    bounds = bounds or Bounds()
    listener = listener or bind(host, port)
    line = ConnectionQueue(bounds)
    config = uvicorn.Config(
        bounded(application, bounds.header_bytes),
        http=functools.partial(Connection, line),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        log_config=None,
        log_level="error",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        backlog=_ACCEPTED,
        timeout_keep_alive=bounds.idle_seconds,  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        timeout_graceful_shutdown=bounds.grace + bounds.farewell + _LAST,  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        h11_max_incomplete_event_size=bounds.header_bytes,
        # What a request had in its context is not for the next one of its connection (measured: a body that comes in
        # pieces lets the connection read on in that of its request).
        reset_contextvars=True,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    # Its own main loop would take the signals of this program; it only stamps dates beside that.
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


def _cancel(tasks: Collection["asyncio.Task[None]"]) -> None:
    """Lets open answers end as their clients can read it."""
    for task in tuple(tasks):
        task.cancel()


def _cut(connections: Collection[Any]) -> None:
    """Ends connections at once; whoever still answers on them is told, and stops."""
    for connection in tuple(connections):
        connection.transport.abort()
