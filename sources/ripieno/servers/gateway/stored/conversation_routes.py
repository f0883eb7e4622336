"""The routes of stored conversations and their items."""

import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ripieno.descriptors import GatewayDescriptor
from ripieno.exceptions import RequestInvalidity
from ripieno.jsonvalues import encode, is_list, is_table
from ripieno.servers.gateway.stored.background import BackgroundRuns
from ripieno.servers.gateway.stored.pages import page_of
from ripieno.servers.gateway.stored.requests import (
    CONVERSATION,
    NO_CONVERSATION,
    NO_ITEM,
    identified,
    is_identifier,
    new_identifier,
    not_found,
)
from ripieno.servers.http.bodies import in_turn, json_response, read_native, receive_body
from ripieno.servers.http.limits import MemoryBudget, RequestLimits, Reservation
from ripieno.storage.responses.conversations import changed
from ripieno.storage.responses.rows import StoredConversation

_PATH = "/v1/conversations"
#: The most items of one request, pairs of metadata, and characters of their names and texts, as of the official API.
_ITEMS, _PAIRS, _NAME, _TEXT = 20, 16, 64, 512
Handler = Callable[[Request], Awaitable[Any]]


def conversation_routes(
    made: Callable[[str, Handler, str], Route],
    settings: GatewayDescriptor,
    runs: BackgroundRuns,
    budget: MemoryBudget,
) -> list[Route]:
    """The routes; ``made`` makes one of a path, a handler and a method."""
    one = _Conversations(runs, settings, budget)
    rows: tuple[tuple[str, str, Handler], ...] = (
        ("", "POST", one.create),
        ("/{identifier}", "GET", one.fetch),
        ("/{identifier}", "POST", one.update),
        ("/{identifier}", "DELETE", one.delete),
        ("/{identifier}/items", "GET", one.items),
        ("/{identifier}/items", "POST", one.add),
        ("/{identifier}/items/{item}", "GET", one.item),
        ("/{identifier}/items/{item}", "DELETE", one.remove),
    )
    return [made(_PATH + rest, handler, method) for rest, method, handler in rows]


class _Conversations:
    """The handlers. Each look-up is by the caller and the identifier."""

    def __init__(self, runs: BackgroundRuns, settings: GatewayDescriptor, budget: MemoryBudget) -> None:
        self._runs = runs
        self._budget = budget
        self._library = runs.library
        self._store = runs.library.conversations
        self._settings = settings
        self._limits = RequestLimits.of(settings)

    async def create(self, request: Request) -> Response:
        """A new conversation, with items."""
        identifier = new_identifier(CONVERSATION)
        with self._budget.reserve() as reservation:
            native = await self._read(request, reservation)
            body = {"created_at": int(time.time()), "metadata": _metadata_in(native)}
            one = StoredConversation(caller=_caller(request), identifier=identifier, body=body)
            self._runs.keep()
            await self._library.run(self._store.create, one, identified(_items_in(native), identifier))
            return _described(one)

    async def fetch(self, request: Request) -> Response:
        """The conversation, without its items."""
        return _described(await self._find(request))

    async def update(self, request: Request) -> Response:
        """Replaces the metadata."""
        one = await self._find(request)
        with self._budget.reserve() as reservation:
            native = await self._read(request, reservation)
        if "metadata" not in native:
            raise RequestInvalidity("The request has no metadata.", parameter="metadata")
        one = changed(one, metadata=_metadata_in(native))
        if not await self._library.run(self._store.replace, one):
            raise not_found(NO_CONVERSATION)
        return _described(one)

    async def delete(self, request: Request) -> Response:
        """Deletes the conversation and its items. Responses of it stay."""
        one = await self._find(request)
        await self._library.erase(self._store.delete, one.caller, one.identifier)
        return json_response(encode({"id": one.identifier, "object": "conversation.deleted", "deleted": True}))

    async def items(self, request: Request) -> Response:
        """A page of the items."""
        async with self._items(request) as (found, size):
            return json_response(await in_turn(lambda: encode(page_of(found, request.query_params)), size))

    async def add(self, request: Request) -> Response:
        """Adds items at the end."""
        one = await self._find(request)
        with self._budget.reserve() as reservation:
            native = await self._read(request, reservation)
            items = identified(_items_in(native), new_identifier(CONVERSATION))
            if not await self._library.run(self._store.append, one.caller, one.identifier, items):
                raise not_found(NO_CONVERSATION)
            return json_response(encode(page_of(items, {"order": "asc", "limit": "100"})))

    async def item(self, request: Request) -> Response:
        """One item."""
        async with self._items(request) as (found, _):
            fitting = [item for item in found if item["id"] == request.path_params["item"]]
            if not fitting:
                raise not_found(NO_ITEM)
            return json_response(encode(fitting[0]))

    async def remove(self, request: Request) -> Response:
        """Deletes an item; returns the conversation."""
        one = await self._find(request)
        if not await self._library.erase(self._store.remove, one.caller, one.identifier, request.path_params["item"]):
            raise not_found(NO_ITEM)
        return _described(one)

    async def _find(self, request: Request) -> StoredConversation:
        self._runs.keep()
        identifier = request.path_params["identifier"]
        one = None
        if is_identifier(identifier, CONVERSATION):
            one = await self._library.run(self._store.load, _caller(request), identifier)
        if one is None:
            raise not_found(NO_CONVERSATION)
        return one

    @contextlib.asynccontextmanager
    async def _items(self, request: Request) -> AsyncGenerator[tuple[Sequence[Any], int], None]:
        """All items, and their bytes, whose memory is reserved before they are read."""
        one = await self._find(request)
        size = await self._library.run(self._store.size, one.caller, one.identifier) or 0
        with self._budget.reserve() as reservation:
            reservation.add(size)
            yield await self._library.run(self._store.items, one.caller, one.identifier), size

    async def _read(self, request: Request, reservation: Reservation) -> dict[str, Any]:
        settings = self._settings
        most = settings.body_bytes
        body = await receive_body(request.receive, most=most, seconds=settings.body_seconds, reservation=reservation)
        return dict(await read_native(body or b"{}", {}, most=most, limits=self._limits))


def _caller(request: Request) -> str:
    return str(request.scope.get("state", {}).get("caller", ""))


def _described(one: StoredConversation) -> Response:
    return json_response(encode({"id": one.identifier, "object": "conversation", **one.body}))


def _items_in(native: dict[str, Any]) -> Sequence[Any]:
    items = native.get("items")
    if items is None:
        return ()
    if not is_list(items) or not all(map(is_table, items)):
        raise RequestInvalidity("items is a list of items.", parameter="items")
    if len(items) > _ITEMS:
        raise RequestInvalidity(f"A request adds at most {_ITEMS} items.", parameter="items")
    return items


def _metadata_in(native: dict[str, Any]) -> dict[str, str]:
    metadata = native.get("metadata")
    if metadata is None:
        return {}
    if not is_table(metadata) or len(metadata) > _PAIRS or not all(_fits(*pair) for pair in metadata.items()):
        words = f"at most {_PAIRS} texts, of at most {_TEXT} characters each, with names of at most {_NAME} characters"
        raise RequestInvalidity(f"metadata has {words}.", parameter="metadata")
    return dict(metadata)


def _fits(name: str, value: object) -> bool:
    return len(name) <= _NAME and isinstance(value, str) and len(value) <= _TEXT
