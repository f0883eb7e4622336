"""Bounded bodies of requests, and their content."""

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.types import Receive

from ripieno.exceptions import InputError, JsonInvalidity
from ripieno.jsonvalues import is_table, parse
from ripieno.models import Protocol
from ripieno.models.protocol import Asked, Refusal

#: The maximum nesting of a request, which contains schemas of tools.
DEPTH = 128


class Refused(Exception):
    """The request is answered with an error."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class Gone(Exception):
    """The client left before its request was complete."""


async def receive_body(receive: Receive, *, most: int, seconds: float) -> bytes:
    """The body, of at most ``most`` bytes, within ``seconds``. Errors: ``Refused``, ``Gone``."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            more = True
            while more:
                message = await receive()
                if message["type"] != "http.request":
                    raise Gone
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > most:
                    words = f"The request is larger than {most} bytes: send a smaller one."
                    raise Refused(Refusal(status=413, message=words))
                more = message.get("more_body", False)
    except TimeoutError:
        words = f"The request did not arrive within {seconds:g} s."
        raise Refused(Refusal(status=408, message=words)) from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def read_asked(body: bytes, protocol: Protocol, parameters: Mapping[str, Any], *, most: int) -> Asked:
    """The request of a client: its body, and the parameters in its path. Errors: ``Refused``, ``InputError``."""
    try:
        native = parse(body, max_bytes=most, max_depth=DEPTH)
    except JsonInvalidity as error:
        raise Refused(
            Refusal(status=400, message=f"The request is not strict JSON: {error}", code="invalid_json")
        ) from error
    if not is_table(native):
        raise InputError("The request is not a JSON object.")
    return protocol.parse({**native, **parameters} if parameters else native)
