"""Writes a Responses answer: numbered events, and items at their indices, complete and as they begin."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ripieno.canisters import InvocationCanister
from ripieno.canisters.canisters import InvocationKind
from ripieno.jsonvalues import encode_parsed as encode_json
from ripieno.models.protocol import Asked
from ripieno.models.protocols.common.calls import read_arguments
from ripieno.models.protocols.common.openai import text_of_call
from ripieno.models.protocols.openai_responses.echo import ITEM_DIGITS, head_of, new_token, tools_of
from ripieno.models.protocols.openai_responses.items import begun_item, made_identifier

#: The prefix of an item's identifier, by the kind of a call.
PREFIXES: Mapping[InvocationKind, str] = {"function": "fc", "freeform": "ctc"}
#: The codes of faults of incomplete calls.
_INCOMPLETE = ("cut_off", "waiting_for_approval")
#: Members of reasoning that are missing when it begins; the encrypted content is known at the end.
_LATER = ("content", "encrypted_content")


def message_of(content: Sequence[Mapping[str, Any]], status: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "status": status, "content": content}


def part_of_text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def call_of(invocation: InvocationCanister, text: str, identifier: str) -> dict[str, Any]:
    """The item of a call; its status is ``incomplete`` if it was cut off or waits for an approval."""
    incomplete = invocation.fault is not None and invocation.fault.code in _INCOMPLETE
    return {**begun_item(invocation, text), "id": identifier, "status": "incomplete" if incomplete else "completed"}


def settled_text(invocation: InvocationCanister, sent: str) -> str:
    """The final text of a call of which ``sent`` was streamed. It continues ``sent`` if both mean the same.

    Clients get the complete text as well, and some compare. If both mean different things, the call has priority.
    """
    text = text_of_call(invocation)
    if not sent or text.startswith(sent) or invocation.kind != "function":
        return text
    if not sent.strip():
        return sent + text
    arguments, fault = read_arguments(sent)
    return sent if fault is None and arguments == invocation.arguments else text


def reasoning_of(item: Mapping[str, Any], identifier: str) -> dict[str, Any]:
    """An item of reasoning with all required members; providers leave some out, and send null for others."""
    kept = {key: value for key, value in item.items() if value is not None}
    made = {**kept, "id": kept.get("id") or identifier, "summary": _texted(kept.get("summary", ()), "summary_text")}
    return {**made, "content": _texted(kept["content"], "reasoning_text")} if "content" in kept else made


def _texted(parts: Iterable[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    return [{"type": kind, **part, "text": part.get("text") or ""} for part in parts]


def begun_reasoning(item: Mapping[str, Any]) -> dict[str, Any]:
    status = {"status": "in_progress"} if "status" in item else {}
    return {**{key: value for key, value in item.items() if key not in _LATER}, "summary": [], **status}


#: The name of the events of a call's arguments.
EVENTS: Mapping[InvocationKind, str] = {"function": "function_call_arguments", "freeform": "custom_tool_call_input"}


def _beginning(kind: str, **members: Any) -> bytes:
    """The common beginning of all deltas of a kind, up to their item."""
    kind = f"response.{kind}.delta"
    return b'event: %s\ndata: %s,"item_id":' % (kind.encode(), encode_json({"type": kind, **members})[:-1])


#: The beginnings of deltas of a text and of a call.
TEXT = _beginning("output_text", content_index=0, logprobs=[])
ARGUMENTS: Mapping[InvocationKind, bytes] = {kind: _beginning(word) for kind, word in EVENTS.items()}


class Open:
    """An item while it is streamed. There may be many, so it holds as little as possible."""

    __slots__ = ("beginning", "identifier", "place", "texts")

    def __init__(self, place: int, identifier: str, beginning: bytes = b"") -> None:
        self.place = place
        self.identifier = identifier
        #: The beginning of its deltas, and their texts.
        self.beginning = beginning
        self.texts: list[str] = []

    @property
    def where(self) -> dict[str, Any]:
        """The members of every event about it."""
        return {"item_id": self.identifier, "output_index": self.place}


class Writer:
    def __init__(self, asked: Asked) -> None:
        self._token = new_token(asked.stored)
        #: The constant members of the response, encoded, without the last brace.
        self._head = encode_json({**head_of(asked, self._token), "tools": tools_of(asked.native)})[:-1]
        self._number = 0
        #: The items by index; None while they are streamed.
        self._output: list[Mapping[str, Any] | None] = []
        #: The item of the last delta, and the common beginning of its deltas.
        self._last: Open | None = None
        self._delta_head = b""

    def _event(self, kind: str, **members: Any) -> bytes:
        number, self._number = self._number, self._number + 1
        event = {"type": kind, "sequence_number": number, **members}
        return b"event: %s\ndata: %s\n\n" % (kind.encode(), encode_json(event))

    def _about(self, word: str, response: bytes) -> bytes:
        number, self._number = self._number, self._number + 1
        kind = f"response.{word}".encode()
        return b'event: %s\ndata: {"type":"%s","sequence_number":%d,"response":%s}\n\n' % (kind, kind, number, response)

    def _response(self, status: str, members: Mapping[str, Any]) -> bytes:
        output = encode_json([item for item in self._output if item is not None])
        return b'%s,"output":%s,%s' % (self._head, output, encode_json({"status": status, **members})[1:])

    def _delta(self, opened: Open, text: str) -> bytes:
        if opened is not self._last:
            self._last = opened
            where = encode_json(opened.identifier), opened.place
            self._delta_head = opened.beginning + b'%s,"output_index":%d,"sequence_number":' % where
        number, self._number = self._number, self._number + 1
        return b'%s%d,"delta":%s}\n\n' % (self._delta_head, number, encode_json(text))

    def _made(self, prefix: str) -> str:
        """An identifier for the next item, which has none."""
        # Items reach others than the caller, such as providers: they do not tell how the response is fetched.
        return made_identifier(prefix, self._token[:ITEM_DIGITS], len(self._output))

    def _open(self, item: Mapping[str, Any], beginning: bytes = b"") -> tuple[Open, bytes]:
        opened = Open(len(self._output), item["id"], beginning)
        self._output.append(None)
        return opened, self._event("response.output_item.added", output_index=opened.place, item=item)

    def _close(self, opened: Open, item: Mapping[str, Any]) -> bytes:
        self._output[opened.place] = item
        return self._event("response.output_item.done", output_index=opened.place, item=item)

    def _reasoning(self, native: Mapping[str, Any]) -> bytes:
        item = reasoning_of(native, self._made("rs"))
        opened, begun = self._open(begun_reasoning(item))
        written = [begun]
        for number, part in enumerate(item["summary"]):
            where = {**opened.where, "summary_index": number}
            written += self._part("reasoning_summary_part", "reasoning_summary_text", where, part)
        for number, part in enumerate(item.get("content", ())):
            written += self._part("content_part", "reasoning_text", {**opened.where, "content_index": number}, part)
        return b"".join((*written, self._close(opened, item)))

    def _part(self, word: str, texts: str, where: Mapping[str, Any], part: Mapping[str, Any]) -> list[bytes]:
        text = part["text"]
        return [
            self._event(f"response.{word}.added", **where, part={**part, "text": ""}),
            self._event(f"response.{texts}.delta", **where, delta=text),
            self._event(f"response.{texts}.done", **where, text=text),
            self._event(f"response.{word}.done", **where, part=part),
        ]
