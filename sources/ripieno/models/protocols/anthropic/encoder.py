"""Encodes events as answers of the Messages wire: streamed, complete, and errors."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ripieno.canisters import Content, InvocationCanister, OpaqueContent, TextualContent
from ripieno.canisters.conversation import NO_USAGE, Usage
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
from ripieno.jsonvalues import encode as encode_json
from ripieno.models.protocol import SCORED, Asked, Refusal
from ripieno.models.protocols.anthropic.contents import block_of
from ripieno.models.protocols.anthropic.finish import REASONS, usage_object
from ripieno.models.protocols.anthropic.invocations import begun_block, invocation_block
from ripieno.models.protocols.common.calls import served_arguments

_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


class Encoder:
    """Streams an answer. Deltas open blocks; sealed events close them, or send complete ones."""

    def __init__(self, asked: Asked) -> None:
        self._model = asked.model
        self._index = 0
        self._text: int | None = None
        #: The block of each call, by the call's index; free-form calls; calls whose arguments were streamed.
        self._calls: dict[int, int] = {}
        self._freeform: set[int] = set()
        self._argued: set[int] = set()

    def feed(self, event: Event) -> bytes:
        data = b""
        match event:
            case TextDelta():
                data = self._say(event)
            case ArgumentsDelta():
                data = self._argue(event)
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
        return _event("ping")

    def fail(self, refusal: Refusal) -> bytes:
        return b"event: error\ndata: %s\n\n" % refuse(refusal)

    def _begin(self, event: TurnBegan) -> bytes:
        return _event("message_start", message=_message(event.model or self._model, [], None, NO_USAGE))

    def _say(self, event: TextDelta) -> bytes:
        opened = b""
        if self._text is None:
            self._text = self._index
            opened = self._start({"type": "text", "text": ""})
        return opened + _delta(self._text, {"type": "text_delta", "text": event.text})

    def _close_text(self) -> bytes:
        if self._text is None:
            return b""
        index, self._text = self._text, None
        return _event("content_block_stop", index=index)

    def _start(self, block: Mapping[str, Any]) -> bytes:
        index, self._index = self._index, self._index + 1
        return _event("content_block_start", index=index, content_block=block)

    def _content(self, event: ContentSealed) -> bytes:
        content = event.content
        if isinstance(content, TextualContent):
            text = b"" if self._text is not None or not content.text else self._say(TextDelta(content.text))
            return text + self._close_text()
        block = _block(content)
        if block is None:
            return b""
        closed = self._close_text()
        index = self._index
        deltas: list[bytes] = []
        if block["type"] == "thinking":
            for name in ("thinking", "signature"):
                if block.get(name):
                    deltas.append(_delta(index, {"type": f"{name}_delta", name: block[name]}))
                    block = {**block, name: ""}
        return b"".join((closed, self._start(block), *deltas, _event("content_block_stop", index=index)))

    def _begin_call(self, event: InvocationBegan) -> bytes:
        if event.kind == "freeform":
            self._freeform.add(event.index)
        return self._start_call(event.index, event)

    def _start_call(self, number: int, call: InvocationBegan | InvocationCanister) -> bytes:
        closed = self._close_text()
        self._calls[number] = self._index
        return closed + self._start(begun_block(call))

    def _argue(self, event: ArgumentsDelta) -> bytes:
        if event.index not in self._calls or event.index in self._freeform:
            return b""  # Free-form input has no deltas on this wire: it is sent as one argument.
        self._argued.add(event.index)
        return _delta(self._calls[event.index], {"type": "input_json_delta", "partial_json": event.text})

    def _seal_call(self, event: InvocationSealed) -> bytes:
        invocation = event.invocation
        data = b"" if event.index in self._calls else self._start_call(event.index, invocation)
        index = self._calls[event.index]
        if event.index not in self._argued:
            raw = invocation.raw if invocation.kind == "function" else None
            text = encode_json(invocation.arguments).decode() if raw is None else raw
            data += _delta(index, {"type": "input_json_delta", "partial_json": text})
        return data + _event("content_block_stop", index=index)

    def _end(self, event: TurnEnded) -> bytes:
        delta = {"stop_reason": REASONS.get(event.finish, "end_turn"), "stop_sequence": None}
        ended = _event("message_delta", delta=delta, usage=usage_object(event.usage))
        return self._close_text() + ended + _event("message_stop")


def encode(events: Iterable[Event], asked: Asked) -> bytes:
    content: list[Mapping[str, Any]] = []
    reason, usage = "end_turn", NO_USAGE
    for event in events:
        if isinstance(event, ContentSealed):
            block = _block(event.content)
            if block is not None:
                content.append(block)
        elif isinstance(event, InvocationSealed):
            call = event.invocation
            content.append({**invocation_block(call), "input": served_arguments(call)})
        elif isinstance(event, TurnEnded):
            reason, usage = REASONS.get(event.finish, "end_turn"), event.usage
    return encode_json(_message(asked.model, content, reason, usage))


def _block(content: Content) -> Mapping[str, Any] | None:
    """The block of a content in an answer. Only a score's reasoning has no signature."""
    if isinstance(content, OpaqueContent) and content.protocol == SCORED:
        return {"type": "thinking", "thinking": content.data["text"], "signature": ""}
    return block_of(content)


def refuse(refusal: Refusal) -> bytes:
    status, message = refusal.status, refusal.message
    kind = _ERRORS.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return encode_json({"type": "error", "error": {"type": kind, "message": message}})


def _message(model: str, content: Sequence[Mapping[str, Any]], reason: str | None, usage: Usage) -> dict[str, Any]:
    return {
        "id": f"msg_{uuid.uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": usage_object(usage),
    }


def _delta(index: int, delta: Mapping[str, Any]) -> bytes:
    return _event("content_block_delta", index=index, delta=delta)


def _event(kind: str, **members: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), encode_json({"type": kind, **members}))
