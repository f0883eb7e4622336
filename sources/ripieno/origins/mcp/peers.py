"""The server's side of a connection over any transport: whether it is there, and why not."""

import abc
import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal

from ripieno.exceptions import ConnectionFailure

#: The state of a call without an answer: nothing was sent, or its effect is unknown.
Loss = Literal["unsent", "unknown"]


class Peer(abc.ABC):
    """A connected server. ``ended`` is set when no more messages will come, for any reason."""

    def __init__(self, ensemble: str) -> None:
        self.ensemble = ensemble
        self.ended = asyncio.Event()
        self._reason: str | None = None
        #: Whether a lost call has reported the last words.
        self.reported = False

    @property
    @abc.abstractmethod
    def carrier(self) -> str:
        """The transport: ``stdio``, ``http`` or ``sse``."""

    @property
    @abc.abstractmethod
    def place(self) -> str:
        """The server's location, for messages: ``Its command: …``."""

    @property
    def advice(self) -> str:
        """The next step where a person has to sign in, or could; else empty."""
        return ""

    @property
    def complaints(self) -> str:
        """The server's error output, cleaned."""
        return ""

    @property
    def last_words(self) -> str:
        """The end of its error output, as lines for a message; empty if there is none."""
        return ""

    @abc.abstractmethod
    def transport(self) -> AbstractAsyncContextManager[Any]:
        """The streams of messages for the SDK's client. Imports the SDK."""

    def give_up(self, reason: str) -> None:
        """Stops reading. ``reason`` follows "the MCP server"; the first one counts."""
        self._reason = self._reason or reason
        self.ended.set()

    async def ending(self) -> str:
        """The reason of the end, to follow "the MCP server"."""
        return self._reason or "closed the connection"

    @abc.abstractmethod
    def loss(self, code: int, message: str, data: object) -> Loss | None:
        """The meaning of an error's parts for the call; None where the server has answered."""

    async def settled(self) -> None:
        """Waits, after the end, until calls in progress could finish."""
        return

    async def explain(self, reason: str | None = None) -> str:
        """The reason of the failure, the location, and the last error output."""
        return f"the MCP server {await self.ending() if reason is None else reason}.\n{self.place}"

    async def lost(self) -> None:
        """Waits until no more messages will come. Errors, always: ``ConnectionFailure`` with the reason."""
        await self.ended.wait()
        await self.settled()
        raise ConnectionFailure(self.ensemble, await self.explain())
