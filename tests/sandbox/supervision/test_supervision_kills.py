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
from ripieno.sandbox.local_processes import LocalProcess
from ripieno.sandbox.processes import collect
from tests.counts import ATTACK, count
from tests.support.live_processes import Living, living, start_living

#: Seconds. What is promised is watched where the machine is not shared with other tests.
PROMISE = 2.0 if ATTACK else 60.0
ROUNDS = count(250, 100)
#: Forks as fast as it can, in a session of its own each time; whoever looks at one sees the one before.
HOPPER = "import os\nwhile True:\n    if os.fork(): os._exit(0)\n    os.setsid()\n"
#: Each starts something that goes on after its leader.
ADVERSARIES = {
    "plain": "sleep 600 & sleep 600 &",
    "setsid": "setsid sleep 600 &",
    "double fork": "(setsid sh -c '(sleep 600 &) ; sleep 600' &) ; (sleep 600 &) ;",
    "deaf": "trap '' TERM HUP INT QUIT USR1; setsid sh -c \"trap '' TERM HUP INT; while :; do sleep 600; done\" &",
    "env-cleared": "env -i setsid sleep 600 & (env -i sleep 600 &) ;",
    "stopped": "sh -c 'kill -STOP $$; sleep 600' & setsid sh -c 'kill -STOP $$; sleep 600' &",
    "hopper": f"{sys.executable} -I -S -c '{HOPPER}' &",
}
#: What the leader does then.
LEADERS = {"stays": "while :; do sleep 600; done", "exits": "exit 0"}
#: Every adversary with every leader, for shells that hold a ``Living`` open.
SCRIPTS = {
    f"{name}, leader {doing}": f"{start} echo ready; {end}"
    for name, start in ADVERSARIES.items()
    for doing, end in LEADERS.items()
}
#: Runs each of these scripts with the ``Living`` of its place in a folder, writes a line when all are there, and waits.
APPLICATION = """
import asyncio, pathlib, sys
from ripieno.sandbox import ProcessLimits
from ripieno.sandbox.processes import LocalSpawner, clean_environment

async def run(path, script):
    argv = ["sh", "-c", f'exec 9>"$ALIVE"; {script}']
    process = await LocalSpawner().start(argv, clean_environment({"ALIVE": path}), "/", ProcessLimits())
    assert await process.stdout.read(6) == b"ready\\n"
    if script.endswith("exit 0"):
        await process.wait()

async def main():
    folder, *scripts = sys.argv[1:]
    await asyncio.gather(*(run(f"{folder}/{place}", one) for place, one in enumerate(scripts)))
    print("ready", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture
def census(tmp_path: Path) -> Iterator[dict[str, Living]]:
    """A ``Living`` for each script, which is used again in each round."""
    with contextlib.ExitStack() as stack:
        yield {name: stack.enter_context(living(tmp_path / str(place))) for place, name in enumerate(SCRIPTS)}


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
        process = await start_living(script, census[name], ProcessLimits(grace=0.05))
        assert census[name].anybody
        await ending(process, script)
        if not await asyncio.to_thread(census[name].all_gone, PROMISE):
            survivors.append(name)

    for _ in range(ROUNDS):
        await asyncio.gather(*(once(name, script) for name, script in SCRIPTS.items()))
        assert survivors == []


def test_nothing_is_left_of_an_application_that_is_killed(census: dict[str, Living]) -> None:
    folder = next(iter(census.values())).path.parent
    argv = [sys.executable, "-c", APPLICATION, str(folder), *SCRIPTS.values()]
    for _ in range(ROUNDS):
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as application:
            assert application.stdout is not None
            assert application.stdout.readline() == b"ready\n"
            assert all(alive.anybody for alive in census.values())
            application.kill()
        assert [name for name, alive in census.items() if not alive.all_gone(PROMISE)] == []
