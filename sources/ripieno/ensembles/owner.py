"""One task that owns something open: enters it, keeps it, and leaves it; what was lost it enters again.

Cancel scopes and task groups must be left by the task that entered them (measured: leaving from another one
raises, or leaks). So whoever wants something open tells an owner, and waits.
"""

import asyncio
import collections
import contextlib
import dataclasses
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar, cast

Value = TypeVar("Value")

#: Seconds that opening and closing may take.
OPEN_DEADLINE = 30.0
CLOSE_DEADLINE = 5.0
_CANCEL_DEADLINE = 2.0
#: Seconds between the cancellation of a call and giving up on a tool that ignores it.
GRACE = 2.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """How what was lost is opened again. All but ``attempts`` in seconds.

    The first pause is ``first``, and each further one is twice as long, up to ``longest``. After ``attempts`` losses
    within ``window`` the next attempt comes after ``rest``: something that breaks again and again is left alone.
    """

    first: float = 0.5
    longest: float = 30.0
    attempts: int = 5
    window: float = 300.0
    rest: float = 300.0

    def pause(self, losses: int) -> float:
        """Seconds before the next attempt, after this many losses within the window."""
        return self.rest if losses > self.attempts else min(self.first * 2.0 ** (losses - 1), self.longest)


class Owner(Generic[Value]):
    """Opens an asynchronous context manager in a task of its own.

    ``lost(error, pause)`` is told what broke it later, and after how many seconds it is opened again: None for never.
    ``regained(value)`` is told when it is.
    """

    def __init__(
        self,
        name: str,
        opener: Callable[[], AbstractAsyncContextManager[Value]],
        *,
        deadline: float = OPEN_DEADLINE,
        recovery: Recovery | None = None,
        lost: Callable[[BaseException, float | None], None],
        regained: Callable[[Value], None] | None = None,
    ) -> None:
        self.name = name
        self._opener = opener
        self._deadline = deadline
        self._recovery = recovery
        self._lost = lost
        self._regained = regained
        self._stop = asyncio.Event()
        self._opening = False
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> Value:
        """What the context manager gives.

        Errors: whatever entering raises; ``TimeoutError`` at the deadline, also when the opener does not heed it.
        Nothing is left open then, nor when this is cancelled.
        """
        ready: asyncio.Future[Value] = asyncio.get_running_loop().create_future()
        self._opening = True
        self._task = asyncio.create_task(self._own(ready), name=f"owner of {self.name}")
        try:
            await asyncio.wait((ready,), timeout=self._deadline + _CANCEL_DEADLINE)
        except asyncio.CancelledError:
            await self.close()
            raise
        if not ready.done():
            await self.close()
            raise TimeoutError(self._late())
        return ready.result()

    async def _own(self, ready: asyncio.Future[Value]) -> None:
        losses: collections.deque[float] = collections.deque()
        clock = asyncio.get_running_loop().time
        while (error := await self._hold(ready)) is not None:
            pause: float | None = None
            # A cancellation is the end of the loop, and nothing that could be mended.
            if self._recovery is not None and isinstance(error, Exception):
                now = clock()
                losses.append(now)
                while losses[0] < now - self._recovery.window:
                    losses.popleft()
                pause = self._recovery.pause(len(losses))
            self._lost(error, pause)
            if pause is None:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stop.wait()
                    return

    async def _hold(self, ready: asyncio.Future[Value]) -> BaseException | None:
        """Opens, and keeps it until it is told to stop. What broke it; None at the end, or when it never opened."""
        timeout = asyncio.timeout(self._deadline)
        self._opening = True
        try:
            async with contextlib.AsyncExitStack() as stack:
                async with timeout:
                    value = await stack.enter_async_context(self._opener())
                self._opening = False
                if not ready.done():
                    ready.set_result(value)
                elif self._regained is not None:
                    self._regained(value)
                await self._stop.wait()
        except BaseException as error:
            late = self._opening and isinstance(error, TimeoutError) and timeout.expired()
            what = TimeoutError(self._late()) if late else error
            if ready.done():
                return None if self._stop.is_set() else what
            # A future takes neither of the two that end a coroutine in their own way.
            if isinstance(what, asyncio.CancelledError | StopIteration):
                what = ConnectionError(f"Opening {self.name} was ended by {type(what).__name__}.")
            ready.set_exception(what)
            # Whoever opened may be gone; an exception that nobody asks for is no news then.
            ready.exception()
        finally:
            self._opening = False
        return None

    def _late(self) -> str:
        return f"it did not open within {self._deadline:g} s"

    async def close(self) -> None:
        """Leaves what was entered, and waits for it; cancels what is slow. Never raises for what goes wrong there.

        What is still opening is cancelled at once. A cancellation that comes meanwhile is let through at the end.
        """
        task = self._task
        if task is None:
            return
        self._stop.set()
        deadlines = [CLOSE_DEADLINE, _CANCEL_DEADLINE]
        if self._opening:
            task.cancel()
            del deadlines[0]
        cancelled: asyncio.CancelledError | None = None
        for deadline in deadlines:
            try:
                await asyncio.wait((task,), timeout=deadline)
            except asyncio.CancelledError as error:
                cancelled = error
            if task.done():
                break
            task.cancel()
        if cancelled is not None:
            raise cancelled


def reason(error: BaseException) -> str:
    """One line for an error, looking into groups for what really happened."""
    inner = error
    while isinstance(inner, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", inner).exceptions[0]
    try:
        text = str(inner).strip() or "it gave no message"
    except Exception:  # Strangers' errors may fail at this, too.
        text = "it could not say why"
    return f"{type(inner).__name__}: {text}"
