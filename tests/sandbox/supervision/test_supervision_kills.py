"""The kill law: whatever a process starts, and however it ends, nothing of it is left after two seconds.

Six adversaries, two leaders, four ends, 250 times each: 12,000 under attack. Whoever holds a named pipe is alive.
"""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from ripieno.sandbox import ProcessLimits
from ripieno.sandbox.processes import LocalProcess, LocalSpawner, clean_environment, collect
from tests.counts import ATTACK, count
from tests.sandbox.supervision.escaping_programs import SCRIPTS
from tests.support.live_processes import Living, living

#: Seconds. What is promised is watched where the machine is not shared with other tests.
PROMISE = 2.0 if ATTACK else 60.0
ROUNDS = count(250, 100)
ROOT = Path(__file__).parents[3]


@pytest.fixture
def census(tmp_path: Path) -> Iterator[dict[str, Living]]:
    """A ``Living`` for each script, which is used again in each round."""
    with contextlib.ExitStack() as stack:
        yield {name: stack.enter_context(living(tmp_path / str(place))) for place, name in enumerate(SCRIPTS)}


async def start(script: str, alive: Living) -> LocalProcess:
    environment = clean_environment({"ALIVE": str(alive.path)})
    process = await LocalSpawner().start(["sh", "-c", script], environment, "/", ProcessLimits(grace=0.05))
    assert await process.stdout.read(6) == b"ready\n"
    assert alive.anybody
    return process


async def end(process: LocalProcess, script: str) -> None:
    if script.endswith("exit 0"):
        assert (await collect(process)).exit_code == 0
    await process.terminate()


async def time_out(process: LocalProcess, script: str) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.02):
            await collect(process)


async def cancel(process: LocalProcess, script: str) -> None:
    collecting = asyncio.create_task(collect(process))
    await asyncio.sleep(0)
    collecting.cancel()
    await asyncio.wait((collecting,))
    assert collecting.cancelled()


@pytest.mark.parametrize("ending", [end, time_out, cancel], ids=["end", "timeout", "cancel"])
async def test_nothing_is_left_of_a_process(
    ending: Callable[[LocalProcess, str], Awaitable[None]], census: dict[str, Living]
) -> None:
    survivors: list[str] = []

    async def once(name: str, script: str) -> None:
        await ending(await start(script, census[name]), script)
        if not await asyncio.to_thread(census[name].all_gone, PROMISE):
            survivors.append(name)

    for _ in range(ROUNDS):
        await asyncio.gather(*(once(name, script) for name, script in SCRIPTS.items()))
        assert survivors == []


def test_nothing_is_left_of_an_application_that_is_killed(census: dict[str, Living]) -> None:
    folder = next(iter(census.values())).path.parent
    argv = [
        sys.executable,
        "-m",
        "tests.sandbox.supervision.killed_application",
        str(folder),
        *map(str, range(len(SCRIPTS))),
    ]
    for _ in range(ROUNDS):
        with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=ROOT) as application:
            assert application.stdout is not None
            assert application.stdout.readline() == b"ready\n"
            assert all(alive.anybody for alive in census.values())
            application.kill()
        assert [name for name, alive in census.items() if not alive.all_gone(PROMISE)] == []
