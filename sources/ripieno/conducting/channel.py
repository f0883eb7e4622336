"""Passes the events of a run to its watchers, and through a bounded queue to its consumer, in order."""

import asyncio
import collections
from collections.abc import Callable, Iterable

from ripieno.canisters.events import Event, ExecutionProgress

#: Events that may wait for a slow consumer. Beyond it, progress events are dropped: they are only for display.
BOUND = 256


def notify(watching: Iterable[Callable[[Event], None]], event: Event) -> None:
    """Passes an event to functions of watchers. The handler of the event loop gets what they raise."""
    for watch in watching:
        try:
            watch(event)
        except Exception as error:
            context = {"message": "A watcher failed.", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)


class Channel:
    """The events of one producer, for functions of watchers and a bounded queue with at most one consumer.

    ``notify`` never waits, so that tools may call it; the producer awaits ``room`` wherever it can.
    """

    __slots__ = ("_bounded", "_closed", "_getter", "_putter", "_queue", "open", "watching")

    def __init__(self) -> None:
        self._queue: collections.deque[Event] = collections.deque()
        self._getter: asyncio.Future[None] | None = None
        self._putter: asyncio.Future[None] | None = None
        self._bounded = True
        self._closed = False
        #: Whether there is a consumer; without one, events are not kept.
        self.open = False
        #: They get each event before the consumer.
        self.watching: tuple[Callable[[Event], None], ...] = ()

    @property
    def heard(self) -> bool:
        """Whether anyone gets the events."""
        return self.open or bool(self.watching)

    def notify(self, event: Event) -> None:
        """Passes an event on. The queue drops it when the channel is closed."""
        if self.watching:
            notify(self.watching, event)
        if not self.open or self._closed or (len(self._queue) >= BOUND and isinstance(event, ExecutionProgress)):
            return
        self._queue.append(event)
        _wake(self._getter)

    @property
    def full(self) -> bool:
        """Whether the producer should wait for the consumer."""
        return self.open and self._bounded and len(self._queue) >= BOUND

    async def room(self) -> None:
        """Waits until the consumer has taken enough."""
        while self.full:
            self._putter = asyncio.get_running_loop().create_future()
            try:
                await self._putter
            finally:
                self._putter = None

    async def get(self) -> Event | None:
        """The next event, or None when there will be no more."""
        while not self._queue:
            if self._closed:
                return None
            self._getter = asyncio.get_running_loop().create_future()
            try:
                await self._getter
            finally:
                self._getter = None
        event = self._queue.popleft()
        if len(self._queue) < BOUND // 2:
            _wake(self._putter)
        return event

    def release(self) -> None:
        """Removes the bound: the consumer waits for the producer and takes no events."""
        self._bounded = False
        _wake(self._putter)

    def mute(self) -> None:
        """Drops the waiting events and all later ones: there is no consumer any more."""
        self.open = False
        self._queue.clear()
        _wake(self._putter)

    def close(self) -> None:
        """Ends the events; those that wait can still be taken."""
        self._closed = True
        _wake(self._getter)


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
