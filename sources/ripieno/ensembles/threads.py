"""Plain functions off the event loop: one daemon thread a call.

A pool would let a few hung functions starve all the others and would keep the interpreter from ending; a
thread of its own costs some 40 µs and does neither.
"""

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


async def run_in_thread(
    function: Callable[..., Result], *arguments: object, name: str = "invocable", patient: bool = True
) -> Result:
    """What ``function`` returns or raises.

    A thread cannot be stopped. When a patient wait is cancelled it goes on, so that a value that comes all the same
    is returned: what was done was done. When the function ends with an error instead, the cancellation is raised.
    A second cancellation lets go at once, and so does the first one of a wait that is not patient; the thread then
    ends alone. Whoever does more than return the value should not be patient.
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
        except BaseException as error:  # SystemExit too: it must not end the thread in silence.
            # A future refuses StopIteration, which would end a coroutine as if it had returned.
            outcome = RuntimeError("The function raised StopIteration.") if isinstance(error, StopIteration) else error
            method = future.set_exception
        with contextlib.suppress(RuntimeError):  # The loop is gone, and with it whoever waited.
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
