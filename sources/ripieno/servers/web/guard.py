"""Checks of every request before it is routed: Host, Origin, and the site of the page that sends it."""

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ripieno.models.protocol import Refusal
from ripieno.servers.http.errors import headers_of, plain
from ripieno.servers.http.hosts import Hosts
from ripieno.servers.web.pages import HEADERS

_WRONG_HOST = Refusal(
    status=421,
    code="misdirected_request",
    message="This server does not have the name in the Host header. To allow it: ripieno serve web --allow-host NAME",
)
_WRONG_ORIGIN = Refusal(
    status=403, code="origin_not_allowed", message="Web pages of other origins cannot use this server."
)


class Guard:
    """Forwards the requests of this page and of programs, and adds the safe headers to every answer.

    A page of another site may only open the document as a whole, as a link does. WebSockets are closed.
    """

    def __init__(self, application: ASGIApp, hosts: Hosts) -> None:
        self._application = application
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    if name != "cache-control" or name not in headers:
                        headers[name] = value
                headers.setdefault("content-security-policy", "default-src 'none'; frame-ancestors 'none'")
            await send(message)

        refusal = self._judge(scope)
        if refusal is None:
            await self._application(scope, receive, guarded)
        else:
            answer = Response(plain(refusal), status_code=refusal.status)
            answer.raw_headers += headers_of(refusal)
            await answer(scope, receive, guarded)

    def _judge(self, scope: Scope) -> Refusal | None:
        wrong = self._hosts.judge(scope)
        if wrong is not None:
            return _WRONG_HOST if wrong == "host" else _WRONG_ORIGIN
        headers = Headers(scope=scope)
        site = headers.get("sec-fetch-site")
        if site in (None, "same-origin"):
            return None
        # A navigation reads and changes nothing, and the document cannot be framed.
        opened = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        return None if scope["method"] == "GET" and opened else _WRONG_ORIGIN
