"""An event loop whose clock jumps: whenever nothing is ready, it is at once as late as the next timer.

Everything else is asyncio's own. Deadlines, graces and sleeps keep their order and their lengths; they only take
no time. What is measured with ``time.monotonic`` does not jump. Threads are not waited for: leave them out.
"""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any


class _Jumping(selectors.SelectSelector):
    """Never sleeps: a wait for the next timer moves the clock instead."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("Nothing is ready, and nothing ever will be: every task waits for another.")
        ready = super().select(0)
        if not ready and timeout > 0:
            self.loop.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Made and closed by whoever uses it. A deadlock is an error, and no hang."""

    def __init__(self) -> None:
        selector = _Jumping()
        selector.loop = self
        self.now = 1000.0
        super().__init__(selector)

    def time(self) -> float:
        return self.now


class StandingClock:
    """Stops the clock of the running loop: its timers are due when a test moves the clock, however slow the machine is.

    Made within a coroutine. For real processes and threads, which a ``VirtualLoop`` does not wait for.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.now = self._loop.time()
        self._loop.time = lambda: self.now  # type: ignore[method-assign]

    async def move(self, seconds: float) -> None:
        """Moves the clock; what is due has been called afterwards."""
        self.now += seconds
        for _ in range(5):
            await asyncio.sleep(0)


class MovableLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock a test moves on, beside going as ever: long deadlines pass, and none by chance."""

    moved = 0.0

    def time(self) -> float:
        return super().time() + self.moved


def movable(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs a test in such a loop."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        with asyncio.Runner(loop_factory=MovableLoop) as runner:
            runner.run(test(*arguments, **named))

    return run


async def move(seconds: float) -> None:
    """Moves the clock of such a loop, and lets everything run that is ready then."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, MovableLoop)
    loop.moved += seconds
    await asyncio.sleep(0)
