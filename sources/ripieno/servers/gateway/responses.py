"""Answers to a client, streamed or whole, as long as it is connected."""

import asyncio
import contextlib
from collections.abc import Generator, Iterable
from typing import Any

from starlette.types import Receive, Send

from ripieno.canisters.events import Batches
from ripieno.models import Protocol
from ripieno.models.protocol import Asked, Refusal
from ripieno.servers.gateway.request_log import RequestLog
from ripieno.servers.http.errors import headers_of, refusal_of

_JSON = (b"content-type", b"application/json")
#: The last header keeps proxies from buffering the stream.
STREAM = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]
#: A comment, which readers of event streams ignore.
COMMENT = b": working\n\n"
_ENDING = Refusal(
    status=503, message="The server is ending: this answer is not complete.", code="server_ending", seconds=1.0
)

#: Seconds for a client to read the last event of its answer.
_GOODBYE = 2.0


class Presence:
    """Whether the client of a request is connected."""

    def __init__(self, receive: Receive) -> None:
        self._task: Any = asyncio.current_task()
        self._left = False
        self._watching = asyncio.ensure_future(_departure(receive))
        self._watching.add_done_callback(self._leave)

    def stop(self) -> None:
        """Stops watching. Must be called before the last byte is sent."""
        self._watching.remove_done_callback(self._leave)
        self._watching.cancel()

    def refusal_for(self, error: BaseException) -> Refusal:
        """The refusal for an error. Raises the error again if the client has left."""
        if isinstance(error, Exception):
            return refusal_of(error)
        if not isinstance(error, asyncio.CancelledError) or self._left:
            raise error
        # Otherwise only the end of the server cancels it.
        self._task.uncancel()
        return _ENDING

    def has_left(self) -> bool:
        """Whether the request was cancelled only because its client has left."""
        return self._left and not self._task.uncancel()

    def _leave(self, _: object) -> None:
        self._left = True
        self._task.cancel()


@contextlib.contextmanager
def while_present(receive: Receive) -> Generator[Presence, None, None]:
    """Cancels the block when the client leaves, and ends without an error then."""
    presence = Presence(receive)
    try:
        yield presence
    except asyncio.CancelledError:
        if not presence.has_left():
            raise
    finally:
        presence.stop()


async def _departure(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_body(send: Send, body: bytes, status: int = 200, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
    """Sends a whole answer."""
    given = [_JSON, *headers] if status == 200 else list(headers)
    given.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": given})
    await send({"type": "http.response.body", "body": body})


async def send_refusal(send: Send, protocol: Protocol, refusal: Refusal) -> None:
    """Sends an error in the form of a wire."""
    await send_body(send, protocol.refuse(refusal), refusal.status, headers_of(refusal))


class Streaming:
    """One streamed answer. It starts with the first event, so that earlier errors have an HTTP status.

    After ``quiet`` seconds without an event, the client gets a sign of life, so that it keeps the connection.
    ``eager``: the answer starts at once instead, and nothing else is sent that is not part of it.
    """

    def __init__(
        self, send: Send, protocol: Protocol, asked: Asked, *, quiet: float, log: RequestLog, eager: bool = False
    ) -> None:
        self._send = send
        self._protocol = protocol
        self._encoder = protocol.encoder(asked)
        self._quiet = quiet
        self._log = log
        self._eager = eager
        self._begun = False
        self._ended = False
        self._last_sent = 0.0
        self._sign: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle

    async def send(self, batches: Batches, presence: Presence, *, seconds: float) -> None:
        """Sends the events within ``seconds``. An error after the start is sent in the wire's form."""
        complete = False
        try:
            async with asyncio.timeout(seconds):
                await self._send_events(batches)
                complete = True
                presence.stop()
                self._log.answer()
                await self._end()
        except BaseException as error:
            # A complete answer that the client does not read has no other end.
            if complete:
                if isinstance(error, TimeoutError):
                    return
                raise
            refusal = presence.refusal_for(error)
            self._log.refuse(refusal)
            if not self._begun:
                presence.stop()
                await send_refusal(self._send, self._protocol, refusal)
                return
            with contextlib.suppress(TimeoutError):
                # A client that reads too slowly does not get it.
                async with asyncio.timeout(_GOODBYE):
                    await self._write(self._encoder.fail(refusal))
                    presence.stop()
                    await self._end()

    async def _send_events(self, batches: Batches) -> None:
        loop = asyncio.get_running_loop()
        feed = self._encoder.feed
        async with contextlib.aclosing(batches):
            if self._eager:
                await self._write(self._encoder.wait())
            with contextlib.nullcontext() if self._eager else self._keep_alive():
                async for batch in batches:
                    data = b"".join(map(feed, batch))
                    if data:
                        self._last_sent = loop.time()
                        await self._write(data)

    async def _end(self) -> None:
        await self._begin()
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._log.begin()
            await self._send({"type": "http.response.start", "status": 200, "headers": STREAM})

    async def _write(self, data: bytes) -> None:
        if not self._begun:
            await self._begin()
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    @contextlib.contextmanager
    def _keep_alive(self) -> Generator[None, None, None]:
        loop = asyncio.get_running_loop()
        self._last_sent = loop.time()
        self._timer = loop.call_later(self._quiet, self._check_silence)
        try:
            yield
        finally:
            self._timer.cancel()
            self._ended = True

    def _check_silence(self) -> None:
        """Sends a sign of life if no event was sent for ``quiet`` seconds, and schedules the next check."""
        loop = asyncio.get_running_loop()
        silent = loop.time() - self._last_sent
        if silent >= self._quiet and (self._sign is None or self._sign.done()):
            self._sign = loop.create_task(self._give_sign())
            self._last_sent, silent = loop.time(), 0.0
        self._timer = loop.call_later(max(self._quiet - silent, 0.001), self._check_silence)

    async def _give_sign(self) -> None:
        # Encoded only now: the answer may have continued, or ended, meanwhile.
        if not self._ended:
            await self._write(self._encoder.wait() or COMMENT)
