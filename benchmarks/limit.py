"""The limit: a loop by hand over aiohttp and orjson that encodes each message once, without validation or events.

What a program on this machine cannot do faster in Python. One loop a wire, whole and streamed.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import aiohttp
import orjson

from benchmarks.floor import BLOCK_TOOLS, DECLARED_TOOLS, FLAT_TOOLS
from benchmarks.tools import TOOLS, read

KEY = {"Authorization": "Bearer k", "Content-Type": "application/json"}
#: A message in bytes, and its calls: name, identifier and arguments.
Message = tuple[bytes, Sequence[tuple[str, str, Any]]]


async def posted(session: aiohttp.ClientSession, url: str, body: bytes) -> Any:
    """A whole answer."""
    async with session.post(url, data=body, headers=KEY) as response:
        return orjson.loads(await response.read())


async def events(session: aiohttp.ClientSession, url: str, body: bytes) -> AsyncGenerator[list[Any], None]:
    """The events of a streamed answer, as they arrive."""
    rest = b""
    async with session.post(url, data=body, headers=KEY) as response:
        async for piece in response.content.iter_any():
            *lines, rest = (rest + piece).split(b"\n\n")
            yield [
                orjson.loads(line[line.index(b"data: ") + 6 :]) for line in lines if not line.endswith(b"data: [DONE]")
            ]


async def chat(session: aiohttp.ClientSession, url: str, body: bytes, stream: bool) -> Message:
    """A turn over chat completions."""
    url = f"{url}/chat/completions"
    if not stream:
        message = (await posted(session, url, body))["choices"][0]["message"]
    else:
        text: list[str] = []
        slots: dict[int, dict[str, Any]] = {}
        async for batch in events(session, url, body):
            for event in batch:
                for choice in event["choices"]:
                    delta = choice["delta"]
                    text.append(delta.get("content") or "")
                    for piece in delta.get("tool_calls") or ():
                        slot = slots.setdefault(piece["index"], piece)
                        if slot is not piece:
                            slot["function"]["arguments"] += piece["function"]["arguments"]
        message = {"role": "assistant", "content": "".join(text)}
        if slots:
            message["tool_calls"] = list(slots.values())
    calls = message.get("tool_calls") or ()
    found = [(one["function"]["name"], one["id"], orjson.loads(one["function"]["arguments"])) for one in calls]
    return orjson.dumps(message), found


async def responses(session: aiohttp.ClientSession, url: str, body: bytes, stream: bool) -> Message:
    """A turn over the Responses wire."""
    url = f"{url}/responses"
    if not stream:
        output = (await posted(session, url, body))["output"]
    else:
        output = []
        text: list[str] = []
        arguments: dict[int, str] = {}
        async for batch in events(session, url, body):
            for event in batch:
                match event["type"]:
                    case "response.output_text.delta":
                        text.append(event["delta"])
                    case "response.function_call_arguments.delta":
                        place = event["output_index"]
                        arguments[place] = arguments.get(place, "") + event["delta"]
                    case "response.output_item.done":
                        output.append(event["item"])
    calls = [one for one in output if one["type"] == "function_call"]
    return (
        orjson.dumps(output)[1:-1],
        [(one["name"], one["call_id"], orjson.loads(one["arguments"])) for one in calls],
    )


async def messages(session: aiohttp.ClientSession, url: str, body: bytes, stream: bool) -> Message:
    """A turn over the Messages wire."""
    url = f"{url}/messages"
    if not stream:
        blocks = (await posted(session, url, body))["content"]
    else:
        blocks = []
        pieces: list[str] = []
        async for batch in events(session, url, body):
            for event in batch:
                if event["type"] == "content_block_start":
                    blocks.append(event["content_block"])
                    pieces.append("")
                elif event["type"] == "content_block_delta":
                    delta = event["delta"]
                    pieces[event["index"]] += delta.get("text") or delta.get("partial_json") or ""
        for block, joined in zip(blocks, pieces, strict=True):
            if block["type"] == "text":
                block["text"] = joined
            else:
                block["input"] = orjson.loads(joined or "{}")
    calls = [one for one in blocks if one["type"] == "tool_use"]
    return (
        orjson.dumps({"role": "assistant", "content": blocks}),
        [(one["name"], one["id"], one["input"]) for one in calls],
    )


async def gemini(session: aiohttp.ClientSession, url: str, body: bytes, stream: bool) -> Message:
    """A turn over the Gemini wire."""
    url = f"{url}/models/m"
    if not stream:
        parts = (await posted(session, f"{url}:generateContent", body))["candidates"][0]["content"]["parts"]
    else:
        text, parts = "", list[Any]()
        async for batch in events(session, f"{url}:streamGenerateContent?alt=sse", body):
            for event in batch:
                for candidate in event["candidates"]:
                    for part in candidate.get("content", {}).get("parts", ()):
                        if "text" in part:
                            text += part["text"]
                        else:
                            parts.append(part)
        parts.insert(0, {"text": text})
    calls = [one["functionCall"] for one in parts if "functionCall" in one]
    return (
        orjson.dumps({"role": "model", "parts": parts}),
        [(one["name"], one.get("id", ""), one["args"]) for one in calls],
    )


def tool_messages(calls: Sequence[tuple[str, str, Any]], results: Sequence[str]) -> list[dict[str, Any]]:
    """Results over chat completions: a message each."""
    return [
        {"role": "tool", "tool_call_id": call[1], "content": result}
        for call, result in zip(calls, results, strict=True)
    ]


def output_items(calls: Sequence[tuple[str, str, Any]], results: Sequence[str]) -> list[dict[str, Any]]:
    """Results over the Responses wire: an item each."""
    return [
        {"type": "function_call_output", "call_id": call[1], "output": result}
        for call, result in zip(calls, results, strict=True)
    ]


def result_blocks(calls: Sequence[tuple[str, str, Any]], results: Sequence[str]) -> list[dict[str, Any]]:
    """Results over the Messages wire: one message."""
    blocks = [
        {"type": "tool_result", "tool_use_id": call[1], "content": result}
        for call, result in zip(calls, results, strict=True)
    ]
    return [{"role": "user", "content": blocks}]


def response_parts(calls: Sequence[tuple[str, str, Any]], results: Sequence[str]) -> list[dict[str, Any]]:
    """Results over the Gemini wire: one content."""
    parts = [
        {"functionResponse": {"id": call[1], "name": call[0], "response": {"output": result}}}
        for call, result in zip(calls, results, strict=True)
    ]
    return [{"role": "user", "parts": parts}]


Turn = Callable[[aiohttp.ClientSession, str, bytes, bool], Awaitable[Message]]
Results = Callable[[Sequence[tuple[str, str, Any]], Sequence[str]], list[dict[str, Any]]]
#: By the wire: a turn, its results, the body around the messages, and the first message.
LOOPS: Mapping[str, tuple[Turn, Results, dict[str, Any], str, dict[str, Any]]] = {
    "openai-chat": (chat, tool_messages, {"model": "m", "tools": TOOLS}, "messages", {"role": "user"}),
    "openai-responses": (
        responses,
        output_items,
        {"model": "m", "tools": FLAT_TOOLS, "store": False},
        "input",
        {"role": "user"},
    ),
    "anthropic": (
        messages,
        result_blocks,
        {"model": "m", "max_tokens": 4096, "tools": BLOCK_TOOLS},
        "messages",
        {"role": "user"},
    ),
    "gemini": (gemini, response_parts, {"tools": DECLARED_TOOLS}, "contents", {"role": "user"}),
}
_BEGINNING = "Look at everything."


async def converse(session: aiohttp.ClientSession, url: str, wire: str, *, stream: bool) -> list[bytes]:
    """A conversation: post all messages, run the calls together, append, again."""
    turn, results, body, field, first = LOOPS[wire]
    said = {"parts": [{"text": _BEGINNING}]} if wire == "gemini" else {"content": _BEGINNING}
    settings = {**body, "stream": True} if stream and wire != "gemini" else body
    head = orjson.dumps(settings)[:-1] + f',"{field}":['.encode()
    sent = [orjson.dumps({**first, **said})]
    while True:
        message, calls = await turn(session, url, head + b",".join(sent) + b"]}", stream)
        sent.append(message)
        if not calls:
            return sent
        done = await asyncio.gather(*(read(call[2]) for call in calls))
        sent += map(orjson.dumps, results(calls, done))
