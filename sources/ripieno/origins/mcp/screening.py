"""Looks at what a server lists before the SDK does, over any transport. Imports the SDK."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, JSONRPCResponse

from ripieno.origins.mcp.peers import Peer

#: Makes a page of tools into one that the SDK takes.
Screen = Callable[[dict[str, Any]], dict[str, Any]]


class Screened:
    """A transport whose results of ``tools/list`` are screened, and whose end its peer learns.

    The SDK refuses a whole page of tools for one that is broken (measured); ``screen`` takes that one out before.
    """

    def __init__(self, peer: Peer, screen: Screen) -> None:
        self._peer = peer
        self._inner: AbstractAsyncContextManager[Any] = peer.transport()
        self._screen = screen
        self._listings: set[str] = set()

    async def __aenter__(self) -> "tuple[Incoming, Outgoing]":
        incoming, outgoing = await self._inner.__aenter__()
        return Incoming(incoming, self._receive, self._end), Outgoing(outgoing, self._send)

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None:
        return await self._inner.__aexit__(exc_type, exc_val, exc_tb)

    def _send(self, item: SessionMessage) -> None:
        message = item.message
        if isinstance(message, JSONRPCRequest) and message.method == "tools/list":
            self._listings.add(str(message.id))

    def _receive(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        if isinstance(item, SessionMessage):
            message = item.message
            if isinstance(message, JSONRPCResponse) and str(message.id) in self._listings:
                self._listings.discard(str(message.id))
                item.message = message.model_copy(update={"result": self._screen(message.result)})
        return item

    def _end(self) -> None:
        self._peer.ended.set()


class Outgoing:
    """The stream of messages to the server."""

    def __init__(self, inner: Any, seen: Callable[[SessionMessage], None]) -> None:
        self._inner = inner
        self._seen = seen

    async def send(self, item: SessionMessage) -> None:
        self._seen(item)
        await self._inner.send(item)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


class Incoming:
    """The stream of messages from the server."""

    def __init__(
        self,
        inner: Any,
        seen: Callable[[SessionMessage | Exception], SessionMessage | Exception],
        ended: Callable[[], None],
    ) -> None:
        self._inner = inner
        self._seen = seen
        self._ended = ended

    @property
    def last_context(self) -> Any:
        """Whose context the last message came in, where the inner stream knows."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        try:
            item = await self._inner.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._ended()
            raise
        return self._seen(item)

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()
