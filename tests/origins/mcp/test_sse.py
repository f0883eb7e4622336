"""Old servers, which answer in one stream of events: the same life as over HTTP today, and nothing sent elsewhere."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from ripieno.ensembles import Surroundings
from ripieno.exceptions import ExecutionFault, NetworkFault, OutcomeUnknownFault, ToolFault
from ripieno.origins.mcp.transports import sse
from tests.origins.mcp.test_http import answering, at, refused, said, until
from tests.support.toml_ensembles import Alerts, call, make_ensemble

HEADERS = '[connection.headers]\nAuthorization = "Bearer {env:TOKEN}"\n'
SECRET = "a-secret-token"


@pytest.fixture(autouse=True)
async def tidy() -> AsyncGenerator[None, None]:
    """No task and no descriptor is left behind."""
    before = len(os.listdir("/dev/fd"))
    yield
    await until(lambda: len(asyncio.all_tasks()) == 1)
    await until(lambda: len(os.listdir("/dev/fd")) <= before)


EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 401 a-secret-token\r\nContent-Length: 0\r\n\r\n", "answered 401 [hidden]"),
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "answered 403 Forbidden"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "answered 404 Not Found"),
        (b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n", "answered 405 Method Not Allowed"),
        (b"HTTP/1.1 500 \x1b[31mOh\r\nContent-Length: 0\r\n\r\n", "answered 500 Oh"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "answered 204 No Content"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "was not followed"),
        (b"HTTP/1.1 307 Again\r\nLocation: /mcp\r\nContent-Length: 0\r\n\r\n", "was not followed"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\n<p>", "answered with text/html"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n<p>", "answered with nothing instead of a stream of events"),
        (EVENTS[:-2] + b"Content-Encoding: gzip\r\n\r\nx", "answered 502"),
        (EVENTS[:-2] + b"Content-Length: 3\r\n\r\n: x", "ended its stream of events without naming"),
        (EVENTS[:-2] + b"Content-Length: 300\r\n\r\n: x", "broke the connection"),
        (b"SSH-2.0-OpenSSH\r\n", "broke the connection"),
        (b"", "broke the connection"),
    ],
)
async def test_something_else_answers(answer: bytes, says: str, surroundings: Surroundings) -> None:
    async with answering(answer, "sse") as (url, asked):
        message = await refused(url, surroundings, HEADERS)
    assert says in message
    assert message.isprintable() or "\n" in message
    assert SECRET not in message
    assert f"Its URL: {url}" in message
    assert all(b"authorization: bearer a-secret-token" in one.lower() for one in asked)


@pytest.mark.parametrize("answer", [b"", EVENTS + b"data: {}\n\n", EVENTS + b"event: endpoint\ndata: /x\n"])
async def test_an_endpoint_that_never_comes_is_awaited_until_the_deadline(
    answer: bytes, surroundings: Surroundings
) -> None:
    async with answering(answer, "sse", close=False) as (url, _):
        assert "was not ready within 0.1 s" in await refused(url, surroundings, "timeout = 0.1")


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter, bytes], Awaitable[None]]


class Old:
    """A server whose stream of events and whose posts are what a test makes of them."""

    def __init__(self, endpoint: str = "/post") -> None:
        self.endpoint = endpoint
        self.posted: list[dict[str, Any]] = []
        self.heads: list[bytes] = []
        self.status = b"202 Accepted"
        self.post_head = b""
        self.events: asyncio.StreamWriter | None = None
        #: What it sends in place of an answer to a call.
        self.instead: bytes | None = None
        #: What calls that say that they are slow wait for, before their posts are answered.
        self.held = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head)
            if head.startswith(b"GET"):
                self.events = writer
                writer.write(EVENTS + b"event: endpoint\r\ndata: " + self.endpoint.encode() + b"\r\n\r\n")
                await reader.read()
            else:
                length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
                message = json.loads(await reader.readexactly(int(length)))
                self.posted.append(message)
                called = message["method"] == "tools/call"
                if called and message["params"]["arguments"].get("slow"):
                    await self.held.wait()
                status = self.status if called else b"202 Accepted"
                more = self.post_head if called else b""
                writer.write(b"HTTP/1.1 " + status + b"\r\nConnection: close\r\n" + more + b"Content-Length: 0\r\n\r\n")
                self.answer(message)
        writer.close()

    def answer(self, message: dict[str, Any]) -> None:
        assert self.events is not None
        server = {"name": "old", "version": "0"}
        results: dict[str, Any] = {
            "initialize": {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": server},
            "tools/list": {"tools": [{"name": "it", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "done"}]},
        }
        if message["method"] == "tools/call" and self.instead is not None:
            self.events.write(self.instead.replace(b"ID", str(message["id"]).encode()))
        elif "id" in message:
            known = results.get(message["method"])
            error = {"error": {"code": -32601, "message": "Method not found"}}
            body = {"jsonrpc": "2.0", "id": message["id"], **({"result": known} if known else error)}
            self.events.write(f"data: {json.dumps(body)}\n\n".encode())

    @contextlib.asynccontextmanager
    async def __call__(self) -> AsyncGenerator[str, None]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/sse"


@pytest.mark.parametrize("endpoint", ["post?session=1", "/post", "{origin}/post", ""])
async def test_the_endpoint_may_be_anywhere_on_the_server(endpoint: str, surroundings: Surroundings) -> None:
    old = Old(endpoint)
    async with old() as url:
        old.endpoint = endpoint.replace("{origin}", url.removesuffix("/sse"))
        async with make_ensemble(at(url), surroundings) as ensemble:
            assert ensemble.connection.protocol == "2024-11-05"
            assert await call(ensemble, "it") == said("done")


async def test_nothing_is_sent_to_an_endpoint_that_is_elsewhere(surroundings: Surroundings) -> None:
    elsewhere = Old()
    async with elsewhere() as other:
        port = other.rpartition(":")[2].partition("/")[0]
        for endpoint in (
            other,
            *(f"//127.0.0.1:{port}/post", f"http://localhost:{port}/post", "http://127.0.0.1/post"),
            *("https://127.0.0.1:{own}/post", "http://me:password@127.0.0.1:{own}/post"),
            *("http://localhost:{own}/post", "file:///etc/passwd", "javascript:alert(1)", "http://[::1"),
            "http://127.0.0.1:{own}\\\\@" + f"127.0.0.1:{port}/post",
        ):
            old = Old()
            async with old() as url:
                old.endpoint = endpoint.replace("{own}", url.rpartition(":")[2].partition("/")[0])
                message = await refused(url, surroundings, HEADERS)
            assert "named an endpoint " in message, message
            assert old.posted == []
    assert elsewhere.heads == []


async def test_redirects_stay_on_the_server(surroundings: Surroundings) -> None:
    elsewhere, old = Old(), Old()
    async with elsewhere() as other, old() as url, make_ensemble(at(url, HEADERS), surroundings) as ensemble:
        old.status, old.post_head = b"307 Elsewhere", b"Location: " + other.encode() + b"\r\n"
        old.instead = b""
        with pytest.raises(ExecutionFault, match="answered 307 Elsewhere, not followed"):
            await call(ensemble, "it")
        old.post_head = b"Location: /again\r\n"
        with pytest.raises(ExecutionFault, match="answered 307"):
            await call(ensemble, "it")
        assert sum(head.startswith(b"POST /again") for head in old.heads) == sse.REDIRECTS
    assert elsewhere.heads == []


async def test_a_refused_post_says_what_it_was(surroundings: Surroundings) -> None:
    old = Old()
    cases: list[tuple[bytes, type[ToolFault], str]] = [
        (b"400 Bad", ExecutionFault, "answered 400 Bad"),
        (b"401 Who", ExecutionFault, "answered 401 Who"),
        (b"500 Oh", OutcomeUnknownFault, "answered 500 Oh"),
        (b"503 Later", OutcomeUnknownFault, "answered 503 Later"),
        (b"404 Gone", NetworkFault, "nothing was sent"),
    ]
    async with old() as url, make_ensemble(at(url), surroundings) as ensemble:
        for status, kind, says in cases:
            old.status, old.instead = status, b""
            with pytest.raises(kind, match=says):
                await call(ensemble, "it")


GOOD = b'data: {"jsonrpc": "2.0", "id": ID, "result": {"content": [{"type": "text", "text": "done"}]}}\n\n'


@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
async def test_what_is_no_message_is_passed_over(ends: bytes, surroundings: Surroundings) -> None:
    old = Old()
    async with old() as url, make_ensemble(at(url), surroundings) as ensemble:
        for before in (
            *(b": ping\n\n", b"event: ping\ndata: x\n\n", b"data:\n\n", b"data: nonsense\n\n", b"data: {\n\n"),
            *(b"data: [1]\n\n", b"data: \xff\xfe\n\n", b"nonsense\n\n"),
            b"event: endpoint\ndata: http://127.0.0.1:9/\n\n",
            *(b'data: {"jsonrpc": "2.0", "id": 99, "result": {}}\n\n', b"id: 1\nretry: 0\nevent: message\n\n"),
            b"data: [" + b"[]," * 200_000 + b"0]\n\n",
        ):
            old.instead = (before + GOOD).replace(b"\n", ends)
            assert await call(ensemble, "it") == said("done"), before[:50]


async def test_an_answer_that_cannot_be_used_is_told_and_the_others_come(surroundings: Surroundings) -> None:
    old = Old()
    async with old() as url, make_ensemble(at(url), surroundings) as ensemble:
        old.instead = b'data: {"jsonrpc": "2.0", "id": ID, "result": [' + b"[]," * 200_000 + b"0]}\n\n"
        with pytest.raises(OutcomeUnknownFault, match="is not a message of the protocol, or is too large"):
            await call(ensemble, "it")
        old.instead = None
        assert await call(ensemble, "it") == said("done")
        assert ensemble.state == "connected"


async def test_an_event_without_end_ends_the_connection(surroundings: Surroundings, alerts: Alerts) -> None:
    old = Old()
    async with old() as url, make_ensemble(at(url), surroundings) as ensemble:
        old.instead = b"data: " + b"x" * (sse.LINE_LIMIT + 1)
        with pytest.raises(OutcomeUnknownFault, match="exceeded the 16777216 byte limit"):
            await call(ensemble, "it")
        old.instead = None
        await alerts.wait_for("'it' has reconnected")
        assert await call(ensemble, "it") == said("done")


async def test_a_storm_of_nonsense_ends_the_connection(surroundings: Surroundings, alerts: Alerts) -> None:
    old = Old()
    async with old() as url, make_ensemble(at(url), surroundings) as ensemble:
        old.instead = b"data: nonsense\n\n" * sse.REFUSALS
        with pytest.raises(OutcomeUnknownFault, match="1000 events that are not messages; the last was 'nonsense'"):
            await call(ensemble, "it")
        await alerts.wait_for("lost its connection")


async def test_posts_that_answer_late_hold_nobody_up(
    surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some old servers answer a post only when its call has its result."""
    monkeypatch.setattr(sse, "ORDER", 0.05)
    old = Old()
    async with old() as url, make_ensemble(at(url), surroundings) as ensemble:
        slow = asyncio.create_task(call(ensemble, "it", slow=True))
        await until(lambda: any(one["method"] == "tools/call" for one in old.posted))
        assert await call(ensemble, "it") == said("done")
        assert not slow.done()
        old.held.set()
        assert await slow == said("done")
