"""Encodes events as answers of the Responses wire: streamed and complete."""

from collections.abc import Iterable, Mapping
from typing import Any

from ripieno.canisters import InvocationCanister, OpaqueContent, TextualContent
from ripieno.canisters.events import (
    ArgumentsDelta,
    ContentSealed,
    Event,
    InvocationBegan,
    InvocationSealed,
    ReasoningDelta,
    ResultReady,
    TextDelta,
    TurnBegan,
    TurnEnded,
)
from ripieno.jsonvalues import EMPTY
from ripieno.models.protocol import Asked, Refusal
from ripieno.models.protocols.common.calls import extras_of
from ripieno.models.protocols.common.openai import error_object
from ripieno.models.protocols.openai_responses.contents import NAME
from ripieno.models.protocols.openai_responses.finish import OPEN, ending_of, failure_of
from ripieno.models.protocols.openai_responses.invocations import Returning
from ripieno.models.protocols.openai_responses.items import MESSAGE, WORDS, begun_item, output_item
from ripieno.models.protocols.openai_responses.writer import (
    ARGUMENTS,
    EVENTS,
    PREFIXES,
    TEXT,
    Open,
    Writer,
    call_of,
    message_of,
    part_of_text,
    settled_text,
)

#: The events that become events of the wire.
_WRITTEN = (
    TextDelta,
    ArgumentsDelta,
    ReasoningDelta,
    ContentSealed,
    InvocationBegan,
    InvocationSealed,
    ResultReady,
    TurnBegan,
    TurnEnded,
)


class Encoder(Writer):
    """Streams an answer. Deltas open items; sealed events close them, or send complete ones.

    The turns of one run may follow each other; a single ``TurnEnded`` ends the answer.
    """

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self._began = self._finished = False
        #: None if every tool is a function under its own name.
        self._returning = Returning(asked) if any(NAME in tool.configuration for tool in asked.tools) else None
        #: Members of the next text; the open message and its first form; unsealed reasoning; open calls.
        self._beside: Mapping[str, Any] = EMPTY
        self._message: Open | None = None
        self._begun_message: Mapping[str, Any] = EMPTY
        self._thoughts: list[str] = []
        self._calls: dict[int, Open] = {}
        #: The index of the next call, and the later calls that have begun already, with their arguments.
        self._next = 0
        self._held: dict[int, tuple[InvocationBegan, list[str]]] = {}

    def feed(self, event: Event) -> bytes:
        if not isinstance(event, _WRITTEN):
            return b""
        if self._returning is not None:
            given = self._returning.give(event)
            if given is None:
                return b""
            event = given
        return self._write(event) if self._began else self._start() + self._write(event)

    def _write(self, event: Event) -> bytes:
        data = b""
        match event:
            case TextDelta():
                data = self._say(event)
            case ArgumentsDelta():
                data = self._argue(event)
            case ReasoningDelta():
                data = self._think(event)
            case ContentSealed():
                data = self._content(event)
            case InvocationBegan():
                data = self._begin_call(event)
            case InvocationSealed():
                data = self._seal_call(event)
            case ResultReady():
                data = self._result(event)
            case TurnBegan():
                data = self._turn(event)
            case TurnEnded():
                data = self._end(event)
            case _:
                pass
        return data

    def wait(self) -> bytes:
        # Clients that wait for events ignore comments (measured: a coding agent gives up after a while).
        if not self._began:
            return self._start()
        # It may take a while to store the end.
        return b"" if self._finished else self._about("in_progress", self._response("in_progress", OPEN))

    def fail(self, refusal: Refusal) -> bytes:
        begun = b"" if self._began else self._start()
        error = error_object(refusal)
        # Some clients look for the error inside, others for its message beside the type, others for the response.
        flat = {"code": refusal.code or error["type"], "message": refusal.message, "param": refusal.parameter}
        return begun + self._event("error", **flat, error=error) + self._finish("failed", failure_of(refusal))

    # The beginning and the end.

    def _start(self) -> bytes:
        self._began = True
        response = self._response("in_progress", OPEN)
        return self._about("created", response) + self._about("in_progress", response)

    def _turn(self, _: TurnBegan) -> bytes:
        data = self._release_all() + self._send_reasoning() + self._close_message()
        self._calls.clear()
        self._next = 0
        return data

    def _end(self, event: TurnEnded) -> bytes:
        status, members = ending_of(event)
        data = self._release_all() + self._send_reasoning() + self._close_message(status)
        return data + self._finish(status, members) + b"data: [DONE]\n\n"

    def _status(self, status: str) -> str:
        """The status that the response shows at its end."""
        return status

    def _finish(self, status: str, members: Mapping[str, Any]) -> bytes:
        self._finished = True
        return self._about(status, self._response(self._status(status), members))

    def _content(self, event: ContentSealed) -> bytes:
        content = event.content
        if isinstance(content, TextualContent):
            return self._seal_text(content.text)
        if isinstance(content, OpaqueContent):
            return self._opaque(content) if content.protocol == NAME else self._send_reasoning()
        return b""

    def _opaque(self, content: OpaqueContent) -> bytes:
        if content.kind == MESSAGE:
            if self._message is None:
                self._beside = content.data
            else:
                # The message has begun: late members are sent at its end.
                self._begun_message = {**content.data, **self._begun_message}
            return b""
        if content.kind == "reasoning":
            # The item contains its text.
            self._thoughts.clear()
            return self._reasoning(content.data)
        reasoning = self._send_reasoning()
        item = content.data if content.data.get("id") else {**content.data, "id": self._made("item")}
        opened, begun = self._open(item)
        return reasoning + begun + self._close(opened, item)

    # Messages.

    def _say(self, event: TextDelta) -> bytes:
        opened, begun = self._message, b""
        if opened is None:
            begun = self._send_reasoning()
            opened, added = self._open_message()
            begun += added
        opened.texts.append(event.text)
        return begun + self._delta(opened, event.text)

    def _open_message(self) -> tuple[Open, bytes]:
        beside, self._beside = self._beside, EMPTY
        self._begun_message = {**message_of([], "in_progress"), "id": self._made("msg"), **beside}
        opened, added = self._open(self._begun_message, TEXT)
        self._message = opened
        part = part_of_text("")
        return opened, added + self._event("response.content_part.added", **opened.where, content_index=0, part=part)

    def _seal_text(self, text: str) -> bytes:
        sent = "" if self._message is None else "".join(self._message.texts)
        # What was sent cannot be taken back; the rest is sent now.
        more = text[len(sent) :] if text.startswith(sent) else ""
        rest = self._say(TextDelta(more)) if more else b""
        return rest + self._end_text()

    def _end_text(self) -> bytes:
        return self._close_message()

    def _close_message(self, status: str = "completed") -> bytes:
        opened, self._message = self._message, None
        if opened is None:
            return b""
        text = "".join(opened.texts)
        part = part_of_text(text)
        where = {**opened.where, "content_index": 0}
        return (
            self._event("response.output_text.done", **where, text=text, logprobs=[])
            + self._event("response.content_part.done", **where, part=part)
            + self._close(opened, {**self._begun_message, **message_of([part], status)})
        )

    # Reasoning.

    def _think(self, event: ReasoningDelta) -> bytes:
        # Held back until its item is sealed, since the item's identifier must not change.
        self._thoughts.append(event.text)
        return b""

    def _send_reasoning(self) -> bytes:
        """Sends the text of reasoning without an item of this wire; the client need not return it."""
        if not self._thoughts:
            return b""
        text = "".join(self._thoughts)
        self._thoughts.clear()
        return self._reasoning({"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]})

    # Calls and results.

    def _begin_call(self, event: InvocationBegan) -> bytes:
        if event.index > self._next:
            # An earlier call's name is unknown so far, and items keep the model's order.
            self._held[event.index] = event, []
            return b""
        return self._start_call(event.index, event) + self._release()

    def _release(self) -> bytes:
        written: list[bytes] = []
        while (held := self._held.pop(self._next, None)) is not None:
            began, texts = held
            written.append(self._start_call(began.index, began))
            written += [self._argue(ArgumentsDelta(index=began.index, text=text)) for text in texts]
        return b"".join(written)

    def _release_all(self) -> bytes:
        written: list[bytes] = []
        while self._held:
            self._next = min(self._held)
            written.append(self._release())
        return b"".join(written)

    def _start_call(self, number: int, call: InvocationBegan | InvocationCanister) -> bytes:
        self._next = number + 1
        reasoning = self._send_reasoning()
        identifier = extras_of(call, NAME).get("id") or self._made(PREFIXES[call.kind])
        item = {**begun_item(call), "id": identifier, "status": "in_progress"}
        opened, begun = self._open(item, ARGUMENTS[call.kind])
        self._calls[number] = opened
        return reasoning + begun

    def _argue(self, event: ArgumentsDelta) -> bytes:
        opened = self._calls.get(event.index)
        if opened is None:
            if event.index in self._held:
                self._held[event.index][1].append(event.text)
            return b""
        opened.texts.append(event.text)
        return self._delta(opened, event.text)

    def _seal_call(self, event: InvocationSealed) -> bytes:
        invocation = event.invocation
        begun = self._release_all() if event.index in self._held else b""
        if event.index not in self._calls:
            begun += self._start_call(event.index, invocation) + self._release()
        opened = self._calls[event.index]
        sent = "".join(opened.texts)
        text = settled_text(invocation, sent)
        if len(text) > len(sent) and text.startswith(sent):
            begun += self._argue(ArgumentsDelta(index=event.index, text=text[len(sent) :]))
        del self._calls[event.index]
        item = call_of(invocation, text, opened.identifier)
        return begun + self._end_arguments(opened, invocation, text) + self._close(opened, item)

    def _end_arguments(self, opened: Open, invocation: InvocationCanister, text: str) -> bytes:
        key = WORDS[invocation.kind][1]
        return self._event(f"response.{EVENTS[invocation.kind]}.done", **opened.where, **{key: text})

    def _result(self, event: ResultReady) -> bytes:
        if event.discarded:
            return b""
        reasoning = self._send_reasoning()
        identifier = event.seal or self._made("fco")
        item = {**self._item_of(event), "id": identifier, "status": "completed"}
        opened, begun = self._open({**item, "output": "", "status": "in_progress"})
        return reasoning + begun + self._close(opened, item)

    def _item_of(self, event: ResultReady) -> dict[str, Any]:
        return output_item(event.result, event.invocation)


def encode(events: Iterable[Event], asked: Asked) -> bytes:
    """A complete answer: the response at the end of a stream of the same events."""
    return complete(events, CompleteEncoder(asked))


def complete(events: Iterable[Event], encoder: "CompleteEncoder") -> bytes:
    """The response that an encoder has collected from all events."""
    for event in events:
        encoder.feed(event)
    if not encoder.body:
        encoder.feed(TurnEnded(finish="stop"))
    return encoder.body


class CompleteEncoder(Encoder):
    """Collects the items of a response and encodes them at the end."""

    #: The response, after its end.
    body = b""

    def _start(self) -> bytes:
        self._began = True
        return b""

    def _event(self, kind: str, **members: Any) -> bytes:  # noqa: ARG002
        return b""

    def _delta(self, opened: Open, text: str) -> bytes:  # noqa: ARG002
        return b""

    def _end(self, event: TurnEnded) -> bytes:
        super()._end(event)
        return b""

    def _finish(self, status: str, members: Mapping[str, Any]) -> bytes:
        self.body = self._response(self._status(status), members)
        return b""
