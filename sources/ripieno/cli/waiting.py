"""A sign of life while servers take their time to start: who sits at a terminal is told which ones."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, Callable, Iterable

from ripieno.cli.running import say

#: Seconds in which most servers have started.
PATIENCE = 2.0


@contextlib.asynccontextmanager
async def telling(connecting: Callable[[], Iterable[str]], *, patience: float = PATIENCE) -> AsyncGenerator[None, None]:
    """Says once, where standard error is a terminal, which ensembles are still connecting after a while."""
    if not sys.stderr.isatty():
        yield
        return

    async def tell() -> None:
        await asyncio.sleep(patience)
        names = ", ".join(connecting())
        if names:
            say(f"Still connecting: {names} ...")

    task = asyncio.create_task(tell(), name="sign of life")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))
