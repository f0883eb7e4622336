"""Hears that a server offers other tools now, in either era, and lists them again. Imports the SDK."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable

import mcp_types as wire
from mcp import Client, MCPError
from mcp.client.session import IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ripieno.canisters.events import Alert
from ripieno.descriptors import InvokerDescriptor
from ripieno.ensembles.owner import Recovery, reason
from ripieno.origins.mcp.cleaning import clean
from ripieno.origins.mcp.discovering import Catalogue

#: Seconds in which further changes are awaited before the tools are listed once for all of them.
SETTLING = 0.1
#: Seconds that a new listing may take.
DEADLINE = 30.0
#: Seconds that a subscription may take to begin; without it the server is used all the same.
PATIENCE = 5.0
#: A subscription that ends is opened again, as anything that is lost.
_RECOVERY = Recovery()


class Changes:
    """Whether the tools have changed since they were listed last, and who wants to know what they are then."""

    def __init__(self) -> None:
        self._happened = asyncio.Event()
        self._awaited = asyncio.Event()
        self._told: Callable[[tuple[InvokerDescriptor, ...]], None] | None = None

    def subscribe(self, told: Callable[[tuple[InvokerDescriptor, ...]], None]) -> None:
        """From now on, whoever this is is told."""
        self._told = told
        self._awaited.set()

    def tell(self, found: tuple[InvokerDescriptor, ...]) -> None:
        """Tells it."""
        if self._told is not None:
            self._told(found)

    async def take_message(self, message: IncomingMessage) -> None:
        """How a server of the handshake era says it."""
        if isinstance(message, wire.ToolListChangedNotification):
            self.note()

    def note(self) -> None:
        """They have."""
        self._happened.set()

    async def wait(self) -> None:
        """Waits for a change, and for those that come right after it; and for somebody who wants to know."""
        await self._awaited.wait()
        await self._happened.wait()
        await asyncio.sleep(SETTLING)
        self._happened.clear()


@contextlib.asynccontextmanager
async def listening(client: Client, changes: Changes) -> AsyncGenerator[None, None]:
    """While it is entered, changes are heard of: from its beginning on, so that a listing after that misses none."""
    if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not _tells(client):
        yield
        return
    begun = asyncio.Event()
    task = asyncio.create_task(_subscribe(client, changes, begun), name="subscription to changes")
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await begun.wait()
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def follow(client: Client, catalogue: Catalogue, changes: Changes, alert: Callable[[Alert], None]) -> None:
    """Lists the tools again whenever they have changed, until it is cancelled. A listing that fails changes nothing."""
    while True:
        await changes.wait()
        try:
            async with asyncio.timeout(DEADLINE):
                found = await catalogue.read(client.session)
        except Exception as error:
            what = (
                f"The tools of {catalogue.ensemble!r} have changed, and could not be listed: {clean(reason(error))[0]}"
            )
            alert(Alert(message=what))
        else:
            changes.tell(found)


def _tells(client: Client) -> bool:
    tools = client.server_capabilities.tools
    return tools is not None and bool(tools.list_changed)


async def _subscribe(client: Client, changes: Changes, begun: asyncio.Event) -> None:
    """Keeps a subscription open, which is how the modern era tells it."""
    losses = 0
    while True:
        try:
            async with client.listen(tools_list_changed=True) as subscription:
                begun.set()
                if losses:
                    changes.note()  # What happened while nobody listened is not told.
                async for _ in subscription:
                    losses = 0
                    changes.note()
        except (ListenNotSupportedError, MCPError, SubscriptionLost) as error:
            if isinstance(error, ListenNotSupportedError) or getattr(error, "code", None) == wire.METHOD_NOT_FOUND:
                return
        finally:
            begun.set()
        losses += 1
        await asyncio.sleep(_RECOVERY.pause(losses))
