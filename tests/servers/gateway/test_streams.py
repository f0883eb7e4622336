"""Streams through the gateway that are cut anywhere, silent, slow, many, or too long."""

import asyncio
import contextlib
import json
import pathlib
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ripieno.canisters import AssistantCanister
from ripieno.servers.http.connections import Bounds
from ripieno.testing.rehearsal.server import base_url
from tests.counts import ATTACK
from tests.servers.gateway.test_errors import fails
from tests.support.gateways import KINDS, Front, Kind, fronting, read, says
from tests.support.loopback_servers import serving
from tests.support.openresponses_checker import StreamChecker, check_stream

CHAT, RESPONSES = KINDS["openai-chat"], KINDS["openai-responses"]
#: A request over any wire, each of which reads its own keys.
BODY = {"model": "m", "stream": True, "max_tokens": 9, "messages": [{"role": "user", "content": "Go."}], "input": "Go."}
TOOLS: list[Any] = [{"type": "function", "name": "read", "parameters": {"type": "object"}}]


async def raw(front: Front, **ask: Any) -> StreamChecker:
    async with front.plain(timeout=60) as client:
        body = {"model": "m", "input": "Go.", "stream": True, **ask}
        answer = await client.post("/v1/responses", json=body)
    assert answer.status_code == 200, answer.text
    return check_stream([answer.content])


# Arguments before the name (seed 001), cut anywhere.


def _events(*events: dict[str, Any]) -> bytes:
    return b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in events)


def _argue(index: int, text: str) -> dict[str, Any]:
    kind = "response.function_call_arguments.delta"
    return {"type": kind, "output_index": index, "item_id": f"fc_{index + 1}", "delta": text}


_ITEM = {"type": "function_call", "id": "fc_1", "call_id": "call_a", "name": "read"}
_OTHER = {"type": "function_call", "id": "fc_2", "call_id": "call_b", "name": "read"}
_DONE = _ITEM | {"arguments": '{"path": "ä.txt"}'}
EARLY = _events(
    {"type": "response.created", "response": {"id": "r", "model": "small", "output": []}},
    _argue(0, '{"pa'),
    _argue(0, 'th": "ä'),
    {"type": "response.output_item.added", "output_index": 0, "item": {**_ITEM, "arguments": ""}},
    _argue(0, '.txt"}'),
    _argue(1, '{"path": "b"'),
    {"type": "response.output_item.done", "output_index": 0, "item": _DONE},
    {"type": "response.output_item.added", "output_index": 1, "item": _OTHER | {"arguments": ""}},
    _argue(1, "}"),
    {"type": "response.output_item.done", "output_index": 1, "item": {**_OTHER, "arguments": '{"path": "b"}'}},
    {"type": "response.completed", "response": {"id": "r", "model": "small", "status": "completed"}},
)


async def test_arguments_before_the_name_are_the_same_call_however_they_are_cut(tmp_path: pathlib.Path) -> None:
    async def answer(request: Request) -> Response:
        cut = int(json.dumps(await request.json()).partition("cut-")[2].partition("-")[0])

        async def pieces() -> AsyncGenerator[bytes, None]:
            yield EARLY[:cut]
            await asyncio.sleep(0)
            yield EARLY[cut:]

        return StreamingResponse(pieces(), media_type="text/event-stream")

    expected = [("call_a", "read", '{"path": "ä.txt"}'), ("call_b", "read", '{"path": "b"}')]
    async with (
        serving(answer) as (url, _),
        fronting(tmp_path, RESPONSES, base_url(url, RESPONSES.protocol)) as front,
        front.openai() as client,
    ):
        for cut in range(1, len(EARLY), 1 if ATTACK else 47):
            checker = await raw(front, input=f"cut-{cut}-", tools=TOOLS)
            items = checker.response["output"]
            assert [(item["call_id"], item["name"], item["arguments"]) for item in items] == expected, cut
        async with client.responses.stream(model="m", input="cut-9-", tools=TOOLS) as stream:
            response: Any = await stream.get_final_response()
    assert [(one.call_id, one.name, one.arguments) for one in response.output] == expected


# Silence.


class Gated:
    """A backend that says a word, and goes on when it is let."""

    def __init__(self, kind: Kind, *, begins: bool = True) -> None:
        self.kind = kind
        self.go = asyncio.Event()
        self._begins = begins

    async def __call__(self, request: Request) -> Response:
        asked = read(self.kind, request.url.path, await request.body())
        encoder = self.kind.protocol.encoder(asked)
        begun, said, ended = (encoder.feed(one) for one in says(self.kind, [AssistantCanister.of("One, two.")]))

        async def pieces() -> AsyncGenerator[bytes, None]:
            if self._begins:
                yield begun + said
            async with asyncio.timeout(60):
                await self.go.wait()
            yield ended if self._begins else begun + said + ended

        return StreamingResponse(pieces(), media_type="text/event-stream")


@contextlib.asynccontextmanager
async def gated(
    folder: pathlib.Path, kind: Kind, *, begins: bool = True, **settings: Any
) -> AsyncGenerator[tuple[Front, Gated], None]:
    backend = Gated(kind, begins=begins)
    async with serving(backend) as (url, _), fronting(folder, kind, base_url(url, kind.protocol), **settings) as front:
        try:
            yield front, backend
        finally:
            backend.go.set()


@pytest.mark.parametrize("begins", [True, False], ids=["begun", "silent"])
@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions", "/v1/messages"])
async def test_a_silent_stream_says_that_it_is_there(path: str, begins: bool, tmp_path: pathlib.Path) -> None:
    async with gated(tmp_path, CHAT, begins=begins, keep_alive=0.02) as (front, backend), front.plain() as client:
        written = b""
        beats = 0
        async with asyncio.timeout(30), client.stream("POST", path, json=BODY) as answer:
            assert answer.status_code == 200
            async for piece in answer.aiter_raw():
                written += piece
                beats += 1
                if beats == 5:
                    backend.go.set()
    assert backend.go.is_set()
    if path == "/v1/responses":
        checker = check_stream([written])
        assert checker.response["output"][0]["content"][0]["text"] == "One, two."


# Too long.


async def test_an_answer_that_takes_too_long_ends_as_clients_can_read_it(tmp_path: pathlib.Path) -> None:
    for keep_alive in (0.02, 60.0):
        settings: dict[str, Any] = {"seconds": 0.1, "keep_alive": keep_alive}
        async with gated(tmp_path, CHAT, begins=False, **settings) as (front, _), asyncio.timeout(60):
            whole, *_ = await fails(front, "APIError", "exceeded the time limit")
            assert whole.status_code == 504


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions", "/v1/messages"])
async def test_an_answer_that_the_end_of_the_server_cuts_ends_as_clients_can_read_it(
    path: str, tmp_path: pathlib.Path
) -> None:
    backend = Gated(CHAT)
    async with serving(backend) as (url, _), contextlib.AsyncExitStack() as stack:
        bounds = Bounds(grace=0.0, farewell=30.0)
        front = await stack.enter_async_context(fronting(tmp_path, CHAT, f"{url}/v1", bounds=bounds))
        async with asyncio.timeout(60), front.plain() as client, client.stream("POST", path, json=BODY) as answer:
            pieces = answer.aiter_raw()
            written = b""
            while b"One" not in written:
                written += await anext(pieces)
            await stack.aclose()
            written += b"".join([piece async for piece in pieces])
    assert b"The server is ending" in written
    if path == "/v1/responses":
        assert check_stream([written]).response["status"] == "failed"
