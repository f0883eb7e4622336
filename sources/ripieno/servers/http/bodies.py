"""Routes, bounded bodies of requests, and the JSON bodies of answers, for all servers of wires."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Receive

from ripieno.ensembles.threads import run_in_thread
from ripieno.exceptions import InputError, JsonInvalidity
from ripieno.jsonvalues import is_table, parse
from ripieno.models import Protocol
from ripieno.models.protocol import Asked, Refusal
from ripieno.servers.http.limits import Refused, RequestLimits, Reservation

#: The maximum nesting of a request, which contains schemas of tools.
DEPTH = 128
#: Bytes of a body that takes less than a few milliseconds to read.
_LONG = 32 * 1024
_Result = TypeVar("_Result")


class Gone(Exception):
    """The client left before its request was complete."""


async def receive_body(receive: Receive, *, most: int, seconds: float, reservation: Reservation | None = None) -> bytes:
    """The body, of at most ``most`` bytes, within ``seconds``; its memory is reserved.

    Errors: ``Refused``, ``Gone``.
    """
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
                if reservation is not None:
                    reservation.add(len(parts[-1]))
                more = message.get("more_body", False)
    except TimeoutError:
        words = f"The request did not arrive within {seconds:g} s."
        raise Refused(Refusal(status=408, message=words)) from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def read_asked(
    body: bytes, protocol: Protocol, parameters: Mapping[str, Any], *, most: int, limits: RequestLimits | None = None
) -> Asked:
    """The request of a client: its body, and the parameters in its path. Errors: ``Refused``, ``InputError``.

    A long body is read in a thread, so that other requests go on.
    """

    def read() -> Asked:
        return protocol.parse(_read(body, parameters, most, limits))

    return await in_turn(read, len(body))


async def read_native(
    body: bytes, parameters: Mapping[str, Any], *, most: int, limits: RequestLimits | None = None
) -> Mapping[str, Any]:
    """The request of a client as JSON. Errors: ``Refused``, ``InputError``. A long body is read in a thread."""
    return await in_turn(lambda: _read(body, parameters, most, limits), len(body))


async def in_turn(work: Callable[[], _Result], size: int) -> _Result:
    """The result of work with ``size`` bytes: in a thread if they are many."""
    if size > _LONG:
        return await run_in_thread(work, patient=False, name="request")
    return work()


def _read(body: bytes, parameters: Mapping[str, Any], most: int, limits: RequestLimits | None) -> Mapping[str, Any]:
    if limits is not None:
        limits.check_body(body)
    try:
        native = parse(body, max_bytes=most, max_depth=DEPTH)
    except JsonInvalidity as error:
        raise Refused(
            Refusal(status=400, message=f"The request is not strict JSON: {error}", code="invalid_json")
        ) from error
    if not is_table(native):
        raise InputError("The request is not a JSON object.")
    if limits is not None:
        limits.check(native)
    return {**native, **parameters} if parameters else native


def routes_of(protocols: Iterable[Protocol]) -> dict[str, Protocol]:
    """The protocols by their routes. Errors: ``InputError`` if two have the same route."""
    routes: dict[str, Protocol] = {}
    for protocol in protocols:
        for route in protocol.routes:
            holder = routes.setdefault(route, protocol)
            if holder is not protocol:
                raise InputError(f"The protocols {holder.name!r} and {protocol.name!r} both answer at {route}.")
    return routes


def json_response(body: bytes, status: int = 200) -> Response:
    """An answer with this JSON."""
    return Response(body, status_code=status, media_type="application/json")


def model_entry(name: str) -> dict[str, Any]:
    """One model."""
    return {
        "id": name,
        "object": "model",
        "type": "model",
        "display_name": name,
        "created": 0,
        "created_at": "1970-01-01T00:00:00Z",
        "owned_by": "ripieno",
    }


def model_list(names: Sequence[str]) -> dict[str, Any]:
    """The list of models, on one page."""
    ends = {"first_id": names[0] if names else None, "last_id": names[-1] if names else None}
    return {"object": "list", "data": [model_entry(name) for name in names], "has_more": False, **ends}
