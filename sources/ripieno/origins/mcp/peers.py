"""The other side of a connection, whatever carries it: whether it is still there, and why it is not."""

import abc
import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal

from ripieno.exceptions import ConnectionFailure

#: What a lost answer leaves: nothing was sent; or what the call did is not known.
Loss = Literal["unsent", "unknown"]


class Peer(abc.ABC):
    """A server, seen from here. ``ended`` is set when nothing more will come, whatever the reason."""

    def __init__(self, ensemble: str) -> None:
        self.ensemble = ensemble
        self.ended = asyncio.Event()
        self._reason: str | None = None
        #: Whether a call that was lost has told its last words.
        self.told = False

    @property
    @abc.abstractmethod
    def carrier(self) -> str:
        """What carries the messages: ``stdio``, ``http`` or ``sse``."""

    @property
    @abc.abstractmethod
    def place(self) -> str:
        """Where it is, for messages: ``Its command: …``."""

    @property
    def complaints(self) -> str:
        """What it complained about beside its messages, cleaned."""
        return ""

    @property
    def last_words(self) -> str:
        """The end of that, as lines for a message; empty where there is nothing."""
        return ""

    @abc.abstractmethod
    def transport(self) -> AbstractAsyncContextManager[Any]:
        """The streams of messages that the SDK's client enters. Imports the SDK."""

    def give_up(self, reason: str) -> None:
        """Reads nothing more. ``reason`` follows "the MCP server"; the first one counts."""
        self._reason = self._reason or reason
        self.ended.set()

    async def ending(self) -> str:
        """Why nothing more comes, to follow "the MCP server"."""
        return self._reason or "closed the connection"

    @abc.abstractmethod
    def loss(self, code: int, message: str, data: object) -> Loss | None:
        """What the parts of an error say of the call; None where the server has answered."""

    async def settled(self) -> None:
        """Waits until calls under way have had their chance, after the end."""
        return

    async def explain(self, reason: str | None = None) -> str:
        """Why it failed, where it is, and what it complained about last."""
        return f"the MCP server {await self.ending() if reason is None else reason}.\n{self.place}"

    async def lost(self) -> None:
        """Waits until nothing more will come. Errors, always: ``ConnectionFailure`` that explains it."""
        await self.ended.wait()
        await self.settled()
        raise ConnectionFailure(self.ensemble, await self.explain())
