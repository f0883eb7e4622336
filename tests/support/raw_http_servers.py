"""Loopback servers that answer exact bytes and count connections, and resolvers with fixed answers."""

import asyncio
import contextlib
import dataclasses
import pathlib
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

from ripieno.origins.http.client import Fetcher, HostPattern, Limits, Reach, Request, parse_url
from tests.support.loopback_servers import read_request

TLS = pathlib.Path(__file__).parents[1] / "data" / "tls"
#: The answer to the head and the body of a request; None answers nothing and waits.
Answer = Callable[[bytes, bytes], bytes | Sequence[bytes] | None]


@dataclasses.dataclass(kw_only=True)
class Web:
    """A server at one port. ``heads`` and ``bodies`` are those of its requests."""

    port: int
    heads: list[bytes] = dataclasses.field(default_factory=list)
    bodies: list[bytes] = dataclasses.field(default_factory=list)
    #: The names that TLS was asked for.
    names: list[str | None] = dataclasses.field(default_factory=list)
    connections: int = 0

    @property
    def place(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def request(self, target: str = "/", **keys: Any) -> Request:
        return Request(url=parse_url(self.place + target), **keys)

    @property
    def targets(self) -> list[str]:
        return [head.split(b" ")[1].decode("latin-1") for head in self.heads]


def answer(body: bytes = b"ok", *headers: str, status: str = "200 OK") -> bytes:
    """A whole answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def redirect(location: str, status: int = 302, *headers: str, body: bytes = b"") -> bytes:
    return answer(body, f"Location: {location}", *headers, status=f"{status} Elsewhere")


@contextlib.asynccontextmanager
async def web(
    say: Answer = lambda *_: answer(), *, host: str = "127.0.0.1", port: int = 0, tls: bool = False
) -> AsyncGenerator[Web, None]:
    """A server of one function."""
    context = None
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
        context.sni_callback = lambda _, name, __: one.names.append(name)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        one.connections += 1
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                head, body = await read_request(reader)
                one.heads.append(head)
                one.bodies.append(body)
                said = say(head, body)
                for piece in [said] if isinstance(said, bytes) else said or ():
                    writer.write(piece)
                    await writer.drain()
                if not isinstance(said, bytes):
                    await reader.read()
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, host, port, ssl=context)
    one = Web(port=server.sockets[0].getsockname()[1])
    try:
        yield one
    finally:
        server.close()
        await server.wait_closed()


@contextlib.asynccontextmanager
async def canaries() -> AsyncGenerator[tuple[Web, ...], None]:
    """One port at several addresses of this machine, in IPv4 and IPv6, to count connections."""
    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(web())
        rest = [await stack.enter_async_context(web(host=host, port=first.port)) for host in ("127.0.0.2", "::1")]
        yield (first, *rest)


def knowing(**places: Sequence[str]) -> Callable[[str, int], Awaitable[Sequence[str]]]:
    """A resolver of names whose dots are written as underscores; others are not found."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        if host.replace(".", "_") not in places:
            raise OSError(socket.EAI_NONAME, "Name or service not known")
        return places[host.replace(".", "_")]

    return resolve


async def worst(host: str, port: int) -> Sequence[str]:
    """The worst resolver: unusual numbers are addresses, and every name leads to this machine."""
    try:
        return [str(place[0]) for *_, place in socket.getaddrinfo(host, port, flags=socket.AI_NUMERICHOST)]
    except (OSError, UnicodeError, ValueError):
        return ["127.0.0.1"]


def fetcher(
    *hosts: str,
    local: bool = True,
    resolver: Callable[[str, int], Awaitable[Sequence[str]]] = worst,
    limits: Limits = Limits(),  # noqa: B008  frozen
    tls: bool = False,
) -> Fetcher:
    """A fetcher for these hosts; ``*:*`` where none is named."""
    patterns = tuple(HostPattern.parse(host) for host in hosts or ("*:*",))
    context = ssl.create_default_context(cafile=str(TLS / "certificate.pem")) if tls else None
    return Fetcher(Reach(hosts=patterns, local=local), resolver=resolver, limits=limits, context=context)
