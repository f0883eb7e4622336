"""Endpoints: one request of a wire each, from its body to the end of its answer."""

import asyncio
import contextlib
import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from ripieno.canisters.events import Batches, Event, TurnEnded
from ripieno.descriptors import GatewayDescriptor
from ripieno.jsonvalues import encode
from ripieno.models import Protocol
from ripieno.models.protocol import Asked, Refusal
from ripieno.servers.gateway.events import KEPT, content, named, pieces
from ripieno.servers.gateway.gateway import Gateway
from ripieno.servers.gateway.middleware import Slots, path_in
from ripieno.servers.gateway.request_log import RequestLog, RequestObserver
from ripieno.servers.gateway.responses import Streaming, send_body, send_refusal, while_present
from ripieno.servers.gateway.sockets import GENERATES, HISTORY, PREVIOUS
from ripieno.servers.gateway.stored.background import Answer, BackgroundRuns
from ripieno.servers.gateway.stored.library import Library
from ripieno.servers.gateway.stored.requests import StoredRequest
from ripieno.servers.gateway.stored.streams import stream_events
from ripieno.servers.http.bodies import Gone, in_turn, read_native, receive_body
from ripieno.servers.http.errors import refusal_of
from ripieno.servers.http.limits import MemoryBudget, Refused, RequestLimits, Reservation
from ripieno.storage.responses.rows import StoredResponse
from ripieno.values import Value


class Serving(Value, kw_only=True):
    """The shared parts of all endpoints of a gateway. ``runs`` is None if nothing is stored."""

    gateway: Gateway
    settings: GatewayDescriptor
    observer: RequestObserver
    budget: MemoryBudget
    slots: Slots
    runs: BackgroundRuns | None


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class _Exchange:
    """One request over HTTP: its scope, the channels of its client, its log, its memory, and its part in the store."""

    scope: Scope
    receive: Receive
    send: Send
    log: RequestLog
    reservation: Reservation
    stored: StoredRequest | None = None

    @property
    def state(self) -> Mapping[str, Any]:
        """The findings about the request so far."""
        found: Mapping[str, Any] = self.scope.get("state", {})
        return found

    @property
    def caller(self) -> str:
        """The name of the caller."""
        return str(self.state.get("caller", ""))


class Endpoint:
    """An ASGI application for the requests of one wire."""

    _streams = True

    def __init__(self, protocol: Protocol, serving: Serving) -> None:
        settings = serving.settings
        self._protocol = protocol.variant(settings.events)
        self._gateway = serving.gateway
        self._settings = settings
        self._serving = serving
        self._runs = serving.runs if protocol.stores and self._streams else None
        self._limits = RequestLimits.of(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        observed = self._serving.observer.observe(self._protocol.name, scope)
        with observed as log, self._serving.budget.reserve() as reservation:
            await self._handle(_Exchange(scope=scope, receive=receive, send=send, log=log, reservation=reservation))

    async def _handle(self, exchange: _Exchange) -> None:
        scope, log = exchange.scope, exchange.log
        if scope["method"] != "POST":
            message = f"{scope['path']} accepts POST, not {scope['method']}."
            await self._refuse(exchange.send, Refusal(status=405, message=message), log)
            return
        async with contextlib.AsyncExitStack() as stack:
            try:
                asked, stored = await self._read(exchange, stack)
            except Gone:
                return
            except Exception as error:
                # First: the client may send the next request as soon as it has the refusal.
                await stack.aclose()
                await self._refuse(exchange.send, refusal_of(error), log)
                return
            log.read(asked)
            exchange.stored = stored
            if self._runs is not None and stored is not None and stored.references.background:
                # The run belongs to the server.
                stack.pop_all()
                await self._start(asked, exchange, self._runs, stored)
            else:
                await self._answer(asked, exchange)

    async def _read(self, exchange: _Exchange, stack: contextlib.AsyncExitStack) -> tuple[Asked, StoredRequest | None]:
        """The request, with what it continues. ``stack`` releases that. Errors: ``Refused``, ``Gone``, others."""
        settings, state, reservation = self._settings, exchange.state, exchange.reservation
        most = settings.body_bytes
        parameters: dict[str, Any] = exchange.scope.get("path_params") or {}
        body = await receive_body(exchange.receive, most=most, seconds=settings.body_seconds, reservation=reservation)
        native = await read_native(body, parameters, most=most, limits=self._limits)
        size = len(body)
        stored: StoredRequest | None = None
        if self._runs is not None:
            self._runs.keep()
            native, stored = await self._runs.library.read(native, exchange.caller, reservation)
        if self._runs is not None and stored is not None:
            stack.push_async_callback(self._runs.library.release, stored)
            state.get(HISTORY, []).extend(stored.history)
            size += stored.size
            self._limits.check(native)
        asked = await in_turn(lambda: self._protocol.parse(native), size)
        if stored is not None:
            asked = stored.restored(asked)
        previous = state.get(PREVIOUS)
        if previous is not None:
            # The answer names it, as the client did.
            asked = dataclasses.replace(asked, native={**asked.native, "previous_response_id": previous})
        return asked, stored

    async def _refuse(self, send: Send, refusal: Refusal, log: RequestLog) -> None:
        log.refuse(refusal)
        await send_refusal(send, self._protocol, refusal)

    async def _answer(self, asked: Asked, exchange: _Exchange) -> None:
        settings, stored, send, log = self._settings, exchange.stored, exchange.send, exchange.log
        library = None if self._runs is None else self._runs.library
        if stored is not None and library is not None:
            send = _Keeping(send, library, stored).send
        with while_present(exchange.receive) as presence:
            if asked.controls.stream and self._streams:
                batches = self._respond(asked, exchange)
                if not exchange.state.get(GENERATES, True):
                    batches = self._gateway.prepare(asked, log)
                streaming = Streaming(send, self._protocol, asked, quiet=settings.keep_alive, log=log)
                await streaming.send(batches, presence, seconds=settings.seconds)
                return
            try:
                async with asyncio.timeout(settings.seconds):
                    answer = await self._whole(asked, exchange)
            except BaseException as error:
                refusal = presence.refusal_for(error)
                presence.stop()
                await self._refuse(send, refusal, log)
                return
            presence.stop()
            log.answer()
            await send_body(send, answer)

    async def _start(self, asked: Asked, exchange: _Exchange, runs: BackgroundRuns, stored: StoredRequest) -> None:
        """Starts the run of a background response, and answers with it as it begins, or with its events."""
        streamed = asked.controls.stream
        send, log = exchange.send, exchange.log
        try:
            # Such an error has a status of its own.
            log.resolve(self._gateway.names.resolve(asked.model))
            begin = self._start_here if runs.dispatcher is None else self._submit
            response = await begin(asked, exchange, runs, stored)
        except Exception as error:
            await runs.library.release(stored)
            await self._refuse(send, refusal_of(error), log)
            return
        if not streamed:
            log.answer()
            await send_body(send, encode(response))
            return
        with while_present(exchange.receive) as presence:
            await stream_events(runs, (stored.caller, stored.identifier), send, quiet=self._settings.keep_alive)
            presence.stop()
            log.answer()
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _start_here(
        self, asked: Asked, exchange: _Exchange, runs: BackgroundRuns, stored: StoredRequest
    ) -> Mapping[str, Any]:
        slots, answer = self._serving.slots, self._background(asked, exchange.scope, stored)
        refusal = slots.take()
        if refusal is not None:
            raise Refused(refusal)
        # The run needs the memory longer than its request.
        reservation = exchange.reservation.hand_over()

        async def counted(receive: Receive, send: Send) -> None:
            try:
                with reservation:
                    await answer(receive, send)
            finally:
                slots.give()

        return await runs.start(stored, counted, streamed=asked.controls.stream)

    async def _submit(
        self, asked: Asked, exchange: _Exchange, runs: BackgroundRuns, stored: StoredRequest
    ) -> Mapping[str, Any]:
        (piece, *_) = pieces(self._protocol.encoder(asked).wait())
        response = {**content(named(piece)[1])["response"], "status": "queued"}
        await runs.submit(stored, response, path_in(exchange.scope), streamed=asked.controls.stream)
        return response

    async def conduct(self, row: StoredResponse, stored: StoredRequest) -> None:
        """Answers a queued response in the process that holds it, which is a worker."""
        assert self._runs is not None
        given = row.body["asked"]
        try:
            native = stored.expanded({**given["native"], "input": stored.own})
            asked = stored.restored(await in_turn(lambda: self._protocol.parse(native), row.chain + stored.size))
            scope: Scope = {"method": "POST", "path": given["route"], "headers": [], "state": {"caller": row.caller}}
            await self._runs.conduct(stored, self._background(asked, scope, stored), streamed=given["streamed"])
        finally:
            await self._runs.library.release(stored)

    def _background(self, asked: Asked, scope: Scope, stored: StoredRequest) -> Answer:
        """Answers a background run, whose client is the store."""
        asked = dataclasses.replace(asked, controls=dataclasses.replace(asked.controls, stream=True))

        async def answer(receive: Receive, send: Send) -> None:
            observed = self._serving.observer.observe(self._protocol.name, scope, background=True)
            with observed as log, while_present(receive) as presence:
                streaming = Streaming(send, self._protocol, asked, quiet=math.inf, log=log, eager=True)
                batches = self._gateway.respond(asked, self._protocol, stored.caller, log, stored)
                await streaming.send(batches, presence, seconds=self._settings.seconds)

        return answer

    def _respond(self, asked: Asked, exchange: _Exchange) -> Batches:
        return self._gateway.respond(asked, self._protocol, exchange.caller, exchange.log, exchange.stored)

    async def _whole(self, asked: Asked, exchange: _Exchange) -> bytes:
        """The body of an answer that is not streamed. It is stored before the run goes on, as the end of a stream is.

        So a call that has waited for a person is forgotten only after that.
        """
        events: list[Event] = []
        answer = b""
        async with contextlib.aclosing(self._respond(asked, exchange)) as batches:
            async for batch in batches:
                events += batch
                if any(isinstance(event, TurnEnded) for event in batch):
                    answer = self._protocol.encode(events, asked)
                    if exchange.stored is not None and self._runs is not None:
                        await self._runs.library.keep(exchange.stored, content(answer))
        return answer


class Compactions(Endpoint):
    """An ASGI application for requests for a compaction."""

    _streams = False

    async def _whole(self, asked: Asked, exchange: _Exchange) -> bytes:
        return await self._gateway.compact(asked, self._protocol, exchange.caller, exchange.log)


class _Keeping:
    """Stores a streamed response, and frees a conversation, before the client sees the end: it may go on at once."""

    def __init__(self, send: Send, library: Library, stored: StoredRequest) -> None:
        self._send = send
        self._library = library
        self._stored = stored

    async def send(self, message: Message) -> None:
        """Sends a part of an answer or a refusal. Those of a stream have whole events."""
        # The mark of an end that is not an error is in its last part.
        if message.get("body", b"").endswith(b"data: [DONE]\n\n"):
            for piece in pieces(message["body"]):
                kind, data = named(piece)
                if kind in KEPT:
                    await self._library.keep(self._stored, content(data)["response"])
        if message["type"] == "http.response.body" and not message.get("more_body"):
            await self._library.release(self._stored)
        await self._send(message)
