"""Clients that take nothing of an answer: they are cut, and hold up nobody; those that are slow are served."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

from starlette.types import Receive, Scope, Send

from ripieno.servers.http.connections import Bounds
from ripieno.servers.http.server import serve
from tests.support.virtual_time import MovableClock

PIECE = b"x" * 32_768
BOUNDS = Bounds(stalled_seconds=30)
REQUEST = b"GET %s HTTP/1.1\r\nhost: x\r\n\r\n"


class Endless:
    """Writes as long as somebody is there to read, or what was asked for."""

    def __init__(self) -> None:
        self.written = 0
        self.left = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if scope["path"] == "/short":
            await send({"type": "http.response.body", "body": b"here"})
            return
        writing = asyncio.create_task(self._write(send))
        await receive()
        while (await receive())["type"] != "http.disconnect":
            pass
        writing.cancel()
        self.left.set()

    async def _write(self, send: Send) -> None:
        while True:
            await send({"type": "http.response.body", "body": PIECE, "more_body": True})
            self.written += len(PIECE)
            await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def asking(application: Endless, path: bytes = b"/") -> AsyncIterator[tuple[asyncio.StreamReader, int]]:
    async with serve(application, bounds=BOUNDS) as url:
        port = int(url.rpartition(":")[2])
        # As little as possible waits on the way: what the client takes is soon felt by the server.
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", port))
        reader, writer = await asyncio.open_connection(sock=client, limit=1024)
        writer.write(REQUEST % path)
        yield reader, port
        writer.close()


async def test_who_takes_nothing_is_cut() -> None:
    application, clock = Endless(), MovableClock(goes=True)
    async with asking(application):
        while not application.left.is_set():
            await clock.move(1)
    # What systems keep on the way, and what one write and the server's own buffer have.
    assert 0 < application.written < 16 * 2**20


async def test_who_takes_nothing_holds_up_nobody() -> None:
    application = Endless()
    async with asking(application) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST % b"/short")
        assert b"200" in await reader.readline()
        writer.close()


async def test_who_is_slow_is_served() -> None:
    application, clock = Endless(), MovableClock(goes=True)
    async with asking(application) as (reader, _):
        # Three times as long as a client may take nothing, with something taken all the time.
        for _ in range(900):
            assert await reader.read(1024)
            await clock.move(0.1)
        assert not application.left.is_set()
