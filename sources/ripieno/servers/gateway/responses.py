"""Answers on their way to a client: streamed or whole, for as long as it is there to take them."""

import asyncio
import contextlib
from collections.abc import Generator, Iterable
from typing import Any

from starlette.types import Receive, Send

from ripieno.canisters.events import Batches
from ripieno.models import Protocol
from ripieno.models.protocol import Asked, Refusal
from ripieno.servers.gateway.errors import headers_of, refusal_of
from ripieno.servers.gateway.request_log import RequestLog

_JSON = (b"content-type", b"application/json")
#: Proxies that would gather a stream into large pieces are told not to.
_STREAM = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]
#: A line that readers of such streams pass over.
_COMMENT = b": still at it\n\n"
_ENDING = Refusal(
    status=503, message="The server ends: this answer is not complete.", code="server_ending", seconds=1.0
)

#: Seconds that a client has to take the words that end its answer.
_GOODBYE = 2.0


class Presence:
    """Whether the client of a request is there."""

    def __init__(self, receive: Receive) -> None:
        self._task: Any = asyncio.current_task()
        self._left = False
        self._watching = asyncio.ensure_future(_departure(receive))
        self._watching.add_done_callback(self._leave)

    def rest(self) -> None:
        """Nobody watches from now on. It is to be called before the last byte is sent."""
        self._watching.remove_done_callback(self._leave)
        self._watching.cancel()

    def judge(self, error: BaseException) -> Refusal:
        """What a client that is there is told of an error. Raises it again where none is."""
        if isinstance(error, Exception):
            return refusal_of(error)
        if not isinstance(error, asyncio.CancelledError) or self._left:
            raise error
        # Nobody else cancels it but whoever ends the server.
        self._task.uncancel()
        return _ENDING

    def has_left(self) -> bool:
        """Whether the request was cancelled because its client has left, and by nobody else."""
        return self._left and not self._task.uncancel()

    def _leave(self, _: object) -> None:
        self._left = True
        self._task.cancel()


@contextlib.contextmanager
def while_present(receive: Receive) -> Generator[Presence, None, None]:
    """Cancels what stands inside as soon as the client has left, and ends quietly then."""
    presence = Presence(receive)
    try:
        yield presence
    except asyncio.CancelledError:
        if not presence.has_left():
            raise
    finally:
        presence.rest()


async def _departure(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_body(send: Send, body: bytes, status: int = 200, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
    """A whole answer."""
    given = [_JSON, *headers] if status == 200 else list(headers)
    given.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": given})
    await send({"type": "http.response.body", "body": body})


async def send_refusal(send: Send, protocol: Protocol, refusal: Refusal) -> None:
    """An error in the shape of a wire."""
    await send_body(send, protocol.refuse(refusal), refusal.status, headers_of(refusal))


class Streaming:
    """One answer as a stream. It begins with the first event, so that what fails before it is an error of HTTP.

    While nothing comes for ``quiet`` seconds, its client is told that it goes on: nobody takes the connection for dead.
    """

    def __init__(
        self, send: Send, protocol: Protocol, asked: Asked, *, names: str, quiet: float, sight: RequestLog
    ) -> None:
        # Only one wire has its events under other names as well.
        encoder = protocol.variants.get(names, protocol.encoder)
        self._send = send
        self._protocol = protocol
        self._encoder = encoder(asked)
        self._quiet = quiet
        self._sight = sight
        self._begun = False
        self._over = False
        self._spoken = 0.0
        self._keeping: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle

    async def play(self, batches: Batches, presence: Presence, *, seconds: float) -> None:
        """Sends what these events become within so many seconds; an error in the middle as its clients can read it."""
        complete = False
        try:
            async with asyncio.timeout(seconds):
                await self._tell(batches)
                complete = True
                presence.rest()
                self._sight.answer()
                await self._end()
        except BaseException as error:
            # What is complete, and not taken in all this time, has no other end.
            if complete:
                if isinstance(error, TimeoutError):
                    return
                raise
            refusal = presence.judge(error)
            self._sight.refuse(refusal)
            if not self._begun:
                presence.rest()
                await send_refusal(self._send, self._protocol, refusal)
                return
            with contextlib.suppress(TimeoutError):
                # Whoever takes its answer drop by drop does not keep its place for this.
                async with asyncio.timeout(_GOODBYE):
                    await self._write(self._encoder.fail(refusal))
                    presence.rest()
                    await self._end()

    async def _tell(self, batches: Batches) -> None:
        loop = asyncio.get_running_loop()
        feed = self._encoder.feed
        async with contextlib.aclosing(batches):
            with self._kept_alive():
                async for batch in batches:
                    data = b"".join(map(feed, batch))
                    if data:
                        self._spoken = loop.time()
                        await self._write(data)

    async def _end(self) -> None:
        await self._begin()
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._sight.begin()
            await self._send({"type": "http.response.start", "status": 200, "headers": _STREAM})

    async def _write(self, data: bytes) -> None:
        if not self._begun:
            await self._begin()
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    @contextlib.contextmanager
    def _kept_alive(self) -> Generator[None, None, None]:
        loop = asyncio.get_running_loop()
        self._spoken = loop.time()
        self._timer = loop.call_later(self._quiet, self._keep)
        try:
            yield
        finally:
            self._timer.cancel()
            self._over = True

    def _keep(self) -> None:
        """Every event since the last time puts the next sign of life off."""
        loop = asyncio.get_running_loop()
        silent = loop.time() - self._spoken
        if silent >= self._quiet and (self._keeping is None or self._keeping.done()):
            self._keeping = loop.create_task(self._give_sign())
            self._spoken, silent = loop.time(), 0.0
        self._timer = loop.call_later(max(self._quiet - silent, 0.001), self._keep)

    async def _give_sign(self) -> None:
        # It is made only now: the answer may have gone on, or ended, since this was wanted.
        if not self._over:
            await self._write(self._encoder.wait() or _COMMENT)
