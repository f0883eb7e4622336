"""Tells clients that the list of tools has changed: subscribers of 2026-07-28, and every peer of the handshake era."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from mcp.server import ServerRequestContext
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ServerEvent,
    ToolsListChanged,
)
from mcp_types import NotificationParams

from ripieno.mcpserver.listing import Listing


class Changes:
    """Watches a listing while it is entered, and tells all who want to know. ``listen`` serves subscriptions."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self._bus)
        self._peers: set[int] = set()

    async def look(self) -> None:
        """Looks at the ensembles now, and tells what has changed."""
        if self._listing.refresh():
            await self._bus.publish(ToolsListChanged())

    async def publish(self, event: ServerEvent) -> None:
        """Tells that something else has changed, which an application serves beside the tools."""
        await self._bus.publish(event)

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncGenerator[None, None]:
        """Looks whenever an ensemble has changed while it is entered, by however many connections."""
        changed = asyncio.Event()
        leave = self._listing.watch(changed.set)
        # What changed before is looked for at once.
        changed.set()
        watcher = asyncio.create_task(self._watch(changed), name="watch for changed tools")
        try:
            yield
        finally:
            leave()
            watcher.cancel()
            await asyncio.wait((watcher,))

    def close(self) -> None:
        """Ends the subscriptions, each with its last message."""
        self.listen.close()

    async def _watch(self, changed: asyncio.Event) -> None:
        while True:
            await changed.wait()
            changed.clear()
            await self.look()

    async def follow(self, context: ServerRequestContext[Any], params: NotificationParams) -> None:
        """Handles ``notifications/initialized``: tells this peer of changes, as long as its connection lasts.

        The connection's task group ends this. A peer that says it again is not told twice.
        """
        del params
        peer = context.session.client_params
        if peer is None or id(peer) in self._peers:
            return
        changed = asyncio.Event()
        waiting: set[ServerEvent] = set()

        def note(event: ServerEvent) -> None:
            waiting.add(event)
            changed.set()

        leave = self._bus.subscribe(note)
        self._peers.add(id(peer))
        try:
            while True:
                await changed.wait()
                changed.clear()
                told = {type(event) for event in waiting}
                waiting.clear()
                if ToolsListChanged in told:
                    await context.session.send_tool_list_changed()
                if PromptsListChanged in told:
                    await context.session.send_prompt_list_changed()
                if ResourcesListChanged in told:
                    await context.session.send_resource_list_changed()
        finally:
            self._peers.discard(id(peer))
            leave()
