"""The requests of the soak, and their backend, which answers each as its text says."""

import asyncio
import collections
import contextlib
import dataclasses
import itertools
import json
import re
from collections.abc import AsyncGenerator
from typing import Any

from starlette.types import Message, Receive, Scope, Send

MARKER = re.compile(r"m\d{6}z")
#: Clients disconnect in the middle of the headers, or of the body; before an answer, whole or streamed; in the middle;
#: near the end; or while a tool runs for them.
LEAVES = ("head", "body", "whole", "silent", "begun", "talking", "ending", "hold")
RUN_HERE = ("tool", "mixed", "follow", "steal", "hold")
FUNCTION = {"type": "function", "name": "note", "parameters": {"type": "object", "additionalProperties": True}}
SERVER = {"type": "mcp", "server_label": "soak", "server_url": "http://192.0.2.1/"}


def said(marker: str, pieces: int) -> list[str]:
    return [f"{marker} {number}. " for number in range(pieces)]


class Backend:
    """Chat completions that do what a request's text says. Records which requests came, and which are open."""

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
        answer = send_all(self._answer(how, marker, int(pieces), results, native.get("stream", False)), send)
        try:
            await (self._until_left(answer, marker, receive) if how in LEAVES else answer)
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
        called: list[tuple[str, dict[str, Any]]] = []
        if how in RUN_HERE and not results:
            called = [("hold" if how == "hold" else "echo", {"marker": marker})]
        if how in ("calls", "mixed"):
            called += [("note", {"marker": marker, "place": place}) for place in range(pieces)]
        calls = [
            {
                "id": f"call_{marker}_{place}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(given)},
            }
            for place, (name, given) in enumerate(called)
        ]
        texts = [] if called else [*said(marker, pieces), *results]
        reason = "tool_calls" if called else "stop"
        if not stream:
            message = {
                "role": "assistant",
                "content": "".join(texts) or None,
                **({"tool_calls": calls} if calls else {}),
            }
            whole = native_of(marker, message=message, finish_reason=reason)
            headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(whole))]
            yield {"type": "http.response.start", "status": 200, "headers": headers}
            more = how == "cut"
            yield {"type": "http.response.body", "body": whole[: len(whole) // 2] if more else whole, "more_body": more}
            return
        yield {
            "type": "http.response.start",
            "status": 200,
            "headers": [*headers, (b"content-type", b"text/event-stream")],
        }
        deltas: list[dict[str, Any]] = [{"content": text} for text in texts]
        for place, call in enumerate(calls):
            deltas.append({"tool_calls": [{"index": place, **call}]})
        for number in itertools.count():
            if how != "talking" and number == (1 if how in ("cut", "begun") else len(deltas)):
                break
            delta = deltas[number % len(deltas)]
            yield {"type": "http.response.body", "body": event_of(marker, delta), "more_body": True}
        if how == "begun":
            await asyncio.Event().wait()
        if how != "cut":
            yield {"type": "http.response.body", "body": event_of(marker, {}, reason) + b"data: [DONE]\n\n"}

    async def _until_left(self, answer: Any, marker: str, receive: Receive) -> None:
        self.events[marker, "begun"].set()
        answering = asyncio.ensure_future(answer)
        while (await receive())["type"] != "http.disconnect":
            pass
        answering.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await answering


async def send_all(answer: AsyncGenerator[Message, None], send: Send) -> None:
    async with contextlib.aclosing(answer) as messages:
        async for message in messages:
            await send(message)
            await asyncio.sleep(0)


def native_of(marker: str, **choice: Any) -> bytes:
    kind = "chat.completion.chunk" if "delta" in choice else "chat.completion"
    native = {"id": marker, "object": kind, "created": 0, "model": "small-1", "choices": [{"index": 0, **choice}]}
    return json.dumps(native).encode()


def event_of(marker: str, delta: dict[str, Any], reason: str | None = None) -> bytes:
    return b"data: %s\n\n" % native_of(marker, delta=delta, finish_reason=reason)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request, or two if the second continues the answer of the first."""

    number: int
    how: str
    wire: str
    caller: str
    streamed: bool
    pieces: int

    @property
    def marker(self) -> str:
        return f"m{self.number:06}z"

    @property
    def body(self) -> dict[str, Any]:
        prompt = {"role": "user", "content": f"{self.how} {self.marker} {self.pieces}"}
        native: dict[str, Any] = {"model": {"again": "patient", "unknown": "nobody"}.get(self.how, "small-1")}
        native["input" if self.wire == "openai-responses" else "messages"] = [prompt]
        if self.wire == "anthropic":
            native["max_tokens"] = 999
        if self.how in ("calls", "mixed", *RUN_HERE):
            native["tools"] = [FUNCTION] * (self.how in ("calls", "mixed")) + [SERVER] * (self.how in RUN_HERE)
        if self.how == "odd":
            native["tool_choice"] = {"type": "function", "name": "nobody"}
        return {**native, "stream": self.streamed}

    @property
    def expected(self) -> list[str]:
        """Parts of its answer."""
        result = [f"{self.caller}:{self.marker}"] if self.how in RUN_HERE else []
        if self.how in ("calls", "mixed"):
            shift = len(result)
            return [*result, *(f"call_{self.marker}_{place + shift}" for place in range(self.pieces))]
        return [*said(self.marker, self.pieces), *result]


def http_request(path: str, body: bytes, key: str, *, expect: bool = False) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "host: localhost", f"authorization: Bearer {key}"]
    lines += ["content-type: application/json", f"content-length: {len(body)}"]
    lines.append("expect: 100-continue" if expect else "connection: close")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if expect else body)
