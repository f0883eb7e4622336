"""A search of a hundred thousand small files, against ripgrep itself with the same rules."""

import contextlib
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable

from benchmarks.measurement import Row
from ripieno.assembly import assemble
from ripieno.canisters import InvocationCanister
from ripieno.execution import Circumstances
from ripieno.jsonvalues import freeze
from ripieno.storage.places import Places

FILES, FOLDERS = 100_000, 1_000
RUNS = 5
_LINES = "".join(f"a line of text, number {number}\n" for number in range(20))


async def hundred_thousand() -> list[Row]:
    """Whole calls, as a model makes them, and whole runs of ripgrep, interleaved; then without it."""
    path = os.pathsep.join((str(pathlib.Path(sys.executable).parent), os.environ["PATH"]))
    ripgrep = shutil.which("rg", path=path)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name) / "workspace"
        _fill(root)
        if ripgrep is not None:
            command = [ripgrep, "--no-config", "--context=2", "--line-number", "--fixed-strings", "needle", "./"]

            async def theirs() -> None:
                subprocess.run(command, cwd=root, check=True, capture_output=True)  # noqa: ASYNC221  it is alone

            async with _calling(root, f"{pathlib.Path(ripgrep).parent}{os.pathsep}{path}") as ours:
                times = [(await _wall(ours), await _wall(theirs)) for _ in range(RUNS + 1)][1:]
            mine, others = (statistics.median(column) for column in zip(*times, strict=True))
            ratio = statistics.median(one / other for one, other in times)
            detail = f"{mine * 1e3:.0f} ms against {others * 1e3:.0f} ms"
            what = "search of 100 000 files"
            rows.append(Row(what=what, measured=ratio, budget=1.2, unit="times ripgrep", detail=detail))
        async with _calling(root, os.devnull) as ours:
            seconds = statistics.median([await _wall(ours) for _ in range(3)])
        rows.append(Row(what="  without ripgrep", measured=seconds, budget=None, unit="s"))
    return rows


def _fill(root: pathlib.Path) -> None:
    for folder in range(FOLDERS):
        place = root / f"{folder % 10}" / f"{folder:04}"
        place.mkdir(parents=True)
        for number in range(FILES // FOLDERS):
            text = _LINES + ("the needle\n" if (folder, number) in ((7, 7), (500, 50), (999, 99)) else "")
            (place / f"{number:03}.txt").write_text(text)


async def _wall(function: Callable[[], Awaitable[object]]) -> float:
    before = time.perf_counter()
    await function()
    return time.perf_counter() - before


@contextlib.asynccontextmanager
async def _calling(root: pathlib.Path, path: str) -> AsyncGenerator[Callable[[], Awaitable[None]], None]:
    """A call of ``search`` through the whole pipeline, with this PATH."""
    before = os.environ["PATH"]
    os.environ["PATH"] = path
    places = Places(configuration=root.parent / "configuration", state=root.parent / "state")
    settings = {"ensembles": {"enabled": ["search"]}, "sandbox": {"level": "auto"}}
    try:
        async with assemble(settings, workspace=root, places=places, secrets={}) as assembly:

            async def call() -> None:
                invocation = InvocationCanister(
                    identifier="call", name="search", arguments=freeze({"pattern": "needle"})
                )
                around = Circumstances(conversation="bench", namespaces={}, notify=lambda _: None)
                result = await assembly.execution.execute(
                    invocation, ensembles=assembly.ensembles, circumstances=around
                )
                if result.error is not None or "3 lines in 3 files" not in str(result.content):
                    raise AssertionError(result)

            yield call
    finally:
        os.environ["PATH"] = before
