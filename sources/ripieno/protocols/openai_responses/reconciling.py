"""Which item of an answer an event is about, however its server numbers and names items."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ripieno.protocols.openai_responses.growing import Item

_KEYS = ("call_id", "id")


class Items:
    """All items of one answer, in the model's order."""

    __slots__ = ("_last", "_open", "all")

    def __init__(self) -> None:
        self.all: list[Item] = []
        #: Those that are not complete, and the one that was found last.
        self._open: list[Item] = []
        self._last: Item | None = None

    def open(self, kind: str, index: object, identifier: object) -> Item:
        """A new item."""
        item = Item(kind, index, identifier)
        self.all.append(item)
        self._open.append(item)
        self._last = None
        return item

    def close(self, item: Item) -> None:
        """Nothing more comes of an item."""
        self._open.remove(item)
        self._last = None

    def find(self, kind: str, index: object, identifier: object) -> Item | None:
        """The open item that nothing speaks against; or the one at that place, for identifiers may change."""
        last = self._last
        if last is not None and last.index == index and last.identifier == identifier and last.kind == kind:
            return last
        found = next((item for item in reversed(self._open) if item.is_like(kind, index, identifier)), None)
        if found is None and index is not None:
            found = next((item for item in reversed(self._open) if item.is_like(kind, index, None)), None)
        self._last = found
        return found

    def waiting(self, kind: str, index: object, identifier: object) -> Item | None:
        """The open item that events have come for, and that has not begun."""
        waiting = (item for item in self._open if item.started is None)
        return next((item for item in waiting if item.is_like(kind, index, identifier)), None)

    def was(self, kind: str, index: object, identifier: object) -> bool:
        """Whether such an item is complete already."""
        named = index is not None or bool(identifier)
        ended = (item for item in self.all if item.ended is not None)
        return named and any(
            item.is_like(kind, index, identifier)
            or (item.is_like(kind, index, None) and _id_of(item.ended) == identifier)
            for item in ended
        )

    def repeats(self, start: Mapping[str, Any], index: object) -> bool:
        """Whether an item has begun with these very words."""
        return any(item.started == start and item.index == index for item in self.all)

    def ended(self, end: Mapping[str, Any], index: object) -> bool:
        """Whether an item has ended with these very words, and no other waits for them."""
        if self.find(str(end["type"]), index, end.get("id")) is not None:
            return False
        return any(item.ended == end and item.index == index for item in self.all)


def told_apart(
    items: Sequence[Item], output: Iterable[Mapping[str, Any]]
) -> Iterable[tuple[Item | None, Mapping[str, Any]]]:
    """Each item of a whole answer with the one that was streamed of it, if any was.

    Where as many of a kind were streamed as there are, they are the same in their order, whatever their identifiers.
    """
    whole = list(output)
    pairs: dict[int, Item] = {}
    for kind in {end.get("type") for end in whole}:
        streamed = [item for item in items if item.kind == kind]
        ends = [(place, end) for place, end in enumerate(whole) if end.get("type") == kind]
        if len(streamed) == len(ends):
            pairs.update((place, item) for (place, _), item in zip(ends, streamed, strict=True))
            continue
        for place, end in ends:
            same = next((item for item in streamed if _same(item, end)), None)
            if same is not None:
                streamed.remove(same)
                pairs[place] = same
    return [(pairs.get(place), end) for place, end in enumerate(whole)]


def _same(item: Item, end: Mapping[str, Any]) -> bool:
    """Whether an identifier says that both are the same."""
    for key in _KEYS:
        one, other = item.native.get(key), end.get(key)
        if one and other:
            return bool(one == other)
    return False


def _id_of(native: Mapping[str, Any] | None) -> object:
    return None if native is None else native.get("id")
