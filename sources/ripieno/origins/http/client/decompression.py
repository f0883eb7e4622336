"""Streaming decompression of bodies within a limit: one MiB of gzip may be a GiB (measured).

Only ``gzip`` is requested. Servers disagree about ``deflate``, and other encodings are refused.
"""

import zlib
from typing import Any

from ripieno.exceptions import NetworkFault, ResourceFault

#: Bytes decompressed in one step.
_STEP = 64 * 1024
#: Members of a gzip file; more would be an attack on CPU time.
_MEMBERS = 1000
ACCEPTED = "gzip, identity"


class Body:
    """Collects one body. ``limit`` bounds both the bytes on the wire and the decompressed ones."""

    def __init__(self, encoding: str, limit: int) -> None:
        """Errors: ``NetworkFault`` for an encoding that was not requested."""
        self._limit = limit
        self._wire = 0
        self._members = 0
        self._data = bytearray()
        self._inflater: Any = None
        self._packed = encoding.strip().lower() not in ("", "identity")
        if self._packed and encoding.strip().lower() not in ("gzip", "x-gzip"):
            raise NetworkFault(
                f"The server compressed its answer as {encoding[:40]!r}, which was not requested; it was not read.",
                code="encoding",
            )

    def feed(self, chunk: bytes) -> None:
        """Takes the next piece. Errors: ``ResourceFault`` when it is too large; ``NetworkFault`` when it is damaged."""
        self._wire += len(chunk)
        if self._wire > self._limit:
            raise self._too_large()
        if not self._packed:
            self._data += chunk
            return
        try:
            self._inflate(chunk)
        except zlib.error:
            raise NetworkFault("The server's answer is damaged: it is not valid gzip.", code="encoding") from None

    def _inflate(self, rest: bytes) -> None:
        while rest:
            if self._inflater is None or self._inflater.eof:
                # A member may be followed by zero padding, or by another member.
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
        # The decompressor may hold more output after the input has ended.
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
            raise NetworkFault("The server's answer is incomplete: the end of its gzip is missing.", code="encoding")
        return bytes(self._data)

    def _too_large(self) -> ResourceFault:
        return ResourceFault(
            f"The answer has more than {self._limit} bytes and was not read to its end.",
            code="too_large",
            details={"limit": self._limit},
            suggestion="Request less of it: a page, a range, or fewer fields.",
        )
