"""Clocks of event loops: one that jumps to the next timer, and one that a test moves."""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any


class _Jumping(selectors.SelectSelector):
    """A selector that never sleeps: a wait for the next timer moves the clock instead."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("Deadlock: nothing is ready, and no timer runs.")
        ready = super().select(0)
        if not ready and timeout > 0:
            self.loop.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer whenever nothing is ready. A deadlock is an error.

    Deadlines and sleeps keep their order and their lengths, but take no time. ``time.monotonic`` does not jump. Threads
    and processes are not waited for. The caller closes it.
    """

    def __init__(self) -> None:
        selector = _Jumping()
        selector.loop = self
        self.now = 1000.0
        super().__init__(selector)

    def time(self) -> float:
        return self.now


def in_virtual_time(scene: Callable[..., Coroutine[object, object, None]]) -> Callable[..., None]:
    """Makes a test of a scene in which pauses take no time."""

    @functools.wraps(scene)
    def run(*arguments: Any, **named: Any) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(scene(*arguments, **named))

    return run


class MovableClock:
    """The clock of the running loop, which a test moves: timers are due then, however slow the machine is.

    Made within a coroutine, for real processes, sockets and threads, which a ``VirtualLoop`` does not wait for. It
    stands still between moves. With ``goes``, time passes beside them.
    """

    def __init__(self, *, goes: bool = False) -> None:
        loop = asyncio.get_running_loop()
        time, start = loop.time, loop.time()
        self.moved = 0.0
        loop.time = lambda: (time() if goes else start) + self.moved  # type: ignore[method-assign]

    async def move(self, seconds: float) -> None:
        """Moves the clock, and calls what is due then."""
        self.moved += seconds
        for _ in range(5):
            await asyncio.sleep(0)
