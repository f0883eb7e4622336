"""A server behind the transport of a plugin."""

import contextlib
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from typing import Any

from ripieno.ensembles.owner import reason
from ripieno.origins.mcp.peers import Loss, Peer

#: The error of the SDK's ended session.
_CLOSED = (-32000, "Connection closed")


class Plugged(Peer):
    """``streams`` are those of the transport, entered once."""

    def __init__(self, ensemble: str, name: str, streams: AbstractAsyncContextManager[tuple[Any, Any]]) -> None:
        super().__init__(ensemble)
        self._name = name
        self._streams = streams

    @property
    def carrier(self) -> str:
        return self._name

    @property
    def place(self) -> str:
        return f"Its transport: {self._name}"

    @contextlib.asynccontextmanager
    async def transport(self) -> AsyncGenerator[tuple[Any, Any], None]:
        async with contextlib.AsyncExitStack() as stack:
            try:
                streams = await stack.enter_async_context(self._streams)
            except Exception as error:
                self.give_up(f"could not be reached: {reason(error)}")
                raise
            yield streams

    def loss(self, code: int, message: str, data: object) -> Loss | None:  # noqa: ARG002
        return "unknown" if self.ended.is_set() or (code, message) == _CLOSED else None
