"""``Owner``: one task that enters, holds and leaves a context manager, and enters it again after a loss.

Cancel scopes and task groups must be left by the task that entered them (measured: leaving from another one raises, or
leaks).
"""

import collections
import contextlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar, cast

from ripieno.lazy.modules import asyncio
from ripieno.values import Value

Held = TypeVar("Held")

#: Seconds that opening and closing may take.
OPEN_DEADLINE = 30.0
CLOSE_DEADLINE = 5.0
_CANCEL_DEADLINE = 2.0
#: Seconds between the cancellation of a call and giving up on a tool that ignores it.
GRACE = 2.0


class Recovery(Value, kw_only=True):
    """The schedule of reconnections. All values but ``attempts`` are in seconds.

    The first pause is ``first``, and each further one is twice as long, up to ``longest``. After ``attempts`` losses
    within ``window`` the pause is ``rest``.
    """

    first: float = 0.5
    longest: float = 30.0
    attempts: int = 5
    window: float = 300.0
    rest: float = 300.0

    def pause(self, losses: int) -> float:
        """Seconds before the next attempt, after this many losses within the window."""
        return self.rest if losses > self.attempts else min(self.first * 2.0 ** (losses - 1), self.longest)


class Owner(Generic[Held]):
    """Opens an asynchronous context manager in its own task.

    ``lost(error, pause)`` is called after a loss, with the seconds until it is opened again, or None for never.
    ``regained(value)`` is called when it is open again.
    """

    def __init__(
        self,
        name: str,
        opener: Callable[[], AbstractAsyncContextManager[Held]],
        *,
        deadline: float = OPEN_DEADLINE,
        recovery: Recovery | None = None,
        lost: Callable[[BaseException, float | None], None],
        regained: Callable[[Held], None] | None = None,
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

    async def open(self) -> Held:
        """Opens the context manager and returns its value.

        Errors: those of entering it; ``TimeoutError`` at the deadline, even if the opener ignores it. Then, and when
        this is cancelled, nothing stays open.
        """
        ready: asyncio.Future[Held] = asyncio.get_running_loop().create_future()
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

    async def _own(self, ready: "asyncio.Future[Held]") -> None:
        losses: collections.deque[float] = collections.deque()
        clock = asyncio.get_running_loop().time
        while (error := await self._hold(ready)) is not None:
            pause: float | None = None
            # A cancellation is the end of the event loop; there is no recovery.
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

    async def _hold(self, ready: "asyncio.Future[Held]") -> BaseException | None:
        """Opens it and holds it until ``close``. Returns the error that broke it; None at the end or if never open."""
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
            # A future cannot hold these two, which end a coroutine in their own way.
            if isinstance(what, asyncio.CancelledError | StopIteration):
                what = ConnectionError(f"Opening {self.name} was ended by {type(what).__name__}.")
            ready.set_exception(what)
            # Retrieved, so that asyncio logs no warning if the opener is gone.
            ready.exception()
        finally:
            self._opening = False
        return None

    def _late(self) -> str:
        return f"it did not open within {self._deadline:g} s"

    async def close(self) -> None:
        """Closes it and waits; cancels the task if it is slow. Raises no errors of closing.

        A task that is still opening is cancelled at once. A cancellation of the caller is raised at the end.
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
    """One line for an error; of a group, for its first leaf."""
    inner = error
    while isinstance(inner, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", inner).exceptions[0]
    try:
        text = str(inner).strip() or "no message"
    except Exception:  # ``__str__`` of a third party may fail.
        text = "its message cannot be read"
    return f"{type(inner).__name__}: {text}"
