"""One route of a wire: its client's request is read, played, and answered in the wire's own form."""

import asyncio
import contextlib
from typing import Protocol as Contract

from starlette.types import Receive, Scope, Send

from ripieno.canisters.events import Batches
from ripieno.descriptors import GatewayDescriptor
from ripieno.models import Protocol
from ripieno.models.protocol import Asked, Refusal
from ripieno.servers.gateway.errors import refusal_of
from ripieno.servers.gateway.request_log import RequestLog, Watching
from ripieno.servers.gateway.responses import Streaming, send_body, send_refusal, while_present
from ripieno.servers.http.bodies import Gone, Refused, read_asked, receive_body


class Player(Contract):
    """Answers what is asked."""

    def play(self, asked: Asked, protocol: Protocol, caller: str, sight: RequestLog) -> Batches:
        """The events of the answer, as many at a time as came together."""
        ...


class Endpoint:
    """An ASGI application for the requests of one wire."""

    def __init__(self, protocol: Protocol, player: Player, settings: GatewayDescriptor, watching: Watching) -> None:
        self._protocol = protocol
        self._player = player
        self._settings = settings
        self._watching = watching

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._watching.see(self._protocol.name, scope) as sight:
            await self._handle(scope, receive, send, sight)

    async def _handle(self, scope: Scope, receive: Receive, send: Send, sight: RequestLog) -> None:
        protocol, settings = self._protocol, self._settings
        if scope["method"] != "POST":
            message = f"{scope['path']} is asked with POST, not {scope['method']}."
            await self._refuse(send, Refusal(status=405, message=message), sight)
            return
        try:
            body = await receive_body(receive, most=settings.body_bytes, seconds=settings.body_seconds)
            asked = read_asked(body, protocol, scope.get("path_params") or {}, most=settings.body_bytes)
        except Refused as refused:
            await self._refuse(send, refused.refusal, sight)
        except Gone:
            return
        except Exception as error:
            await self._refuse(send, refusal_of(error), sight)
        else:
            sight.read(asked)
            await self._answer(asked, scope.get("state", {}).get("caller", ""), receive, send, sight)

    async def _refuse(self, send: Send, refusal: Refusal, sight: RequestLog) -> None:
        sight.refuse(refusal)
        await send_refusal(send, self._protocol, refusal)

    async def _answer(self, asked: Asked, caller: str, receive: Receive, send: Send, sight: RequestLog) -> None:
        protocol, settings = self._protocol, self._settings
        with while_present(receive) as presence:
            batches = self._player.play(asked, protocol, caller, sight)
            if asked.controls.stream:
                streaming = Streaming(
                    send, protocol, asked, names=settings.events, quiet=settings.keep_alive, sight=sight
                )
                await streaming.play(batches, presence, seconds=settings.seconds)
                return
            try:
                async with asyncio.timeout(settings.seconds), contextlib.aclosing(batches):
                    events = [event async for batch in batches for event in batch]
                answer = protocol.encode(events, asked)
            except BaseException as error:
                refusal = presence.judge(error)
                presence.rest()
                await self._refuse(send, refusal, sight)
                return
            presence.rest()
            sight.answer()
            await send_body(send, answer)
