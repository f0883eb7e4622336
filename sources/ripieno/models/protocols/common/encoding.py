"""Encode-once: each canister keeps the bytes of its last encoding, and requests are joined from them.

Only this file does so. A key names the protocol and the capabilities used; another key encodes again. This is safe,
since canisters are immutable. The text of a long conversation is copied once for each request: with each copy, the
system gives and takes its pages again (measured: 0.1 ms for 200 KB).
"""

import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from msgspec.structs import force_setattr

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
from ripieno.models.protocol import Capabilities, MessagesProcessor
from ripieno.values import Value

#: Key in a run's memory of the messages of its last request.
_ENCODED = "messages that are encoded"
#: Maximum bytes of an encoding that is kept.
KEPT = 64 * 1024

#: Pieces of a text, some of them views of one that grows: they are joined at once, and dropped.
Pieces: TypeAlias = list[bytes | memoryview]


class JoinedMessages(MessagesProcessor):
    """Messages in pieces, which a request joins with its other members."""

    @abc.abstractmethod
    def pieces(
        self, canisters: Sequence[Canister], capabilities: Capabilities, memory: dict[object, Any] | None
    ) -> Pieces:
        """The pieces of what ``nativize`` returns."""

    def nativize(
        self, canisters: Sequence[Canister], capabilities: Capabilities, memory: dict[object, Any] | None = None
    ) -> bytes:
        return b"".join(self.pieces(canisters, capabilities, memory))


def piece(canister: Canister, key: object, make: Callable[[Any], bytes]) -> bytes:
    """The encoding of a canister under ``key``, made if it is not kept yet."""
    try:
        kept = canister.encoding
    except AttributeError:
        pass
    else:
        if kept[0] == key:
            return kept[1]
    # The encoder's buffer is larger than its content (measured: 4 KB for 140 bytes), so keep a copy.
    data = bytes(memoryview(make(canister)))
    if len(data) <= KEPT:
        force_setattr(canister, "encoding", (key, data))
    return data


class Calls:
    """Finds the calls of a conversation for its results, whose positions ascend.

    No canister is visited twice, since a client may send as many results as fit into a request.
    """

    __slots__ = ("_canisters", "_found", "_high", "_low")

    def __init__(self, canisters: Sequence[Canister]) -> None:
        self._canisters = canisters
        self._found: dict[str, tuple[int, InvocationCanister]] = {}
        #: All canisters between these positions are known.
        self._low = self._high = 0

    def find(self, identifier: str, place: int) -> tuple[int, InvocationCanister] | None:
        """The last call with this identifier before a position, and its own position."""
        if not self._high:
            self._low = self._high = place
        for at in range(self._high, place):
            canister = self._canisters[at]
            if isinstance(canister, InvocationCanister):
                self._found[canister.identifier] = (at, canister)
        self._high = max(self._high, place)
        # In a run, a call is shortly before its result, and earlier canisters were encoded for earlier requests.
        while identifier not in self._found and self._low > 0:
            self._low -= 1
            canister = self._canisters[self._low]
            if isinstance(canister, InvocationCanister):
                self._found.setdefault(canister.identifier, (self._low, canister))
        return self._found.get(identifier)


class Group(Protocol):
    """Adjacent canisters that become messages together."""

    def add(self, canister: Canister, data: bytes) -> None:
        """Adds an encoded canister."""

    def close(self, messages: list[bytes]) -> None:
        """Appends the messages."""


#: The constructor of the group for each kind of canister.
Groups = Mapping[type[Canister], Callable[[], Group]]


def by_turns(input_group: Callable[[], Group], output_group: Callable[[], Group]) -> Groups:
    """The groups of a wire on which messages alternate between the model's input and its output."""
    return {
        UserCanister: input_group,
        SupervisorCanister: input_group,
        DocumentCanister: input_group,
        ResultCanister: input_group,
        AssistantCanister: output_group,
        InvocationCanister: output_group,
    }


class Breakpoints(Value, kw_only=True):
    """Cache marks of a wire: the last ``most`` messages that begin with ``begins`` get a ``mark``.

    The ``mark`` goes before the last ``closing`` bytes of a message. The array kept for the next request has no marks,
    so that its beginning stays the same while the marks move.
    """

    begins: bytes
    mark: bytes
    closing: bytes
    most: int

    def place(self, message: bytes) -> int | None:
        """The position of the mark in a message; None if it gets none."""
        if message.startswith(self.begins) and message.endswith(self.closing):
            return len(message) - len(self.closing)
        return None


def gather(
    canisters: Sequence[Canister],
    *,
    groups: Groups,
    encoded: Callable[[Canister, int], bytes],
    key: object,
    memory: dict[object, Any] | None,
    breakpoints: Breakpoints | None = None,
) -> Pieces:
    """The messages of a conversation as a JSON array.

    A canister of another group than the last one begins a new group. ``encoded`` gives the encoding of the canister
    at a position; an empty one is skipped and separates nothing. ``key`` names everything else that the messages
    depend on.
    """
    start, array, places = _recall(memory, key, canisters)
    messages: list[bytes] = []
    group: Group | None = None
    current: object = None
    for place in range(start, len(canisters)):
        canister = canisters[place]
        data = encoded(canister, place)
        if not data:
            continue
        make = groups[type(canister)]
        if group is None or make is not current:
            if group is not None:
                group.close(messages)
            start, current, group = place, make, make()
        group.add(canister, data)
    for message in messages:
        if breakpoints is not None and (at := breakpoints.place(message)) is not None:
            places = [*places, len(array) + at][-breakpoints.most :]
        array += message
        array += b","
    # The next canister may still join the last group.
    if memory is not None:
        memory[_ENCODED] = (key, tuple(canisters[:start]), array, places)
    messages.clear()
    if group is not None:
        group.close(messages)
    if breakpoints is not None:
        return _marked(array, places, messages, breakpoints)
    return [_since(0, array, messages), b",".join(messages), b"]"]


def _since(begin: int, array: bytearray, messages: Sequence[bytes]) -> memoryview:
    """The messages so far, from a position on; with the comma at their end only if others follow."""
    end = len(array) if messages or len(array) == 1 else len(array) - 1
    return memoryview(array)[begin:end]


def _marked(array: bytearray, places: Sequence[int], messages: Sequence[bytes], breakpoints: Breakpoints) -> Pieces:
    """The messages so far and the last ones as a JSON array, with marks in the last ``most`` of them."""
    rest: list[bytes] = []
    due = breakpoints.most
    for message in reversed(messages):
        at = breakpoints.place(message) if due else None
        due -= at is not None
        rest.append(message if at is None else message[:at] + breakpoints.mark + message[at:])
    pieces: Pieces = []
    begin = 0
    for place in places[len(places) - min(due, len(places)) :]:
        pieces += (memoryview(array)[begin:place], breakpoints.mark)
        begin = place
    return [*pieces, _since(begin, array, messages), b",".join(reversed(rest)), b"]"]


def _recall(
    memory: Mapping[object, Any] | None, key: object, canisters: Sequence[Canister]
) -> tuple[int, bytearray, list[int]]:
    """The number of canisters that the run's last request encoded, their array, and its last marks.

    A conversation grows at its end, so all but its last message is one growing text. To copy it is the only cost of a
    long conversation.
    """
    kept = memory.get(_ENCODED) if memory else None
    if kept is not None:
        under, seen, array, places = kept
        # Tuples compare identical objects quickly.
        if under == key and tuple(canisters[: len(seen)]) == seen:
            return len(seen), array, places
    return 0, bytearray(b"["), []


class Define(Protocol):
    """Makes the definition of one tool."""

    def __call__(self, invoker: Invoker, *, strict: bool) -> Mapping[str, Any]: ...


def definitions(offer: Offer, name: str, make: Define, *, strict: bool = False) -> bytes | None:
    """The tools of an offer as a JSON array, without provider-hosted ones; None if empty: servers refuse that.

    Each definition and the array are encoded once, under the protocol's name, strict or not.
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


def join(rest: Mapping[str, Any], name: str, pieces: Pieces, members: Iterable[tuple[str, bytes]]) -> bytes:
    """A JSON object of ``rest``, the messages under their ``name``, and encoded members."""
    head = b'%s%s"%s":' % (encode(rest)[:-1], b"," if rest else b"", name.encode())
    tail = b"".join(b',"%s":%s' % (key.encode(), value) for key, value in members)
    return b"".join((head, *pieces, tail, b"}"))
