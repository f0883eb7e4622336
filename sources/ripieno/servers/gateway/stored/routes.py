"""The routes of stored responses: fetch, stream again, delete, cancel, and the items of their input."""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ripieno.descriptors import GatewayDescriptor
from ripieno.exceptions import RequestInvalidity
from ripieno.jsonvalues import encode
from ripieno.models import Protocol
from ripieno.models.protocol import Refusal
from ripieno.servers.gateway.request_log import LEFT, RequestObserver
from ripieno.servers.gateway.responses import while_present
from ripieno.servers.gateway.stored.background import NOT_BACKGROUND, BackgroundRuns, Key
from ripieno.servers.gateway.stored.conversation_routes import conversation_routes
from ripieno.servers.gateway.stored.pages import number_in, page_of
from ripieno.servers.gateway.stored.requests import NO_RESPONSE, RESPONSE, is_identifier, not_found
from ripieno.servers.gateway.stored.streams import stream_events
from ripieno.servers.http.bodies import Gone, in_turn, json_response
from ripieno.servers.http.errors import headers_of, refusal_of
from ripieno.servers.http.limits import MemoryBudget, Refused, Reservation
from ripieno.storage.responses.rows import OPEN_STATUSES, StoredResponse

Handler = Callable[[Request], Awaitable[Any]]
_EXPIRED = Refusal(
    status=404,
    code="events_not_stored",
    message="The events of this response are not stored: it was not streamed from the start, or ended some time ago. "
    "Fetch it without stream.",
)


def stored_routes(
    routes: Mapping[str, Protocol],
    settings: GatewayDescriptor,
    runs: BackgroundRuns,
    budget: MemoryBudget,
    observer: RequestObserver,
) -> list[Route]:
    """The routes below those of each protocol that stores, and those of conversations."""
    found: list[Route] = []
    for route, protocol in routes.items():
        if protocol.stores and not route.endswith("/compact"):
            one = _Responses(runs, settings, budget)

            def made(path: str, handler: Handler, method: str, wire: Protocol = protocol) -> Route:
                return Route(path, answered(handler, wire, observer, f"{method} {path}"), methods=[method])

            rows: tuple[tuple[str, str, Handler], ...] = (
                ("", "GET", one.fetch),
                ("", "DELETE", one.delete),
                ("/cancel", "POST", one.cancel),
                ("/input_items", "GET", one.items),
            )
            found += [made(f"{route}/{{identifier}}{rest}", handler, method) for rest, method, handler in rows]
            found += conversation_routes(made, settings, runs, budget)
    return found


def answered(handler: Handler, protocol: Protocol, observer: RequestObserver, route: str) -> Handler:
    """A handler whose errors are answered in the form of a wire, and whose requests are observed."""

    async def answer(request: Request) -> Any:
        began, refusal = time.perf_counter(), None
        try:
            found = await handler(request)
        except Gone:
            found = Response(status_code=400)
            refusal = Refusal(status=LEFT, message="")
        except Exception as error:
            refusal = refusal_of(error)
            headers = {name.decode(): value.decode() for name, value in headers_of(refusal)}
            found = Response(protocol.refuse(refusal), status_code=refusal.status, headers=headers)
        observer.note(protocol.name, route, request.scope, time.perf_counter() - began, refusal)
        return found

    return answer


def caller_of(request: Request) -> str:
    """The name of the caller, as the guard has found it."""
    return str(request.scope.get("state", {}).get("caller", ""))


class _Responses:
    """The handlers. Each look-up is by the caller and the identifier."""

    def __init__(self, runs: BackgroundRuns, settings: GatewayDescriptor, budget: MemoryBudget) -> None:
        self._runs = runs
        self._settings = settings
        self._budget = budget

    async def fetch(self, request: Request) -> Any:
        """The response, or its events again."""
        with self._budget.reserve() as reservation:
            row = await self._find(request, reservation)
            stream = request.query_params.get("stream", "false")
            if stream not in ("true", "false"):
                raise RequestInvalidity("stream is true or false.", parameter="stream")
            if stream == "false":
                return await _encoded(row.body["response"], reservation)
            after = number_in(request.query_params, "starting_after", -1)
            if not row.background:
                raise Refused(NOT_BACKGROUND)
            return await self._stream((row.caller, row.identifier), after)

    async def _stream(self, key: Key, after: int) -> Any:
        library = self._runs.library
        if not await library.run(library.responses.has_events, *key):
            raise Refused(_EXPIRED)

        async def stream(scope: Scope, receive: Receive, send: Send) -> None:
            del scope
            with while_present(receive) as presence:
                quiet = self._settings.keep_alive
                await stream_events(self._runs, key, send, quiet=quiet, after=after)
                presence.stop()
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        return stream

    async def delete(self, request: Request) -> Response:
        """Deletes the response; a run of it ends first."""
        with self._budget.reserve() as reservation:
            # Its end says where the journal has it.
            row = await self._find_ended(request, reservation)
            library = self._runs.library
            await library.run(library.delete, row)
            return json_response(encode({"id": row.identifier, "object": "response", "deleted": True}))

    async def cancel(self, request: Request) -> Response:
        """Ends a background response; one that has ended stays as it is."""
        with self._budget.reserve() as reservation:
            row = await self._find_ended(request, reservation)
            if not row.background:
                raise Refused(NOT_BACKGROUND)
            return await _encoded(row.body["response"], reservation)

    async def items(self, request: Request) -> Response:
        """The items of its own input."""
        with self._budget.reserve() as reservation:
            row = await self._find(request, reservation)
            return await _encoded(page_of(row.body["input"], request.query_params), reservation)

    async def _find_ended(self, request: Request, reservation: Reservation) -> StoredResponse:
        """The response, after a run of it was ended. That comes first: it gives memory back."""
        caller, identifier = caller_of(request), request.path_params["identifier"]
        library, state = self._runs.library, None
        if is_identifier(identifier, RESPONSE):
            state = await library.run(library.responses.state, caller, identifier)
        # What is not in the background is stored at its end.
        if state is not None and state[0] in OPEN_STATUSES:
            await self._runs.cancel(caller, identifier)
        return await self._find(request, reservation)

    async def _find(self, request: Request, reservation: Reservation) -> StoredResponse:
        """The response, whose memory is reserved."""
        self._runs.keep()
        row = await self._runs.library.load(caller_of(request), request.path_params["identifier"], reservation)
        if row is None:
            raise not_found(NO_RESPONSE)
        return row


async def _encoded(value: Mapping[str, Any], reservation: Reservation) -> Response:
    return json_response(await in_turn(lambda: encode(value), reservation.size))
