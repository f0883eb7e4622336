"""The events in the bytes of a streamed answer of the Responses wire."""

from collections.abc import Iterator, Mapping
from typing import Any

from ripieno.jsonvalues import encode, parse
from ripieno.servers.http.bodies import DEPTH

#: The ends of a response that can be continued, and all ends.
KEPT = frozenset({"response.completed", "response.incomplete"})
LAST = KEPT | {"response.failed"}
_DATA = b"\ndata: "
_END = b"\n\n"


def pieces(data: bytes) -> Iterator[bytes]:
    """The events of a part of a stream, which has whole ones, as they are sent."""
    return (piece + _END for piece in data.split(_END) if piece)


def named(piece: bytes) -> tuple[str, bytes]:
    """The name and the JSON of an event; both are empty for a comment, and for the mark of the end."""
    name, _, data = piece.rstrip(b"\n").partition(_DATA)
    return (name.removeprefix(b"event: ").decode(), data) if data.startswith(b"{") else ("", b"")


def created(response: Mapping[str, Any]) -> bytes:
    """The first event of a response, which names it."""
    event = {"type": "response.created", "sequence_number": 0, "response": response}
    return b"event: response.created\ndata: %s\n\n" % encode(event)


def last_events(response: Mapping[str, Any], word: str, number: int, **members: Any) -> list[bytes]:
    """The events, from this number on, that end a response which had no end of its own."""
    kind = f"response.{word}"
    event = {"type": kind, "sequence_number": number, "response": {**response, "status": word, **members}}
    return [b"event: %s\ndata: %s\n\n" % (kind.encode(), encode(event)), b"data: [DONE]\n\n"]


def content(data: bytes) -> dict[str, Any]:
    """The JSON of an event or a body, parsed."""
    found: Any = parse(data, max_bytes=max(len(data), 1), max_depth=DEPTH * 2)
    return dict(found)
