"""Requests of a coding agent, and the answers of the model behind the gateway: text and two calls, as bytes.

A request can tell the backend how to answer, in its text, where every translation leaves it alone:
``[[pace 200]]`` waits milliseconds between the pieces of a stream; ``[[hold 30 id 7]]`` stops for good after that
percentage of them, before the HTTP head for 0, and notes when the connection of number 7 is lost.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.tools import NAMES, TOOLS

#: The first word of the answer; nothing that a request says, or that an answer could repeat of it, holds it.
FIRST_WORD = "Certainly"
TEXT = (
    f"{FIRST_WORD}: the parser drops the last token because the loop ends one step early, "
    "so I read both modules again, then change the bound."
)
CALLS = tuple(
    (
        f"call_bench_{index}",
        NAMES[index],
        json.dumps({"path": f"sources/parser/module_{index}.py", "start_line": 1, "end_line": 40}),
    )
    for index in range(2)
)
_INSTRUCTIONS = (
    "You are a careful engineer who works in the user's checkout. Read before you change anything, make the smallest "
    "change that solves the task, and run the tests that concern it. Answer briefly. "
) * 6
_TASK = "The parser loses the last token of a line. Find out why and mend it; the tests are in tests/parser."
_THOUGHT = "I look at the module first."
_LINES = "def tokens(line):\n    for index in range(len(line) - 1):\n        yield line[index]\n" * 4


def responses_body(*, stream: bool, note: str = "") -> bytes:
    """A request over the Responses wire: instructions, a message, a call and its result, four function tools."""
    _, name, arguments = CALLS[0]
    functions: list[Any] = [tool["function"] for tool in TOOLS]
    return _written(
        {
            "model": "m",
            "instructions": _INSTRUCTIONS,
            "input": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": _TASK + note}]},
                {"type": "function_call", "call_id": "call_earlier", "name": name, "arguments": arguments},
                {"type": "function_call_output", "call_id": "call_earlier", "output": _LINES},
            ],
            "tools": [{"type": "function", "strict": False, **function} for function in functions],
            "tool_choice": "auto",
            "parallel_tool_calls": True,
            "store": False,
            "stream": stream,
        }
    )


def chat_body(*, stream: bool, note: str = "") -> bytes:
    """The same request as the backend's own wire has it; what the pass-through and the backend itself are asked."""
    _, name, arguments = CALLS[0]
    call = {"id": "call_earlier", "type": "function", "function": {"name": name, "arguments": arguments}}
    streaming: dict[str, Any] = {}
    if stream:
        streaming = {"stream": True, "stream_options": {"include_usage": True}}
    return _written(
        {
            "model": "m",
            "messages": [
                {"role": "system", "content": _INSTRUCTIONS},
                {"role": "user", "content": _TASK + note},
                {"role": "assistant", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "call_earlier", "content": _LINES},
            ],
            "tools": TOOLS,
            "tool_choice": "auto",
            "parallel_tool_calls": True,
            **streaming,
        }
    )


def whole_answer() -> bytes:
    """The backend's answer with its HTTP head."""
    calls = [
        {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}
        for identifier, name, arguments in CALLS
    ]
    message = {"role": "assistant", "content": TEXT, "tool_calls": calls}
    body = _written(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
            "usage": _USAGE,
        }
    )
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body


def streamed_answer() -> Sequence[bytes]:
    """The same, streamed: the HTTP head, each event as a chunk of its own, as model servers send them, the end.

    Text comes in words, arguments in pieces of eight characters, usage at last.
    """
    deltas: list[Mapping[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": f"{word} "} for word in TEXT.split()]
    for index, (identifier, name, text) in enumerate(CALLS):
        began = {"index": index, "id": identifier, "type": "function", "function": {"name": name, "arguments": ""}}
        deltas.append({"tool_calls": [began]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": text[start : start + 8]}}]}
            for start in range(0, len(text), 8)
        ]
    choices: list[list[Any]] = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
    choices.append([{"index": 0, "delta": {}, "finish_reason": "tool_calls"}])
    pieces = [_event(choices=one) for one in choices]
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return (head, *pieces, _event(choices=[], usage=_USAGE), _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")


_USAGE = {"prompt_tokens": 900, "completion_tokens": 60, "total_tokens": 960}


def _event(**fields: Any) -> bytes:
    event = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", **fields}
    return _chunk(b"data: %s\n\n" % _written(event))


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _written(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()
