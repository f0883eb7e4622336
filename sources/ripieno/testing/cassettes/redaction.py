"""Redacts secrets in the events of a recorded answer, including secrets that are split over several events."""

import copy
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ripieno.jsonvalues import is_list, is_table, thaw
from ripieno.storage.redaction import HIDDEN, Redactor

#: Keys whose texts are complete in one event.
_WHOLE = frozenset(
    (
        *("type", "id", "object", "model", "role", "status", "event", "name", "item_id", "response_id", "call_id"),
        *("finish_reason", "finishReason", "stop_reason", "system_fingerprint", "service_tier", "modelVersion"),
        *("responseId", "data", "mimeType"),
    )
)


@dataclasses.dataclass(slots=True)
class Held:
    """Events that came together, redacted so far. ``open`` counts texts that may continue."""

    events: list[Any]
    open: int = 0


@dataclasses.dataclass(slots=True)
class _Piece:
    """A text of one event that may continue. ``fixed`` is final, ``raw`` may be part of a secret."""

    event: Held
    holder: Any
    key: Any
    raw: str
    fixed: str = ""


class StreamRedactor:
    """Redacts the events of one answer. Texts at the same place of successive events are read as one."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._open: dict[object, list[_Piece]] = {}

    def feed(self, events: Iterable[Mapping[str, Any]]) -> Held:
        """The events, without secrets once none of their texts is open."""
        held = Held([thaw(copy.copy(event)) for event in events])
        if not self._redactor:
            return held
        for event in held.events:
            for place, holder, key in list(_texts(event)):
                # A secret that is complete in one event is redacted there.
                self._read(place, _Piece(held, holder, key, holder[key]))
        return held

    def close(self) -> None:
        """Ends the answer: open texts contain no secret."""
        for pieces in self._open.values():
            for piece in pieces:
                piece.event.open -= 1
        self._open.clear()

    def _read(self, place: object, piece: _Piece) -> None:
        before = self._open.pop(place, [])
        for one in before:
            one.event.open -= 1
        pieces = [*before, piece]
        whole = "".join(one.raw for one in pieces)
        spans = self._redactor.spans(whole)
        begin = self._redactor.unsettled(whole, spans[-1][1] if spans else 0)
        kept: list[_Piece] = []
        start = 0
        for one in pieces:
            end = start + len(one.raw)
            settled = min(max(begin, start), end)
            done = _without(whole, start, settled, spans)
            raw = whole[settled:end]
            one.fixed, one.raw = one.fixed + done, raw
            one.holder[one.key] = one.fixed + raw
            if raw:
                one.event.open += 1
                kept.append(one)
            start = end
        if kept:
            self._open[place] = kept


def _without(text: str, start: int, end: int, spans: list[tuple[int, int]]) -> str:
    """A part of a text without its secrets; the mark is where a secret begins."""
    parts: list[str] = []
    at = start
    for first, last in spans:
        if last <= start or first >= end:
            continue
        parts.append(text[at : max(first, at)])
        if first >= start:
            parts.append(HIDDEN)
        at = min(last, end)
    parts.append(text[at:end])
    return "".join(parts)


def _texts(event: Any) -> Iterator[tuple[object, Any, Any]]:
    """Each text of an event: its place with the indices that separate parallel texts, its container, and its key."""
    pending: list[tuple[Any, tuple[object, ...]]] = [(event, ())]
    items: Iterable[tuple[Any, Any]]
    while pending:
        value, place = pending.pop()
        if is_table(value):
            numbers = tuple((key, item) for key, item in value.items() if key.endswith("index") and type(item) is int)
            items = value.items()
            place = (*place, numbers)
        else:
            listed: list[Any] = value
            items = list(enumerate(listed))
        for key, item in items:
            if isinstance(item, str) and key in _WHOLE:
                continue
            if isinstance(item, str):
                yield (*place, key), value, key
            elif is_table(item) or is_list(item):
                pending.append((item, (*place, key)))
