"""Calls that a backend leaves in its text, through the gateway: found, and stripped."""

import asyncio
import contextlib
import json
import pathlib
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from frozendict import frozendict
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tests.support.gateways import KINDS, Front, fronting
from tests.support.loopback_servers import serving
from tests.support.openresponses_checker import check_stream

CHAT = KINDS["openai-chat"]
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}}}
READ: dict[str, Any] = {"type": "function", "name": "read", "parameters": SCHEMA}
CHAT_READ: dict[str, Any] = {"type": "function", "function": {"name": "read", "parameters": SCHEMA}}
LEAVING: dict[str, Any] = {"capabilities": {"text_calls": True}}

#: What a model writes, and the items that a client has of it.
TEXT = 'I look.\n<function=read>{"path": "ä.txt", "lines": 2}</function>\nThat was it.'
ITEMS = ["I look.", ("read", {"path": "ä.txt", "lines": 2}), "That was it."]


def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return b"data: %s\n\n" % json.dumps({"id": "c", "model": "small", "choices": [choice]}).encode()


@contextlib.asynccontextmanager
async def leaving(
    folder: pathlib.Path, provider: dict[str, Any] | None = None, **settings: Any
) -> AsyncGenerator[Front, None]:
    """A gateway in front of a server that says what the user says: pieces of text, each in a string of a JSON list."""

    async def answer(request: Request) -> Response:
        native = json.loads(await request.body())
        pieces = json.loads(native["messages"][-1]["content"])
        said = b"".join(chunk({"content": piece}) for piece in pieces)
        return Response(said + chunk({}, "stop") + b"data: [DONE]\n\n", media_type="text/event-stream")

    async with (
        serving(answer) as (url, _),
        fronting(folder, CHAT, f"{url}/v1", provider=LEAVING if provider is None else provider, **settings) as front,
    ):
        yield front


async def items_of(front: Front, pieces: Sequence[str], model: str) -> list[Any]:
    """The items of a response, checked; texts and calls."""
    body = {"model": model, "input": json.dumps(pieces), "tools": [READ], "stream": True}
    async with front.plain() as client:
        data = (await client.post("/v1/responses", json=body)).content
    return [_plain(item) for item in check_stream([data]).response["output"]]


def _plain(item: dict[str, Any]) -> Any:
    if item["type"] == "message":
        return "".join(part["text"] for part in item["content"])
    assert item["type"] == "function_call"
    return item["call_id"], item["name"], item["arguments"]


def bare(items: Sequence[Any]) -> list[Any]:
    """The items without identifiers, and without blanks around texts."""
    return [one.strip() if isinstance(one, str) else (one[1], json.loads(one[2])) for one in items]


async def test_every_client_has_them(tmp_path: pathlib.Path) -> None:
    said: Any = [{"role": "user", "content": json.dumps([TEXT[:20], TEXT[20:]])}]
    messages_tool: Any = {"name": "read", "input_schema": SCHEMA}
    async with leaving(tmp_path) as front, front.openai() as client, front.anthropic() as other:
        async with client.chat.completions.stream(model="m", messages=said, tools=[CHAT_READ]) as stream:  # type: ignore[list-item]
            (choice,) = (await stream.get_final_completion()).choices
        (made,) = choice.message.tool_calls or ()
        assert (made.function.name, json.loads(made.function.arguments)) == ITEMS[1]
        assert choice.finish_reason == "tool_calls"
        assert "<" not in (choice.message.content or "")
        async with other.messages.stream(model="m", max_tokens=9, messages=said, tools=[messages_tool]) as events:
            message = await events.get_final_message()
        (block,) = [block for block in message.content if block.type == "tool_use"]
        assert (block.name, block.input) == ITEMS[1]
        assert message.stop_reason == "tool_use"
        assert "<" not in "".join(block.text for block in message.content if block.type == "text")


async def test_text_is_streamed_on_while_a_call_is_awaited(tmp_path: pathlib.Path) -> None:
    """What cannot be a call any more is shown at once: the server waits until the client has it."""
    shown = asyncio.Event()

    async def answer(_: Request) -> Response:
        async def pieces() -> AsyncGenerator[bytes, None]:
            yield chunk({"content": "I look at it. <fun"})
            async with asyncio.timeout(20):
                await shown.wait()
            yield chunk({"content": 'ction=read>{"path": "a"}</function>'}) + chunk({}, "stop") + b"data: [DONE]\n\n"

        return StreamingResponse(pieces(), media_type="text/event-stream")

    text = ""
    async with (
        serving(answer) as (url, _),
        fronting(tmp_path, CHAT, f"{url}/v1", provider=LEAVING) as front,
        front.openai() as client,
        client.responses.stream(model="m", input="Go.", tools=[READ]) as stream,  # type: ignore[list-item]
    ):
        async for event in stream:
            if event.type == "response.output_text.delta":
                text += event.delta
                if text.strip() == "I look at it.":
                    shown.set()
        response = await stream.get_final_response()
    assert text.strip() == "I look at it."
    assert [one.type for one in response.output] == ["message", "function_call"]


async def test_each_model_can_be_told_apart(tmp_path: pathlib.Path) -> None:
    settings: dict[str, Any] = {"map": frozendict[str, str](), "models": ("back/messy-1", "back/tidy-1")}
    for general, special, match in ((True, False, "tidy*"), (False, True, "messy*")):
        provider: dict[str, Any] = {
            "capabilities": {"text_calls": general},
            "models": [{"match": match, "text_calls": special}],
        }
        async with leaving(tmp_path, provider, **settings) as front:
            assert bare(await items_of(front, [TEXT], "messy-1")) == ITEMS
            assert await items_of(front, [TEXT], "tidy-1") == [TEXT]


@contextlib.asynccontextmanager
async def calling(folder: pathlib.Path, function: dict[str, Any]) -> AsyncGenerator[Front, None]:
    """A gateway in front of a server that calls a function."""
    call = {"index": 0, "id": "c", "type": "function", "function": function}

    async def answer(request: Request) -> Response:
        if json.loads(await request.body()).get("stream"):
            said = chunk({"tool_calls": [call]}) + chunk({}, "tool_calls") + b"data: [DONE]\n\n"
            return Response(said, media_type="text/event-stream")
        choice = {"index": 0, "message": {"role": "assistant", "tool_calls": [call]}, "finish_reason": "tool_calls"}
        return Response(json.dumps({"id": "c", "model": "small", "choices": [choice]}))

    async with serving(answer) as (url, _), fronting(folder, CHAT, f"{url}/v1") as front:
        yield front


MESSAGES_BODY: dict[str, Any] = {
    "model": "m",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "Go."}],
    "tools": [{"name": "read", "input_schema": SCHEMA}],
}


@pytest.mark.parametrize("stream", [False, True])
async def test_invalid_arguments_reach_the_client_and_the_log(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, stream: bool
) -> None:
    async with (
        calling(tmp_path, {"name": "read", "arguments": '{"path": a'}) as front,
        front.plain() as client,
    ):
        answer = await client.post("/v1/messages", json={**MESSAGES_BODY, "stream": stream})
    if stream:
        assert json.dumps('{"path": a') in answer.text
    else:
        assert answer.json()["content"][0]["input"] == {"INVALID_JSON": '{"path": a'}
    assert [one.levelname for one in caplog.records if "called read with invalid JSON" in one.getMessage()] == [
        "WARNING"
    ]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_without_a_name_reaches_no_client(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, stream: bool
) -> None:
    async with calling(tmp_path, {"name": "", "arguments": "{}"}) as front, front.plain() as client:
        for path, tools in (("/v1/messages", MESSAGES_BODY["tools"]), ("/v1/responses", [READ])):
            body = {**MESSAGES_BODY, "input": "Go.", "tools": tools, "stream": stream}
            answer = await client.post(path, json=body)
            assert "made a call without a name" in answer.text
            assert '"name":""' not in answer.text
    assert caplog.text.count("made a call without a name: call omitted") == 2
