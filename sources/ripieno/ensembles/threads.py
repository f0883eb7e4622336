"""Runs plain functions outside the event loop, in one daemon thread per call.

With a pool, a few hung functions would block all the others and keep the interpreter from exiting. A new thread costs
some 40 µs.
"""

import contextlib
import contextvars
import inspect
import threading
from collections.abc import Callable
from typing import TypeVar

from ripieno.lazy.modules import asyncio

Result = TypeVar("Result")


async def run_in_thread(
    function: Callable[..., Result], *arguments: object, name: str = "invocable", patient: bool = True
) -> Result:
    """Runs ``function`` in a thread; returns or raises its outcome.

    A thread cannot be stopped. A cancelled ``patient`` wait goes on: if the function returns a value, that is returned,
    since its work is done; if it raises, the cancellation is raised. A second cancellation, or the first one of a wait
    that is not patient, ends the wait at once; the thread then ends by itself. A caller that does more than return the
    value should not be patient.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()
    context = contextvars.copy_context()

    def settle(method: Callable[..., None], value: object) -> None:
        if not future.done():
            method(value)

    def body() -> None:
        try:
            outcome: object = context.run(function, *arguments)
            method: Callable[..., None] = future.set_result
        except BaseException as error:  # SystemExit too: it must not end the thread silently.
            # A future refuses StopIteration, which would end a coroutine like a return.
            outcome = RuntimeError("The function raised StopIteration.") if isinstance(error, StopIteration) else error
            method = future.set_exception
        with contextlib.suppress(RuntimeError):  # The event loop is closed, and nothing waits.
            loop.call_soon_threadsafe(settle, method, outcome)

    threading.Thread(target=body, name=f"ripieno {name}", daemon=True).start()
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait((future,))
        except asyncio.CancelledError as error:
            if cancelled is not None or not patient:
                future.cancel()
                raise
            cancelled = error
    if cancelled is not None and future.exception() is not None:
        raise cancelled
    return future.result()


def is_asynchronous(invocable: object) -> bool:
    """Whether calling it returns an awaitable, as far as can be determined without a call."""
    return inspect.iscoroutinefunction(invocable) or inspect.iscoroutinefunction(getattr(invocable, "__call__", None))  # noqa: B004
