"""The floor: what somebody writes by hand with an HTTP client, for one endpoint, without validation or limits."""

import asyncio
import json
from typing import Any

import httpx2

from benchmarks.tools import TOOLS, read


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


async def run(calls: list[dict[str, Any]], messages: list[dict[str, Any]]) -> None:
    """All calls at once; results in the order of the calls."""
    results = await asyncio.gather(*(read(json.loads(call["function"]["arguments"])) for call in calls))
    messages.extend(
        {"role": "tool", "tool_call_id": call["id"], "content": result}
        for call, result in zip(calls, results, strict=True)
    )
