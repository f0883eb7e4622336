"""Server-sent events, split from bytes: one JSON object an event.

Only ``data`` fields count: every protocol here repeats the kind inside its JSON, and some servers send no
``event`` lines (measured: an SDK drops those events). Comments keep connections alive and are passed over.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from typing import Any

import orjson

from ripieno.exceptions import JsonInvalidity, WireInvalidity
from ripieno.jsonvalues import is_list, is_table, parse

#: What the chat protocol sends as its last event, which is no JSON.
DONE: Mapping[str, Any] = {"type": "[DONE]"}
#: Bytes of one event; far above what any provider sends, far below what would hurt.
EVENT_BYTES = 16 * 1024 * 1024
#: Arguments that stand as an object, and are not empty.
_OBJECT_OF_ARGUMENTS = re.compile(rb'"(?:arguments|input|args)"\s*:\s*\{\s*"')
#: Lines that say what the JSON says again. No line begins so inside of JSON, in which ends of lines are escaped.
_EVENT_LINES = re.compile(rb"\n\nevent: [^\n]*\n")
#: What stands between two events that are one line each.
_BETWEEN = b"}\n\ndata: {"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Splitter:
    """Splits chunks of bytes, cut anywhere, into events. Lines may end in LF, CR LF or CR."""

    __slots__ = ("_after_return", "_kept", "_provider", "_size")

    def __init__(self, provider: str) -> None:
        self._provider = provider
        #: What came since the last blank line. Joined once, so that a large event stays linear.
        self._kept: list[bytes] = []
        self._size = 0
        self._after_return = False

    def feed(self, chunk: bytes) -> Sequence[Mapping[str, Any]]:
        """The events that are complete with this chunk. Errors: ``WireInvalidity``."""
        # Finding a byte takes half the time of asking whether it is in there (measured).
        if self._after_return or chunk.find(b"\r") >= 0:
            chunk = self._unify(chunk)
        kept = self._kept
        # A blank line may also be cut in two: its first half ends what is kept.
        if chunk.find(b"\n\n") < 0 and not (kept and chunk[:1] == b"\n" and kept[-1][-1:] == b"\n"):
            if chunk:
                self._keep(chunk)
            return []
        if kept:
            chunk = b"".join((*kept, chunk))
            kept.clear()
        self._size = 0
        end = chunk.rfind(b"\n\n")
        if end + 2 < len(chunk):
            self._keep(chunk[end + 2 :])
        blocks = chunk[:end]
        events = _together(blocks)
        if events is not None:
            return events
        return [event for block in blocks.split(b"\n\n") if (event := self._read(block)) is not None]

    def finish(self) -> list[Mapping[str, Any]]:
        """The event that stood without a blank line after it, if any. Errors: ``WireInvalidity`` when it was cut."""
        block = b"".join(self._kept)
        self._kept.clear()
        try:
            event = self._read(block)
        except WireInvalidity as error:
            raise WireInvalidity(
                self._provider, "The answer ended in the middle of an event.", retryable=True
            ) from error
        return [] if event is None else [event]

    def _unify(self, chunk: bytes) -> bytes:
        """The chunk with LF alone. A pair that was cut in two is one end of a line."""
        if self._after_return and chunk[:1] == b"\n":
            chunk = chunk[1:]
            self._after_return = False
        if chunk:
            self._after_return = chunk[-1:] == b"\r"
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _keep(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._size > EVENT_BYTES:
            raise WireInvalidity(self._provider, f"It sent an event of more than {EVENT_BYTES} bytes.")
        self._kept.append(chunk)

    def _read(self, block: bytes) -> Mapping[str, Any] | None:
        start = block.find(b"data:")
        if start < 0:
            return None
        if block.find(b"\n", start) < 0 and (start == 0 or block[start - 1 : start] == b"\n"):
            data = block[start + 5 :].strip()
        else:
            lines = block.removeprefix(_BYTE_ORDER_MARK).split(b"\n")
            data = b"\n".join(line[5:] for line in lines if line.startswith(b"data:")).strip()
        if not data:
            return None
        if data == b"[DONE]":
            return DONE
        return read_object(data, self._provider)


def _together(blocks: bytes) -> Sequence[Mapping[str, Any]] | None:
    """What most chunks are, parsed at once: blocks of one line of data, an object each, with no arguments as one.

    A line before it may say what kind of event it is.

    None for any other, which is read block by block.
    """
    if blocks[:7] == b"event: ":
        blocks = blocks[blocks.find(b"\n") + 1 :]
        if blocks.find(b"\n\nevent: ") >= 0:
            blocks = _EVENT_LINES.sub(b"\n\n", blocks)
    if blocks[:7] != b"data: {" or blocks[-1:] != b"}":
        return None
    data = blocks[6:].replace(_BETWEEN, b"},{")
    if data.find(b"\n") >= 0 or _OBJECT_OF_ARGUMENTS.search(data):
        return None
    try:
        events: Sequence[Mapping[str, Any]] = orjson.loads(b"[%s]" % data)
    except orjson.JSONDecodeError:
        return None
    # An object that was cut into two blocks is not mended here.
    return events if len(events) == blocks.count(_BETWEEN) + 1 else None


def read_object(data: bytes, provider: str) -> Mapping[str, Any]:
    """A JSON object from a provider. Errors: ``WireInvalidity``, with the beginning of what it sent instead."""
    return _table(_value(data, provider), provider)


def read_objects(data: bytes, provider: str) -> Sequence[Mapping[str, Any]]:
    """The objects of a JSON array, which one wire sends in place of events; or the one object. Errors: as above."""
    value = _value(data, provider)
    return [_table(one, provider) for one in value] if is_list(value) else [_table(value, provider)]


def _value(data: bytes, provider: str) -> object:
    """What stands in the JSON.

    The fast parser reads the envelope; what a model wrote stands inside it as text, and is parsed strictly later.
    Where arguments stand as an object, the strict parser reads all of it, so that no integer becomes a float and
    no key is lost.
    """
    try:
        return parse(data, max_bytes=EVENT_BYTES) if _OBJECT_OF_ARGUMENTS.search(data) else orjson.loads(data)
    except (JsonInvalidity, orjson.JSONDecodeError) as error:
        beginning = data[:120].decode("utf-8", "replace")
        raise WireInvalidity(provider, f"It sent what is no JSON ({error}): {beginning!r}") from error


def _table(value: object, provider: str) -> Mapping[str, Any]:
    if not is_table(value):
        raise WireInvalidity(provider, f"It sent {type(value).__name__} where an object was expected.")
    return value


async def split(chunks: AsyncIterable[bytes], provider: str) -> AsyncGenerator[Sequence[Mapping[str, Any]], None]:
    """The events of a streamed answer, as many at a time as came together. Errors: ``WireInvalidity``."""
    splitter = Splitter(provider)
    async for chunk in chunks:
        yield splitter.feed(chunk)
    yield splitter.finish()
