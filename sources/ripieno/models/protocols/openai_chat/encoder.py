"""Encodes events as answers of the chat completions wire: streamed, complete, and errors."""

import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from ripieno.canisters import OpaqueContent, TextualContent
from ripieno.canisters.conversation import NO_USAGE
from ripieno.canisters.events import (
    ArgumentsDelta,
    ContentSealed,
    Event,
    InvocationBegan,
    InvocationSealed,
    ReasoningDelta,
    TextDelta,
    TurnBegan,
    TurnEnded,
)
from ripieno.jsonvalues import EMPTY
from ripieno.jsonvalues import encode as encode_json
from ripieno.models.protocol import Asked, Refusal
from ripieno.models.protocols.common.calls import extras_of
from ripieno.models.protocols.common.openai import refuse, text_of_call
from ripieno.models.protocols.openai_chat.finish import REASONS, usage_object
from ripieno.models.protocols.openai_chat.invocations import NAME, WORDS, begun_object, call_object
from ripieno.models.protocols.openai_chat.reasoning import additions_of, probabilities_of

#: The keys of reasoning text, which is not sent again after it was streamed.
_REASONING_TEXTS = ("reasoning_content", "reasoning")


class Encoder:
    """Streams an answer. Sealed events send only what no delta has sent."""

    def __init__(self, asked: Asked) -> None:
        self._head = (
            b'data: %s,"choices":[{"index":0,"delta":' % encode_json(_header("chat.completion.chunk", asked.model))[:-1]
        )
        self._text_sent = False
        self._reasoning_sent = False
        #: The calls that began, by their index, and those whose arguments were streamed.
        self._began: dict[int, InvocationBegan] = {}
        self._argued: set[int] = set()

    def feed(self, event: Event) -> bytes:
        data = b""
        match event:
            case TextDelta():
                data = self._say(event)
            case ArgumentsDelta():
                data = self._argue(event)
            case ReasoningDelta():
                data = self._reason(event)
            case ContentSealed():
                data = self._content(event)
            case InvocationBegan():
                data = self._begin_call(event)
            case InvocationSealed():
                data = self._seal_call(event)
            case TurnBegan():
                data = self._begin(event)
            case TurnEnded():
                data = self._end(event)
            case _:
                pass
        return data

    def wait(self) -> bytes:
        return b""

    def fail(self, refusal: Refusal) -> bytes:
        return b"data: %s\n\n" % refuse(refusal)

    def _chunk(self, delta: Mapping[str, Any]) -> bytes:
        return b'%s%s,"finish_reason":null}]}\n\n' % (self._head, encode_json(delta))

    def _begin(self, _: TurnBegan) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def _say(self, event: TextDelta) -> bytes:
        self._text_sent = True
        return self._chunk({"content": event.text})

    def _reason(self, event: ReasoningDelta) -> bytes:
        self._reasoning_sent = True
        return self._chunk({"reasoning_content": event.text})

    def _content(self, event: ContentSealed) -> bytes:
        content = event.content
        if isinstance(content, TextualContent):
            text_sent, self._text_sent = self._text_sent, False
            return b"" if text_sent or not content.text else self._chunk({"content": content.text})
        if (probable := probabilities_of((content,))) is not None:
            return b'%s{},"logprobs":%s,"finish_reason":null}]}\n\n' % (self._head, encode_json(probable))
        additions = additions_of((content,), replay=True)
        if additions and self._reasoning_sent:
            self._reasoning_sent = False
            additions = {name: value for name, value in additions.items() if name not in _REASONING_TEXTS}
        return self._chunk(additions) if additions else b""

    def _begin_call(self, event: InvocationBegan) -> bytes:
        self._began[event.index] = event
        return self._call(event.index, begun_object(event))

    def _argue(self, event: ArgumentsDelta) -> bytes:
        began = self._began.get(event.index)
        if began is None:
            return b""
        self._argued.add(event.index)
        kind, key = WORDS[began.kind]
        return self._call(event.index, {kind: {key: event.text}})

    def _seal_call(self, event: InvocationSealed) -> bytes:
        began = self._began.get(event.index)
        if began is None:
            return self._call(event.index, call_object(event.invocation))
        # The keys of the call that have not been sent since it began.
        sent, invocation = extras_of(began, NAME), event.invocation
        rest = {name: value for name, value in extras_of(invocation, NAME).items() if sent.get(name) != value}
        kind, key = WORDS[invocation.kind]
        inner = dict(rest.pop("function", EMPTY))
        if event.index not in self._argued:
            inner[key] = text_of_call(invocation)
        rest = {**rest, kind: inner} if inner else rest
        return self._call(event.index, rest) if rest else b""

    def _call(self, index: int, members: Mapping[str, Any]) -> bytes:
        return self._chunk({"tool_calls": [{"index": index, **members}]})

    def _end(self, event: TurnEnded) -> bytes:
        # Usage is in the last chunk: clients that did not request it fail on a chunk without choices.
        ending = encode_json(REASONS.get(event.finish, "stop"))
        usage = encode_json(usage_object(event.usage))
        return b'%s{},"finish_reason":%s}],"usage":%s}\n\ndata: [DONE]\n\n' % (self._head, ending, usage)


def encode(events: Iterable[Event], asked: Asked) -> bytes:
    texts: list[str] = []
    thoughts: list[str] = []
    opaques: list[OpaqueContent] = []
    calls: list[Any] = []
    reason, usage = "stop", NO_USAGE
    for event in events:
        if isinstance(event, ContentSealed):
            if isinstance(event.content, TextualContent):
                texts.append(event.content.text)
            elif isinstance(event.content, OpaqueContent):
                opaques.append(event.content)
        elif isinstance(event, ReasoningDelta):
            thoughts.append(event.text)
        elif isinstance(event, InvocationSealed):
            calls.append(call_object(event.invocation))
        elif isinstance(event, TurnEnded):
            reason, usage = REASONS.get(event.finish, "stop"), event.usage
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts) or None, "refusal": None}
    message |= additions_of(opaques, replay=True)
    if thoughts and not any(name in message for name in _REASONING_TEXTS):
        message["reasoning_content"] = "".join(thoughts)
    if calls:
        message["tool_calls"] = calls
    answer = {
        **_header("chat.completion", asked.model),
        "choices": [{"index": 0, "message": message, "logprobs": probabilities_of(opaques), "finish_reason": reason}],
        "usage": usage_object(usage),
    }
    return encode_json(answer)


def _header(kind: str, model: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": model}
