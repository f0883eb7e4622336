"""The MCP server over HTTP compares names and ports of Host and Origin whole."""

import asyncio
import json
import pathlib
import random

from ripieno.servers.mcp.http import serve_http
from ripieno.servers.mcp.server import create_server
from tests.counts import count
from tests.servers.gateway.test_middleware import strange_hosts, strange_origins
from tests.servers.mcp.test_server import entered
from tests.servers.mcp.test_stdio import INITIALIZE

BODY = json.dumps(INITIALIZE).encode()


async def status_of(port: int, *headers: tuple[str, str]) -> int:
    """The status of one request with exactly these headers beside those of its body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        fixed = "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\nConnection: close\r\n"
        head = f"POST /mcp HTTP/1.1\r\n{lines}{fixed}Content-Length: {len(BODY)}\r\n\r\n"
        writer.write(head.encode() + BODY)
        return int((await reader.readline()).split(b" ")[1])
    finally:
        writer.transport.abort()


async def test_no_strange_host_and_no_strange_origin_comes_in(tmp_path: pathlib.Path) -> None:
    async with (
        entered(tmp_path) as serving,
        serve_http(create_server(serving, ensembles=[]), names=["models.example.org"]) as url,
    ):
        port = int(url.rpartition(":")[2].removesuffix("/mcp"))
        own = f"127.0.0.1:{port}"
        forms = [(("Host", host),) for host in dict.fromkeys(strange_hosts(port))]
        forms += [(("Host", own), ("Origin", origin)) for origin in dict.fromkeys(strange_origins(port))]
        forms += [(), (("Host", own), ("Host", own)), (("Host", own), ("Host", "evil.example"))]
        forms += [(("Host", own), ("Origin", f"http://{own}"), ("Origin", "http://evil.example"))]
        chosen = random.Random(9).sample(forms, count(len(forms), 4))
        broken = [form for form in chosen if await status_of(port, *form) not in (400, 403, 421)]
        assert not broken, f"{len(broken)} of {len(chosen)}: {broken[:5]}"
        for host, origin in (
            (own, f"http://{own}"),
            ("localhost", "http://localhost:80"),
            ("127.0.0.1:7", "https://models.example.org"),
            ("Models.Example.ORG:65535", "http://models.example.org:65535"),
        ):
            assert await status_of(port, ("Host", host), ("Origin", origin)) == 200, origin
            assert await status_of(port, ("Host", host)) == 200, host
        assert await status_of(port, ("Host", own), ("Origin", f"http://127.0.0.1:{port + 1}")) == 403
