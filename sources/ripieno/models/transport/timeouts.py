"""Time-outs of an answer: until it begins, between two pieces, and as a whole."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from typing import Any, TypeVar

from ripieno.descriptors.timeouts import Timeouts

_Value = TypeVar("_Value")


class Lateness(TimeoutError):
    """A time-out of ours: ``key`` is its name in the configuration, ``seconds`` its length."""

    def __init__(self, key: str, seconds: float) -> None:
        super().__init__(key)
        self.key = key
        self.seconds = seconds


class Watch:
    """The clock of one answer, from its request on. Created in the running loop.

    Only waits for the endpoint count, not the processing of a piece. One timer is moved when it fires: a timer for
    each piece takes longer than reading it (measured: 7 µs of 10).
    """

    __slots__ = ("_before", "_due", "_end", "_key", "_loop", "_rang", "_task", "_timeouts", "_timer")

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._loop = asyncio.get_running_loop()
        now = self._loop.time()
        self._end = now + timeouts.whole
        self._due = min(now + timeouts.first_byte, self._end)
        self._key = "first_byte"
        #: The waiting task, and how often others had cancelled it before.
        self._task: asyncio.Task[Any] | None = None
        self._before = 0
        self._rang = False
        self._timer: asyncio.TimerHandle | None = None

    async def begin(self, answer: Awaitable[_Value]) -> _Value:
        """Waits for the response's headers. Errors: ``Lateness``; those of ``answer``."""
        self._wait()
        try:
            return await answer
        except asyncio.CancelledError:
            self._judge()
            raise
        finally:
            self._task = None

    async def pieces(self, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        """The pieces of the answer, as they arrive. Errors: ``Lateness``; those of ``chunks``."""
        loop, between, end = self._loop, self._timeouts.between, self._end
        step = chunks.__anext__
        while True:
            self._wait()
            try:
                chunk = await step()
            except StopAsyncIteration:
                return
            except asyncio.CancelledError:
                self._judge()
                raise
            finally:
                self._task = None
            yield chunk
            self._key = "between"
            self._due = min(loop.time() + between, end)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        task = self._task = asyncio.current_task()
        if task is not None:
            self._before = task.cancelling()
        if self._timer is None or self._due < self._timer.when():
            self._set()

    def _set(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._due, self._ring)

    def _ring(self) -> None:
        self._timer = None
        task = self._task
        if task is None:
            return
        if self._loop.time() < self._due:
            self._set()
            return
        self._rang = True
        task.cancel()

    def _judge(self) -> None:
        """Turns the timer's cancellation, and no other, into an error. Errors: ``Lateness``."""
        if not self._rang:
            return
        self._rang = False
        if self._task is not None and self._task.uncancel() <= self._before:
            key = "whole" if self._due >= self._end else self._key
            raise Lateness(key, getattr(self._timeouts, key)) from None
