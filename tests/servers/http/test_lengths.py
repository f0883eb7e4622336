"""Requests whose body has two lengths, and clients that read slowly, for all servers."""

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncGenerator, Iterable
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from ripieno.servers.http.connections import Bounds, Connection
from ripieno.servers.http.server import serve
from tests.counts import count
from tests.servers.http.test_server import open_narrow

#: Of a stream, a client that reads slowly holds at most so many bytes in the server.
HELD = 256 * 1024


class Counting:
    """Counts the requests that come in, and answers with their bodies."""

    def __init__(self) -> None:
        self.entered: list[bytes] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.entered.append(body)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" + body})


def headers_with_two_lengths() -> list[bytes]:
    lengths = [
        *(
            b"%s: %s" % pair
            for pair in itertools.product(
                (b"Content-Length", b"content-length", b"CONTENT-LENGTH"), (b"4", b"5", b"0", b"04")
            )
        ),
        *(
            b"%s: %s" % pair
            for pair in itertools.product((b"Transfer-Encoding", b"transfer-encoding"), (b"chunked", b"Chunked"))
        ),
    ]
    others = (b"X-A: 1", b"Accept: */*", b"Cookie: a=b", b"Content-Type: application/json", b"Trailer: x")
    found = [
        b"\r\n".join((first, *between, second))
        for first, second in itertools.product(lengths, repeat=2)
        for between in ((), others)
    ]
    found += [b"Content-Length: %s" % value for value in (b"4, 4", b"4,4", b"4,5", b"4 ,4", b",4", b"4,", b"4, 4, 4")]
    found += [
        b"Transfer-Encoding: %s" % value for value in (b"chunked, chunked", b"chunked, identity", b"gzip, chunked")
    ]
    return found


@contextlib.asynccontextmanager
async def connected(application: Any) -> AsyncGenerator[int, None]:
    async with asyncio.timeout(300), serve(application, bounds=Bounds(stalled_seconds=30)) as url:
        yield int(url.rpartition(":")[2])


async def test_a_body_with_two_lengths_is_refused() -> None:
    application, broken = Counting(), list[bytes]()
    forms = headers_with_two_lengths()
    chance = random.Random(4)
    async with connected(application) as port:
        for form in chance.sample(forms, count(len(forms), 4)):
            # Sent in one piece, in two, and as the second request of a connection.
            for pieces, before in itertools.product((1, 2), (b"", b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                sent = b"%sPOST / HTTP/1.1\r\nConnection: close\r\n%s\r\nHost: here\r\n\r\n4\r\nabcd\r\n0\r\n\r\n" % (
                    before,
                    form,
                )
                cut = len(before) + 20 + chance.randrange(len(form)) if pieces == 2 else len(sent)
                writer.write(sent[:cut])
                await writer.drain()
                await asyncio.sleep(0)
                writer.write(sent[cut:])
                with contextlib.suppress(ConnectionError):
                    answer = await reader.read()
                    if len(application.entered) != bool(before) or (b" 400 " not in answer and b" 501 " not in answer):
                        broken.append(form)
                writer.transport.abort()
                application.entered.clear()
    assert not broken, f"{len(broken)} of {4 * count(len(forms), 4)}: {broken[:3]}"


@pytest.mark.parametrize(
    "header", [b"Content-Length: 4\r\n\r\nabcd", b"Transfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n"]
)
async def test_a_body_with_one_length_comes_in(header: bytes) -> None:
    application = Counting()
    async with connected(application) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nHost: here\r\nConnection: close\r\nX-Content-Length: 1, 2\r\n" + header)
        assert b" 200 " in await reader.readline()
        assert application.entered == [b"abcd"]
        writer.transport.abort()


class Streaming:
    """Streams pieces of some sizes, for ever or as one answer."""

    def __init__(self, sizes: list[int], *, endless: bool) -> None:
        self.sizes = sizes
        self.endless = endless

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if self.endless:
            writing = asyncio.create_task(self._write(itertools.cycle(self.sizes), send))
            while (await receive())["type"] != "http.disconnect":
                pass
            writing.cancel()
            return
        await self._write(self.sizes, send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, sizes: Iterable[int], send: Send) -> None:
        for size in sizes:
            await send({"type": "http.response.body", "body": bytes(size), "more_body": True})
            await asyncio.sleep(0)


class Held:
    """The bytes that wait in the server, at each write that is too much for its client."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.paused = asyncio.Event()

    def note(self, connection: Connection) -> None:
        self.sizes.append(connection.transport.get_write_buffer_size())
        self.paused.set()


@pytest.fixture
async def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    found, pause = Held(), Connection.pause_writing

    def note(connection: Connection) -> None:
        asyncio.get_running_loop().call_soon(found.note, connection)
        pause(connection)

    monkeypatch.setattr(Connection, "pause_writing", note)
    return found


async def test_a_slow_reader_of_a_stream_holds_little(held: Held) -> None:
    chance = random.Random(6)
    for _ in range(trials := count(200)):
        sizes = [chance.choice((1, 100, 60_000, 200_000, 1_000_000, 20_000_000)) for _ in range(chance.randrange(1, 6))]
        sizes.append(8_000_000)
        async with connected(Streaming(sizes, endless=True)) as port:
            reader, writer = await open_narrow(port)
            writer.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
            held.paused.clear()
            await held.paused.wait()
            await reader.read(1)
            writer.transport.abort()
    broken = [size for size in held.sizes if size > HELD]
    assert not broken, f"{len(broken)} of {len(held.sizes)} in {trials} streams, up to {max(broken)}"


async def test_an_answer_in_pieces_is_complete() -> None:
    for size in (0, 1, 65_535, 65_536, 65_537, 131_072, 1_000_000):
        async with connected(Streaming([size], endless=False)) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
            assert (await reader.read()).count(b"\0") == size
            writer.transport.abort()


async def test_no_read_is_so_long_that_tiny_chunks_delay_others(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    received = Connection.data_received

    def count_bytes(self: Connection, data: bytes) -> None:
        sizes.append(len(data))
        received(self, data)

    monkeypatch.setattr(Connection, "data_received", count_bytes)
    counting = Counting()
    async with serve(counting) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        head = b"POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(head + b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
        writer.close()
    assert counting.entered == [b"x" * 20_000]
    assert max(sizes) <= 8 * 1024
