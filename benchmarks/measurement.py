"""Pairs, medians, and the server that stands on the other side."""

import contextlib
import dataclasses
import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One promise: what was measured, against what, and the budget. A ratio or an amount, in ``unit``.

    ``measured`` is None if that was not possible here; ``detail`` says why.
    """

    what: str
    measured: float | None
    budget: float | None
    unit: str
    detail: str = ""

    @property
    def kept(self) -> bool | None:
        """Whether the budget holds; None where there is none, or no figure."""
        return None if self.budget is None or self.measured is None else self.measured <= self.budget


async def cpu(function: Callable[[], Awaitable[object]]) -> float:
    """Seconds of this process's CPU for one call; rubbish of earlier calls is collected before."""
    gc.collect()
    before = time.process_time()
    await function()
    return time.process_time() - before


async def pairs(
    ours: Callable[[], Awaitable[object]], theirs: Callable[[], Awaitable[object]], *, runs: int
) -> tuple[float, float, float]:
    """Medians of interleaved pairs after a warm-up: seconds of ours, of theirs, and the ratio pair by pair."""
    await ours()
    await theirs()
    measured = [(await cpu(ours), await cpu(theirs)) for _ in range(runs)]
    mine, others = zip(*measured, strict=True)
    return statistics.median(mine), statistics.median(others), statistics.median(a / b for a, b in measured)


def per_call(function: Callable[[], object], *, number: int = 20_000, runs: int = 5) -> float:
    """Microseconds of CPU for one call: the median of several runs."""
    times: list[float] = []
    for _ in range(runs):
        before = time.process_time()
        for _ in range(number):
            function()
        times.append((time.process_time() - before) / number * 1e6)
    return statistics.median(times)


@contextlib.contextmanager
def server() -> Iterator[str]:
    """The address of an endpoint in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        if process.stdout is None or process.stdin is None:
            raise RuntimeError("The server has no pipes.")
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()


def wall(*commands: list[str], runs: int = 5) -> list[float]:
    """Median seconds of whole processes, interleaved, after a warm-up. Errors: ``CalledProcessError``."""
    times: list[list[float]] = [[] for _ in commands]
    for _ in range(runs + 1):
        for command, mine in zip(commands, times, strict=True):
            before = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            mine.append(time.perf_counter() - before)
    return [statistics.median(mine[1:]) for mine in times]
