"""An item of the Responses wire while it is streamed.

Which item of an answer an event is about, however its server numbers and names items.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ripieno.canisters import InvocationCanister
from ripieno.models.protocols.common.calls import read_invocation
from ripieno.models.protocols.openai_responses.contents import NAME
from ripieno.models.protocols.openai_responses.items import CALLS, MESSAGE, UNFINISHED, extras_in, said_in, sent_in


class Item:
    """An item, as far as it has come."""

    __slots__ = (
        "begun",
        "call",
        "done",
        "ended",
        "fragments",
        "identifier",
        "index",
        "invocation",
        "kind",
        "marked",
        "native",
        "parts",
        "reasoned",
        "settled",
        "started",
        "whole",
    )

    def __init__(self, kind: str, index: object, identifier: object) -> None:
        self.kind = kind
        #: The place and the identifier that the server gives it, if any.
        self.index = index
        self.identifier = identifier or None
        #: As it began, as it is, and as it ended: events may come before its beginning.
        self.started: Mapping[str, Any] | None = None
        self.native: dict[str, Any] = {}
        self.ended: Mapping[str, Any] | None = None
        self.done = False
        # Of a message: its fragments by the place of their part, whether what returns beside it was told, and
        # whether reasoning stood before it.
        self.parts: dict[object, list[str]] = {}
        self.marked = False
        self.reasoned = False
        # Of a call: its place among the calls, from 0, its identifier, fragments of its arguments, what was sent of
        # them as a whole, and what it is once it is done.
        self.call = -1
        self.settled = ""
        self.begun = False
        self.fragments: list[str] = []
        self.whole: object = None
        self.invocation: InvocationCanister | None = None

    @property
    def is_call(self) -> bool:
        """Whether it is a call for us."""
        return self.kind in CALLS

    def is_like(self, kind: object, index: object, identifier: object) -> bool:
        """Whether nothing says that it is another one."""
        return (
            self.kind == kind
            and (index is None or self.index is None or self.index == index)
            and (not identifier or self.identifier is None or self.identifier == identifier)
        )

    def take(self, native: Mapping[str, Any]) -> None:
        """The item as its server says it is by now: what it does not say again stays."""
        self.native = {**self.native, **{key: value for key, value in native.items() if value is not None}}
        # An identifier that changes on the way is the one that was heard first.
        self.identifier = self.identifier or native.get("id") or None
        if self.identifier is not None:
            self.native["id"] = self.identifier
        if self.is_call:
            sent = sent_in(native)
            if sent or self.whole is None:
                self.whole = sent

    def finish(self, native: Mapping[str, Any]) -> None:
        """The whole item."""
        if not self.is_call and self.kind != MESSAGE:
            self.native = dict(native)
        else:
            self.take(native)
        self.done, self.ended = True, native
        if self.is_call:
            self.invocation = self.read()

    @property
    def name(self) -> str:
        """The name of a call; empty when it is not known yet."""
        return str(self.native.get("name") or "")

    def read(self) -> InvocationCanister:
        """The call, as far as it has come."""
        return read_invocation(
            identifier=self.settled,
            name=self.name,
            sent=self.whole or "".join(self.fragments) or None,
            kind=CALLS[self.kind],
            protocol=NAME,
            extras=extras_in(self.native),
        )

    def said(self) -> str:
        """The text of a message, as far as it was streamed."""
        return "".join("".join(part) for part in self.parts.values())

    def text(self) -> str:
        """The text of a message: what stands in the item, where something does."""
        return said_in(self.native) or self.said()

    @property
    def unfinished(self) -> str | None:
        """The word for an item that came as a whole, and says itself that it was cut off."""
        status = self._status
        return status if status in UNFINISHED else None

    @property
    def _status(self) -> str | None:
        """What the whole item says; how it began counts no more."""
        return None if self.ended is None else self.ended.get("status")

    def doubtful(self) -> bool:
        """Whether it may have been cut off, though it came as a whole: only the end tells."""
        if self.unfinished is not None:
            return True
        invocation = self.invocation
        if invocation is None:
            return False
        return invocation.fault is not None or (not invocation.arguments and self._status != "completed")


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
