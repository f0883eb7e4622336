"""A model endpoint that costs almost nothing: answers from bytes that are made beforehand.

It runs as a process of its own, so that only the client's CPU is measured. Which turn is asked for, it counts from
the assistant messages in the body. Chat completions are written by hand, as its floor is; other wires by our servers.
"""

import asyncio
import contextlib
import json
import socket
import sys
from collections.abc import Iterable

from ripieno.canisters import InvocationCanister, TextualContent
from ripieno.canisters.conversation import Usage
from ripieno.canisters.events import (
    ArgumentsDelta,
    ContentSealed,
    Event,
    InvocationBegan,
    InvocationSealed,
    TextDelta,
    TurnBegan,
    TurnEnded,
)
from ripieno.jsonvalues import freeze
from ripieno.models import Protocol
from ripieno.models.protocol import Asked
from ripieno.models.protocols.anthropic import PROTOCOL as MESSAGES
from ripieno.models.protocols.gemini import PROTOCOL as GEMINI
from ripieno.models.protocols.openai_responses import PROTOCOL as RESPONSES

CALLS = 4


def arguments(turn: int, index: int) -> str:
    """What a call asks for: three arguments, as coding tools have."""
    return json.dumps({"path": f"sources/module_{turn}_{index}.py", "start_line": 1, "end_line": 40})


def calls(turn: int) -> list[dict[str, object]]:
    """The calls of one turn."""
    return [
        {
            "id": f"call_{turn}_{index}",
            "type": "function",
            "function": {"name": f"read_{index}", "arguments": arguments(turn, index)},
        }
        for index in range(CALLS)
    ]


def whole(turn: int, last: bool) -> bytes:
    """A whole answer, with its HTTP head."""
    message: dict[str, object] = {"role": "assistant", "content": f"I look at the files of step {turn}."}
    if not last:
        message["tool_calls"] = calls(turn)
    body = json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop" if last else "tool_calls"}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
        }
    ).encode()
    return headed(body)


def headed(body: bytes) -> bytes:
    """A whole body with its HTTP head."""
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body


def streamed(turn: int, last: bool) -> bytes:
    """A streamed answer: text in words, arguments in pieces of eight characters."""
    deltas: list[dict[str, object]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": f"{word} "} for word in f"I look at the files of step {turn}.".split()]
    for index, call in enumerate([] if last else calls(turn)):
        text = arguments(turn, index)
        deltas.append(
            {"tool_calls": [{"index": index, **call, "function": {"name": f"read_{index}", "arguments": ""}}]}
        )
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": text[start : start + 8]}}]}
            for start in range(0, len(text), 8)
        ]
    reasons: list[str | None] = [None] * len(deltas)
    deltas.append({})
    reasons.append("stop" if last else "tool_calls")
    chunks = [
        json.dumps(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": "m",
                "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
            }
        )
        for delta, reason in zip(deltas, reasons, strict=True)
    ]
    return chunked("".join(f"data: {chunk}\n\n" for chunk in chunks).encode() + b"data: [DONE]\n\n")


def chunked(body: bytes) -> bytes:
    """A streamed body with its HTTP head, in pieces of a kilobyte."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    pieces = [body[start : start + 1024] for start in range(0, len(body), 1024)]
    return head + b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def events_of(turn: int, last: bool) -> Iterable[Event]:
    """The same answer as events: text in words, arguments in pieces of eight characters."""
    text = f"I look at the files of step {turn}."
    yield TurnBegan(model="m")
    yield from (TextDelta(f"{word} ") for word in text.split())
    yield ContentSealed(TextualContent(text=f"{text} "))
    for index in range(0 if last else CALLS):
        sent, identifier, name = arguments(turn, index), f"call_{turn}_{index}", f"read_{index}"
        yield InvocationBegan(index=index, identifier=identifier, name=name)
        yield from (ArgumentsDelta(index=index, text=sent[start : start + 8]) for start in range(0, len(sent), 8))
        invocation = InvocationCanister(identifier=identifier, name=name, arguments=freeze(json.loads(sent)), raw=sent)
        yield InvocationSealed(index=index, invocation=invocation)
    yield TurnEnded(finish="stop" if last else "invocations", usage=Usage(input_tokens=100, output_tokens=20))


def written(protocol: Protocol, turn: int, last: bool, stream: bool) -> bytes:
    """An answer over another wire, with its HTTP head."""
    events = events_of(turn, last)
    if not stream:
        return headed(protocol.encode(events, Asked(model="m")))
    encoder = protocol.encoder(Asked(model="m"))
    return chunked(b"".join(map(encoder.feed, events)))


async def main() -> None:
    """Serves until standard input is closed. The path says how many turns: ``/TURNS/v1/chat/completions``."""
    answers: dict[tuple[bytes, int, bool, bool], bytes] = {}
    others = {
        path.encode(): protocol
        for protocol in (RESPONSES, MESSAGES, GEMINI)
        for path in (protocol.path_for("m", stream=False), protocol.path_for("m", stream=True))
    }

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                turns = int(head.split(b"/")[1])
                body = await reader.readexactly(length)
                # One wire calls the assistant a model, and says in the path whether to stream.
                turn = body.count(b'"assistant"') + body.count(b'"role":"model"') + 1
                path = head.split(b" ")[1].partition(b"/%d" % turns)[2]
                stream = b'"stream":true' in body or b":stream" in path
                path = path if path in others else path.removeprefix(b"/v1")
                key = (path, turn, stream, turn >= turns)
                if key not in answers and path in others:
                    answers[key] = written(others[path], turn, turn >= turns, stream)
                elif key not in answers:
                    answers[key] = (streamed if stream else whole)(turn, turn >= turns)
                writer.write(answers[key])
                await writer.drain()
        writer.close()

    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", 0))
    server = await asyncio.start_server(serve, sock=listener, limit=64 * 1024 * 1024, backlog=4096)
    print(listener.getsockname()[1], flush=True)
    async with server:
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
