"""Server-sent events, split from bytes: one JSON object an event.

Only ``data`` fields count: every protocol here repeats the kind inside its JSON, and some servers send no
``event`` lines (measured: an SDK drops those events). Comments keep connections alive and are passed over.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from typing import Any

import orjson

from ripieno.descriptors.tables import is_table
from ripieno.exceptions import JsonInvalidity, WireInvalidity
from ripieno.jsonvalues import parse

#: What the chat protocol sends as its last event, which is no JSON.
DONE: Mapping[str, Any] = {"type": "[DONE]"}
#: Bytes of one event; far above what any provider sends, far below what would hurt.
EVENT_BYTES = 16 * 1024 * 1024
#: Arguments that stand as an object, and are not empty.
_KEYS_OF_ARGUMENTS = (b'"arguments"', b'"input"', b'"args"')
_OBJECT_OF_ARGUMENTS = re.compile(rb'"(?:arguments|input|args)"\s*:\s*\{\s*"')
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

    def feed(self, chunk: bytes) -> list[Mapping[str, Any]]:
        """The events that are complete with this chunk. Errors: ``WireInvalidity``."""
        if self._after_return or b"\r" in chunk:
            chunk = self._unify(chunk)
        kept = self._kept
        # A blank line may also be cut in two: its first half ends what is kept.
        if b"\n\n" not in chunk and not (kept and chunk[:1] == b"\n" and kept[-1][-1:] == b"\n"):
            if chunk:
                self._keep(chunk)
            return []
        if kept:
            chunk = b"".join((*kept, chunk))
            kept.clear()
        self._size = 0
        *blocks, rest = chunk.split(b"\n\n")
        if rest:
            self._keep(rest)
        events: list[Mapping[str, Any]] = []
        for block in blocks:
            event = _plain(block)
            if event is None:
                event = self._read(block)
            if event is not None:
                events.append(event)
        return events

    def finish(self) -> list[Mapping[str, Any]]:
        """The event that stood without a blank line after it, if any. Errors: ``WireInvalidity`` when it was cut."""
        block = b"".join(self._kept)
        self._kept.clear()
        try:
            event = self._read(block)
        except WireInvalidity as error:
            raise WireInvalidity(self._provider, "The answer ended in the middle of an event.") from error
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


def _plain(block: bytes) -> Mapping[str, Any] | None:
    """What most blocks are, read without detours: one line of data with an object in it, and no arguments as one."""
    if block[:7] != b"data: {" or b"\n" in block or _has_object_of_arguments(block):
        return None
    try:
        event = orjson.loads(block[6:])
    except orjson.JSONDecodeError:
        return None
    return event if is_table(event) else None


def read_object(data: bytes, provider: str) -> Mapping[str, Any]:
    """A JSON object from a provider. Errors: ``WireInvalidity``, with the beginning of what it sent instead.

    The fast parser reads the envelope; what a model wrote stands inside it as text, and is parsed strictly later.
    Where arguments stand as an object, the strict parser reads all of it, so that no integer becomes a float and
    no key is lost.
    """
    value: object
    try:
        value = parse(data, max_bytes=EVENT_BYTES) if _has_object_of_arguments(data) else orjson.loads(data)
    except (JsonInvalidity, orjson.JSONDecodeError) as error:
        beginning = data[:120].decode("utf-8", "replace")
        raise WireInvalidity(provider, f"It sent what is no JSON ({error}): {beginning!r}") from error
    if not is_table(value):
        raise WireInvalidity(provider, f"It sent {type(value).__name__} where an object was expected.")
    return value


def _has_object_of_arguments(data: bytes) -> bool:
    """Whether arguments may stand as an object. The expression alone would be slower than all the rest."""
    for key in _KEYS_OF_ARGUMENTS:
        place = data.find(key)
        # Mostly a text begins right behind the key, and ends the question; unless another key follows later.
        while place >= 0:
            end = place + len(key)
            if data[end : end + 2] != b':"' and _OBJECT_OF_ARGUMENTS.match(data, place):
                return True
            place = data.find(key, end)
    return False


async def split(chunks: AsyncIterable[bytes], provider: str) -> AsyncGenerator[Sequence[Mapping[str, Any]], None]:
    """The events of a streamed answer, as many at a time as came together. Errors: ``WireInvalidity``."""
    splitter = Splitter(provider)
    async for chunk in chunks:
        yield splitter.feed(chunk)
    yield splitter.finish()
