"""Writes a response of the Responses wire: its events with their numbers, and its items at their places.

Items of the Responses wire as a server of ours writes them: whole, and as they begin.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ripieno.canisters import InvocationCanister
from ripieno.canisters.canisters import InvocationKind
from ripieno.jsonvalues import encode_parsed as encode_json
from ripieno.models.protocol import Asked
from ripieno.models.protocols.common.calls import read_arguments
from ripieno.models.protocols.common.openai import text_of_call
from ripieno.models.protocols.openai_responses.echo import head_of, new_token, tools_of
from ripieno.models.protocols.openai_responses.items import begun_item, made_identifier

#: The prefix of an item's identifier, by the kind of a call.
PREFIXES: Mapping[InvocationKind, str] = {"function": "fc", "freeform": "ctc"}
#: The codes of faults of calls that are not complete.
_INCOMPLETE = ("cut_off", "waiting_for_approval")
#: What comes of reasoning after it began; the encrypted content is known when it is whole.
_LATER = ("content", "encrypted_content")


def message_of(content: Sequence[Mapping[str, Any]], status: str) -> dict[str, Any]:
    """A message of the assistant, without an identifier."""
    return {"type": "message", "role": "assistant", "status": status, "content": content}


def part_of_text(text: str) -> dict[str, Any]:
    """The part of a message that is its text."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def call_of(invocation: InvocationCanister, text: str, identifier: str) -> dict[str, Any]:
    """The item of a call; one that was cut off says so, as does one that waits for somebody."""
    incomplete = invocation.fault is not None and invocation.fault.code in _INCOMPLETE
    return {**begun_item(invocation, text), "id": identifier, "status": "incomplete" if incomplete else "completed"}


def settled_text(invocation: InvocationCanister, said: str) -> str:
    """The text of a call of which this was streamed: it goes on from there, where both mean the same.

    Clients are told the whole text as well, and some compare. Where both mean different things, the call counts.
    """
    text = text_of_call(invocation)
    if not said or text.startswith(said) or invocation.kind != "function":
        return text
    if not said.strip():
        return said + text
    arguments, fault = read_arguments(said)
    return said if fault is None and arguments == invocation.arguments else text


def reasoning_of(item: Mapping[str, Any], identifier: str) -> dict[str, Any]:
    """An item of reasoning with what each must have; providers leave out some of it, and say null for more."""
    said = {key: value for key, value in item.items() if value is not None}
    whole = {**said, "id": said.get("id") or identifier, "summary": _texted(said.get("summary", ()), "summary_text")}
    return {**whole, "content": _texted(said["content"], "reasoning_text")} if "content" in said else whole


def _texted(parts: Iterable[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    return [{"type": kind, **part, "text": part.get("text") or ""} for part in parts]


def begun_reasoning(item: Mapping[str, Any]) -> dict[str, Any]:
    """Reasoning as it begins."""
    status = {"status": "in_progress"} if "status" in item else {}
    return {**{key: value for key, value in item.items() if key not in _LATER}, "summary": [], **status}


#: What the events of a call's arguments are called.
EVENTS: Mapping[InvocationKind, str] = {"function": "function_call_arguments", "freeform": "custom_tool_call_input"}


def _beginning(kind: str, **members: Any) -> bytes:
    """What all deltas of a kind have in common, up to their item."""
    kind = f"response.{kind}.delta"
    return b'event: %s\ndata: %s,"item_id":' % (kind.encode(), encode_json({"type": kind, **members})[:-1])


#: How the deltas of a text begin, and those of a call.
TEXT = _beginning("output_text", content_index=0, logprobs=[])
ARGUMENTS: Mapping[InvocationKind, bytes] = {kind: _beginning(word) for kind, word in EVENTS.items()}


class Open:
    """An item while it is streamed. There may be many: it holds what cannot be known otherwise."""

    __slots__ = ("beginning", "identifier", "place", "texts")

    def __init__(self, place: int, identifier: str, beginning: bytes = b"") -> None:
        self.place = place
        self.identifier = identifier
        #: How its deltas begin, and what they said.
        self.beginning = beginning
        self.texts: list[str] = []

    @property
    def is_function(self) -> bool:
        """Whether it is a call of a function."""
        return self.beginning is ARGUMENTS["function"]

    @property
    def where(self) -> dict[str, Any]:
        """What every event about it says."""
        return {"item_id": self.identifier, "output_index": self.place}


class Writer:
    """A response while it is made."""

    def __init__(self, asked: Asked) -> None:
        self._token = new_token()
        #: The members of the response that stay the same, encoded, without their last brace.
        self._head = encode_json({**head_of(asked, self._token), "tools": tools_of(asked.native)})[:-1]
        self._number = 0
        #: The items by their place; None while they are streamed.
        self._output: list[Mapping[str, Any] | None] = []
        #: The item of the last delta, and how all of its deltas begin.
        self._last: Open | None = None
        self._delta_head = b""

    def _event(self, kind: str, **members: Any) -> bytes:
        number, self._number = self._number, self._number + 1
        event = {"type": kind, "sequence_number": number, **members}
        return b"event: %s\ndata: %s\n\n" % (kind.encode(), encode_json(event))

    def _about(self, word: str, response: bytes) -> bytes:
        """An event about the whole response."""
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
        """The identifier of the next item, which has none of its own."""
        return made_identifier(prefix, self._token, len(self._output))

    def _open(self, item: Mapping[str, Any], beginning: bytes = b"") -> tuple[Open, bytes]:
        opened = Open(len(self._output), item["id"], beginning)
        self._output.append(None)
        return opened, self._event("response.output_item.added", output_index=opened.place, item=item)

    def _close(self, opened: Open, item: Mapping[str, Any]) -> bytes:
        self._output[opened.place] = item
        return self._event("response.output_item.done", output_index=opened.place, item=item)

    def _reasoning(self, native: Mapping[str, Any]) -> bytes:
        """Reasoning that is whole: it is written at once."""
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
        """The events of a part that is whole."""
        text = part["text"]
        return [
            self._event(f"response.{word}.added", **where, part={**part, "text": ""}),
            self._event(f"response.{texts}.delta", **where, delta=text),
            self._event(f"response.{texts}.done", **where, text=text),
            self._event(f"response.{word}.done", **where, part=part),
        ]
