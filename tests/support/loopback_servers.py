"""Real servers on loopback: one of an application, and one of exact bytes."""

import asyncio
import contextlib
import dataclasses
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

Answerer = Callable[[Request], Awaitable[Response]]
Talker = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Asked:
    """A received request."""

    path: str
    headers: Mapping[str, str]
    body: bytes


@contextlib.asynccontextmanager
async def serving(answer: Answerer) -> AsyncGenerator[tuple[str, list[Asked]], None]:
    """Serves every path with one function. Gives the URL, and the list of requests."""
    asked: list[Asked] = []

    async def endpoint(request: Request) -> Response:
        asked.append(Asked(path=request.url.path, headers=dict(request.headers), body=await request.body()))
        return await answer(request)

    # With IPPROTO_TCP, asyncio sets TCP_NODELAY on accepted sockets.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # So that another server may follow at the same port.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", 0))
    application = Starlette(routes=[Route("/{path:path}", endpoint, methods=["GET", "POST"])])
    config = uvicorn.Config(application, log_config=None, access_log=False, lifespan="off", ws="none")
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listener])
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
    finally:
        for connection in tuple(server.server_state.connections):
            connection.transport.abort()
        await server.shutdown(sockets=[listener])


async def read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """The head and the body of a request. Errors: ``IncompleteReadError``."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = (line.lower() for line in head.split(b"\r\n"))
    length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
    return head, await reader.readexactly(length)


@contextlib.asynccontextmanager
async def talking(talk: Talker) -> AsyncGenerator[tuple[str, Callable[[], Awaitable[None]]], None]:
    """Passes one request of each connection to a function. Gives the URL, and a wait until none is open."""
    free = asyncio.Event()
    free.set()
    count = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        free.clear()
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                await read_request(reader)
                await talk(reader, writer)
        finally:
            writer.transport.abort()
            count -= 1
            if not count:
                free.set()

    async def all_gone() -> None:
        async with asyncio.timeout(60):
            await free.wait()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", all_gone
    finally:
        server.close()
        await server.wait_closed()


def chunked(*chunks: bytes, kind: str = "text/event-stream", end: bool = True) -> bytes:
    """A response whose body comes in these chunks; without its ``end`` it is cut off."""
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return head + body + (b"0\r\n\r\n" if end else b"")


async def until_eof(reader: asyncio.StreamReader) -> Any:
    """Waits until the client closes the connection."""
    return await reader.read()
