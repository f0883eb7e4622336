"""The subscribers of one database in this process. One thread listens for all of them, while there are any."""

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncGenerator, Callable, Generator

from ripieno.storage.databases.contract import Database

#: Called with the topic of an announcement; with None for any.
Wake = Callable[[str | None], None]


class Subscribers:
    """Functions by topic. ``listen`` runs in a thread: it wakes until the event is set, and raises nothing."""

    def __init__(self, listen: Callable[[Wake, threading.Event], None]) -> None:
        self._listen = listen
        self._lock = threading.Lock()
        self._woken: dict[str, list[Callable[[], None]]] = {}
        self._ended: threading.Event | None = None
        self._process = os.getpid()

    @contextlib.contextmanager
    def subscribed(self, topic: str, woken: Callable[[], None]) -> Generator[None, None, None]:
        """Calls ``woken`` for each announcement of a topic, until the end of the block."""
        with self._lock:
            self._woken.setdefault(topic, []).append(woken)
            if self._ended is None or self._process != os.getpid():
                # A fork has no threads of its parent.
                self._process = os.getpid()
                self._ended = threading.Event()
                arguments = (self._wake, self._ended)
                threading.Thread(target=self._listen, args=arguments, name="ripieno events", daemon=True).start()
        try:
            yield
        finally:
            with self._lock:
                self._woken[topic].remove(woken)
                if not self._woken[topic]:
                    del self._woken[topic]
                if not self._woken:
                    self._end()

    def close(self) -> None:
        """Ends the thread. A later subscription begins another."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._ended is not None:
            self._ended.set()
            self._ended = None

    def _wake(self, topic: str | None) -> None:
        with self._lock:
            if topic is None:
                found = [one for several in self._woken.values() for one in several]
            else:
                found = list(self._woken.get(topic, ()))
        for woken in found:
            woken()


@contextlib.asynccontextmanager
async def woken(database: Database, topic: str) -> AsyncGenerator[asyncio.Event, None]:
    """An event that is set soon after each announcement of a topic, by any program, and sometimes without one."""
    changed, loop = asyncio.Event(), asyncio.get_running_loop()

    def wake() -> None:
        with contextlib.suppress(RuntimeError):  # The loop is closed.
            loop.call_soon_threadsafe(changed.set)

    with database.subscribed(topic, wake):
        yield changed
