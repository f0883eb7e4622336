"""The floor: a loop written by hand with an HTTP client, for one endpoint, without validation or limits.

One loop a wire, whole and streamed.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import httpx2

from benchmarks.tools import NAMES, SCHEMA, TOOLS, read

BLOCK_TOOLS = [{"name": name, "description": "Reads lines of a file.", "input_schema": SCHEMA} for name in NAMES]
DECLARED_TOOLS = [
    {
        "functionDeclarations": [
            {"name": name, "description": "Reads lines of a file.", "parametersJsonSchema": SCHEMA} for name in NAMES
        ]
    }
]
FLAT_TOOLS = [{"type": "function", "strict": False, **tool["function"]} for tool in TOOLS]


async def converse(client: httpx2.AsyncClient, url: str) -> list[dict[str, Any]]:
    """A conversation with whole answers: post all messages, run the calls together, append, again."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Look at everything."}]
    while True:
        body = {"model": "m", "messages": messages, "tools": TOOLS}
        response = await client.post(f"{url}/chat/completions", json=body, headers={"Authorization": "Bearer k"})
        message = response.json()["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            return messages
        await run(message["tool_calls"], messages)


async def converse_streamed(client: httpx2.AsyncClient, url: str) -> list[dict[str, Any]]:
    """The same, streamed: lines, fragments by index."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Look at everything."}]
    while True:
        body = {"model": "m", "messages": messages, "tools": TOOLS, "stream": True}
        text: list[str] = []
        calls: dict[int, dict[str, Any]] = {}
        headers = {"Authorization": "Bearer k"}
        async with client.stream("POST", f"{url}/chat/completions", json=body, headers=headers) as response:
            async for line in response.aiter_lines():
                if not line.startswith("data: ") or line == "data: [DONE]":
                    continue
                for choice in json.loads(line[6:])["choices"]:
                    delta = choice["delta"]
                    if delta.get("content"):
                        text.append(delta["content"])
                    for fragment in delta.get("tool_calls") or ():
                        call = calls.setdefault(
                            fragment["index"],
                            {"id": "", "type": "function", "function": {"name": "", "arguments": ""}},
                        )
                        call["id"] = fragment.get("id") or call["id"]
                        function = fragment["function"]
                        call["function"]["name"] = function.get("name") or call["function"]["name"]
                        call["function"]["arguments"] += function.get("arguments") or ""
        message: dict[str, Any] = {"role": "assistant", "content": "".join(text)}
        if calls:
            message["tool_calls"] = list(calls.values())
        messages.append(message)
        if not calls:
            return messages
        await run(message["tool_calls"], messages)


async def converse_responses(client: httpx2.AsyncClient, url: str) -> list[dict[str, Any]]:
    """A conversation over the Responses wire: items go out, items come back."""
    items: list[dict[str, Any]] = [{"role": "user", "content": "Look at everything."}]
    while True:
        body = {"model": "m", "input": items, "tools": FLAT_TOOLS, "store": False}
        response = await client.post(f"{url}/responses", json=body, headers={"Authorization": "Bearer k"})
        if not await run_items(response.json()["output"], items):
            return items


async def converse_responses_streamed(client: httpx2.AsyncClient, url: str) -> list[dict[str, Any]]:
    """The same, streamed: text and arguments are loaded from their pieces, items taken as they are done."""
    items: list[dict[str, Any]] = [{"role": "user", "content": "Look at everything."}]
    while True:
        body = {"model": "m", "input": items, "tools": FLAT_TOOLS, "store": False, "stream": True}
        text: list[str] = []
        arguments: dict[int, str] = {}
        output: list[dict[str, Any]] = []
        headers = {"Authorization": "Bearer k"}
        async with client.stream("POST", f"{url}/responses", json=body, headers=headers) as response:
            async for line in response.aiter_lines():
                if not line.startswith("data: ") or line == "data: [DONE]":
                    continue
                event = json.loads(line[6:])
                match event["type"]:
                    case "response.output_text.delta":
                        text.append(event["delta"])
                    case "response.function_call_arguments.delta":
                        place = event["output_index"]
                        arguments[place] = arguments.get(place, "") + event["delta"]
                    case "response.output_item.done":
                        output.append(event["item"])
        if not await run_items(output, items):
            return items


async def run_items(output: list[dict[str, Any]], items: list[dict[str, Any]]) -> bool:
    """An answer and the results of its calls, added to the items; whether it called."""
    items.extend(output)
    calls = [item for item in output if item["type"] == "function_call"]
    results = await asyncio.gather(*(read(json.loads(call["arguments"])) for call in calls))
    items.extend(
        {"type": "function_call_output", "call_id": call["call_id"], "output": result}
        for call, result in zip(calls, results, strict=True)
    )
    return bool(calls)


async def run(calls: list[dict[str, Any]], messages: list[dict[str, Any]]) -> None:
    """All calls at once; results in the order of the calls."""
    results = await asyncio.gather(*(read(json.loads(call["function"]["arguments"])) for call in calls))
    messages.extend(
        {"role": "tool", "tool_call_id": call["id"], "content": result}
        for call, result in zip(calls, results, strict=True)
    )


async def converse_messages(client: httpx2.AsyncClient, url: str) -> list[dict[str, Any]]:
    """A conversation over the Messages wire: blocks go out, blocks come back."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Look at everything."}]
    while True:
        body = {"model": "m", "max_tokens": 4096, "messages": messages, "tools": BLOCK_TOOLS}
        response = await client.post(f"{url}/messages", content=compact(body), headers={"Authorization": "Bearer k"})
        if not await run_blocks(response.json()["content"], messages):
            return messages


async def converse_messages_streamed(client: httpx2.AsyncClient, url: str) -> list[dict[str, Any]]:
    """The same, streamed: blocks by index, their arguments from pieces."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Look at everything."}]
    while True:
        body = {"model": "m", "max_tokens": 4096, "messages": messages, "tools": BLOCK_TOOLS, "stream": True}
        blocks: dict[int, dict[str, Any]] = {}
        pieces: dict[int, str] = {}
        headers = {"Authorization": "Bearer k"}
        async with client.stream("POST", f"{url}/messages", content=compact(body), headers=headers) as response:
            async for line in response.aiter_lines():
                if not line.startswith("data: "):
                    continue
                event = json.loads(line[6:])
                if event["type"] == "content_block_start":
                    blocks[event["index"]] = event["content_block"]
                    pieces[event["index"]] = ""
                elif event["type"] == "content_block_delta":
                    delta = event["delta"]
                    pieces[event["index"]] += delta.get("text") or delta.get("partial_json") or ""
        for index, block in blocks.items():
            if block["type"] == "text":
                block["text"] = pieces[index]
            else:
                block["input"] = json.loads(pieces[index] or "{}")
        if not await run_blocks(list(blocks.values()), messages):
            return messages


async def run_blocks(blocks: list[dict[str, Any]], messages: list[dict[str, Any]]) -> bool:
    """An answer and the results of its calls, added to the messages; whether it called."""
    messages.append({"role": "assistant", "content": blocks})
    calls = [block for block in blocks if block["type"] == "tool_use"]
    results = await asyncio.gather(*(read(call["input"]) for call in calls))
    if calls:
        answers = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": result}
            for call, result in zip(calls, results, strict=True)
        ]
        messages.append({"role": "user", "content": answers})
    return bool(calls)


async def converse_gemini(client: httpx2.AsyncClient, url: str) -> list[dict[str, Any]]:
    """A conversation over the Gemini wire: parts go out, parts come back."""
    contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": "Look at everything."}]}]
    while True:
        content = compact({"contents": contents, "tools": DECLARED_TOOLS})
        response = await client.post(
            f"{url}/models/m:generateContent", content=content, headers={"x-goog-api-key": "k"}
        )
        if not await run_parts(response.json()["candidates"][0]["content"]["parts"], contents):
            return contents


async def converse_gemini_streamed(client: httpx2.AsyncClient, url: str) -> list[dict[str, Any]]:
    """The same, streamed: each piece is an answer with some of the parts."""
    contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": "Look at everything."}]}]
    path = "/models/m:streamGenerateContent?alt=sse"
    while True:
        content = compact({"contents": contents, "tools": DECLARED_TOOLS})
        text, parts = "", list[dict[str, Any]]()
        async with client.stream("POST", f"{url}{path}", content=content, headers={"x-goog-api-key": "k"}) as response:
            async for line in response.aiter_lines():
                if not line.startswith("data: "):
                    continue
                for candidate in json.loads(line[6:])["candidates"]:
                    for part in candidate.get("content", {}).get("parts", ()):
                        if "text" in part:
                            text += part["text"]
                        else:
                            parts.append(part)
        if not await run_parts([{"text": text}, *parts], contents):
            return contents


async def run_parts(parts: list[dict[str, Any]], contents: list[dict[str, Any]]) -> bool:
    """An answer and the responses to its calls, added to the contents; whether it called."""
    contents.append({"role": "model", "parts": parts})
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    results = await asyncio.gather(*(read(call["args"]) for call in calls))
    if calls:
        answers = [
            {"functionResponse": {"id": call.get("id"), "name": call["name"], "response": {"output": result}}}
            for call, result in zip(calls, results, strict=True)
        ]
        contents.append({"role": "user", "parts": answers})
    return bool(calls)


def compact(body: dict[str, Any]) -> bytes:
    """A body as the HTTP client writes it."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


Loop = Callable[[httpx2.AsyncClient, str], Awaitable[list[dict[str, Any]]]]
#: By the wire: for whole answers, and for streams.
LOOPS: Mapping[str, tuple[Loop, Loop]] = {
    "openai-chat": (converse, converse_streamed),
    "openai-responses": (converse_responses, converse_responses_streamed),
    "anthropic": (converse_messages, converse_messages_streamed),
    "gemini": (converse_gemini, converse_gemini_streamed),
}
