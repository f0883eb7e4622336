"""Framing: splits a byte stream into lines, in linear time and bounded memory, and counts JSON values. Pure.

The SDK's reader is quadratic and unbounded (measured). A line of 15 MiB of empty lists takes it 17 s and 1 GiB to read
and validate (measured), so values are counted first.
"""

import json
import re
from collections.abc import Iterator, Mapping

from ripieno.jsonvalues import EMPTY

#: Bytes of the longest line that is read.
LINE_LIMIT = 16 * 1024 * 1024
#: The error for a call whose answer cannot be used, and its code.
UNUSABLE = "the answer is not a message of the protocol, or is too large"
PARSE_ERROR = -32700
#: Bytes of a line's beginning and end that identify its request.
_ENDS = 100
_BEGINNING = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,\s*"(?:result|error)"')
_END = re.compile(rb'.*[\]}"\d]\s*,\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*\}\s*\Z', re.DOTALL)
_RESULT = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(?:result|error)"')


class Lines:
    """Splits a stream. A line longer than ``limit`` is dropped and yields None."""

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._begun = bytearray()
        self._dropping = False
        #: The beginning and the end of the line that was dropped last.
        self.dropped = b""

    def feed(self, data: bytes) -> Iterator[bytes | None]:
        """The lines that this piece completes, without their ends."""
        *complete, rest = data.split(b"\n")
        for piece in complete:
            self._add(piece)
            yield self._take()
        self._add(rest)

    def _add(self, piece: bytes) -> None:
        if self._dropping or len(self._begun) + len(piece) > self._limit:
            if not self._dropping:
                self._dropping = True
                self.dropped = b""
            known = self.dropped + self._begun + piece
            self.dropped = known if len(known) <= 2 * _ENDS else known[:_ENDS] + known[-_ENDS:]
            self._begun.clear()
        else:
            self._begun += piece

    def _take(self) -> bytes | None:
        if self._dropping:
            self._dropping = False
            return None
        line = bytes(self._begun)
        self._begun.clear()
        return line


def answered(line: bytes) -> int | None:
    """The request that a line seems to answer, if the rest of it is unusable."""
    found = _BEGINNING.match(line[:_ENDS])
    if found is None and _RESULT.match(line[:_ENDS]):
        found = _END.match(line[-_ENDS:])
    return None if found is None else int(found[1])


def unusable(identifier: int) -> bytes:
    """An error message in place of an unusable answer, so that no call waits for it."""
    return failure(identifier, PARSE_ERROR, UNUSABLE)


def failure(identifier: int | None, code: int, message: str, more: Mapping[str, object] = EMPTY) -> bytes:
    """An error of the protocol, as the SDK reads it; ``more`` are further members of the error."""
    error = {"code": code, "message": message, **more}
    return json.dumps({"jsonrpc": "2.0", "id": identifier, "error": error}).encode()


#: Values of the largest message that is read; a usable result has far fewer.
VALUES = 100_000
_PIECE = 64 * 1024
#: A string or a part of one; JSON strings do not span lines.
_STRING = re.compile(rb'"[^"\r\n]*"?')
#: The ends of an event in an event stream.
_BLANK = (b"\n\n", b"\n\r\n", b"\r\r")


class Values:
    """Counts the values of a text in pieces; with ``events``, since the last end of an event.

    The count is exact to within one as far as the text is JSON; no reader goes beyond that.
    """

    def __init__(self, *, events: bool = False) -> None:
        self._events = events
        self._count = 0
        self._within = False
        self._escaped = False
        self._end = b""

    def feed(self, data: bytes) -> int:
        """Takes the next piece. Returns the count so far, or the largest within this piece."""
        if not data:
            return self._count
        if self._escaped:
            data = data[1:]
        data = data.replace(b"\\\\", b"")
        self._escaped = data.endswith(b"\\")
        data = data.replace(b'\\"', b"")
        if self._within:
            data = b'"' + data
        line = data[max(data.rfind(b"\n"), data.rfind(b"\r")) + 1 :]
        self._within = line.count(b'"') % 2 == 1
        outside = self._end + _STRING.sub(b"", data)
        known = len(self._end)
        self._end = outside[-2:]
        last = max(outside.rfind(blank) + len(blank) if blank in outside else 0 for blank in _BLANK)
        if not self._events or not last:
            self._count += _count(outside[known:])
            return self._count
        largest = self._count + _count(outside[known:last])
        self._count = _count(outside[max(known, last) :])
        return max(largest, self._count)


def too_many(line: bytes) -> bool:
    """Whether a message has more than ``VALUES``."""
    if len(line) <= VALUES or _count(line) <= VALUES:
        return False
    values = Values()
    # Piece by piece: there may be millions of strings, and the rest after the limit is skipped.
    return any(values.feed(line[start : start + _PIECE]) > VALUES for start in range(0, len(line), _PIECE))


def _count(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")
