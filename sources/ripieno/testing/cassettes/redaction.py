"""Keeps secrets out of a cassette: in every text of a line, and in texts that come in pieces over several events."""

import base64
import binascii
import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ripieno.assembly.protection import SECRET_NAME
from ripieno.jsonvalues import is_list, is_table, thaw
from ripieno.storage.redaction import HIDDEN, forms

#: Characters of the shortest secret that is looked for: a shorter one would take words apart.
_SHORTEST = 8
#: Values that look random: long, of letters and digits, and no path, sentence or address.
_RANDOM = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9_+=.~-]{20,}")
_BASE64 = ";base64,"
#: Keys of events whose texts come whole: no wire goes on with one in a later event.
_WHOLE = frozenset(
    [
        "type",
        "id",
        "object",
        "model",
        "role",
        "status",
        "event",
        "name",
        "item_id",
        "response_id",
        "call_id",
        "finish_reason",
        "finishReason",
        "stop_reason",
        "system_fingerprint",
        "service_tier",
        "modelVersion",
        "responseId",
        "data",
        "mimeType",
    ]
)


def secrets_among(variables: Mapping[str, str]) -> tuple[str, ...]:
    """The values of variables that are secrets, by their names or looks. The others, such as HOME, stay readable."""
    return tuple(
        value
        for name, value in variables.items()
        if SECRET_NAME.search(name.upper()) or _RANDOM.fullmatch(value.strip())
    )


class Redactor:
    """Knows secrets, in the forms in which URLs, JSON and logs write them."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: dict[str, None] = {}
        self.forms: tuple[str, ...] = ()
        self.prefixes: frozenset[str] = frozenset()
        self.longest = 0
        self._pattern: re.Pattern[str] | None = None
        self.learn(secrets)

    def learn(self, secrets: Iterable[str]) -> None:
        """These are secrets, too."""
        known = {stripped: None for one in secrets if len(stripped := one.strip()) >= _SHORTEST}
        if known.keys() <= self._secrets.keys():
            return
        self._secrets.update(known)
        written = (form for form in forms(self._secrets) if len(form) >= _SHORTEST)
        self.forms = tuple(sorted(set(written), key=len, reverse=True))
        self.prefixes = frozenset(form[:size] for form in self.forms for size in range(1, len(form)))
        self.longest = max(map(len, self.forms), default=0)
        # The longest goes first, since one may be part of another.
        self._pattern = re.compile("|".join(map(re.escape, self.forms))) if self.forms else None

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where secrets stand in a text."""
        return [] if self._pattern is None else [found.span() for found in self._pattern.finditer(text)]

    def text(self, text: str) -> str:
        """The text with a mark for each secret."""
        if self._pattern is None:
            return text
        head, mark, data = text.partition(_BASE64)
        if mark:
            return self._pattern.sub(HIDDEN, head) + mark + self._data(data)
        return self._pattern.sub(HIDDEN, text)

    def value(self, value: Any) -> Any:
        """The same for every text in a JSON value, and for bytes that stand in it as base64."""
        if self._pattern is None:
            return value
        return self._value(value)

    def _value(self, value: Any, name: str = "") -> Any:
        if isinstance(value, str):
            return self._data(value) if name in ("data", "blob") else self.text(value)
        if is_table(value):
            return {self.text(key): self._value(item, key) for key, item in value.items()}
        if is_list(value):
            return [self._value(item) for item in value]
        return value

    def _data(self, text: str) -> str:
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            return self.text(text)
        hidden = data
        for form in self.forms:
            hidden = hidden.replace(form.encode("utf-8", "surrogatepass"), HIDDEN.encode())
        return self.text(text) if hidden is data or hidden == data else base64.b64encode(hidden).decode()


class _Piece:
    """A text of one event that goes on in later ones. ``fixed`` is settled, ``raw`` may be part of a secret still."""

    __slots__ = ("event", "fixed", "holder", "key", "raw")

    def __init__(self, event: "Held", holder: Any, key: Any, raw: str) -> None:
        self.event = event
        self.holder = holder
        self.key = key
        self.raw = raw
        self.fixed = ""


class Held:
    """Events that came together, without the secrets that were seen so far. ``open`` counts texts that may go on."""

    __slots__ = ("events", "open")

    def __init__(self, events: list[Any]) -> None:
        self.events = events
        self.open = 0


class StreamRedactor:
    """Redacts the events of one answer. Texts at one place of successive events are read as one text."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._open: dict[object, list[_Piece]] = {}

    def feed(self, events: Iterable[Mapping[str, Any]]) -> Held:
        """The events, without secrets once nothing of them is open."""
        held = Held([thaw(copy.copy(event)) for event in events])
        if not self._redactor.forms:
            return held
        for event in held.events:
            for place, holder, key in list(_texts(event)):
                # What is whole in one event is hidden in it, whatever follows.
                self._read(place, _Piece(held, holder, key, holder[key]))
        return held

    def close(self) -> None:
        """Nothing more comes: what is open was no secret."""
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
        begin = self._unsettled(whole, spans[-1][1] if spans else 0)
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

    def _unsettled(self, text: str, after: int) -> int:
        """Where the end of a text begins that may be the beginning of a secret."""
        first = max(after, len(text) - self._redactor.longest + 1)
        return next((at for at in range(first, len(text)) if text[at:] in self._redactor.prefixes), len(text))


def _without(text: str, start: int, end: int, spans: list[tuple[int, int]]) -> str:
    """A part of a text without the secrets in it; the mark stands where one begins."""
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
    """Each text of an event: its place, with the numbers that tell parallel ones apart, its holder and key."""
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
