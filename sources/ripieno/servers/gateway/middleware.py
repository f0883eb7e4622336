"""Access checks before a request is read: Host, Origin, key, content type, concurrency. Adds a request identifier."""

import re
import secrets
from collections.abc import Callable, Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ripieno.conducting.observers.logs import FIELDS
from ripieno.descriptors import GatewayDescriptor
from ripieno.jsonvalues import EMPTY
from ripieno.models.protocol import Refusal
from ripieno.servers.gateway.responses import send_body
from ripieno.servers.http.errors import headers_of
from ripieno.servers.http.hosts import HOST, ORIGIN, Hosts
from ripieno.servers.http.keys import PLACES, Keys

#: The path that needs no key, for load balancers.
HEALTH = "/healthz"
Refuse = Callable[[str, Refusal], bytes]
_TYPE = b"content-type"
_WATCHED = PLACES | {HOST, ORIGIN, _TYPE}
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


class Slots:
    """The requests of a worker at once: those over HTTP, and the answers on sockets."""

    def __init__(self, most: int) -> None:
        self._left = most

    def take(self) -> Refusal | None:
        """Takes one; the refusal if there is none left."""
        if self._left <= 0:
            return _BUSY
        self._left -= 1
        return None

    def give(self) -> None:
        """Returns one."""
        self._left += 1


class Guard:
    """Forwards permitted requests, with the name of the caller in ``scope["state"]["caller"]``.

    The caller is "" if no key is needed. Others are answered here, in the form that ``refuse`` gives for a path.
    Decisions depend only on ``scope["path"]`` and the headers as received, never on an address made from them.
    ``direct`` are the applications of whole paths, which need no router.
    """

    def __init__(
        self,
        application: ASGIApp,
        settings: GatewayDescriptor,
        slots: Slots,
        refuse: Refuse,
        direct: Mapping[str, ASGIApp] = EMPTY,
    ) -> None:
        self._application = application
        self._direct = direct
        self._refuse = refuse
        self._keys = Keys(settings.keys)
        self._hosts = Hosts(settings.hosts)
        self._slots = slots

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        path = path_in(scope)
        is_http = scope["type"] == "http"
        refusal = self._judge(scope, path)
        # The answers on a socket are counted, not the socket.
        counted = refusal is None and is_http and path != HEALTH
        if counted:
            refusal = self._slots.take()
        if refusal is not None:
            body = self._refuse(path, refusal)
            await send_body(send, body, refusal.status, headers_of(refusal))
            return
        application = self._direct.get(path, self._application) if is_http else self._application
        try:
            await application(scope, receive, send)
        finally:
            if counted:
                self._slots.give()

    def _judge(self, scope: Scope, path: str) -> Refusal | None:
        watched = [header for header in scope["headers"] if header[0] in _WATCHED]
        hosts = [value for name, value in watched if name == HOST]
        origins = [value for name, value in watched if name == ORIGIN]
        wrong = self._hosts.judge_values(hosts, origins, scope)
        if wrong is not None:
            return _WRONG_HOST if wrong == "host" else _WRONG_ORIGIN
        caller = ""
        if self._keys and path != HEALTH:
            found = self._keys.identify(watched)
            if found is None:
                return _WRONG_KEY
            caller = found
        types = [value.partition(b";")[0].strip().lower() for name, value in watched if name == _TYPE]
        if scope.get("method") == "POST" and types != [_JSON]:
            return _WRONG_TYPE
        scope["state"] = {**scope.get("state", {}), "caller": caller}
        return None


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
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        given = [value for name, value in scope["headers"] if name == _NAME]
        usable = len(given) == 1 and _GIVEN.fullmatch(given[0])
        identifier = given[0] if usable else f"req_{secrets.token_hex(12)}".encode()
        headers = [(name, identifier) for name in _NAMES]

        async def identified(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.accept"):
                message = {**message, "headers": [*message.get("headers", ()), *headers]}
            await send(message)

        client = scope.get("client")
        fields = {"request": identifier.decode(), "client": "" if client is None else str(client[0])}
        token = FIELDS.set({**FIELDS.get(), **fields})
        try:
            await self._application(scope, receive, identified)
        finally:
            FIELDS.reset(token)
