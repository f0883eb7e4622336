"""Bodies of HTTP requests: bounded in size and time, and strict JSON, before anything else sees them."""

import asyncio

from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ripieno.mcpserver.messages import Refused, read

#: Bytes of a body, as many as the SDK takes.
BODY_BYTES = 4 * 1024 * 1024
#: Seconds in which all of a body must come.
BODY_SECONDS = 30.0


class StrictBodies:
    """Passes on the requests whose bodies are in order."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._application(scope, receive, send)
            return
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _collect(receive)
        except TimeoutError:
            await PlainTextResponse("The body did not come in time.\n", 408)(scope, receive, send)
            return
        if body is None:
            return
        if len(body) > BODY_BYTES:
            await PlainTextResponse(f"A body may have {BODY_BYTES} bytes.\n", 413)(scope, receive, send)
            return
        try:
            read(body, limit=BODY_BYTES)
        except Refused as refused:
            answer = refused.answer.model_dump_json(by_alias=True, exclude_unset=True)
            await Response(answer, 400, media_type="application/json")(scope, receive, send)
            return
        await self._application(scope, _Again(body, receive), send)


async def _collect(receive: Receive) -> bytes | None:
    """The body, or enough of one that is too large; None when the client has gone."""
    body = bytearray()
    while len(body) <= BODY_BYTES:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            break
    return bytes(body)


class _Again:
    """Gives a body that was read once more, and then whatever comes."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}
