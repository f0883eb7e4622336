"""Bodies, unpacked while they come and never beyond a limit: one MiB of gzip may be a GiB (measured).

Only ``gzip`` is asked for. ``deflate`` is understood in two ways by servers, and what nobody asked for is refused.
"""

import zlib
from typing import Any

from ripieno.exceptions import NetworkFault, ResourceFault

#: Bytes that are unpacked in one step.
_STEP = 64 * 1024
#: A gzip file may have several members; more of them than this are an attack on our time.
_MEMBERS = 1000
ACCEPTED = "gzip, identity"


class Body:
    """Collects one body. ``limit`` bounds the bytes on the wire as well as the unpacked ones."""

    def __init__(self, encoding: str, limit: int) -> None:
        """Errors: ``NetworkFault`` for an encoding that nobody asked for."""
        self._limit = limit
        self._wire = 0
        self._members = 0
        self._data = bytearray()
        self._inflater: Any = None
        self._packed = encoding.strip().lower() not in ("", "identity")
        if self._packed and encoding.strip().lower() not in ("gzip", "x-gzip"):
            raise NetworkFault(
                f"The server packed its answer as {encoding[:40]!r}, which was not asked for; it was not read.",
                code="encoding",
            )

    def feed(self, chunk: bytes) -> None:
        """Takes the next piece. Errors: ``ResourceFault`` when it is too much; ``NetworkFault`` when it is damaged."""
        self._wire += len(chunk)
        if self._wire > self._limit:
            raise self._too_large()
        if not self._packed:
            self._data += chunk
            return
        try:
            self._inflate(chunk)
        except zlib.error:
            raise NetworkFault("The server's answer is damaged: it is no gzip.", code="encoding") from None

    def _inflate(self, rest: bytes) -> None:
        while rest:
            if self._inflater is None or self._inflater.eof:
                # What may follow a member are zeros that fill it up, or another member.
                rest = rest.lstrip(b"\0") if self._inflater is not None else rest
                if not rest:
                    return
                self._members += 1
                if self._members > _MEMBERS:
                    raise self._too_large()
                self._inflater = zlib.decompressobj(wbits=31)
            self._data += self._inflater.decompress(rest, min(_STEP, self._limit + 1 - len(self._data)))
            if len(self._data) > self._limit:
                raise self._too_large()
            rest = self._inflater.unused_data if self._inflater.eof else self._inflater.unconsumed_tail
        # More may wait inside than one step gave, with nothing left to feed.
        while self._inflater is not None and not self._inflater.eof:
            more = self._inflater.decompress(b"", min(_STEP, self._limit + 1 - len(self._data)))
            if not more:
                return
            self._data += more
            if len(self._data) > self._limit:
                raise self._too_large()

    def finish(self) -> bytes:
        """The whole body. Errors: ``NetworkFault`` when its end is missing."""
        if self._packed and self._wire and (self._inflater is None or not self._inflater.eof):
            raise NetworkFault("The server's answer broke off: the end of its gzip is missing.", code="encoding")
        return bytes(self._data)

    def _too_large(self) -> ResourceFault:
        return ResourceFault(
            f"The answer has more than {self._limit} bytes, so it was not read to its end.",
            code="too_large",
            details={"limit": self._limit},
            suggestion="Ask for less of it: a page, a range, or fewer fields.",
        )
