"""The HTTP server that rehearsals and the MCP server share: what does not come in time does not hold it."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator

import pytest
from starlette.types import Receive, Scope, Send

from ripieno.exceptions import InputError
from ripieno.servers.http.connections import Bounds
from ripieno.servers.http.server import serve
from tests.support.virtual_time import MovableClock

REQUEST = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 4\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\n"


class Application:
    """Answers every request with its body, when it is let go."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.go = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked.set()
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        await self.go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})


@contextlib.asynccontextmanager
async def connection(
    application: Application, *, go: bool = True
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter], None]:
    """A connection to a server of the application, which gives ten seconds for headers."""
    if go:
        application.go.set()
    async with serve(application, bounds=Bounds(header_seconds=10)) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        try:
            yield reader, writer
        finally:
            writer.transport.abort()


async def cut(reader: asyncio.StreamReader, clock: MovableClock) -> bytes:
    """What came until the server hung up, as the clock moves."""
    reading = asyncio.create_task(reader.read())
    while not reading.done():
        await clock.move(1)
    with contextlib.suppress(ConnectionError):
        return await reading
    return b""


@pytest.mark.parametrize("sent", [b"", b"GET / HT", REQUEST[:-2]])
async def test_a_request_that_does_not_come_is_cut(sent: bytes) -> None:
    clock = MovableClock(goes=True)
    async with connection(Application()) as (reader, writer):
        writer.write(sent)
        assert await cut(reader, clock) == b""


async def test_headers_that_dribble_are_cut_at_the_same_time() -> None:
    clock = MovableClock(goes=True)
    async with connection(Application()) as (reader, writer):
        writer.write(REQUEST[:-2])
        gone = asyncio.create_task(reader.read())
        sent = 0
        while not gone.done():
            writer.write(b"x-%d: y\r\n" % sent)
            sent += 1
            await clock.move(1)
        with contextlib.suppress(ConnectionError):
            assert await gone == b""
        assert sent > 1


async def test_the_next_request_of_a_connection_is_bounded_too() -> None:
    clock = MovableClock(goes=True)
    async with connection(Application()) as (reader, writer):
        for _ in range(2):
            writer.write(REQUEST)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(ANSWER)
        writer.write(b"GET")
        assert await cut(reader, clock) == b""


async def test_neither_bodies_nor_answers_are_cut() -> None:
    application, clock = Application(), MovableClock(goes=True)
    async with connection(application, go=False) as (reader, writer):
        writer.write(POST)
        await application.asked.wait()
        for one in (b"b", b"o", b"d", b"y"):
            await clock.move(20)
            writer.write(one)
        await clock.move(20)
        application.go.set()
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(ANSWER)
        assert await reader.readexactly(4) == b"body"


async def test_a_port_that_is_none_or_taken_is_said() -> None:
    application = Application()
    with pytest.raises(InputError, match="There is no port 70000"):
        await serve(application, port=70000).__aenter__()
    async with serve(application) as url:
        with pytest.raises(InputError, match=r"Cannot listen on 127\.0\.0\.1"):
            await serve(application, port=int(url.rpartition(":")[2])).__aenter__()


# Clients that take nothing of an answer, or little.

PIECE = b"x" * 32_768
BOUNDS = Bounds(stalled_seconds=30)


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


async def open_narrow(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection on which as little as possible waits: what the client takes is soon felt by the server."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", port))
    return await asyncio.open_connection(sock=client, limit=1024)


@contextlib.asynccontextmanager
async def asking(application: Endless) -> AsyncGenerator[tuple[asyncio.StreamReader, int], None]:
    async with serve(application, bounds=BOUNDS) as url:
        port = int(url.rpartition(":")[2])
        reader, writer = await open_narrow(port)
        writer.write(REQUEST)
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
        writer.write(REQUEST.replace(b" / ", b" /short "))
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
