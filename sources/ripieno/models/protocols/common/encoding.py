"""Encode-once: each canister keeps the bytes of its last encoding, and requests are joined from them.

The trick lives in this room alone. A key names the protocol and the capabilities that were used; another key
encodes anew. Immutability pays for it: a canister that was encoded never changes.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    DocumentCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from ripieno.ensembles import Invoker
from ripieno.ensembles.offers import Offer
from ripieno.jsonvalues import encode

#: Where a run's memory has the messages of its last request.
_SAID = "messages that are said"
#: Bytes beyond which an encoding is not kept.
KEPT = 64 * 1024


def piece(canister: Canister, key: object, make: Callable[[Any], bytes]) -> bytes:
    """The encoding of a canister under ``key``: the kept one, or a new one that is kept."""
    try:
        kept = canister.encoding
    except AttributeError:
        pass
    else:
        if kept[0] == key:
            return kept[1]
    # The encoder's buffer is larger than what it holds (measured: 4 KB for 140 bytes): keep a copy.
    data = bytes(memoryview(make(canister)))
    if len(data) <= KEPT:
        object.__setattr__(canister, "encoding", (key, data))
    return data


class Calls:
    """The calls of one conversation, found for its results, whose places ascend.

    Nothing is looked at twice: a client may send as many results as fit into a request.
    """

    __slots__ = ("_canisters", "_found", "_high", "_low")

    def __init__(self, canisters: Sequence[Canister]) -> None:
        self._canisters = canisters
        self._found: dict[str, tuple[int, InvocationCanister]] = {}
        #: What lies between these places is known.
        self._low = self._high = 0

    def find(self, identifier: str, place: int) -> tuple[int, InvocationCanister] | None:
        """The last call before a place that has this identifier, and where it stands."""
        if not self._high:
            self._low = self._high = place
        for at in range(self._high, place):
            canister = self._canisters[at]
            if isinstance(canister, InvocationCanister):
                self._found[canister.identifier] = (at, canister)
        self._high = max(self._high, place)
        # In a run, the call stands not far before its result, and what came before was said in another request.
        while identifier not in self._found and self._low > 0:
            self._low -= 1
            canister = self._canisters[self._low]
            if isinstance(canister, InvocationCanister):
                self._found.setdefault(canister.identifier, (self._low, canister))
        return self._found.get(identifier)


class Group(Protocol):
    """Adjacent canisters that become messages together, while they are loaded."""

    def add(self, canister: Canister, data: bytes) -> None:
        """One more of them, encoded."""
        ...

    def close(self, messages: list[bytes]) -> None:
        """Makes messages of them."""
        ...


#: Makes the group that a kind of canister belongs to.
Groups = Mapping[type[Canister], Callable[[], Group]]


def by_turns(heard: Callable[[], Group], spoken: Callable[[], Group]) -> Groups:
    """The groups of a wire on which what the model hears takes turns with what it says."""
    return {
        UserCanister: heard,
        SupervisorCanister: heard,
        DocumentCanister: heard,
        ResultCanister: heard,
        AssistantCanister: spoken,
        InvocationCanister: spoken,
    }


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Breakpoints:
    """How a wire marks what its provider should keep in its cache: the last ``most`` messages that begin like this.

    The ``mark`` is put before the last ``closing`` bytes of a message. What is kept for the next request has none, so
    that its beginning stays the same while the marks move.
    """

    begins: bytes
    mark: bytes
    closing: bytes
    most: int

    def place(self, message: bytes) -> int | None:
        """Where the mark of a message belongs; None where it has none."""
        if message.startswith(self.begins) and message.endswith(self.closing):
            return len(message) - len(self.closing)
        return None


def gather(
    canisters: Sequence[Canister],
    *,
    groups: Groups,
    said: Callable[[Canister, int], bytes],
    key: object,
    memory: dict[object, Any] | None,
    breakpoints: Breakpoints | None = None,
) -> bytes:
    """The messages of a conversation as a JSON array.

    A canister whose group is made otherwise than that of the last one begins the next group.
    ``said`` gives the piece of the canister at a place; where it is empty nothing is said, and nothing is parted.
    ``key`` tells what else the messages depend on.
    """
    start, array, places = _recall(memory, key, canisters)
    messages: list[bytes] = []
    group: Group | None = None
    loaded: object = None
    for place in range(start, len(canisters)):
        canister = canisters[place]
        data = said(canister, place)
        if not data:
            continue
        make = groups[type(canister)]
        if group is None or make is not loaded:
            if group is not None:
                group.close(messages)
            start, loaded, group = place, make, make()
        group.add(canister, data)
    for message in messages:
        if breakpoints is not None and (at := breakpoints.place(message)) is not None:
            places = [*places[1 - breakpoints.most :], len(array) + at]
        array += message
        array += b","
    # Whatever comes next may still join the last of them.
    if memory is not None:
        memory[_SAID] = (key, tuple(canisters[:start]), array, places)
    messages.clear()
    if group is not None:
        group.close(messages)
    if breakpoints is not None:
        return _marked(array, places, messages, breakpoints)
    if messages:
        return b"".join((array, b",".join(messages), b"]"))
    return bytes(array[:-1]) + b"]" if len(array) > 1 else b"[]"


def _marked(array: bytearray, places: Sequence[int], messages: Sequence[bytes], breakpoints: Breakpoints) -> bytes:
    """The messages so far and the last ones as a JSON array, with the marks that are due."""
    rest: list[bytes] = []
    due = breakpoints.most
    for message in reversed(messages):
        at = breakpoints.place(message) if due else None
        due -= at is not None
        rest.append(message if at is None else message[:at] + breakpoints.mark + message[at:])
    parts: list[bytes | memoryview] = []
    begin, end = 0, len(array) if messages or len(array) == 1 else len(array) - 1
    with memoryview(array) as view:
        for place in places[len(places) - min(due, len(places)) :]:
            parts += (view[begin:place], breakpoints.mark)
            begin = place
        data = b"".join((*parts, view[begin:end], b",".join(reversed(rest)), b"]"))
        for part in parts:
            if isinstance(part, memoryview):
                part.release()
    return data


def _recall(
    memory: Mapping[object, Any] | None, key: object, canisters: Sequence[Canister]
) -> tuple[int, bytearray, list[int]]:
    """How many of the canisters the last request of the same run has said already; the array and its last marks.

    A conversation grows at its end, so that all but its last message is one text that grows: copying that is what a
    long conversation costs.
    """
    kept = memory.get(_SAID) if memory else None
    if kept is not None:
        under, said, array, places = kept
        # Tuples compare the same objects without looking into them.
        if under == key and tuple(canisters[: len(said)]) == said:
            return len(said), array, places
    return 0, bytearray(b"["), []


class Define(Protocol):
    """One tool as a wire defines it."""

    def __call__(self, invoker: Invoker, *, strict: bool) -> Mapping[str, Any]: ...


def definitions(offer: Offer, name: str, make: Define, *, strict: bool = False) -> bytes | None:
    """The tools of an offer as a JSON array; None when there are none: an empty array is refused.

    Each definition is encoded once, and so is the array, under the protocol's name, strict or not. What a provider
    runs by itself is not among them.
    """
    key = (name, "strict") if strict else name
    kept = offer.encodings.get(key)
    if kept is None:
        parts: list[bytes] = []
        for invoker in offer.invokers:
            if invoker.hosted == "provider":
                continue
            part = invoker.encodings.get(key)
            if part is None:
                part = invoker.encodings[key] = encode(make(invoker, strict=strict))
            parts.append(part)
        kept = offer.encodings[key] = b"[" + b",".join(parts) + b"]" if parts else b""
    return kept or None


def join(members: Iterable[tuple[str, bytes]], rest: Mapping[str, Any]) -> bytes:
    """A JSON object of members that are encoded already, and the rest."""
    # One join, since the messages may be long.
    parts = [encode(rest)[:-1]]
    for name, value in members:
        parts += (b'%s"%s":' % (b"," if rest or len(parts) > 1 else b"", name.encode()), value)
    return b"".join((*parts, b"}"))
