"""Requests of a soak: how each is asked over every wire, what its backend and tools do, and what its answer must be.

A request carries a marker that no other one has. Its backend says it, its tools get it, and its answer must hold it.
"""

import asyncio
import collections
import contextlib
import dataclasses
import json
import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Any

from starlette.types import Message, Receive, Scope, Send

KEYS = {"ada": "the-key-of-ada-which-is-long", "bob": "the-key-of-bob-which-is-long"}
PATHS = {"responses": "/v1/responses", "chat": "/v1/chat/completions", "messages": "/v1/messages"}
NAMES = {"responses": "openai-responses", "chat": "openai-chat", "messages": "anthropic"}
MARKER = re.compile(r"m\d{6}z")
#: What is asked, how often, and the status that is counted for it. What leaves may be over before it has left.
SHARES = {
    "text": 36,
    "calls": 12,
    "tool": 10,
    "mixed": 5,
    "follow": 3,
    "steal": 2,
    "again": 3,
    "fail": 4,
    "cut": 5,
    "bad": 3,
    "odd": 2,
    "wrong": 3,
    "unknown": 2,
}
STATUSES = {"fail": 502, "cut": 502, "bad": 400, "odd": 400, "wrong": 401, "unknown": 404}
#: Clients leave in the middle of the headers, or of the body; before anything is said, whole or streamed; in the
#: middle; near the end; or while a tool runs for them.
LEAVES = ("head", "body", "whole", "silent", "begun", "talking", "ending", "hold")
LEAVING = 10
#: How often a backend is asked for it: others once.
ASKED = {
    **dict.fromkeys(("bad", "odd", "wrong", "unknown", "head", "body"), 0),
    "tool": 2,
    "follow": 3,
    "steal": 2,
    "again": 2,
}
SCHEMA = {"type": "object", "properties": {"marker": {"type": "string"}}, "additionalProperties": True}

ENSEMBLE = """
[ensemble]
name = "soak"
description = "Says what it is told."
module = "./soaking.py"
[[invokers]]
name = "echo"
description = "Says it."
effect = "none"
[invokers.arguments]
type = "object"
required = ["marker"]
properties.marker.type = "string"
[[invokers]]
name = "hold"
description = "Holds it."
effect = "none"
[invokers.arguments]
type = "object"
required = ["marker"]
properties.marker.type = "string"
"""
MODULE = """
import asyncio, pathlib
NOTES = pathlib.Path(__file__).with_name("notes")

def note(text):
    with NOTES.open("a") as file:
        file.write(text)

async def echo(context, arguments):
    return f"{context.auxdata}:{arguments['marker']}"

async def hold(context, arguments):
    note(f"+{arguments['marker']}\\n")
    try:
        await asyncio.Event().wait()
    finally:
        note(f"-{arguments['marker']}\\n")
"""


def said(marker: str, pieces: int) -> list[str]:
    return [f"{marker} {number}. " for number in range(pieces)]


class Backend:
    """Chat completions that do what a request's text says, and notes who was asked, and who is open."""

    def __init__(self) -> None:
        self.open: set[str] = set()
        self.asked: collections.Counter[str] = collections.Counter()
        self.events: dict[tuple[str, str], asyncio.Event] = collections.defaultdict(asyncio.Event)
        self.closing = False
        self.port = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        native = json.loads(body)
        messages = native["messages"]
        last = max(place for place, one in enumerate(messages) if one["role"] == "user")
        how, marker, pieces = messages[last]["content"].split()
        results = [one["content"] for one in messages[last:] if one["role"] == "tool"]
        self.open.add(marker)
        self.asked[marker] += 1
        try:
            answer = self._answer(how, marker, int(pieces), results, native.get("stream", False))
            await (self._until_left(answer, marker, receive, send) if how in LEAVES else play(answer, send))
        finally:
            self.open.discard(marker)
            if how in LEAVES:
                self.events[marker, "left"].set()

    async def _answer(
        self, how: str, marker: str, pieces: int, results: list[str], stream: bool
    ) -> AsyncGenerator[Message, None]:
        headers = [(b"connection", b"close")] if self.closing else []
        if how == "fail" or (how == "again" and self.asked[marker] == 1):
            headers += [(b"retry-after-ms", b"1")]
            yield {"type": "http.response.start", "status": 500, "headers": headers}
            yield {"type": "http.response.body", "body": json.dumps({"error": {"message": marker}}).encode()}
            return
        if how in ("whole", "silent"):
            await asyncio.Event().wait()
        texts = [*said(marker, pieces), *results]
        called: list[tuple[str, dict[str, Any]]] = []
        if how in ("tool", "mixed", "follow", "steal", "hold") and not results:
            called = [("hold" if how == "hold" else "echo", {"marker": marker})]
        if how in ("calls", "mixed"):
            called += [("note", {"marker": marker, "place": place}) for place in range(pieces)]
        texts = [] if called else texts
        if not stream:
            whole = json.dumps(completion(marker, "".join(texts), called)).encode()
            # Half of it, where it is to break off.
            headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(whole))]
            yield {"type": "http.response.start", "status": 200, "headers": headers}
            more = how == "cut"
            yield {"type": "http.response.body", "body": whole[: len(whole) // 2] if more else whole, "more_body": more}
            return
        yield {"type": "http.response.start", "status": 200, "headers": [*headers, (b"content-type", EVENTS)]}
        number = 0
        deltas = [{"content": text} for text in texts] + [one for place in enumerate(called) for one in begun(*place)]
        while how == "talking" or number < (1 if how in ("cut", "begun") else len(deltas)):
            delta = deltas[number % len(deltas)]
            yield {"type": "http.response.body", "body": chunk(marker, delta), "more_body": True}
            number += 1
        if how == "begun":
            await asyncio.Event().wait()
        if how != "cut":
            end = chunk(marker, {}, "tool_calls" if called else "stop") + b"data: [DONE]\n\n"
            yield {"type": "http.response.body", "body": end}

    async def _until_left(
        self, answer: AsyncGenerator[Message, None], marker: str, receive: Receive, send: Send
    ) -> None:
        self.events[marker, "begun"].set()
        answering = asyncio.ensure_future(play(answer, send))
        while (await receive())["type"] != "http.disconnect":
            pass
        answering.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await answering


EVENTS = b"text/event-stream"


async def play(answer: AsyncGenerator[Message, None], send: Send) -> None:
    async with contextlib.aclosing(answer) as messages:
        async for message in messages:
            await send(message)
            await asyncio.sleep(0)


def completion(marker: str, text: str, called: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    calls = [call(place, name, arguments) for place, (name, arguments) in enumerate(called)]
    message = {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return {"id": marker, "object": "chat.completion", "created": 0, "model": "small-1", "choices": [choice]}


def call(place: int, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    identifier = f"call_{arguments['marker']}_{place}"
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def begun(place: int, called: tuple[str, Any]) -> Iterable[dict[str, Any]]:
    """A call in two pieces."""
    whole = call(place, *called)
    text = whole["function"].pop("arguments")
    first = {**whole, "index": place, "function": {**whole["function"], "arguments": text[:7]}}
    return {"tool_calls": [first]}, {"tool_calls": [{"index": place, "function": {"arguments": text[7:]}}]}


def chunk(marker: str, delta: Mapping[str, Any], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    native = {"id": marker, "object": "chat.completion.chunk", "created": 0, "model": "small-1", "choices": [choice]}
    return b"data: %s\n\n" % json.dumps(native).encode()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """One request, or two where the second goes on with the answer of the first."""

    number: int
    how: str
    wire: str
    caller: str
    streamed: bool
    official: bool
    pieces: int

    @property
    def marker(self) -> str:
        return f"m{self.number:06}z"

    @property
    def body(self) -> dict[str, Any]:
        """What is sent, but for ``stream``."""
        prompt = {"role": "user", "content": f"{self.how} {self.marker} {self.pieces}"}
        native: dict[str, Any] = {"model": {"again": "patient", "unknown": "nobody"}.get(self.how, "small-1")}
        native["input" if self.wire == "responses" else "messages"] = [prompt]
        tools: list[Any] = []
        if self.how in ("calls", "mixed"):
            function = {"name": "note", "parameters": SCHEMA}
            forms = {
                "responses": {"type": "function", **function},
                "chat": {"type": "function", "function": function},
                "messages": {"name": "note", "input_schema": SCHEMA},
            }
            tools.append(forms[self.wire])
        if self.wire == "messages":
            native["max_tokens"] = 999
        if self.how in ("tool", "mixed", "follow", "steal", "hold"):
            server = {"type": "mcp", "server_label": "soak", "server_url": "http://192.0.2.1/"}
            toolset = {"type": "mcp_toolset", "mcp_server_name": "soak"}
            tools.append(server if self.wire == "responses" else toolset)
        if self.how == "odd":
            odd = {"type": "tool", "name": "nobody"}
            native["tool_choice"] = {
                "responses": {"type": "function", "name": "nobody"},
                "chat": {"type": "function", "function": {"name": "nobody"}},
                "messages": odd,
            }[self.wire]
        return {**native, "tools": tools} if tools else native

    @property
    def expected(self) -> "Answer":
        """What is to come of it, where it is answered."""
        mine = {"marker": self.marker}
        text = "".join(said(self.marker, self.pieces))
        shown = self.wire == "responses"
        ran = self.how in ("tool", "mixed", "follow", "steal")
        result = f"{self.caller}:{self.marker}"
        calls: list[tuple[str, Any]] = [("echo", mine)] if ran and shown else []
        if self.how in ("calls", "mixed"):
            calls += [("note", {**mine, "place": place}) for place in range(self.pieces)]
            text = ""
        elif ran:
            text += result
        return Answer(200, text, calls, [result] if ran and shown else [])


@dataclasses.dataclass(slots=True)
class Answer:
    """What a client was told. ``whole`` is all of it, as it came or as the official client has read it."""

    status: int
    text: str = ""
    calls: list[tuple[str, Any]] = dataclasses.field(default_factory=list[tuple[str, Any]])
    results: list[str] = dataclasses.field(default_factory=list[str])
    whole: str = dataclasses.field(default="", compare=False)
    items: list[Any] = dataclasses.field(default_factory=list[Any], compare=False)


def answer_of(wire: str, native: Mapping[str, Any]) -> Answer:
    """A whole answer, or what a stream has come to."""
    whole = json.dumps(native)
    if wire == "chat":
        message = native["choices"][0]["message"]
        functions = [one["function"] for one in message.get("tool_calls") or ()]
        called = [(one["name"], json.loads(one["arguments"])) for one in functions]
        return Answer(200, message.get("content") or "", called, whole=whole)
    if wire == "messages":
        blocks = native["content"]
        called = [(one["name"], one["input"]) for one in blocks if one["type"] == "tool_use"]
        return Answer(200, "".join(one["text"] for one in blocks if one["type"] == "text"), called, whole=whole)
    items = native["output"]
    called = [(one["name"], json.loads(one["arguments"])) for one in items if one["type"] == "function_call"]
    results = [one["output"] for one in items if one["type"] == "function_call_output"]
    text = "".join(part["text"] for one in items if one["type"] == "message" for part in one["content"])
    return Answer(200, text, called, results, whole, items)


def streamed_of(wire: str, events: list[dict[str, Any]]) -> Answer:
    """What the events of a stream come to. One that ends with an error has the status that is counted for it."""
    if not events or "error" in (events[-1], events[-1].get("type")) or events[-1].get("error"):
        return Answer(502, whole=json.dumps(events))
    if wire == "responses":
        answer = answer_of(wire, events[-1]["response"])
        answer.status = 502 if events[-1]["type"] == "response.failed" else 200
        return dataclasses.replace(answer, whole=json.dumps(events))
    text, calls = "", collections.defaultdict[int, list[str]](lambda: ["", ""])
    for event in events:
        if wire == "chat":
            for choice in event["choices"]:
                text += choice["delta"].get("content") or ""
                for one in choice["delta"].get("tool_calls") or ():
                    calls[one["index"]][0] += one["function"].get("name") or ""
                    calls[one["index"]][1] += one["function"].get("arguments") or ""
        elif event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
            calls[event["index"]][0] = event["content_block"]["name"]
        elif event["type"] == "content_block_delta":
            text += event["delta"].get("text", "")
            if "partial_json" in event["delta"]:
                calls[event["index"]][1] += event["delta"]["partial_json"]
    called = [(name, json.loads(arguments)) for _, (name, arguments) in sorted(calls.items())]
    return Answer(200, text, called, whole=json.dumps(events))


def request(path: str, body: bytes | None, key: str, *, expect: bool = False) -> bytes:
    lines = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", "host: localhost", f"authorization: Bearer {key}"]
    lines += ["content-type: application/json", f"content-length: {len(body or b'')}"]
    lines.append("expect: 100-continue" if expect else "connection: close")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if expect else body or b"")


async def exchange(port: int, data: bytes) -> tuple[int, str]:
    """On a connection of its own: the status, and the body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.closing(writer):
        writer.write(data)
        head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" in head.lower():
        parts: list[bytes] = []
        while not parts or parts[-1]:
            size, _, body = body.partition(b"\r\n")
            parts.append(body[: int(size, 16)])
            body = body[int(size, 16) + 2 :]
        body = b"".join(parts)
    return int(head.split()[1]), body.decode()
