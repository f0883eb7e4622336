"""Our events as a streamed answer of the Responses wire."""

from collections.abc import Callable, Mapping
from typing import Any

from ripieno.canisters import InvocationCanister, InvocationKind
from ripieno.contents import OpaqueContent, TextualContent
from ripieno.descriptors.tables import EMPTY
from ripieno.events import (
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
from ripieno.jsonvalues import encode as encode_json
from ripieno.protocols.openai_forms import error_object, text_of_call
from ripieno.protocols.openai_responses.items import MESSAGE, WORDS, begun_item, made_identifier
from ripieno.protocols.openai_responses.parts import NAME
from ripieno.protocols.openai_responses.wholes import (
    PREFIXES,
    ending_of,
    head_of,
    message_of,
    part_of_text,
    served_call,
)

#: What the events of a call's arguments are called.
_EVENTS: Mapping[InvocationKind, str] = {"function": "function_call_arguments", "freeform": "custom_tool_call_input"}


class _Open:
    """An item while it is streamed."""

    __slots__ = ("argued", "head", "item", "place", "texts")

    def __init__(self, place: int, item: Mapping[str, Any]) -> None:
        self.place = place
        self.item = item
        #: What was said of a message; and whether some of a call's arguments were streamed.
        self.texts: list[str] = []
        self.argued = False
        #: How every delta of it begins: they are many.
        self.head = b""

    @property
    def where(self) -> dict[str, Any]:
        """What every event about it says."""
        return {"item_id": self.item.get("id") or "", "output_index": self.place}

    def begin_deltas(self, kind: str, **members: Any) -> None:
        """Says once what its deltas have in common."""
        kind = f"response.{kind}.delta"
        head = encode_json({"type": kind, **self.where, **members})[:-1]
        self.head = b'event: %s\ndata: %s,"sequence_number":' % (kind.encode(), head)


class Encoder:
    """Streams an answer. Deltas open items; sealed events close them, or send them whole."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._head = head_of(model)
        self._number = 0
        #: The items by their place; None while they are streamed.
        self._output: list[Mapping[str, Any] | None] = []
        #: What stands beside the next text; the open message; reasoning that is not sealed; calls by their index.
        self._beside: Mapping[str, Any] = EMPTY
        self._message: _Open | None = None
        self._thoughts: list[str] = []
        self._calls: dict[int, _Open] = {}
        self._writers: Mapping[type, Callable[[Any], bytes]] = {
            TextDelta: self._say,
            ArgumentsDelta: self._argue,
            ReasoningDelta: self._think,
            ContentSealed: self._content,
            InvocationBegan: self._begin_call,
            InvocationSealed: self._seal_call,
            TurnBegan: self._begin,
            TurnEnded: self._end,
        }

    def feed(self, event: Event) -> bytes:
        write = self._writers.get(type(event))
        return b"" if write is None else write(event)

    def fail(self, message: str) -> bytes:
        error = error_object(500, message)
        # Some clients look for the error inside, others for its words beside the type, others for the response.
        flat = {"code": error["type"], "message": message, "param": None}
        response = self._response("failed", error={"code": "server_error", "message": message})
        return self._event("error", **flat, error=error) + self._event("response.failed", response=response)

    def _event(self, kind: str, **members: Any) -> bytes:
        number, self._number = self._number, self._number + 1
        event = {"type": kind, "sequence_number": number, **members}
        return b"event: %s\ndata: %s\n\n" % (kind.encode(), encode_json(event))

    def _response(self, status: str, **members: Any) -> dict[str, Any]:
        output = [item for item in self._output if item is not None]
        return {**self._head, **members, "status": status, "output": output}

    def _begin(self, _: TurnBegan) -> bytes:
        response = self._response("in_progress")
        return self._event("response.created", response=response) + self._event(
            "response.in_progress", response=response
        )

    # Items.

    def _open(self, item: Mapping[str, Any]) -> tuple[_Open, bytes]:
        opened = _Open(len(self._output), item)
        self._output.append(None)
        return opened, self._event("response.output_item.added", output_index=opened.place, item=item)

    def _close(self, opened: _Open, item: Mapping[str, Any]) -> bytes:
        self._output[opened.place] = item
        return self._event("response.output_item.done", output_index=opened.place, item=item)

    def _content(self, event: ContentSealed) -> bytes:
        content = event.content
        if isinstance(content, TextualContent):
            said = self._say(TextDelta(content.text)) if self._message is None and content.text else b""
            return said + self._close_message()
        if isinstance(content, OpaqueContent):
            return self._kept(content) if content.protocol == NAME else self._show()
        return b""

    def _kept(self, content: OpaqueContent) -> bytes:
        if content.kind == MESSAGE:
            self._beside = content.data
            return b""
        if content.kind == "reasoning":
            # Its own words are in it.
            self._thoughts.clear()
            return self._reasoning(content.data)
        shown = self._show()
        opened, begun = self._open(content.data)
        return shown + begun + self._close(opened, content.data)

    # Messages.

    def _say(self, event: TextDelta) -> bytes:
        opened, begun = self._message, b""
        if opened is None:
            shown = self._show()
            beside, self._beside = self._beside, EMPTY
            opened, begun = self._open({**message_of([], "in_progress"), "id": made_identifier("msg"), **beside})
            part = part_of_text("")
            begun = (
                shown + begun + self._event("response.content_part.added", **opened.where, content_index=0, part=part)
            )
            opened.begin_deltas("output_text", content_index=0, logprobs=[])
            self._message = opened
        opened.texts.append(event.text)
        return begun + self._delta(opened, event.text)

    def _delta(self, opened: _Open, text: str) -> bytes:
        number, self._number = self._number, self._number + 1
        return b'%s%d,"delta":%s}\n\n' % (opened.head, number, encode_json(text))

    def _close_message(self) -> bytes:
        opened, self._message = self._message, None
        if opened is None:
            return b""
        text = "".join(opened.texts)
        part = part_of_text(text)
        item = {**opened.item, **message_of([part], "completed")}
        where = {**opened.where, "content_index": 0}
        return (
            self._event("response.output_text.done", **where, text=text, logprobs=[])
            + self._event("response.content_part.done", **where, part=part)
            + self._close(opened, item)
        )

    # Reasoning.

    def _think(self, event: ReasoningDelta) -> bytes:
        # It waits for its item, whose identifier must be the same from its beginning to its end.
        self._thoughts.append(event.text)
        return b""

    def _show(self) -> bytes:
        """Reasoning that has no item of this wire: its text is shown, and nobody wants it back."""
        if not self._thoughts:
            return b""
        text = "".join(self._thoughts)
        self._thoughts.clear()
        summary = [{"type": "summary_text", "text": text}]
        return self._reasoning({"type": "reasoning", "id": made_identifier("rs"), "summary": summary})

    def _reasoning(self, item: Mapping[str, Any]) -> bytes:
        begun = {key: value for key, value in item.items() if key not in ("encrypted_content", "content")}
        opened, data = self._open({**begun, "summary": []})
        written = [data]
        for number, part in enumerate(item.get("summary") or ()):
            where = {**opened.where, "summary_index": number}
            text = part.get("text") or ""
            written += [
                self._event("response.reasoning_summary_part.added", **where, part={**part, "text": ""}),
                self._event("response.reasoning_summary_text.delta", **where, delta=text),
                self._event("response.reasoning_summary_text.done", **where, text=text),
                self._event("response.reasoning_summary_part.done", **where, part=part),
            ]
        for number, part in enumerate(item.get("content") or ()):
            where = {**opened.where, "content_index": number}
            text = part.get("text") or ""
            written += [
                self._event("response.reasoning_text.delta", **where, delta=text),
                self._event("response.reasoning_text.done", **where, text=text),
            ]
        return b"".join((*written, self._close(opened, item)))

    # Calls.

    def _begin_call(self, event: InvocationBegan) -> bytes:
        return self._start_call(event.index, event)

    def _start_call(self, number: int, call: InvocationBegan | InvocationCanister) -> bytes:
        shown = self._show()
        item = {"id": made_identifier(PREFIXES[call.kind]), **begun_item(call), "status": "in_progress"}
        opened, begun = self._open(item)
        opened.begin_deltas(_EVENTS[call.kind])
        self._calls[number] = opened
        return shown + begun

    def _argue(self, event: ArgumentsDelta) -> bytes:
        opened = self._calls.get(event.index)
        if opened is None:
            return b""
        opened.argued = True
        return self._delta(opened, event.text)

    def _seal_call(self, event: InvocationSealed) -> bytes:
        invocation = event.invocation
        begun = b"" if event.index in self._calls else self._start_call(event.index, invocation)
        opened = self._calls[event.index]
        text = text_of_call(invocation)
        if text and not opened.argued:
            begun += self._argue(ArgumentsDelta(index=event.index, text=text))
        key = WORDS[invocation.kind][1]
        whole = self._event(f"response.{_EVENTS[invocation.kind]}.done", **opened.where, **{key: text})
        item = {**served_call(invocation), "id": opened.item["id"]}
        return begun + whole + self._close(opened, item)

    # The end.

    def _end(self, event: TurnEnded) -> bytes:
        data = self._show()
        data += self._close_message()
        status, members = ending_of(event)
        return (
            data + self._event(f"response.{status}", response=self._response(status, **members)) + b"data: [DONE]\n\n"
        )
