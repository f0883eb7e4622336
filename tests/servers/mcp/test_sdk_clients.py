"""The MCP server and the SDK's own client, over both transports and in both eras of the protocol."""

import asyncio
import base64
import dataclasses
import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.types import CallToolResult

from ripieno.storage.journal import NAME, Journal
from tests.support.command_line import PATIENCE, User
from tests.support.mcp_server_process import ERAS, TRANSPORTS, appear, connected, over_http, play_band

WAYS = [(transport, mode) for transport in TRANSPORTS for mode in ERAS]
#: Over standard streams each client needs a server of its own, which takes a second to start.
every_way = pytest.mark.parametrize(("transport", "mode"), WAYS)
both_transports = pytest.mark.parametrize(("transport", "mode"), [("stdio", "legacy"), ("http", "auto")])
both_eras = pytest.mark.parametrize(("transport", "mode"), [("http", mode) for mode in ERAS])


@dataclasses.dataclass(frozen=True, slots=True)
class Served:
    """A band that is served to one client after the other, and the user whose it is."""

    user: User
    connect: Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[User, str]]:
    """A server over HTTP that stands while clients come and go, whose band it is, and its URL."""
    user = User.living(tmp_path_factory.mktemp("standing"))
    play_band(user)
    with over_http(user) as (url, _):
        yield user, url


@pytest.fixture
def served(user: User, transport: str, mode: str, request: pytest.FixtureRequest) -> Served:
    """Over standard streams each client has a server of its own."""
    if transport == "stdio":
        play_band(user)
        return Served(user, functools.partial(connected, user, transport, mode))
    host, url = request.getfixturevalue("standing")
    for name in ("began", "cancelled"):
        (host.workspace / name).unlink(missing_ok=True)
    return Served(host, functools.partial(Client, url, mode=mode))


def text_of(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


@both_eras
async def test_tools_are_listed_as_models_see_them(user: User, transport: str, mode: str) -> None:
    play_band(user)
    async with connected(user, transport, mode, "--ensemble", "band") as client:
        assert client.protocol_version == ERAS[mode]
        assert client.server_info is not None
        assert client.server_info.name == "ripieno"
        assert client.server_capabilities.tools is not None
        assert client.server_capabilities.tools.list_changed
        listed = (await client.list_tools()).tools
        again = (await client.list_tools(cache_mode="refresh")).tools
    assert listed == again
    tools = {tool.name: tool for tool in listed}
    assert list(tools) == sorted(tools)
    assert "read_file" not in tools
    add = tools["add"]
    assert add.description == "Adds two numbers."
    assert add.input_schema["required"] == ["first"]
    assert add.output_schema is not None
    assert add.output_schema["properties"] == {"sum": {"type": "integer"}}
    # The handshake era knows only objects as results.
    assert (tools["spell"].output_schema is None) == (mode == "legacy")
    hints = {
        name: (notes.read_only_hint, notes.destructive_hint, notes.idempotent_hint, notes.open_world_hint)
        for name, tool in tools.items()
        if (notes := tool.annotations) is not None
    }
    assert hints["add"] == (True, False, True, None)
    assert hints["save"] == (False, None, True, None)
    assert hints["destroy"] == (False, True, False, None)


@every_way
async def test_calls_have_their_results(served: Served, mode: str) -> None:
    (served.user.workspace / "notes.txt").write_text("Noted.")
    async with served.connect() as client:

        async def call(name: str, **arguments: Any) -> CallToolResult:
            result = await client.call_tool(name, arguments)
            assert isinstance(result, CallToolResult)
            return result

        assert text_of(await call("read_file", path="notes.txt")) == "Noted."
        await check_structures(call, mode)
        await check_contents(call)
        await check_faults(client, call, served.user)
        # Whatever is printed, and by whom, the protocol goes on; and there is nothing to read.
        shouted = await call("shout")
        assert (shouted.is_error, text_of(shouted)) == (False, "")
        denied = await call("save")
        assert denied.is_error
        assert "ripieno serve mcp --approve band.save" in text_of(denied)
        assert not (served.user.workspace / "saved").exists()


async def check_structures(call: Any, mode: str) -> None:
    added = await call("add", first=2)
    assert (added.is_error, added.structured_content, text_of(added)) == (False, {"sum": 3}, '{"sum":3}')
    spelt = await call("spell", word="abc")
    assert spelt.structured_content == (["a", "b", "c"] if mode == "auto" else None)
    assert text_of(spelt) == '["a","b","c"]'
    for how in ("number", "text"):
        lied = await call("lie", how=how)
        assert (lied.is_error, lied.structured_content) == (True, None)
        assert "schema" in text_of(lied)
    flooded = await call("flood")
    assert flooded.is_error
    assert "too large" in text_of(flooded)
    assert "bytes left out" in text_of(flooded)


async def check_contents(call: Any) -> None:
    words, image, audio, document, text, odd, link = (await call("everything")).content
    assert words.text == "words"
    assert (image.type, image.mime_type, base64.b64decode(image.data)) == ("image", "image/png", b"\x89PNG")
    assert (audio.type, audio.mime_type, base64.b64decode(audio.data)) == ("audio", "audio/wav", b"RIFF")
    assert document.type == "resource"
    assert (document.resource.mime_type, base64.b64decode(document.resource.blob)) == ("application/pdf", b"%PDF")
    assert (text.resource.mime_type, text.resource.text) == ("text/markdown", "# One")
    assert (odd.resource.mime_type, base64.b64decode(odd.resource.blob)) == ("text/plain", b"\xff")
    assert (link.type, link.name, link.uri) == ("resource_link", "one.pdf", "https://example.org/papers/one.pdf")


async def check_faults(client: Client, call: Any, user: User) -> None:
    failed = await call("fail")
    assert failed.is_error
    assert text_of(failed) == "Error: The cat sleeps on it.\nWake the cat."
    crashed = await call("crash")
    assert crashed.is_error
    assert "RuntimeError" in text_of(crashed)
    assert "secret" not in str(crashed)
    leaked = text_of(await call("leak"))
    assert str(user.workspace / "notes.txt") in leaked
    assert "/etc/passwd" not in leaked
    assert "/v1/items" in leaked
    assert "https://a.example/usr/lib" in leaked
    unfit = await call("add", first="two")
    assert unfit.is_error
    assert "first" in text_of(unfit)
    with pytest.raises(MCPError) as unknown:
        await client.call_tool("ad", {})
    assert unknown.value.code == -32602
    assert "add" in unknown.value.message


@both_transports
async def test_progress_grows_and_comes_before_the_result(served: Served) -> None:
    async with served.connect() as client:
        told: list[tuple[float, float | None, str | None]] = []
        all_told = asyncio.Event()

        async def note(done: float, total: float | None, message: str | None) -> None:
            told.append((done, total, message))
            if done == 3:
                all_told.set()

        result = await client.call_tool("count", {}, progress_callback=note)
        assert isinstance(result, CallToolResult)
        assert text_of(result) == "counted"
        async with asyncio.timeout(PATIENCE):
            await all_told.wait()
        assert text_of(await client.call_tool("count", {})) == "counted"  # type: ignore[arg-type]
    assert told == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


@both_transports
async def test_a_call_that_is_cancelled_ends(served: Served) -> None:
    async with served.connect() as client:
        call = asyncio.create_task(client.call_tool("wait", {}))
        await appear(served.user.workspace / "began")
        call.cancel()
        await appear(served.user.workspace / "cancelled")
        assert text_of(await client.call_tool("add", {"first": 1})) == '{"sum":2}'  # type: ignore[arg-type]
        with pytest.raises(asyncio.CancelledError):
            await call


@both_eras
async def test_the_command_line_approves(user: User, transport: str, mode: str) -> None:
    play_band(user)
    async with connected(user, transport, mode, "--approve", "band.*", "--approve", "band.destroy") as client:
        assert text_of(await client.call_tool("save", {})) == "saved"  # type: ignore[arg-type]
        assert text_of(await client.call_tool("destroy", {})) == "destroyed"  # type: ignore[arg-type]
    assert (user.workspace / "saved").exists()


@every_way
async def test_the_journal_has_every_call_and_each_entry_is_found_by_its_identifier(
    user: User, transport: str, mode: str
) -> None:
    (user.workspace / "a.txt").write_text("forty-two")
    async with connected(user, transport, mode, "--ensemble", "io") as client:
        for _ in range(3):
            await client.call_tool("read_file", {"path": "a.txt"})
    # The server has ended right after the last call.
    with Journal(user.state / NAME) as journal:
        entries = list(journal.conversations())
        calls = [line for line in journal.lines() if line.stage == "finished"]
        assert (len(calls), sum(one.calls for one in entries)) == (3, 3)
        # Over HTTP, the calls of the modern era belong to no connection.
        assert len(entries) == (3 if transport == "http" and ERAS[mode] == "2026-07-28" else 1)
        assert [journal.find(one.identifier) for one in entries] == entries
