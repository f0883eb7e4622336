"""The MCP server over HTTP: on loopback, or elsewhere with a key. Host and Origin are always checked."""

import contextlib
import logging
from collections.abc import AsyncGenerator, Iterable

from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ripieno.ensembles.owner import Owner
from ripieno.servers.http import bodies, limits
from ripieno.servers.http.hosts import Hosts
from ripieno.servers.http.keys import BEARER, Keys, digest_of
from ripieno.servers.http.listeners import check_exposure
from ripieno.servers.http.server import serve
from ripieno.servers.mcp.messages import Refused, read
from ripieno.servers.mcp.server import EnsembleServer

#: The maximum size of a body in bytes, which is the SDK's.
BODY_BYTES = 4 * 1024 * 1024
#: Seconds in which the whole body must arrive.
BODY_SECONDS = 30.0


class StrictBodies:
    """Forwards requests whose body is bounded in size and time, and is strict JSON."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._application(scope, receive, send)
            return
        try:
            body = await bodies.receive_body(receive, most=BODY_BYTES, seconds=BODY_SECONDS)
            read(body, limit=BODY_BYTES)
        except bodies.Gone:
            return
        except limits.Refused as refused:
            refusal = refused.refusal
            await PlainTextResponse(f"{refusal.message}\n", refusal.status)(scope, receive, send)
            return
        except Refused as refused:
            answer = refused.answer.model_dump_json(by_alias=True, exclude_unset=True)
            await Response(answer, 400, media_type="application/json")(scope, receive, send)
            return
        unread = [body]

        async def replay() -> Message:
            if unread:
                return {"type": "http.request", "body": unread.pop(), "more_body": False}
            return await receive()

        await self._application(scope, replay, send)


PATH = "/mcp"
_logger = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def serve_http(
    server: EnsembleServer, *, host: str = "127.0.0.1", port: int = 0, key: str | None = None, names: Iterable[str] = ()
) -> AsyncGenerator[str, None]:
    """Serves for the duration of the block, once per server; yields the URL. Port 0 means any free one.

    With a key, clients send ``Authorization: Bearer KEY``. They reach the server under loopback's names, ``host`` and
    ``names``. Errors: ``InputError`` for an address beyond loopback without a key, an invalid key, a port in use.
    """
    check_exposure(host, keyed=key is not None)
    # The SDK compares only the beginnings of names (measured).
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    application: ASGIApp = StrictBodies(
        server.streamable_http_app(streamable_http_path=PATH, transport_security=unchecked)
    )
    if key is not None:
        application = _Keyed(application, Keys({"": digest_of(key)}, places=(BEARER,)))
    application = _Named(application, Hosts(names, host=host))
    # In its own task: its task group would wrap every error here, such as a port in use.
    sessions = Owner("MCP sessions", server.session_manager.run, lost=_report)
    await sessions.open()
    try:
        async with serve(application, host=host, port=port) as url:
            try:
                yield url + PATH
            finally:
                server.changes.close()
    finally:
        await sessions.close()


def _report(error: BaseException, *_: object) -> None:
    _logger.error("The MCP sessions failed.", exc_info=error)


class _Named:
    """Forwards requests to a name of the server, by programs and its own pages."""

    def __init__(self, application: ASGIApp, hosts: Hosts) -> None:
        self._application = application
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wrong = self._hosts.judge(scope) if scope["type"] == "http" else None
        if wrong is not None:
            words = "The server does not have this name" if wrong == "host" else "Pages of this origin are not allowed"
            refusal = PlainTextResponse(f"{words}: {wrong.title()}.\n", 421 if wrong == "host" else 403)
            await refusal(scope, receive, send)
            return
        await self._application(scope, receive, send)


class _Keyed:
    """Forwards requests with the key. The comparison takes the same time for every wrong key."""

    def __init__(self, application: ASGIApp, keys: Keys) -> None:
        self._application = application
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._keys.identify(scope["headers"]) is None:
            refusal = Response(
                "The key is missing or wrong: send Authorization: Bearer KEY.\n",
                status_code=401,
                headers={"WWW-Authenticate": "Bearer"},
            )
            await refusal(scope, receive, send)
            return
        await self._application(scope, receive, send)
