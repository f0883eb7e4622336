"""Every request has an identifier: its answer has it as a header, and each line that is logged for it as a field."""

import re
import secrets

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ripieno.conducting.observers.logs import FIELDS

_NAME = b"x-request-id"
#: Official clients read it under these names, and show it with an error (measured: one reads the first, one the other).
_NAMES = (_NAME, b"request-id")
#: What a balancer may have called it. Nothing else of a client's comes into a log as it is.
_GIVEN = re.compile(rb"[0-9A-Za-z_.:-]{8,64}")


class Identifying:
    """Passes requests on under the identifier that a balancer gave, or under a new one."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        identifier = _given(scope) or f"req_{secrets.token_hex(12)}".encode()
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


def _given(scope: Scope) -> bytes | None:
    """The identifier that the request has already, if it can be one."""
    values = [value for name, value in scope["headers"] if name == _NAME]
    return values[0] if len(values) == 1 and _GIVEN.fullmatch(values[0]) else None
