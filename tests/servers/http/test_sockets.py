"""WebSockets of a server: clients that read nothing, and the end of the server."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncGenerator

import pytest
from starlette.types import Receive, Scope, Send
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from ripieno.exceptions import InputError
from ripieno.servers.http.connections import Bounds
from ripieno.servers.http.listeners import bind
from ripieno.servers.http.server import serve
from ripieno.servers.http.sockets import ENDING
from tests.servers.http.test_server import MovableClock, open_narrow

BOUNDS = Bounds(message_bytes=1000, stalled_seconds=30, grace=30)
HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: " + base64.b64encode(bytes(16)) + b"\r\n\r\n"
)


class Endless:
    """Writes as long as the client is there."""

    def __init__(self) -> None:
        self.left = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        writing = asyncio.create_task(self._write(send))
        while (await receive())["type"] != "websocket.disconnect":
            pass
        writing.cancel()
        await asyncio.wait({writing})
        self.left.set()

    async def _write(self, send: Send) -> None:
        with contextlib.suppress(OSError):
            while True:
                await send({"type": "websocket.send", "text": "x" * 32_768})
                await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def asking(application: Endless) -> AsyncGenerator[asyncio.StreamReader, None]:
    # Without a time limit, which would count the moves of the clock: a client is slow while its system takes bytes.
    async with serve(application, bounds=BOUNDS) as url:
        reader, writer = await open_narrow(int(url.rpartition(":")[2]))
        writer.write(HANDSHAKE)
        yield reader
        writer.close()
        await application.left.wait()


async def test_who_reads_nothing_is_cut() -> None:
    application, clock = Endless(), MovableClock(goes=True)
    async with asking(application):
        while not application.left.is_set():
            await clock.move(1)


async def test_who_reads_little_goes_on() -> None:
    application, clock = Endless(), MovableClock(goes=True)
    async with asking(application) as reader:
        for _ in range(40):
            await reader.readexactly(20_000)
            await clock.move(1)
        assert not application.left.is_set()


async def test_an_application_is_told_of_the_end_of_the_server_and_closes() -> None:
    heard: list[str] = []
    begun = asyncio.Event()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        heard.append((await receive())["text"])
        begun.set()
        heard.append((await receive())["type"])
        await send({"type": "websocket.send", "text": "the end"})
        await send({"type": "websocket.close", "code": 1012})

    async with asyncio.timeout(60), contextlib.AsyncExitStack() as stack:
        url = await stack.enter_async_context(serve(application, bounds=BOUNDS))
        async with connect(url.replace("http", "ws")) as client:
            await client.send("one")
            await begun.wait()
            ending = asyncio.create_task(stack.aclose())
            assert await client.recv() == "the end"
            with pytest.raises(ConnectionClosed):
                await client.recv()
            assert client.close_code == 1012
            await ending
    assert heard == ["one", ENDING]


async def test_without_messages_there_are_no_websockets() -> None:
    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    async with asyncio.timeout(60), serve(application) as url:
        with pytest.raises(InvalidStatus) as refused:
            await connect(url.replace("http", "ws")).__aenter__()
    assert refused.value.response.status_code == 200


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_of_another_machine_is_named_so(host: str) -> None:
    """Another port would not help."""
    with pytest.raises(InputError) as caught:
        bind(host, 0)
    assert f"{host} is no address of this machine" in str(caught.value)
    assert "port" not in str(caught.value)
