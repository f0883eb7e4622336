"""The MCP server over HTTP: who is let in, under which names, and how it ends."""

import asyncio
import signal
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from ripieno.servers.mcp.http import BODY_BYTES
from tests.servers.mcp.test_stdio import INITIALIZE
from tests.support.command_line import PATIENCE, User, wait_for
from tests.support.mcp_server_process import ERAS, KEY, appear, over_http, play_band

HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
MODERN = {**HEADERS, "mcp-protocol-version": "2026-07-28"}


def test_only_ensembles_with_something_to_offer_are_named(user: User) -> None:
    user.ensemble(
        "browser-page",
        '[ensemble]\nname = "browser-page"\n[[invokers]]\nname = "title"\ndescription = "Returns the title"\n'
        'invocable = { origin = "client" }\n',
    )
    user.configure('[ensembles]\nenabled = ["io", "browser-page"]\n')
    with user.start("serve", "mcp", "--transport", "http", "--port", "0") as process:
        assert wait_for(process, r"Serving (.*) to MCP clients")[1] == "io"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0


def test_strange_hosts_and_origins_are_refused(user: User) -> None:
    with over_http(user) as (url, _), httpx2.Client() as client:
        port = url.rpartition(":")[2].removesuffix("/mcp")

        def post(headers: dict[str, str], **more: str) -> int:
            return client.post(url, json=INITIALIZE, headers={**headers, **more}).status_code

        for headers in (HEADERS, MODERN):
            for evil in ("evil.example", "127.0.0.1.evil.example", f"evil.example:{port}"):
                assert post(headers, origin=f"http://{evil}") == 403, evil
            assert post(headers, origin="null") == 403
            for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "192.168.0.1"):
                assert post(headers, host=host) == 421, host
            assert post(headers, **{"content-type": "text/plain"}) == 400
        assert post(HEADERS) == 200
        assert post(HEADERS, origin=f"http://localhost:{port}", host=f"localhost:{port}") == 200
        # No page of another origin may even ask: nothing says that it might.
        preflight = client.options(url, headers={"origin": "http://evil.example"})
        assert "access-control-allow-origin" not in preflight.headers


def test_names_are_allowed_one_by_one(user: User) -> None:
    with over_http(user, "--allow-host", "tools.example") as (url, _), httpx2.Client() as client:
        for host, status in (("tools.example", 200), ("tools.example:80", 200), ("example", 421)):
            assert client.post(url, json=INITIALIZE, headers={**HEADERS, "host": host}).status_code == status


def test_bodies_are_strict_and_bounded(user: User) -> None:
    with over_http(user) as (url, _), httpx2.Client() as client:
        for headers in (HEADERS, MODERN):
            for body, identifier in (
                ("nonsense", None),
                ("", None),
                ('{"jsonrpc": "2.0", "id": 7, "id": 7, "method": "ping"}', 7),
                ('{"jsonrpc": "2.0", "id": "a", "method": "ping", "params": {"a": NaN}}', "a"),
                ("[" * 100_000, None),
            ):
                answer = client.post(url, content=body, headers=headers)
                assert answer.status_code == 400, body[:100]
                assert (answer.json()["id"], answer.json()["error"]["code"]) == (identifier, -32700)
            assert client.post(url, content="[]", headers=headers).status_code == 400
            assert client.post(url, content=b" " * (BODY_BYTES + 1), headers=headers).status_code == 413
            assert client.post(url, content=iter([b" " * BODY_BYTES, b" "]), headers=headers).status_code == 413
        assert client.post(url, json=INITIALIZE, headers=HEADERS).status_code == 200


async def test_a_key_lets_in(user: User) -> None:
    play_band(user)
    with over_http(user, "--key-variable", "BAND_KEY", BAND_KEY=KEY) as (url, process):
        async with httpx2.AsyncClient() as client:
            for sent in (
                [],
                ["Bearer wrong"],
                [f"Bearer {KEY}x"],
                [f"Basic {KEY}"],
                [KEY],
                ["Bearer"],
                [f"Bearer {KEY}", "Bearer wrong"],
            ):
                headers: list[tuple[str, str]] = [*HEADERS.items(), *(("authorization", one) for one in sent)]
                for path in ("", "/", "?key=" + KEY):
                    answer = await client.post(url + path, json=INITIALIZE, headers=headers)
                    assert answer.status_code == 401, sent
                    assert answer.headers["www-authenticate"] == "Bearer"
        for mode in ERAS:
            async with (
                httpx2.AsyncClient(headers={"authorization": f"bearer {KEY}"}) as known,
                Client(streamable_http_client(url, http_client=known), mode=mode) as session,
            ):
                result: Any = await session.call_tool("add", {"first": 1})
                assert result.structured_content == {"sum": 2}
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        assert KEY not in process.stderr.read()


@pytest.mark.parametrize("mode", ERAS)
async def test_it_ends_under_open_calls(user: User, mode: str) -> None:
    play_band(user)
    with over_http(user) as (url, process):
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": 2, "method": "tools/call"}
        body["params"] = {"name": "wait", "arguments": {}}
        async with httpx2.AsyncClient(timeout=PATIENCE) as client:
            headers = dict(HEADERS)
            if mode == "legacy":
                began = await client.post(url, json=INITIALIZE, headers=HEADERS)
                headers["mcp-session-id"] = began.headers["mcp-session-id"]
                await client.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
            else:
                headers |= {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "wait"}
                body["params"]["_meta"] = {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {},
                }
            call = asyncio.create_task(client.post(url, json=body, headers=headers))
            await appear(user.workspace / "began")
            process.send_signal(signal.SIGTERM)
            await asyncio.wait((call,))
        assert process.wait(PATIENCE) == 0
    assert (user.workspace / "cancelled").exists()
    assert call.exception() is not None or call.result().status_code == 200
