"""The head and the tail of a stream of bytes of any length. Pure: no I/O, no await."""

import codecs

from ripieno.values import Value

#: The bytes that continue a character in UTF-8.
_CONTINUATION = bytes(range(0x80, 0xC0))


class Captured(Value, kw_only=True):
    """The head and the tail of a stream, all of it unless ``truncated``. Sizes are in bytes."""

    head: bytes = b""
    tail: bytes = b""
    total_bytes: int = 0

    @property
    def truncated(self) -> bool:
        """Whether bytes between head and tail were left out."""
        return self.total_bytes > len(self.head) + len(self.tail)

    @property
    def text(self) -> str:
        """UTF-8 text, with U+FFFD for invalid bytes and a line with the number of bytes left out.

        No character is split: its rest at the cut is left out, too, and counted.
        """
        if not self.truncated:
            return (self.head + self.tail).decode(errors="replace")
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        head = decoder.decode(self.head)
        half_character: bytes = decoder.getstate()[0]
        # At most three bytes of UTF-8 continue a character.
        tail = self.tail[:3].lstrip(_CONTINUATION) + self.tail[3:]
        left_out = self.total_bytes - len(self.head) + len(half_character) - len(tail)
        line_end = "" if not head or head.endswith("\n") else "\n"
        return f"{head}{line_end}[... {left_out} bytes left out ...]\n{tail.decode(errors='replace')}"

    def within(self, limit: int) -> "Captured":
        """The same stream with at most ``limit`` bytes: half from its head, half from its tail."""
        kept = len(self.head) + len(self.tail)
        if kept <= limit:
            return self
        head, tail = (self.head, self.tail) if self.truncated else (self.head + self.tail, self.head + self.tail)
        behind = limit // 2
        return Captured(
            head=head[: limit - behind],
            tail=tail[len(tail) - behind :] if behind else b"",
            total_bytes=self.total_bytes,
        )


class Capture:
    """Keeps at most ``limit`` bytes of a stream: half from its head, half from its tail.

    Memory stays below one and a half times the limit plus the piece being fed.
    """

    __slots__ = ("_head", "_head_limit", "_tail", "_tail_limit", "total_bytes")

    def __init__(self, limit: int) -> None:
        if limit < 0:
            raise ValueError(f"A capture keeps 0 bytes or more, not {limit}.")
        self._tail_limit = limit // 2
        self._head_limit = limit - self._tail_limit
        self._head = bytearray()
        self._tail = bytearray()
        self.total_bytes = 0

    def feed(self, data: bytes) -> None:
        """Takes the next piece."""
        self.total_bytes += len(data)
        left = self._head_limit - len(self._head)
        if left > 0:
            self._head += data[:left]
            data = data[left:]
        if len(data) >= self._tail_limit:
            self._tail[:] = data[len(data) - self._tail_limit :]
            return
        self._tail += data
        # Trimmed only at twice the limit, so that small pieces do not each move the whole tail.
        if len(self._tail) > self._tail_limit * 2:
            del self._tail[: len(self._tail) - self._tail_limit]

    def captured(self) -> Captured:
        """The bytes kept so far."""
        start = max(0, len(self._tail) - self._tail_limit)
        return Captured(head=bytes(self._head), tail=bytes(self._tail[start:]), total_bytes=self.total_bytes)
