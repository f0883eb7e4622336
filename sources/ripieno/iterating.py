"""The one iteration over a run, and how its driver is waited for."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from ripieno.canisters import Conversation
from ripieno.canisters.events import Event
from ripieno.channels import Channel


class Iteration(AsyncIterator[Event]):
    """The one iteration over a run. When it is dropped, as ``break`` drops it, the run is left."""

    def __init__(
        self,
        channel: Channel,
        begin: Callable[[], asyncio.Task[None]],
        wait: Callable[[], Awaitable[Conversation]],
        leave: Callable[[], None],
    ) -> None:
        self._channel = channel
        self._begin = begin
        self._wait = wait
        self._leave = leave
        self._done = False

    async def __anext__(self) -> Event:
        task = self._begin()
        try:
            event = await self._channel.get()
        except asyncio.CancelledError:
            self._done = True
            self._leave()
            await settled(task)
            raise
        if event is not None:
            return event
        self._done = True
        await self._wait()
        raise StopAsyncIteration

    def __del__(self) -> None:
        if not self._done:
            self._leave()


async def settled(task: asyncio.Task[None]) -> None:
    """Waits for a cancelled driver, which ends within the grace; a cancellation of ours is raised after that."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
