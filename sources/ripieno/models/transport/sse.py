"""Server-sent events, split from bytes: one JSON object per event.

Only ``data`` fields count: every protocol here repeats the kind inside its JSON, and some servers send no
``event`` lines (measured: an SDK drops those events). Comments keep connections alive and are ignored.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from typing import Any

import orjson

from ripieno.exceptions import JsonInvalidity, WireInvalidity
from ripieno.jsonvalues import is_list, is_table, parse

#: The last event of the chat protocol, which is not JSON.
DONE: Mapping[str, Any] = {"type": "[DONE]"}
#: Maximum bytes of one event; far above what any provider sends, far below what would harm.
EVENT_BYTES = 16 * 1024 * 1024
#: Arguments that are a nonempty object instead of a text.
_OBJECT_OF_ARGUMENTS = re.compile(rb'"(?:arguments|input|args)"\s*:\s*\{\s*"')
#: Lines that only repeat what the JSON contains. Inside JSON no line begins so, since line ends are escaped.
_EVENT_LINES = re.compile(rb"\n\nevent: [^\n]*\n")
#: The separator between two events of one line each.
_BETWEEN = b"}\n\ndata: {"
#: The last event of the chat protocol, which often comes in one chunk with those before it.
_LAST = b"\n\ndata: [DONE]"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Splitter:
    """Splits chunks of bytes, cut anywhere, into events. Lines may end in LF, CR LF or CR."""

    __slots__ = ("_after_return", "_kept", "_provider", "_size")

    def __init__(self, provider: str) -> None:
        self._provider = provider
        #: Data since the last blank line. Joined once, so that a large event takes linear time.
        self._kept: list[bytes] = []
        self._size = 0
        self._after_return = False

    def feed(self, chunk: bytes) -> Sequence[Mapping[str, Any]]:
        """The events that this chunk completes. Errors: ``WireInvalidity``."""
        # ``find`` takes half the time of ``in`` (measured).
        if self._after_return or chunk.find(b"\r") >= 0:
            chunk = self._unify(chunk)
        kept = self._kept
        # A blank line may be split between two chunks.
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
        """The last event, if no blank line follows it. Errors: ``WireInvalidity`` if it is incomplete."""
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
        """The chunk with LF only. A CR LF that was split counts as one line end."""
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
    """Parses most chunks at once: blocks of one line with one object each, whose arguments are not objects.

    An ``event`` line before the data is allowed, and ``DONE`` at the end. None for other chunks, which are read block
    by block.
    """
    ends = blocks[-len(_LAST) :] == _LAST
    if ends:
        blocks = blocks[: -len(_LAST)]
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
        events: list[Mapping[str, Any]] = orjson.loads(b"[%s]" % data)
    except orjson.JSONDecodeError:
        return None
    # An object that was split over two blocks is not repaired here.
    if len(events) != blocks.count(_BETWEEN) + 1:
        return None
    if ends:
        events.append(DONE)
    return events


def read_object(data: bytes, provider: str) -> Mapping[str, Any]:
    """A JSON object from a provider. Errors: ``WireInvalidity``, with the beginning of the data."""
    return _table(_value(data, provider), provider)


def read_objects(data: bytes, provider: str) -> Sequence[Mapping[str, Any]]:
    """The objects of a JSON array, which one wire sends instead of events, or one object. Errors: as above."""
    value = _value(data, provider)
    return [_table(one, provider) for one in value] if is_list(value) else [_table(value, provider)]


def _value(data: bytes, provider: str) -> object:
    """The value of the JSON.

    The fast parser reads the envelope; texts of a model inside it are parsed strictly later. If arguments are an
    object, the strict parser reads everything, so that no integer becomes a float and no key is lost.
    """
    try:
        return parse(data, max_bytes=EVENT_BYTES) if _OBJECT_OF_ARGUMENTS.search(data) else orjson.loads(data)
    except (JsonInvalidity, orjson.JSONDecodeError) as error:
        beginning = data[:120].decode("utf-8", "replace")
        raise WireInvalidity(provider, f"It sent invalid JSON ({error}): {beginning!r}") from error


def _table(value: object, provider: str) -> Mapping[str, Any]:
    if not is_table(value):
        raise WireInvalidity(provider, f"It sent {type(value).__name__} where an object was expected.")
    return value


async def split(chunks: AsyncIterable[bytes], provider: str) -> AsyncGenerator[Sequence[Mapping[str, Any]], None]:
    """The events of a streamed answer, in batches as they arrived. Errors: ``WireInvalidity``."""
    splitter = Splitter(provider)
    async for chunk in chunks:
        yield splitter.feed(chunk)
    yield splitter.finish()


async def one_batch(*natives: Mapping[str, Any]) -> AsyncGenerator[Sequence[Mapping[str, Any]], None]:
    yield natives
