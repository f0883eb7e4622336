"""Encodes events as answers of the generateContent wire: streamed, complete, and errors."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ripieno.canisters import Content, OpaqueContent, TextualContent
from ripieno.canisters.conversation import NO_USAGE
from ripieno.canisters.events import (
    ContentSealed,
    Event,
    InvocationSealed,
    ReasoningDelta,
    TextDelta,
    TurnBegan,
    TurnEnded,
)
from ripieno.jsonvalues import encode as encode_json
from ripieno.models.protocol import Asked, Refusal
from ripieno.models.protocols.gemini.contents import CONTINUATION, is_own, opaque, parts_of
from ripieno.models.protocols.gemini.finish import REASONS, usage_object
from ripieno.models.protocols.gemini.invocations import call_part

_ERRORS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
#: The official client treats an answer or a chunk without parts as broken, and drops the turn.
_NOTHING: Mapping[str, Any] = {"text": ""}


class Encoder:
    """Streams an answer: one chunk for each delta, and for each sealed content without deltas."""

    def __init__(self, asked: Asked) -> None:
        self._model = asked.model
        self._identifier = uuid.uuid4().hex
        #: Whether the next sealed text has been streamed, and how much of the next sealed thought.
        self._text_sent = False
        self._thought = ""
        self._ending: dict[str, Any] = {}

    def feed(self, event: Event) -> bytes:
        data = b""
        match event:
            case TextDelta():
                data = self._say(event)
            case ReasoningDelta():
                data = self._think(event)
            case ContentSealed():
                data = self._content(event)
            case InvocationSealed():
                data = self._call(event)
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

    def _begin(self, event: TurnBegan) -> bytes:
        self._model = event.model or self._model
        return b""

    def _say(self, event: TextDelta) -> bytes:
        self._text_sent = True
        return self._chunk([{"text": event.text}])

    def _think(self, event: ReasoningDelta) -> bytes:
        self._thought += event.text
        return self._chunk([{"text": event.text, "thought": True}])

    def _content(self, event: ContentSealed) -> bytes:
        content, (sent, self._thought) = event.content, (self._thought, "")
        if isinstance(content, TextualContent):
            text_sent, self._text_sent = self._text_sent, False
            return b"" if text_sent or not content.text else self._chunk([{"text": content.text}])
        if is_own(content, CONTINUATION):
            self._ending = continuation_of(content)
            return b""
        parts = parts_of((content,))
        if parts and parts[0].get("thought"):
            parts = _rest_of(parts[0], sent)
        return self._chunk(parts) if parts else b""

    def _call(self, event: InvocationSealed) -> bytes:
        return self._chunk([call_part(event.invocation, served=True)])

    def _end(self, event: TurnEnded) -> bytes:
        ending = {"finishReason": _reason(event, self._ending), **self._ending}
        return self._chunk([_NOTHING], ending, usageMetadata=usage_object(event.usage))

    def _chunk(self, parts: Sequence[Mapping[str, Any]], ending: Mapping[str, Any] | None = None, **more: Any) -> bytes:
        answer = _answer(self._model, self._identifier, parts, ending or {})
        return b"data: %s\n\n" % encode_json({**answer, **more})


def _rest_of(part: Mapping[str, Any], sent: str) -> list[Mapping[str, Any]]:
    """The unsent rest of a thought: all of it, or the keys that accompany its text."""
    text = str(part.get("text") or "")
    if not sent or not text.startswith(sent):
        return [part]
    rest = {**part, "text": text[len(sent) :]}
    return [rest] if rest["text"] or rest.keys() > {"text", "thought"} else []


def encode(events: Iterable[Event], asked: Asked) -> bytes:
    parts: list[Mapping[str, Any]] = []
    contents: list[Content] = []
    ending: dict[str, Any] = {}
    ended: TurnEnded | None = None
    thought = ""
    for event in events:
        if isinstance(event, ReasoningDelta):
            thought += event.text
            continue
        if thought and isinstance(event, ContentSealed | InvocationSealed | TurnEnded):
            if not isinstance(event, ContentSealed) or not is_own(event.content, "thought"):
                contents.append(opaque({"text": thought, "thought": True}, "thought"))
            thought = ""
        if isinstance(event, ContentSealed):
            if is_own(event.content, CONTINUATION):
                ending = continuation_of(event.content)
            contents.append(event.content)
        elif isinstance(event, InvocationSealed):
            parts += parts_of(contents)
            contents.clear()
            parts.append(call_part(event.invocation, served=True))
        elif isinstance(event, TurnEnded):
            ended = event
    parts += parts_of(contents)
    ending = {"finishReason": _reason(ended, ending), **ending}
    answer = _answer(asked.model, uuid.uuid4().hex, parts or [_NOTHING], ending)
    return encode_json({**answer, "usageMetadata": usage_object(NO_USAGE if ended is None else ended.usage)})


def continuation_of(content: Content) -> dict[str, Any]:
    """The keys of a candidate that is to be continued."""
    return dict(content.data) if isinstance(content, OpaqueContent) else {}


def _reason(ended: TurnEnded | None, ending: Mapping[str, Any]) -> str:
    if ended is None:
        return "STOP"
    return "CONTINUATION" if ending else REASONS.get(ended.finish, "STOP")


def _answer(
    model: str, identifier: str, parts: Sequence[Mapping[str, Any]], ending: Mapping[str, Any]
) -> dict[str, Any]:
    candidate = {"content": {"parts": parts, "role": "model"}, **ending, "index": 0}
    return {"candidates": [candidate], "modelVersion": model, "responseId": identifier}


def refuse(refusal: Refusal) -> bytes:
    status, message = refusal.status, refusal.message
    word = _ERRORS.get(status, "INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
    return encode_json({"error": {"code": status, "message": message, "status": word}})
