"""Access checks before a request is read: Host, Origin, key, content type, concurrency. Adds a request identifier."""

import re
import secrets
from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ripieno.conducting.observers.logs import FIELDS
from ripieno.descriptors import GatewayDescriptor
from ripieno.models.protocol import Refusal
from ripieno.servers.gateway.errors import headers_of
from ripieno.servers.gateway.responses import send_body
from ripieno.servers.http.keys import PLACES, Keys
from ripieno.servers.http.listeners import LOOPBACK

#: The path that needs no key, for load balancers.
HEALTH = "/healthz"
Refuse = Callable[[str, Refusal], bytes]
_HOST, _ORIGIN, _TYPE = b"host", b"origin", b"content-type"
_WATCHED = PLACES | {_HOST, _ORIGIN, _TYPE}
#: A host and its port in a Host header.
_AUTHORITY = re.compile(rb"(\[[0-9a-f:.]{2,45}\]|[0-9a-z_](?:[0-9a-z_.-]*[0-9a-z_])?)(?::([0-9]{1,5}))?")
_SCHEMES = {b"http": b"80", b"https": b"443"}
_JSON = b"application/json"

_WRONG_HOST = Refusal(
    status=421,
    code="misdirected_request",
    message="This server does not have the name in the Host header. The operator can allow it: "
    "ripieno serve responses --allow-host NAME, or hosts under [gateway].",
)
_WRONG_ORIGIN = Refusal(
    status=403, code="origin_not_allowed", message="Web pages of other origins cannot use this server. Send no Origin."
)
_WRONG_KEY = Refusal(
    status=401,
    code="invalid_api_key",
    message="The key is missing or wrong. Send one key, once: Authorization: Bearer KEY, x-api-key or x-goog-api-key.",
)
_WRONG_TYPE = Refusal(
    status=415, code="unsupported_media_type", message=f"Send Content-Type: {_JSON.decode()}, and nothing else."
)
_BUSY = Refusal(
    status=503, code="server_overloaded", message="There are too many requests at once. Try again later.", seconds=1
)


def path_in(scope: Scope) -> str:
    """The path of a request below the application's mount point."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


class Guard:
    """Forwards permitted requests, with the name of the caller in ``scope["state"]["caller"]``.

    The caller is "" if no key is needed. Others are answered here, in the form that ``refuse`` gives for a path.
    Decisions depend only on ``scope["path"]`` and the headers as received, never on an address made from them.
    """

    def __init__(self, application: ASGIApp, settings: GatewayDescriptor, refuse: Refuse) -> None:
        self._application = application
        self._refuse = refuse
        self._keys = Keys(settings.keys)
        self._names = frozenset(_spelled(name) for name in (*LOOPBACK, *settings.hosts))
        #: Behind a load balancer, a page's origin is one of the operator's names, whatever Host is.
        self._own = frozenset(_spelled(name) for name in settings.hosts)
        self._most = settings.concurrency
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        refusal = self._judge(scope) if scope["type"] == "http" else None
        if refusal is None and (scope["type"] == "lifespan" or path_in(scope) == HEALTH):
            await self._application(scope, receive, send)
            return
        if refusal is None and self._open >= self._most:
            refusal = _BUSY
        if refusal is not None:
            body = self._refuse(path_in(scope), refusal)
            await send_body(send, body, refusal.status, headers_of(refusal))
            return
        self._open += 1
        try:
            await self._application(scope, receive, send)
        finally:
            self._open -= 1

    def _judge(self, scope: Scope) -> Refusal | None:
        watched = [header for header in scope["headers"] if header[0] in _WATCHED]
        hosts = [value for name, value in watched if name == _HOST]
        authority = _read(hosts[0]) if len(hosts) == 1 else None
        if authority is None or not self._is_known(authority[0], scope):
            return _WRONG_HOST
        origins = [value for name, value in watched if name == _ORIGIN]
        if origins and not (len(origins) == 1 and self._is_own(origins[0], hosts[0])):
            return _WRONG_ORIGIN
        caller = ""
        if self._keys and path_in(scope) != HEALTH:
            found = self._keys.identify(watched)
            if found is None:
                return _WRONG_KEY
            caller = found
        types = [value.partition(b";")[0].strip().lower() for name, value in watched if name == _TYPE]
        if scope["method"] == "POST" and types != [_JSON]:
            return _WRONG_TYPE
        scope["state"] = {**scope.get("state", {}), "caller": caller}
        return None

    def _is_known(self, name: bytes, scope: Scope) -> bool:
        if name in self._names:
            return True
        # The address of the connection. A page cannot make a browser send it as Host.
        server: Any = scope.get("server")
        return server is not None and name == _spelled(server[0])

    def _is_own(self, origin: bytes, host: bytes) -> bool:
        scheme, separator, rest = origin.lower().partition(b"://")
        usual = _SCHEMES.get(scheme)
        theirs, ours = _read(rest), _read(host)
        if usual is None or not separator or theirs is None or ours is None:
            return False
        same = theirs[0] == ours[0] and (theirs[1] or usual) == (ours[1] or usual)
        return same or theirs[0] in self._own


def _spelled(name: str) -> bytes:
    """A name or an address as written in a Host header."""
    lower = name.lower()
    return f"[{lower}]".encode() if ":" in lower else lower.encode()


def _read(authority: bytes) -> tuple[bytes, bytes] | None:
    """The host in lower case and the port, empty if missing; None for an invalid value."""
    match = _AUTHORITY.fullmatch(authority.lower())
    return None if match is None else (match[1], match[2] or b"")


_NAME = b"x-request-id"
#: Official clients read it from these headers, and show it with an error (measured: each reads another one).
_NAMES = (_NAME, b"request-id")
#: A valid identifier of a load balancer. Nothing else of a request is logged verbatim.
_GIVEN = re.compile(rb"[0-9A-Za-z_.:-]{8,64}")


class Identifier:
    """Forwards requests under the identifier of a load balancer, or a new one.

    The answer has it as a header, and each log line as a field.
    """

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        given = [value for name, value in scope["headers"] if name == _NAME]
        usable = len(given) == 1 and _GIVEN.fullmatch(given[0])
        identifier = given[0] if usable else f"req_{secrets.token_hex(12)}".encode()
        headers = [(name, identifier) for name in _NAMES]

        async def identified(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *headers]}
            await send(message)

        client = scope.get("client")
        fields = {"request": identifier.decode(), "client": "" if client is None else str(client[0])}
        token = FIELDS.set({**FIELDS.get(), **fields})
        try:
            await self._application(scope, receive, identified)
        finally:
            FIELDS.reset(token)
