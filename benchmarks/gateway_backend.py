"""A model server behind a gateway: chat completions from prepared bytes. It counts the clients that still wait.

``GET /state`` says how many requests are open, how many were at most, and when the connections of held ones were lost
(``time.monotonic``, which all processes of a machine share); ``GET /reset`` says it once more, and forgets.
"""

import asyncio
import json
import re
import socket
import sys
import time
from collections.abc import Sequence

from benchmarks.gateway_requests import streamed_answer, whole_answer

_NOTE = re.compile(rb"\[\[(pace|hold) (\d+)(?: id (\d+))?\]\]")


class State:
    """What all connections share."""

    def __init__(self) -> None:
        self.whole = whole_answer()
        self.pieces: Sequence[bytes] = streamed_answer()
        self.streamed = b"".join(self.pieces)
        self.open = self.peak = self.asked = 0
        self.left: dict[str, float] = {}

    def written(self, *, reset: bool) -> bytes:
        """An answer for who asks how things are."""
        state = {"open": self.open, "peak": self.peak, "asked": self.asked, "left": self.left}
        body = json.dumps(state).encode()
        if reset:
            self.peak, self.asked, self.left = self.open, 0, {}
        return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body


class Answering(asyncio.Protocol):
    """One connection. Requests come one after the other, with a length or without a body."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._buffer = b""
        self._open = False
        self._held: str | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        if self._timer is not None:
            self._timer.cancel()
        if self._held is not None:
            self._state.left[self._held] = time.monotonic()
        self._done()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n") + 4
        if end < 4:
            return
        head = self._buffer[:end]
        if head.startswith(b"GET "):
            self._buffer = self._buffer[end:]
            self._transport.write(self._state.written(reset=head.startswith(b"GET /reset")))
            return
        length = int(head.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        if len(self._buffer) < end + length:
            return
        body, self._buffer = self._buffer[end : end + length], self._buffer[end + length :]
        if not head.startswith(b"POST /v1/chat/completions "):
            # A gateway that asks in another wire than it should would be measured for something else.
            self._transport.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            return
        self._answer(body)

    def _answer(self, body: bytes) -> None:
        state = self._state
        state.open += 1
        state.asked += 1
        state.peak = max(state.peak, state.open)
        self._open = True
        stream = b'"stream":true' in body or b'"stream": true' in body
        note = _NOTE.search(body)
        if note is None:
            self._transport.write(state.streamed if stream else state.whole)
            self._done()
        elif note[1] == b"hold":
            self._held = str(int(note[3] or 0))
            if stream:
                self._transport.write(b"".join(state.pieces[: (len(state.pieces) - 1) * int(note[2]) // 100]))
        elif stream:
            self._next(0, int(note[2]) / 1000)
        else:
            self._timer = asyncio.get_running_loop().call_later(int(note[2]) / 1000, self._finish, state.whole)

    def _next(self, place: int, pace: float) -> None:
        """A piece of a stream, and the next one after the pace."""
        if place + 1 == len(self._state.pieces):
            self._finish(self._state.pieces[place])
        else:
            self._transport.write(self._state.pieces[place])
            self._timer = asyncio.get_running_loop().call_later(pace, self._next, place + 1, pace)

    def _finish(self, last: bytes) -> None:
        self._transport.write(last)
        self._done()

    def _done(self) -> None:
        if self._open:
            self._open = False
            self._held = None
            self._state.open -= 1


async def main() -> None:
    """Serves until standard input is closed; its port is the first line of standard output."""
    state = State()
    loop = asyncio.get_running_loop()
    # Named as TCP, because asyncio switches Nagle's algorithm off only where it is.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    server = await loop.create_server(lambda: Answering(state), sock=listener, backlog=4096)
    print(listener.getsockname()[1], flush=True)
    async with server:
        await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
