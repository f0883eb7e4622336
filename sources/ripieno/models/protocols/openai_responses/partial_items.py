"""The items of a Responses answer while it is streamed, however a server numbers and names them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ripieno.canisters import InvocationCanister
from ripieno.jsonvalues import EMPTY
from ripieno.models.protocols.common.calls import read_invocation
from ripieno.models.protocols.openai_responses.contents import NAME
from ripieno.models.protocols.openai_responses.items import CALLS, MESSAGE, UNFINISHED, extras_in, sent_in, text_in


class Item:
    def __init__(self, kind: str, index: object, identifier: object) -> None:
        self.kind = kind
        #: The server's index and identifier, if any.
        self.index = index
        self.identifier = identifier or None
        #: The item as it began, now, and at its end. Events may precede its beginning.
        self.started: Mapping[str, Any] | None = None
        self.native: dict[str, Any] = {}
        self.ended: Mapping[str, Any] | None = None
        self.done = False
        # Of a message: its fragments by the index of their part, whether its members were sealed, and whether
        # reasoning preceded it.
        self.parts: dict[object, list[str]] = {}
        self.marked = False
        self.reasoned = False
        # Of a call: its index among the calls, from 0, its identifier, fragments of its arguments, the complete
        # arguments, and the call once it is done.
        self.call = -1
        self.unique = ""
        self.begun = False
        self.fragments: list[str] = []
        self.complete: object = None
        self.invocation: InvocationCanister | None = None

    @property
    def is_call(self) -> bool:
        """Whether it is a call for us, not for the provider."""
        return self.kind in CALLS

    def is_like(self, kind: object, index: object, identifier: object) -> bool:
        """Whether nothing contradicts that an event is about this item."""
        return (
            self.kind == kind
            and (index is None or self.index is None or self.index == index)
            and (not identifier or self.identifier is None or self.identifier == identifier)
        )

    def take(self, native: Mapping[str, Any]) -> None:
        """Updates the item; members that are not repeated stay."""
        self.native = {**self.native, **{key: value for key, value in native.items() if value is not None}}
        # The first identifier stays, even if the server changes it.
        self.identifier = self.identifier or native.get("id") or None
        if self.identifier is not None:
            self.native["id"] = self.identifier
        if self.is_call:
            sent = sent_in(native)
            if sent or self.complete is None:
                self.complete = sent

    def finish(self, native: Mapping[str, Any]) -> None:
        if not self.is_call and self.kind != MESSAGE:
            self.native = dict(native)
        else:
            self.take(native)
        self.done, self.ended = True, native
        if self.is_call:
            self.invocation = self.read()

    @property
    def name(self) -> str:
        """The name of a call; empty while it is unknown."""
        return str(self.native.get("name") or "")

    def read(self) -> InvocationCanister:
        return read_invocation(
            identifier=self.unique,
            name=self.name,
            sent=self.complete or "".join(self.fragments) or None,
            kind=CALLS[self.kind],
            protocol=NAME,
            extras=extras_in(self.native),
        )

    def sent_text(self) -> str:
        return "".join("".join(part) for part in self.parts.values())

    def text(self) -> str:
        """The text of a message: that of the item, if any, or else the streamed text."""
        return text_in(self.native) or self.sent_text()

    @property
    def unfinished(self) -> str | None:
        """The status of a complete item that says it was cut off."""
        status = None if self.ended is None else self.ended.get("status")
        return status if status in UNFINISHED else None

    def doubtful(self) -> bool:
        """Whether a complete item may have been cut off, which only the end of the answer shows."""
        if self.unfinished is not None:
            return True
        call, ended = self.invocation, self.ended or EMPTY
        cut = call is not None and not call.arguments and ended.get("status") != "completed"
        return cut or (call is not None and call.fault is not None)


class Items:
    __slots__ = ("_last", "_open", "all")

    def __init__(self) -> None:
        self.all: list[Item] = []
        #: Incomplete items, and the item that was found last.
        self._open: list[Item] = []
        self._last: Item | None = None

    def open(self, kind: str, index: object, identifier: object) -> Item:
        item = Item(kind, index, identifier)
        self.all.append(item)
        self._open.append(item)
        self._last = None
        return item

    def close(self, item: Item) -> None:
        self._open.remove(item)
        self._last = None

    def find(self, kind: str, index: object, identifier: object) -> Item | None:
        """The open item that matches; otherwise the one with this index, since identifiers may change."""
        last = self._last
        if last is not None and last.index == index and last.identifier == identifier and last.kind == kind:
            return last
        found = next((item for item in reversed(self._open) if item.is_like(kind, index, identifier)), None)
        if found is None and index is not None:
            found = next((item for item in reversed(self._open) if item.is_like(kind, index, None)), None)
        self._last = found
        return found

    def waiting(self, kind: str, index: object, identifier: object) -> Item | None:
        """The open item that has had events but no beginning."""
        waiting = (item for item in self._open if item.started is None)
        return next((item for item in waiting if item.is_like(kind, index, identifier)), None)

    def was(self, kind: str, index: object, identifier: object) -> bool:
        """Whether such an item is already complete."""
        named = index is not None or bool(identifier)
        ended = ((item, item.ended) for item in self.all if item.ended is not None)
        return named and any(
            item.is_like(kind, index, identifier) or (item.is_like(kind, index, None) and end.get("id") == identifier)
            for item, end in ended
        )

    def repeats(self, start: Mapping[str, Any], index: object) -> bool:
        """Whether an item began with exactly this content."""
        return any(item.started == start and item.index == index for item in self.all)

    def ended(self, end: Mapping[str, Any], index: object) -> bool:
        """Whether an item ended with exactly this content, and no open item matches."""
        if self.find(str(end["type"]), index, end.get("id")) is not None:
            return False
        return any(item.ended == end and item.index == index for item in self.all)


def matched(
    items: Sequence[Item], output: Iterable[Mapping[str, Any]]
) -> Iterable[tuple[Item | None, Mapping[str, Any]]]:
    """Each item of a complete answer with its streamed item, if any.

    If equally many of a kind were streamed, they match in order, whatever their identifiers.
    """
    complete = list(output)
    pairs: dict[int, Item] = {}
    for kind in {end.get("type") for end in complete}:
        streamed = [item for item in items if item.kind == kind]
        ends = [(place, end) for place, end in enumerate(complete) if end.get("type") == kind]
        if len(streamed) == len(ends):
            pairs.update((place, item) for (place, _), item in zip(ends, streamed, strict=True))
            continue
        for place, end in ends:
            same = next((item for item in streamed if _same(item, end)), None)
            if same is not None:
                streamed.remove(same)
                pairs[place] = same
    return [(pairs.get(place), end) for place, end in enumerate(complete)]


def _same(item: Item, end: Mapping[str, Any]) -> bool:
    for key in ("call_id", "id"):
        one, other = item.native.get(key), end.get(key)
        if one and other:
            return bool(one == other)
    return False
