"""Splits a stream of bytes into lines, in linear time and bounded memory. Pure.

The reader of the SDK is quadratic and has no bound (measured).
"""

from collections.abc import Iterator

#: Bytes of the longest line that is read.
LINE_LIMIT = 16 * 1024 * 1024


class Lines:
    """Takes a stream piece by piece. A line that is longer than ``limit`` is dropped, and stands as None."""

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._begun = bytearray()
        self._dropping = False

    def feed(self, data: bytes) -> Iterator[bytes | None]:
        """The lines that this piece completes, without their ends. What remains is kept."""
        *complete, rest = data.split(b"\n")
        for piece in complete:
            self._add(piece)
            yield self._take()
        self._add(rest)

    def _add(self, piece: bytes) -> None:
        if self._dropping or len(self._begun) + len(piece) > self._limit:
            self._dropping = True
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
