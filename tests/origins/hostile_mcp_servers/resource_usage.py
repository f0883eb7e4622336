"""What an encounter with a server may cost us: tasks, descriptors, threads, memory, and turns of the event loop."""

import asyncio
import contextlib
import dataclasses
import os
import pathlib
import time
from collections.abc import AsyncGenerator

from ripieno.sandbox import ProcessLimits
from ripieno.sandbox.processes import LocalSpawner, clean_environment

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PULSE = 0.01


@dataclasses.dataclass(slots=True, kw_only=True)
class Cost:
    """The longest seconds of computing in which the event loop did nothing else, and the growth of memory, in bytes."""

    busy: float = 0.0
    memory: int = 0


def _memory() -> int:
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * _PAGE


def _held() -> tuple[int, set[str]]:
    return len(os.listdir("/dev/fd")), {task.get_name() for task in asyncio.all_tasks()}


async def warm_up() -> None:
    """Starts what stands behind all processes: it starts with the first, and stays."""
    async with await LocalSpawner().start(["true"], clean_environment(), "/", ProcessLimits()) as process:
        await process.wait()


@contextlib.asynccontextmanager
async def watching(cost: Cost) -> AsyncGenerator[None, None]:
    """Measures into ``cost`` while it is entered; afterwards nothing may be left that was not there before."""
    before = _held()
    at_first = _memory()

    async def watch() -> None:
        computed = time.thread_time()
        while True:
            await asyncio.sleep(_PULSE)
            cost.busy = max(cost.busy, time.thread_time() - computed)
            cost.memory = max(cost.memory, _memory() - at_first)
            computed = time.thread_time()

    watcher = asyncio.create_task(watch())
    try:
        yield
    finally:
        watcher.cancel()
        await asyncio.wait((watcher,))
    # A process that was killed a moment ago may still be waited for by a thread.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(60):
            while _held() != before:  # noqa: ASYNC110
                await asyncio.sleep(_PULSE)
    after = _held()
    assert after == before
