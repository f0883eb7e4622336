"""One task that owns something open: enters it, keeps it, and leaves it.

Cancel scopes and task groups must be left by the task that entered them (measured: leaving from another one
raises, or leaks). So whoever wants something open tells an owner, and waits.
"""

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar, cast

Value = TypeVar("Value")

#: Seconds that opening and closing may take.
OPEN_DEADLINE = 30.0
CLOSE_DEADLINE = 5.0
_CANCEL_DEADLINE = 2.0


class Owner(Generic[Value]):
    """Opens an asynchronous context manager in a task of its own. ``lost`` is told what broke it later."""

    def __init__(
        self,
        name: str,
        opener: Callable[[], AbstractAsyncContextManager[Value]],
        *,
        deadline: float = OPEN_DEADLINE,
        lost: Callable[[BaseException], None],
    ) -> None:
        self.name = name
        self._opener = opener
        self._deadline = deadline
        self._lost = lost
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[Value] | None = None
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> Value:
        """What the context manager gives.

        Errors: whatever entering raises; ``TimeoutError`` at the deadline, also when the opener does not heed it.
        Nothing is left open then, nor when this is cancelled.
        """
        ready: asyncio.Future[Value] = asyncio.get_running_loop().create_future()
        self._ready = ready
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
        timeout = asyncio.timeout(self._deadline)
        try:
            async with contextlib.AsyncExitStack() as stack:
                async with timeout:
                    value = await stack.enter_async_context(self._opener())
                ready.set_result(value)
                await self._stop.wait()
        except BaseException as error:
            if ready.done():
                if not self._stop.is_set():
                    self._lost(error)
                return
            # A future takes neither of the two that end a coroutine in their own way.
            if isinstance(error, asyncio.CancelledError | StopIteration):
                error = ConnectionError(f"Opening {self.name} was ended by {type(error).__name__}.")
            elif isinstance(error, TimeoutError) and timeout.expired():
                error = TimeoutError(self._late())
            ready.set_exception(error)
            # Whoever opened may be gone; an exception that nobody asks for is no news then.
            ready.exception()

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
        if self._ready is not None and not self._ready.done():
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
