"""Delay of a result when another process still holds the pipes of a program that has ended."""

import asyncio
import time

from benchmarks.measurement import Row
from ripieno.sandbox import ProcessLimits
from ripieno.sandbox.processes import LocalSpawner, clean_environment, collect

HOLDERS = ("sleep 5 &", "nohup sleep 5 &", "sleep 5 >/dev/null &", "sleep 5 2>/dev/null &", "(sleep 5 &) ;")
ROUNDS = 20


async def held_pipes() -> list[Row]:
    """The worst of a hundred, five at a time. The leader writes when it ends, which is when the clock starts."""
    delays: list[float] = []

    async def once(holder: str) -> None:
        script = f"{holder} echo text; printf %s $(date +%s.%N) >&2"
        async with await LocalSpawner().start(
            ["sh", "-c", script], clean_environment(), "/", ProcessLimits()
        ) as process:
            completed = await collect(process)
        delays.append(time.time() - float(completed.stderr.text))

    for _ in range(ROUNDS):
        await asyncio.gather(*(once(holder) for holder in HOLDERS))
    return [Row(what="a result whose pipes are held", measured=max(delays) * 1e3, budget=500.0, unit="ms")]
