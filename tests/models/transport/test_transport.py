"""Requests over real HTTP: what is sent, and what becomes of connections."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from ripieno.canisters import Controls, UserCanister
from ripieno.canisters.events import Alert
from ripieno.ensembles import Definition, Ensemble
from ripieno.exceptions import NameAbsence, ProviderUnreachable, WireInvalidity
from ripieno.models import Protocol
from ripieno.models.protocols.anthropic import PROTOCOL as ANTHROPIC
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from ripieno.models.transport.sse import EVENT_BYTES
from ripieno.models.transport.transport import HttpTransport
from ripieno.schemas import Schema
from tests.support.loopback_models import (
    KEY,
    answering,
    both,
    converse,
    either_way,
    endpoint,
    exchange,
    fail,
    golden,
    open_transport,
    saying,
)
from tests.support.loopback_servers import chunked, serving, talking, until_eof

HI = [UserCanister.of("Hi.")]

# What is sent.


@both
async def test_what_one_call_at_a_time_leaves_of_parallel_is_told_once(protocol: Protocol) -> None:
    tools = [Ensemble.of("mine", [Definition(name="look", schema=Schema.of({}))])]
    told: list[list[str]] = []
    async with serving(answering(golden(protocol, "json"))) as (url, asked):
        rows = ((False, True, tools), (False, False, tools), (False, True, []), (True, True, tools))
        for capability, parallel, ensembles in rows:
            transport, model = converse(url, protocol, parallel_calls=capability)
            memory: dict[object, Any] = {}
            controls = Controls(stream=False, parallel=parallel)
            events = [
                event
                for _ in range(2)
                async for batch in model.batches(HI, ensembles=ensembles, controls=controls, memory=memory)
                for event in batch
            ]
            await transport.close()
            told.append([event.message for event in events if isinstance(event, Alert)])
    assert told == [["house/m makes one call at a time: parallel = true is not sent."], [], [], []]
    assert len(asked) == 8


async def test_an_allowed_tool_that_is_not_offered_is_not_sent() -> None:
    tools = [Ensemble.of("mine", [Definition(name="look", schema=Schema.of({}))])]
    async with serving(answering(golden(CHAT, "json"))) as (url, asked):
        transport, model = converse(url, CHAT, allowed_tools=True)
        with pytest.raises(NameAbsence, match=r"no offered tool named 'mine\.look'\. Did you mean 'look'\?"):
            await model.converse(HI, ensembles=tools, controls=Controls(allowed_tools=("look", "mine.look")))
        await transport.close()
    assert asked == []


async def test_headers_are_those_of_the_sdk_which_is_not_imported_for_them() -> None:
    import anthropic  # The tests' own.

    async with serving(answering(b"{}")) as (url, asked):
        async with open_transport(url, ANTHROPIC, headers={"X-Mine": "yes", "anthropic-beta": "b-1"}) as transport:
            await exchange(transport, stream=False, path="/v1/messages", body=b'{"a":1}')
        async with open_transport(url, CHAT) as transport:
            await exchange(transport, stream=False)
    messages, chat = (one.headers for one in asked)
    # The version that our decoder was written for. If the SDK's changes, read what has changed.
    assert messages["anthropic-version"] == anthropic.AsyncAnthropic(api_key=KEY).default_headers["anthropic-version"]
    assert (messages["x-mine"], messages["anthropic-beta"]) == ("yes", "b-1")
    assert "anthropic-version" not in chat
    for headers in (messages, chat):
        assert headers["authorization"] == f"Bearer {KEY}"
        assert headers["content-type"] == "application/json"
        assert headers["user-agent"] == "ripieno"
        assert not [name for name in headers if name.startswith("x-stainless")]
    assert asked[0].body == b'{"a":1}'
    assert messages["content-length"] == "7"


@both
async def test_a_server_that_asks_for_no_key_gets_none(protocol: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, KEY)
    async with serving(answering(b"{}")) as (url, asked):
        async with open_transport(url, protocol, key=None) as transport:
            await exchange(transport, stream=False)
        own = {"authorization": "Basic bWU6aXQ="}
        for key in (None, KEY):
            async with open_transport(url, protocol, key=key, headers=own) as transport:
                await exchange(transport, stream=False)
    assert not {"authorization", "x-api-key", "api-key"} & asked[0].headers.keys()
    assert KEY not in repr(asked)
    # What its user gives stands, with or without a key.
    assert [one.headers["authorization"] for one in asked[1:]] == ["Basic bWU6aXQ="] * 2


@pytest.mark.parametrize("slashes", ["", "/", "//"])
async def test_the_base_url_may_end_in_a_slash(slashes: str) -> None:
    async with serving(answering(b"{}")) as (url, asked), open_transport(f"{url}/v1{slashes}") as transport:
        await exchange(transport, stream=False)
    assert asked[0].path == "/v1/chat/completions"


async def test_a_hundred_requests_at_once() -> None:
    everybody = asyncio.Barrier(100)

    async def answer(request: Request) -> Response:
        number = json.loads(await request.body())["number"]
        await everybody.wait()  # None is answered before all have come.
        if number % 2:
            return JSONResponse({"number": number})
        return StreamingResponse(iter([b'data: {"number":', b"%d}\n\n" % number]), media_type="text/event-stream")

    async with serving(answer) as (url, _), open_transport(url) as transport:
        bodies = [json.dumps({"number": number}).encode() for number in range(100)]
        async with asyncio.timeout(60):
            answers = await asyncio.gather(
                *(exchange(transport, stream=not n % 2, body=body) for n, body in enumerate(bodies))
            )
    assert answers == [[{"number": number}] for number in range(100)]


# Connections.


@either_way
async def test_nobody_answers(stream: bool) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # Held, and not listened to: nobody else can answer there.
        place = f"127.0.0.1:{held.getsockname()[1]}/v1"
        error = await fail(f"http://me:hunter2password@{place}?token=abc", stream=stream)
    assert isinstance(error, ProviderUnreachable)
    assert f"Nothing answers at http://{place} (" in str(error)
    assert "base_url" in error.hint
    assert "hunter2password" not in str(error)
    assert "token" not in str(error)


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/v1", "127.0.0.1", "http://[::1", "http://"])
async def test_an_address_that_is_none(url: str) -> None:
    error = await fail(url)
    assert isinstance(error, ProviderUnreachable)


@either_way
@pytest.mark.parametrize(
    "said",
    [
        chunked(b'data: {"a":1}\n\n', b'data: {"b', end=False),
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 99\r\n\r\ndata: {}",
        b"HTTP/1.1 200 OK\r\ncontent-t",
        b"",
        b"SSH-2.0-OpenSSH_9\r\n",
    ],
    ids=["chunks", "length", "head", "nothing", "no HTTP"],
)
async def test_a_connection_that_is_cut(said: bytes, stream: bool) -> None:
    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        await writer.drain()
        writer.write_eof()

    async with talking(talk) as (url, all_gone):
        error = await fail(url, stream=stream)
        await all_gone()
    assert isinstance(error, ProviderUnreachable)
    assert "The connection to http://127.0.0.1:" in str(error)


@pytest.mark.parametrize(
    ("kind", "stream"), [("text/event-stream", True), ("application/json", True), ("text/plain", False)]
)
async def test_an_answer_that_is_too_large_is_refused(kind: str, stream: bool) -> None:
    async def large() -> AsyncIterator[bytes]:
        yield b'data: {"a":"'
        for _ in range(20):
            yield b"x" * 1024 * 1024
        yield b'"}\n\n'

    async with serving(saying(lambda: StreamingResponse(large(), media_type=kind))) as (url, _):
        error = await fail(url, stream=stream)
    assert isinstance(error, WireInvalidity)
    assert f"more than {EVENT_BYTES} bytes" in str(error)


# Its end.


async def test_close_leaves_no_connection() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(chunked(b"{}", kind="application/json"))
        await until_eof(reader)

    async with talking(talk) as (url, all_gone):
        transport = HttpTransport(endpoint(url))
        answers = await asyncio.gather(*(exchange(transport, stream=False) for _ in range(5)))
        assert answers == [[{}]] * 5
        await transport.close()
        await all_gone()
        await transport.close()  # Once more changes nothing.
        assert await exchange(transport, stream=False) == [{}]  # And it opens again.
        await transport.close()
        await all_gone()


async def test_whoever_stops_listening_hangs_up() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(chunked(b'data: {"a":1}\n\n', end=False))
        await until_eof(reader)

    async with talking(talk) as (url, all_gone), open_transport(url) as transport:
        async with transport.exchange(b"{}", path="/x", stream=True) as natives:
            async for batch in natives:
                assert list(batch) == [{"a": 1}]
                break
        await all_gone()
        listening = asyncio.create_task(exchange(transport))
        await asyncio.sleep(0)
        listening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listening
        await all_gone()


# Keys.


async def test_a_key_may_have_space_around_it() -> None:
    async with serving(answering(b"{}")) as (url, asked), open_transport(url, key=f" {KEY}\n") as transport:
        await exchange(transport, stream=False)
    assert asked[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    "fields", [{"key": f"{KEY}\n{KEY}"}, {"key": f"{KEY}é"}, {"headers": {"X-It": f"{KEY}\r\nHost: x"}}]
)
async def test_a_key_that_no_header_can_carry(fields: dict[str, Any]) -> None:
    error = await fail("http://127.0.0.1:9", **fields)
    assert "cannot" not in error.hint
    assert "character that is invalid in an HTTP header" in str(error)
    assert ("X-It" if "headers" in fields else "api_key") in str(error)
