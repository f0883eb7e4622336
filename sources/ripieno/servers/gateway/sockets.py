"""Requests on a WebSocket: each message is a request as over HTTP, and each event of its answer a message.

A socket has one answer at a time, and remembers the latest one, which the next request may continue. That memory ends
with the socket. Responses that are stored are continued as over HTTP, from any socket.
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ripieno.descriptors import GatewayDescriptor
from ripieno.exceptions import InputError
from ripieno.jsonvalues import encode
from ripieno.models import Protocol
from ripieno.models.protocol import Refusal
from ripieno.servers.gateway.events import KEPT, LAST, content, named, pieces
from ripieno.servers.gateway.middleware import Slots
from ripieno.servers.gateway.responses import send_refusal
from ripieno.servers.gateway.socket_memory import SocketMemory
from ripieno.servers.gateway.stored.requests import items_in
from ripieno.servers.http.bodies import read_native
from ripieno.servers.http.limits import MemoryBudget, Refused, RequestLimits, Reservation

#: The key in a scope's state of the identifier that a request continues.
PREVIOUS = "previous_response"
#: The key there of whether a model answers. A coding agent opens its socket with a request that asks none (measured).
GENERATES = "generates"
#: The key there of a list, which gets the stored items that a request continues.
HISTORY = "history"
_CREATE = "response.create"
#: Keys of a request over HTTP only.
_ABSENT = ("type", "stream", "stream_options")
_LIMIT = Refusal(
    status=400,
    code="websocket_connection_limit_reached",
    message="This WebSocket has reached its limit of time. Open a new one, and send the whole conversation.",
)
_MANY = Refusal(
    status=429,
    code="too_many_sockets",
    message="This caller has too many WebSockets open. Close one, or use HTTP.",
    seconds=1,
)
_BUSY = Refusal(
    status=409,
    code="response_in_progress",
    message="A response is in progress on this WebSocket. Wait for its end, or open another WebSocket.",
)
_TEXT = Refusal(status=400, code="invalid_message", message="Send text messages with JSON, not binary ones.")
#: Codes of closed sockets: the usual end, the end of the server, and a violated limit.
_NORMAL, _GOING, _POLICY = 1000, 1012, 1008


class SocketEndpoint:
    """An ASGI application for the sockets of one route. ``endpoint`` answers their requests as those over HTTP."""

    def __init__(
        self, endpoint: ASGIApp, protocol: Protocol, settings: GatewayDescriptor, slots: Slots, budget: MemoryBudget
    ) -> None:
        self._endpoint = endpoint
        self._protocol = protocol
        self._settings = settings
        self._slots = slots
        self._budget = budget
        self._open: dict[str, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Without keys, callers differ by their addresses only.
        caller = scope.get("state", {}).get("caller") or str((scope.get("client") or ("",))[0])
        count = self._open.get(caller, 0)
        if count >= self._settings.sockets:
            await send_refusal(send, self._protocol, _MANY)
            return
        self._open[caller] = count + 1
        try:
            await receive()
            await send({"type": "websocket.accept"})
            with contextlib.closing(SocketMemory(self._budget, self._settings.body_bytes)) as memory:
                await _Session(
                    endpoint=self._endpoint,
                    settings=self._settings,
                    slots=self._slots,
                    budget=self._budget,
                    memory=memory,
                    scope=scope,
                    receive=receive,
                    send=send,
                ).serve()
        finally:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class _Session:
    """One socket, until it is closed."""

    endpoint: ASGIApp
    settings: GatewayDescriptor
    slots: Slots
    budget: MemoryBudget
    memory: SocketMemory
    scope: Scope
    receive: Receive
    send: Send
    #: The current answer; whether its last message was sent, or is about to be; and whether the server ends.
    answer: asyncio.Task[None] | None = None
    ended: bool = False
    ending: bool = False
    left: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)

    async def serve(self) -> None:
        """Answers the messages, until the client or the server ends, or a limit is reached."""
        reading = asyncio.ensure_future(self.receive())
        deadline = asyncio.get_running_loop().time() + self.settings.socket_seconds
        try:
            while not (self.ending and self.answer is None):
                if await self._is_overdue(reading, deadline):
                    return
                if reading.done():
                    message = reading.result()
                    if message["type"] == "websocket.disconnect":
                        return
                    reading = asyncio.ensure_future(self.receive())
                    await self._take(message)
            await self._close(_GOING)
        except asyncio.CancelledError:
            # The end of the server, which an open answer reports.
            if self.answer is not None:
                self.answer.cancel()
                await asyncio.wait({self.answer})
            await self._close(_GOING)
        finally:
            reading.cancel()
            self.left.set()
            if self.answer is not None:
                await asyncio.wait({self.answer})

    async def _is_overdue(self, reading: asyncio.Future[Message], deadline: float) -> bool:
        """Waits for a message or the end of the answer. True if the socket was closed, since neither came in time."""
        if self.answer is not None:
            # It has a limit of its own.
            waited: set[asyncio.Future[Any]] = {reading, self.answer}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if self.answer.done():
                await self._finish()
            return False
        left = deadline - asyncio.get_running_loop().time()
        done, _ = await asyncio.wait({reading}, timeout=max(0.0, min(left, self.settings.socket_idle)))
        if done:
            return False
        if left <= self.settings.socket_idle:
            await self._refuse(_LIMIT)
            await self._close(_NORMAL)
        else:
            await self._close(_POLICY, "idle")
        return True

    async def _take(self, message: Message) -> None:
        if self.answer is not None and self.ended:
            # The client may see the end before this task does.
            await self._finish()
        if message["type"] != "websocket.receive":
            # The server ends, and nothing new begins.
            self.ending = True
        elif self.answer is not None:
            await self._refuse(_BUSY)
        elif not self.ending:
            self.ended = False
            self.answer = asyncio.create_task(self._answer(message))

    async def _finish(self) -> None:
        if self.answer is not None:
            answer, self.answer = self.answer, None
            await answer

    async def _close(self, code: int, reason: str = "") -> None:
        with contextlib.suppress(OSError):
            await self.send({"type": "websocket.close", "code": code, "reason": reason})

    async def _answer(self, message: Message) -> None:
        refusal = self.slots.take()
        if refusal is None:
            try:
                refusal = await self._take_request(message)
            finally:
                self.slots.give()
        if refusal is not None:
            self._end()
            await self._refuse(refusal)

    async def _take_request(self, message: Message) -> Refusal | None:
        """Answers the request in a message; the refusal if it has none, or continues what is not known."""
        previous: object = None
        try:
            with self.budget.reserve() as reservation:
                native = await self._read(message, reservation)
                previous = native.get("previous_response_id")
                if previous is not None and (self.settings.store is None or self.memory.has(previous)):
                    del native["previous_response_id"]
                    found = await self.memory.find(previous, reservation)
                    native["input"] = [*found, *items_in(native.get("input"))]
        except Refused as refused:
            self.memory.forget(previous)
            return refused.refusal
        # The endpoint reserves the same memory, before anything else runs.
        await self._respond(native, previous)
        return None

    async def _read(self, message: Message, reservation: Reservation) -> dict[str, Any]:
        """The request in a message, under the limits of a body. Errors: ``Refused``."""
        text = message.get("text")
        if text is None:
            raise Refused(_TEXT)
        data = text.encode()
        reservation.add(len(data))
        native: Mapping[str, Any] = {}
        # Another value than an object is no request either.
        with contextlib.suppress(InputError):
            limits = RequestLimits.of(self.settings)
            native = await read_native(data, {}, most=self.settings.body_bytes, limits=limits)
        if native.get("type") != _CREATE:
            words = f'A message is a JSON object with "type": "{_CREATE}" and the members of a request.'
            raise Refused(Refusal(status=400, message=words, code="invalid_message", parameter="type"))
        return {key: value for key, value in native.items() if key not in _ABSENT}

    async def _respond(self, native: dict[str, Any], previous: object) -> None:
        """Answers a request by the endpoint, as one over HTTP, and remembers the answer."""
        generates = native.pop("generate", True) is not False
        body = encode({**native, "stream": True})
        history: list[Any] = []
        remembered = previous if "previous_response_id" not in native else None
        own = {PREVIOUS: remembered, GENERATES: generates, HISTORY: history}
        state = {**self.scope.get("state", {}), **own}
        scope = {**self.scope, "type": "http", "method": "POST", "state": state}
        begun = False

        async def receive() -> Message:
            nonlocal begun
            if not begun:
                begun = True
                return {"type": "http.request", "body": body, "more_body": False}
            await self.left.wait()
            return {"type": "http.disconnect"}

        messages = _Messages(self._show, self._end)
        await self.endpoint(scope, receive, messages.send)
        response = messages.response
        if response is None:
            self.memory.forget(previous)
        elif response["store"]:
            self.memory.close()
        else:
            self.memory.keep(response["id"], [*history, *items_in(native.get("input")), *response["output"]])

    async def _refuse(self, refusal: Refusal) -> None:
        error = {"type": "invalid_request_error", "code": refusal.code, "message": refusal.message}
        if refusal.parameter is not None:
            error["param"] = refusal.parameter
        await self._show(encode({"type": "error", "status": refusal.status, "error": error}))

    def _end(self) -> None:
        self.ended = True

    async def _show(self, data: bytes) -> None:
        # A client that has left is noticed where its messages are read.
        with contextlib.suppress(OSError):
            await self.send({"type": "websocket.send", "text": data.decode()})


class _Messages:
    """Shows an answer over HTTP as messages; ``end`` is called before the last one.

    ``response`` is the complete response, if it has succeeded.
    """

    def __init__(self, show: Callable[[bytes], Awaitable[None]], end: Callable[[], None]) -> None:
        self._show = show
        self._end = end
        self._status = 200
        self._body = b""
        self.response: Mapping[str, Any] | None = None

    async def send(self, message: Message) -> None:
        """Shows a part of the answer."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
        elif self._status != 200:
            self._end()
            await self._show(_refusal_message(self._status, message["body"]))
        else:
            # Each part has whole events.
            for piece in pieces(message.get("body", b"")):
                await self._show_event(*named(piece))

    async def _show_event(self, kind: str, data: bytes) -> None:
        # Errors have another form on a socket, for requests without a response. A failed one has its error inside.
        if not data or kind == "error":
            return
        if kind in KEPT:
            self.response = content(data)["response"]
        if kind in LAST:
            self._end()
        await self._show(data)


def _refusal_message(status: int, body: bytes) -> bytes:
    given = content(body)["error"]
    error = {name: value for name, value in given.items() if value is not None}
    return encode({"type": "error", "status": status, "error": {**error, "code": error.get("code") or error["type"]}})
