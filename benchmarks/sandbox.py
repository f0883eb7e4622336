"""Cost of safety: opening a file beneath the workspace, and starting a program in a sandbox."""

import asyncio
import pathlib
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable

from benchmarks.measurement import Row, per_call
from ripieno.descriptors.sandbox import SandboxDescriptor
from ripieno.sandbox import ProcessLimits, Sandbox
from ripieno.sandbox.processes import LocalSpawner, collect
from ripieno.toolset.workspace.workspace import Workspace

RUNS = 100
#: Milliseconds over a bare spawn.
_BUDGETS = {0: None, 1: 6.0, 2: 10.0}


async def safe_open() -> list[Row]:
    """A file three folders deep, as every file tool opens it, against ``open`` itself."""
    with tempfile.TemporaryDirectory() as name:
        path = _file(pathlib.Path(name))
        with Workspace(name) as room:
            mine = per_call(lambda: room.open_file("one/two/three/file").close(), number=5_000)
        theirs = per_call(lambda: path.open("rb").close(), number=5_000)
    return [Row(what="a safe open", measured=mine, budget=30.0, unit="µs", detail=f"open itself {theirs:.0f} µs")]


async def confined_starts() -> list[Row]:
    """A program that ends at once: started, awaited and swept in each tier, interleaved with a bare spawn."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        for tier in (0, 1, 2):
            sandbox = Sandbox(pathlib.Path(name), SandboxDescriptor(level="auto", tier=tier))
            if sandbox.tier != tier:
                continue

            async def ours(sandbox: Sandbox = sandbox) -> None:
                confinement = sandbox.confinement(writable=(name,), readable=(name,))
                process = await LocalSpawner().start(
                    ["true"], sandbox.environment(), name, ProcessLimits(), confinement=confinement
                )
                async with process:
                    if (await collect(process)).exit_code != 0:
                        raise AssertionError(sandbox.name)

            times = [(await _wall(ours), await _wall(_bare)) for _ in range(RUNS + 5)][5:]
            sandbox.close()
            mine, bare = (statistics.median(column) * 1e3 for column in zip(*times, strict=True))
            rows.append(
                Row(
                    what=f"a command in tier {tier}, over a bare spawn",
                    measured=mine - bare,
                    budget=_BUDGETS[tier],
                    unit="ms",
                    detail=f"{mine:.1f} ms against {bare:.1f} ms",
                )
            )
    return rows


def _file(root: pathlib.Path) -> pathlib.Path:
    path = root / "one" / "two" / "three" / "file"
    path.parent.mkdir(parents=True)
    path.write_text("text")
    return path


async def _bare() -> None:
    process = await asyncio.create_subprocess_exec(
        "true", stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    await process.communicate()


async def _wall(function: Callable[[], Awaitable[object]]) -> float:
    before = time.perf_counter()
    await function()
    return time.perf_counter() - before
