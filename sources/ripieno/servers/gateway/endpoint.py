"""One route of a wire: reads a client's request, and answers in the wire's own form."""

import asyncio
import contextlib

from starlette.types import Receive, Scope, Send

from ripieno.descriptors import GatewayDescriptor
from ripieno.models import Protocol
from ripieno.models.protocol import Asked, Refusal
from ripieno.servers.gateway.errors import refusal_of
from ripieno.servers.gateway.gateway import Gateway
from ripieno.servers.gateway.request_log import RequestLog, RequestObserver
from ripieno.servers.gateway.responses import Streaming, send_body, send_refusal, while_present
from ripieno.servers.http.bodies import Gone, Refused, read_asked, receive_body


class Endpoint:
    """An ASGI application for the requests of one wire."""

    def __init__(
        self, protocol: Protocol, gateway: Gateway, settings: GatewayDescriptor, observer: RequestObserver
    ) -> None:
        self._protocol = protocol
        self._gateway = gateway
        self._settings = settings
        self._observer = observer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._observer.observe(self._protocol.name, scope) as log:
            await self._handle(scope, receive, send, log)

    async def _handle(self, scope: Scope, receive: Receive, send: Send, log: RequestLog) -> None:
        protocol, settings = self._protocol, self._settings
        if scope["method"] != "POST":
            message = f"{scope['path']} accepts POST, not {scope['method']}."
            await self._refuse(send, Refusal(status=405, message=message), log)
            return
        try:
            body = await receive_body(receive, most=settings.body_bytes, seconds=settings.body_seconds)
            asked = read_asked(body, protocol, scope.get("path_params") or {}, most=settings.body_bytes)
        except Refused as refused:
            await self._refuse(send, refused.refusal, log)
        except Gone:
            return
        except Exception as error:
            await self._refuse(send, refusal_of(error), log)
        else:
            log.read(asked)
            await self._answer(asked, scope.get("state", {}).get("caller", ""), receive, send, log)

    async def _refuse(self, send: Send, refusal: Refusal, log: RequestLog) -> None:
        log.refuse(refusal)
        await send_refusal(send, self._protocol, refusal)

    async def _answer(self, asked: Asked, caller: str, receive: Receive, send: Send, log: RequestLog) -> None:
        protocol, settings = self._protocol, self._settings
        with while_present(receive) as presence:
            batches = self._gateway.respond(asked, protocol, caller, log)
            if asked.controls.stream:
                streaming = Streaming(send, protocol, asked, names=settings.events, quiet=settings.keep_alive, log=log)
                await streaming.send(batches, presence, seconds=settings.seconds)
                return
            try:
                async with asyncio.timeout(settings.seconds), contextlib.aclosing(batches):
                    events = [event async for batch in batches for event in batch]
                answer = protocol.encode(events, asked)
            except BaseException as error:
                refusal = presence.refusal_for(error)
                presence.stop()
                await self._refuse(send, refusal, log)
                return
            presence.stop()
            log.answer()
            await send_body(send, answer)
