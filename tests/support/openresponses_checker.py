"""Checks answers of the Responses wire: every body and event against the public schema, every stream by its grammar.

A fault is an ``AssertionError`` that names the event.
"""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.support.openresponses_schema import (
    EVENTS,
    RENAMED,
    SEED_EVENTS,
    TERMINAL,
    Table,
    check_body,
    check_ended,
    check_item,
    check_response,
    event_schemas,
    has,
    minimal_response,
    satisfies,
    slugged,
)

__all__ = ("StreamChecker", "check_body", "check_stream")

#: The members of a response that its events may change.
_CHANGING = frozenset({"completed_at", "error", "incomplete_details", "output", "status", "usage"})
#: The members that an item keeps from its beginning to its end.
_KEPT = ("id", "type", "role", "call_id", "name", "namespace")
#: For each kind of text: the member of the item that grows, its type, and the key of the whole text.
_TEXTS: Mapping[str, tuple[str, str, str]] = {
    "output_text": ("content", "output_text", "text"),
    "refusal": ("content", "refusal", "refusal"),
    "reasoning_text": ("content", "reasoning_text", "text"),
    "reasoning_summary_text": ("summary", "summary_text", "text"),
    "function_call_arguments": ("arguments", "function_call", "arguments"),
    "custom_tool_call_input": ("arguments", "custom_tool_call", "input"),
}
#: The members of an item that come after it was added.
_GROWING: Mapping[str, Sequence[str]] = {
    "message": ("content",),
    "reasoning": ("summary", "content"),
    "function_call": ("arguments",),
    "custom_tool_call": ("input",),
    "function_call_output": ("output",),
    "custom_tool_call_output": ("output",),
}


class _Part:
    """A part of an item, or a call's text, while it is streamed."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.deltas: list[str] = []
        #: The whole text, and the part, after their events.
        self.text: str | None = None
        self.whole: Table | None = None


class _Item:
    """An item while it is streamed."""

    def __init__(self, native: Table) -> None:
        self.native = native
        self.content: list[_Part] = []
        self.summary: list[_Part] = []
        self.arguments = _Part("arguments")
        self.seed = _Part("seed")
        self.seed_begun = False
        self.done: Table | None = None


class StreamChecker:
    """Checks a streamed answer, write by write, into ``events``. ``seed``: it also has the events of seed 001."""

    def __init__(self, *, seed: bool = False) -> None:
        self.seed = seed
        self.events: list[dict[str, Any]] = []
        self._items: list[_Item] = []
        self._first: Table = {}
        #: The last event of the answer, whether an error came before it, and whether the stream has ended.
        self.final: Table | None = None
        self._error = False
        self.finished = False
        self._readers: Mapping[str, Callable[[Table], None]] = {
            "response.created": self._create,
            "response.in_progress": self._progress,
            "response.output_item.added": self._add,
            "response.output_item.done": self._close,
            "response.content_part.added": lambda event: self._add_part(event, "content"),
            "response.content_part.done": lambda event: self._close_part(event, "content"),
            "response.reasoning_summary_part.added": lambda event: self._add_part(event, "summary"),
            "response.reasoning_summary_part.done": lambda event: self._close_part(event, "summary"),
            "response.output_tool_call.begin": self._seed_begin,
            "response.output_tool_call.delta": self._seed_delta,
            "response.output_tool_call.end": self._seed_end,
            "response.done": self._seed_done,
            "error": self._fail,
            **dict.fromkeys(TERMINAL, self._end),
            **{
                f"response.{word}.delta": functools.partial(self._delta, where)
                for word, (where, _, _) in _TEXTS.items()
            },
            **{
                f"response.{word}.done": functools.partial(self._whole, where, key)
                for word, (where, _, key) in _TEXTS.items()
            },
        }

    @property
    def response(self) -> dict[str, Any]:
        """The response in the last event."""
        assert self.final is not None, "the answer has no terminal event"
        response: dict[str, Any] = self.final["response"]
        return response

    def write(self, data: bytes) -> None:
        """Checks one write: whole events, or nothing."""
        if not data:
            return
        assert data.endswith(b"\n\n"), f"an event is split between writes: {data[-200:]!r}"
        for frame in data[:-2].split(b"\n\n"):
            self._frame(frame)

    def end(self) -> "StreamChecker":
        """Checks that the stream has ended, and is complete."""
        assert self.final is not None, "the answer has no terminal event"
        assert self.finished or self.final["type"] == "response.failed", "the answer has no [DONE]"
        return self

    def _frame(self, frame: bytes) -> None:
        if frame.startswith(b":"):
            return
        assert not self.finished, f"something comes after [DONE]: {frame!r}"
        if frame == b"data: [DONE]":
            assert self.final is not None, "[DONE] comes before the answer has ended"
            if self.seed:
                assert self.events[-1]["type"] == "response.done", "the answer has no response.done"
            self.finished = True
            return
        lines = frame.split(b"\n")
        assert [line[: line.find(b" ")] for line in lines] == [b"event:", b"data:"], frame
        event = json.loads(lines[1][6:])
        assert isinstance(event, dict), frame
        try:
            assert lines[0][7:].decode() == event.get("type"), f"its name is {lines[0]!r}"
            self._event(event)
        except AssertionError as error:
            before = [one["type"] for one in self.events[-4:]]
            raise AssertionError(f"{event.get('type')}: {error}\n{event}\nafter {before}") from error

    def _event(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        assert event.get("sequence_number") == len(self.events), f"its number is {event.get('sequence_number')!r}"
        place = len(self.events)
        assert (kind == "response.created") == (place == 0), "response.created is the first event"
        # It may come again, as a keep-alive.
        assert place != 1 or kind == "response.in_progress", "response.in_progress is the second event"
        assert self.final is None or (self.seed and kind == "response.done"), "the answer had ended already"
        assert not self._error or self.final or kind == "response.failed", "an error is followed by response.failed"
        self._check_schema(event)
        self.events.append(event)
        read = self._readers.get(kind)
        if read is not None:
            read(event)

    def _check_schema(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        if self.seed and kind in SEED_EVENTS:
            has(event, SEED_EVENTS[kind], "it")
            if "response" in event:
                check_response(event["response"])
            return
        if kind in EVENTS:
            has(event, EVENTS[kind], "it")
            return
        if slugged(kind):
            return
        named = RENAMED.get(kind, kind)
        assert named in event_schemas(), "unknown type"
        standard = {**event, "type": named}
        if "response" in event:
            # It is checked separately, with what the public schema does not have.
            check_response(event["response"])
            standard["response"] = minimal_response()
        if isinstance(event.get("item"), dict) and not check_item(event["item"]):
            standard["item"] = None
        satisfies(standard, event_schemas()[named])

    # The response.

    def _create(self, event: Table) -> None:
        self._first = event["response"]
        assert self._first["status"] in ("in_progress", "queued"), "it has not begun"
        assert self._first["output"] == [], "it has an output already"

    def _progress(self, event: Table) -> None:
        self._same_response(event["response"])

    def _same_response(self, response: Table) -> None:
        for key in self._first.keys() | response.keys():
            if key not in _CHANGING:
                assert response.get(key) == self._first.get(key), f"its {key} changed to {response.get(key)!r}"

    def _end(self, event: Table) -> None:
        response = event["response"]
        self.final = event
        self._same_response(response)
        if self.seed and response["status"] == "requires_action":
            # Seed 004. Otherwise it is like a completed one.
            response = {**response, "status": "completed"}
        assert response["status"] == TERMINAL[event["type"]], f"its status is {response['status']!r}"
        check_ended(response)
        if event["type"] != "response.failed":
            still = [item.native for item in self._items if item.done is None]
            assert not still, f"items are open: {still}"
        assert response["output"] == [item.done for item in self._items if item.done is not None], (
            "its output is another"
        )

    def _fail(self, event: Table) -> None:
        self._error = True
        error = event["error"]
        assert event.get("message") == error["message"], "its flat message is another"
        assert {"code", "param"} <= event.keys(), "it has no flat code or param"

    # Items.

    def _item(self, event: Table) -> _Item:
        place = event["output_index"]
        assert 0 <= place < len(self._items), f"no item was added at {place}"
        item = self._items[place]
        assert item.done is None, "its item is done"
        assert event.get("item_id", item.native["id"]) == item.native["id"], "its item has another identifier"
        return item

    def _add(self, event: Table) -> None:
        native = event["item"]
        assert event["output_index"] == len(self._items), f"its place is {event['output_index']}"
        assert native["id"], "its item has no identifier"
        known = native["type"] in _GROWING
        if known:
            assert native.get("status", "in_progress") == "in_progress", "its item has ended already"
            for key in _GROWING[native["type"]]:
                assert not native.get(key), f"its item has {key} already"
        self._items.append(_Item(native))

    def _close(self, event: Table) -> None:
        item, native = self._item(event), event["item"]
        for key in _KEPT:
            assert native.get(key) == item.native.get(key), f"{key} of its item changed from {item.native.get(key)!r}"
        assert native.get("status") != "in_progress", "its item has not ended"
        kind = native["type"]
        if kind in ("message", "reasoning"):
            for key in _GROWING[kind]:
                told = [part.whole for part in getattr(item, key)]
                assert list(native.get(key) or ()) == told, f"{key} of its item is not that of the events: {told}"
        if kind in ("function_call", "custom_tool_call"):
            (key,) = _GROWING[kind]
            assert native[key] == item.arguments.text, f"its {key} are not those of the events"
        if self.seed and kind == "function_call":
            assert item.seed.text == native["arguments"], "the seed's events have other arguments"
        item.done = native

    # Parts and texts.

    def _parts(self, event: Table, where: str) -> tuple[list[_Part], int]:
        item = self._item(event)
        parts: list[_Part] = getattr(item, where)
        place: int = event["summary_index" if where == "summary" else "content_index"]
        return parts, place

    def _add_part(self, event: Table, where: str) -> None:
        parts, place = self._parts(event, where)
        assert place == len(parts), f"its place is {place}"
        part = event["part"]
        assert not part.get(_key(part)), "its part has a text already"
        parts.append(_Part(part["type"]))

    def _close_part(self, event: Table, where: str) -> None:
        part, whole = self._open_part(event, where), event["part"]
        assert whole["type"] == part.kind, "its part is of another kind"
        assert whole[_key(whole)] == part.text, f"its part is not that of the events: {part.text!r}"
        part.whole = whole

    def _open_part(self, event: Table, where: str) -> _Part:
        if where == "arguments":
            return self._item(event).arguments
        parts, place = self._parts(event, where)
        assert 0 <= place < len(parts), f"no part was added at {place}"
        assert parts[place].whole is None, "its part is done"
        return parts[place]

    def _delta(self, where: str, event: Table) -> None:
        part = self._open_part(event, where)
        self._check_kind(event, part)
        assert part.text is None, "its text is done"
        part.deltas.append(event["delta"])

    def _whole(self, where: str, key: str, event: Table) -> None:
        part = self._open_part(event, where)
        self._check_kind(event, part)
        assert part.text is None, "its text was done already"
        part.text = event[key]
        assert "".join(part.deltas) == part.text, f"its deltas are {''.join(part.deltas)!r}"

    def _check_kind(self, event: Table, part: _Part) -> None:
        """Checks that an event is about a part, or an item, of its own kind."""
        word = event["type"].removeprefix("response.").rpartition(".")[0]
        where, kind, _ = _TEXTS[word]
        found = self._item(event).native["type"] if where == "arguments" else part.kind
        assert found == kind, f"it is about a {found}"

    # The events of the seed.

    def _seed_begin(self, event: Table) -> None:
        item = self._item(event)
        assert not item.seed_begun, "its call has begun already"
        assert not item.arguments.deltas, "its arguments have begun already"
        assert (event["call_id"], event["name"]) == (item.native["call_id"], item.native["name"])
        item.seed_begun = True

    def _seed_delta(self, event: Table) -> None:
        item = self._item(event)
        assert item.seed_begun, "its call has not begun"
        assert item.seed.text is None, "its call has ended"
        item.seed.deltas.append(event["delta"])

    def _seed_end(self, event: Table) -> None:
        item = self._item(event)
        assert item.seed_begun, "its call has not begun"
        assert item.seed.text is None, "its call has ended"
        item.seed.text = event["arguments"]
        assert "".join(item.seed.deltas) == item.seed.text
        assert event["name"] == item.native["name"]

    def _seed_done(self, event: Table) -> None:
        assert self.final is not None, "the answer has not ended"
        assert event["response"] == self.final["response"], "its response is another"


def _key(part: Table) -> str:
    return "refusal" if part["type"] == "refusal" else "text"


def check_stream(writes: Sequence[bytes], *, seed: bool = False) -> StreamChecker:
    """Checks a whole streamed answer, write by write."""
    checker = StreamChecker(seed=seed)
    for data in writes:
        checker.write(data)
    return checker.end()
