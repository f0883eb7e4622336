"""Screening of a server's messages before the SDK reads them, over any transport. Imports the SDK."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import CLIENT_CAPABILITIES_META_KEY, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from ripieno.ensembles.surroundings import Tap
from ripieno.jsonvalues import is_list, is_table
from ripieno.origins.mcp.peers import Peer

#: Contents of a result that are read; the SDK takes 30 us to validate each (measured).
CONTENTS = 1000
#: Bits of the largest integers that fit a float.
_BITS = 1000
#: Turns a page of tools into one that the SDK accepts.
Screen = Callable[[dict[str, Any]], dict[str, Any]]


class Screened:
    """A transport that screens results of ``tools/list`` and reports its end to its peer.

    The SDK refuses a whole page of tools for one invalid tool (measured); ``screen`` removes that tool first. The SDK
    also announces support for URL elicitation regardless of settings (measured), which is removed. ``tap`` receives
    sent messages after these changes, and received ones before.
    """

    def __init__(self, peer: Peer, screen: Screen, tap: Tap | None = None) -> None:
        self._peer = peer
        self._tap = tap
        self._inner: AbstractAsyncContextManager[Any] = peer.transport()
        self._screen = screen
        self._listings: set[str] = set()

    async def __aenter__(self) -> "tuple[Incoming, Outgoing]":
        incoming, outgoing = await self._inner.__aenter__()
        return Incoming(incoming, self._receive, self._peer.ended.set), Outgoing(outgoing, self._send)

    async def __aexit__(self, *details: Any) -> bool | None:
        return await self._inner.__aexit__(*details)

    def _send(self, item: SessionMessage) -> None:
        message = item.message
        if isinstance(message, JSONRPCRequest) and message.method == "tools/list":
            self._listings.add(str(message.id))
        if isinstance(message, JSONRPCRequest | JSONRPCNotification) and message.params is not None:
            limited = _limited(message.params)
            if limited is not message.params:
                item.message = message.model_copy(update={"params": limited})
        if self._tap is not None:
            self._tap(self._peer.ensemble, _tapped("sent", item.message))

    def _receive(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        if isinstance(item, SessionMessage):
            message = item.message
            if self._tap is not None:
                self._tap(self._peer.ensemble, _tapped("received", message))
            if isinstance(message, JSONRPCResponse):
                result = _bounded(message.result)
                if str(message.id) in self._listings:
                    self._listings.discard(str(message.id))
                    result = self._screen(result)
                if result is not message.result:
                    item.message = message.model_copy(update={"result": result})
            elif isinstance(message, JSONRPCNotification) and _enormous(message.params):
                item.message = message.model_copy(update={"params": {}})
        return item


def _tapped(direction: Literal["sent", "received"], message: JSONRPCMessage) -> dict[str, Any]:
    return {"direction": direction, "message": message.model_dump(mode="json", by_alias=True, exclude_unset=True)}


def _limited(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters with our real capabilities: of ``initialize``, and of any modern-era message.

    The same object if they name none.
    """
    changed = _without_urls(parameters, "capabilities")
    meta = changed.get("_meta")
    if not is_table(meta) or (limited := _without_urls(meta, CLIENT_CAPABILITIES_META_KEY)) is meta:
        return changed
    return {**changed, "_meta": limited}


def _without_urls(table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    if not is_table(capabilities := table.get(key)) or not is_table(elicitation := capabilities.get("elicitation")):
        return table
    forms = {name: value for name, value in elicitation.items() if name != "url"}
    return {**table, key: {**capabilities, "elicitation": forms}}


def _enormous(parameters: dict[str, Any] | None) -> bool:
    """Whether a progress number is too large for a float, which would end the SDK's session (measured)."""
    numbers = map((parameters or {}).get, ("progress", "total"))
    return any(isinstance(number, int) and number.bit_length() > _BITS for number in numbers)


def _bounded(result: dict[str, Any]) -> dict[str, Any]:
    """A result with a bounded number of contents; a text counts the omitted ones."""
    contents = result.get("content")
    if not is_list(contents) or len(contents) <= CONTENTS:
        return result
    text = f"[{len(contents) - CONTENTS} further contents were left out]"
    return {**result, "content": [*contents[:CONTENTS], {"type": "text", "text": text}]}


class _Stream:
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, exc_type: object, exc_val: object, exc_tb: object) -> None:
        await self.aclose()


class Outgoing(_Stream):
    """The stream of messages to the server."""

    def __init__(self, inner: Any, seen: Callable[[SessionMessage], None]) -> None:
        super().__init__(inner)
        self._seen = seen

    async def send(self, item: SessionMessage) -> None:
        self._seen(item)
        await self._inner.send(item)


class Incoming(_Stream):
    """The stream of messages from the server."""

    def __init__(
        self,
        inner: Any,
        seen: Callable[[SessionMessage | Exception], SessionMessage | Exception],
        ended: Callable[[], None],
    ) -> None:
        super().__init__(inner)
        self._seen = seen
        self._ended = ended

    @property
    def last_context(self) -> Any:
        """The context of the last message, if the inner stream knows it."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        try:
            item = await self._inner.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._ended()
            raise
        return self._seen(item)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None
