"""An HTTP client that costs next to nothing: it reads where an answer ends and whether it is good, and no more.

Bytes are made beforehand, answers are read by their framing. Times are seconds.
"""

import asyncio
import dataclasses
import time
import urllib.parse
from typing import Any

from benchmarks.gateway_requests import FIRST_WORD, chat_body, responses_body

#: By the wire: its path, what makes a body, and what the last event of each stream has.
WIRES = {
    "responses": ("/v1/responses", responses_body, b"response.completed"),
    "chat": ("/v1/chat/completions", chat_body, b"data: [DONE]"),
}
#: Seconds after which an answer is given up.
PATIENCE = 180.0
#: What the text of each answer begins with.
MARK = FIRST_WORD.encode()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole answer: its status, its body without framing, and seconds until the first word and the end."""

    status: int
    body: bytes
    word: float
    total: float


class Connection(asyncio.Protocol):
    """A kept connection: one request at a time."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._place = self._status = self._length = 0
        self._parts: list[bytes] = []
        self._began = self._word = 0.0
        self._answered: asyncio.Future[Answer] | None = None
        self.lost = False
        #: What to wait for, and who waits.
        self.awaited: tuple[bytes, asyncio.Event] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._fail(exc or ConnectionResetError("The connection was closed before the answer was whole."))

    def ask(self, request: bytes) -> asyncio.Future[Answer]:
        """Sends a request. Errors, through the future: ``OSError``, ``ValueError`` for bad framing."""
        self._answered = asyncio.get_running_loop().create_future()
        self._place = self._status = self._word = 0
        self._began = time.perf_counter()
        self.transport.write(request)
        return self._answered

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._word and MARK in data:
            self._word = time.perf_counter()
        if self.awaited is not None and self.awaited[0] in self._buffer:
            self.awaited[1].set()
        try:
            if self._read():
                self._finish()
        except (ValueError, IndexError) as error:
            self._fail(ValueError(f"The answer is not framed as it should be: {error}"))

    def _read(self) -> bool:
        """Whether the answer is whole."""
        buffer = self._buffer
        if not self._status:
            end = buffer.find(b"\r\n\r\n")
            if end < 0:
                return False
            head = bytes(buffer[:end]).lower()
            self._place, self._status = end + 4, int(head.split(b" ", 2)[1])
            _, stated, rest = head.partition(b"content-length:")
            self._length = int(rest.split(b"\r\n", 1)[0]) if stated else -1
        if self._length >= 0:
            if len(buffer) - self._place < self._length:
                return False
            self._parts.append(bytes(buffer[self._place :]))
            return True
        while (end := buffer.find(b"\r\n", self._place)) >= 0:
            size = int(buffer[self._place : end], 16)
            if len(buffer) < end + size + 4:
                return False
            if not size:
                return True
            self._parts.append(bytes(buffer[end + 2 : end + 2 + size]))
            self._place = end + size + 4
        return False

    def _finish(self) -> None:
        now = time.perf_counter()
        word = (self._word or now) - self._began
        answer = Answer(status=self._status, body=b"".join(self._parts), word=word, total=now - self._began)
        self._buffer.clear()
        self._parts.clear()
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(answer)

    def _fail(self, error: Exception) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(error)


class Target:
    """Where requests go, and what was found there."""

    def __init__(self, url: str, wire: str, *, stream: bool) -> None:
        address = urllib.parse.urlsplit(url)
        self._host, self._port = address.hostname or "127.0.0.1", address.port or 80
        self._path, self._make, self.terminal = WIRES[wire]
        self.stream = stream
        self.errors: list[str] = []
        self.lost = 0
        self.sample = b""

    def request(self, *, stream: bool, note: str = "") -> bytes:
        """A request with its head."""
        body = self._make(stream=stream, note=note)
        return (
            f"POST {self._path} HTTP/1.1\r\nhost: {self._host}:{self._port}\r\nauthorization: Bearer k\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        ).encode() + body

    async def connect(self) -> Connection:
        """Errors: ``OSError``."""
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(Connection, self._host, self._port))[1]

    async def ask(self, connection: Connection, request: bytes) -> Answer | None:
        """A good answer; None for another, which is noted."""
        try:
            answer = await asyncio.wait_for(connection.ask(request), PATIENCE)
        except (OSError, ValueError, TimeoutError) as error:
            self.lost += self.stream
            self.errors.append(f"{type(error).__name__}: {error}")
            connection.transport.abort()
            connection.lost = True
            return None
        if answer.status != 200:
            self.errors.append(f"{answer.status}: {answer.body[:300].decode(errors='replace')}")
            return None
        if self.stream and self.terminal not in answer.body:
            self.lost += 1
            return None
        self.sample = self.sample or answer.body
        return answer

    def figures(self) -> dict[str, Any]:
        """The figures that every mode reports."""
        sample = self.sample.decode(errors="replace")
        return {"errors": len(self.errors), "error": next(iter(self.errors), ""), "lost": self.lost, "sample": sample}
