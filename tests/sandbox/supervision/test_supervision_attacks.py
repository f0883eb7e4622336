"""Supervisors that are attacked: killed, stopped, and flooded with forks."""

import asyncio
import contextlib
import itertools
import os
import pathlib
import random
import select
import signal
import subprocess
import sys

import pytest

from ripieno.exceptions import ResourceFault
from ripieno.sandbox import ProcessLimits, supervisor
from ripieno.sandbox import zygote as zygote_module
from ripieno.sandbox.orders import make_order
from ripieno.sandbox.processes import LocalSpawner, clean_environment, collect
from tests.counts import count
from tests.sandbox.supervision.starts import HANG, confined, parent, program_of, run
from tests.support.live_processes import QUICK, Living, living, start_living
from tests.support.sandbox_tiers import shelter

#: Forks as fast as it can until there are so many, each of which forks again for every token that it finds.
STORM = """
import os, time
tokens, other = os.pipe()
os.set_blocking(tokens, False)
os.write(other, b"x" * {size})
seen = 0
while True:
    try:
        os.read(tokens, 1)
    except BlockingIOError:
        time.sleep(600)
    if os.fork() == 0:
        os.setsid()
    elif (seen := seen + 1) == 5:
        os.write(1, b"ready\\n")
"""


async def test_a_program_that_kills_its_keeper_is_killed_with_all_of_it(alive: Living) -> None:
    script = "setsid sleep 600 & (sleep 600 &) ; echo ready; read go; kill -9 $PPID; sleep 600"
    for _ in range(count(400, 80)):
        process = await start_living(script, alive)
        assert process.stdin is not None
        await process.stdin.write(b"\n")
        async with asyncio.timeout(HANG):
            assert await process.wait() == -signal.SIGKILL
        assert await asyncio.to_thread(alive.all_gone, 30)
        await process.terminate()


async def test_a_program_that_kills_its_keeper_at_once_was_killed(alive: Living) -> None:
    for _ in range(count(400, 80)):
        completed = await run("sh", "-c", f"exec 9>{alive.path}; setsid sleep 600 & kill -9 $PPID; sleep 600")
        assert completed.exit_code == -signal.SIGKILL
        assert await asyncio.to_thread(alive.all_gone, 30)


async def test_a_program_that_stops_its_keeper_is_ended_all_the_same(alive: Living) -> None:
    for _ in range(count(100, 50)):
        process = await start_living("setsid sleep 600 & kill -STOP $PPID; echo ready; sleep 600", alive)
        await process.terminate()
        assert await asyncio.to_thread(alive.all_gone, 30)


KILL_ZYGOTE = "kill -9 $(cut -d' ' -f4 /proc/$PPID/stat)"


async def test_a_program_that_kills_the_zygote_runs_on_and_leaves_nothing(alive: Living) -> None:
    for _ in range(count(100, 50)):
        process = await start_living(f"{KILL_ZYGOTE}; setsid sleep 600 & (sleep 600 &) ; echo ready; exit 3", alive)
        completed = await collect(process)
        assert (completed.exit_code, completed.stopped) == (3, 2)
        assert await asyncio.to_thread(alive.all_gone, 30)
        assert (await run("true")).exit_code == 0


def test_nothing_is_left_when_the_zygote_is_killed_and_then_the_application(tmp_path: pathlib.Path) -> None:
    with living(tmp_path / "alive") as alive:
        argv = program_of(f"""
async def main():
    script = r'''exec 9>{alive.path}; {KILL_ZYGOTE}; setsid sleep 600 & echo ready; sleep 600'''
    one = await LocalSpawner().start(["sh", "-c", script], clean_environment(), "/", ProcessLimits())
    await one.stdout.read()
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
""")
        assert subprocess.run(argv, timeout=HANG, check=False).returncode == -signal.SIGKILL
        assert alive.all_gone(30)


async def test_a_zygote_that_was_stopped_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_PATIENCE", 4.0)
    async with await LocalSpawner().start(["sleep", "60"], clean_environment(), "/", QUICK) as process:
        zygote = parent(parent(process.pid))
    gone = select.poll()
    descriptor = os.pidfd_open(zygote)
    gone.register(descriptor, select.POLLIN)
    os.kill(zygote, signal.SIGSTOP)
    for _ in range(3):
        async with asyncio.timeout(HANG):
            assert (await run("true")).exit_code == 0
    # It goes on and finds that nobody needs it.
    assert await asyncio.to_thread(gone.poll, HANG * 1000)
    os.close(descriptor)


def supervisors() -> list[list[int]]:
    """The zygote, its keepers, and the first processes of their namespaces."""
    zygote = zygote_module.ZYGOTES._zygote
    assert zygote is not None
    keepers = children(zygote.pid)
    return [[zygote.pid], keepers, [one for keeper in keepers for one in children(keeper)]]


def children(pid: int) -> list[int]:
    """Those that it has; none when it has just ended."""
    with contextlib.suppress(OSError):
        return list(map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    return []


def hold(pid: int) -> list[int]:
    """A descriptor of a process; none when it has just ended."""
    with contextlib.suppress(ProcessLookupError):
        return [os.pidfd_open(pid)]
    return []


def is_asleep(pid: int) -> bool:
    """Whether it waits for something, or has ended."""
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "SZ"
    return True


async def end_of(descriptors: list[int], seconds: float = HANG) -> int:
    """How many of these processes have not ended after some seconds."""
    left = 0
    for descriptor in descriptors:
        gone = select.poll()
        gone.register(descriptor, select.POLLIN)
        left += not await asyncio.to_thread(gone.poll, seconds * 1000)
        os.close(descriptor)
    return left


#: Nothing, or a signal, for the zygote, for its keepers, and for the first processes of namespaces.
SIGNALS = (0, signal.SIGSTOP, signal.SIGKILL)


@pytest.mark.parametrize("name", ["tier 0", "tier 1"])
async def test_the_next_program_starts_whatever_supervisors_are_stopped_or_killed(
    name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_PATIENCE", 3.0)
    sandbox = None if name == "tier 0" else shelter(name, tmp_path)
    confinement = None if sandbox is None else sandbox.confinement()

    async def start() -> int:
        async with await LocalSpawner().start(
            ["true"], clean_environment(), "/", ProcessLimits(), confinement=confinement
        ) as process:
            return await process.wait()

    assert await start() == 0
    failed: list[object] = []
    left: list[object] = []
    cases = random.Random(23).sample(list(itertools.product(SIGNALS, repeat=3)), count(27, 9))
    for signals in cases:
        zygote_module.ZYGOTES.prepare(b"" if confinement is None else make_order(["true"], {}, confinement).settings)
        # A keeper that is prepared answers to a request.
        assert await start() == 0
        assert await start() == 0
        # The zygote has reported its number, and the one that has done its work is about to end.
        for spare in zygote_module.ZYGOTES._spares.values():
            assert await asyncio.to_thread(select.select, [spare], [], [], HANG) != ([], [], [])
        while len((found := supervisors())[1]) > len(zygote_module.ZYGOTES._spares):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        # A first process that is stopped before it is tied to its keeper outlives it (the page of the sandbox says so).
        while not all(map(is_asleep, found[2])):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        kept = [descriptor for group in found[1:] for one in group for descriptor in hold(one)]
        for number, group in zip(signals, found, strict=True):
            for one in group if number else ():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one, number)
        killed = [group for group, number in zip(found, signals, strict=True) if number == signal.SIGKILL]
        # Otherwise a keeper may take the order, and be killed with the program.
        while any(os.path.exists(f"/proc/{one}/exe") for group in killed for one in group):  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0.001)
        try:
            async with asyncio.timeout(20):
                code = await start()
                if code != 0:
                    failed.append((signals, code))
        except (TimeoutError, ResourceFault) as error:
            failed.append((signals, error))
        zygote_module.ZYGOTES.drop()
        # A keeper without its zygote and without the processes beneath it is lost, and does nothing.
        known = signals == (signal.SIGKILL, signal.SIGSTOP, signal.SIGKILL)
        if await end_of(kept, 1 if known else HANG) and not known:
            left.append(signals)
        with contextlib.suppress(ProcessLookupError):
            os.kill(found[0][0], signal.SIGCONT)
    assert (failed, left) == ([], []), f"of {len(cases)}"
    if sandbox is not None:
        sandbox.close()


@pytest.mark.usefixtures("stand_in")
async def test_a_start_ends_whose_keeper_is_stopped_meanwhile(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is not tried again: the program may have begun."""
    monkeypatch.setattr(supervisor, "_PATIENCE", 3.0)
    for signals in itertools.product(SIGNALS[1:], repeat=2):
        async with asyncio.timeout(30):
            script = f"echo once >> {tmp_path}/runs"
            with contextlib.suppress(ResourceFault):
                await confined(["sh", "-c", script], signals=[int(one) for one in signals])
            assert (await confined(["sh", "-c", "exit 3"])).exit_code == 3
    runs = tmp_path / "runs"
    assert not runs.exists() or len(runs.read_text().splitlines()) <= 4


async def test_a_start_that_is_cancelled_at_any_instant_leaves_nothing(alive: Living) -> None:
    environment = clean_environment({"ALIVE": str(alive.path)})
    argv = ["sh", "-c", 'exec 9>"$ALIVE"; setsid sleep 600 & sleep 600']
    before = len(os.listdir("/proc/self/fd"))
    for steps in range(count(400, 80)):
        starting = asyncio.create_task(LocalSpawner().start(argv, environment, "/", QUICK))
        for _ in range(steps % 6):
            await asyncio.sleep(0)
        if steps % 2:
            await asyncio.sleep(0.0005 * (steps % 13))
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await starting).terminate()
    assert await asyncio.to_thread(alive.all_gone, 30)
    zygote_module.ZYGOTES.prepare(b"")
    assert len(os.listdir("/proc/self/fd")) <= before + 3


@pytest.mark.parametrize("leader", ["stays", "exits"])
async def test_a_fork_storm_is_over_in_time(leader: str, alive: Living) -> None:
    storm = STORM.format(size=400)
    for _ in range(count(100, 50)):
        # Whoever reads the first line has five processes or more before it, and the rest are coming.
        ending = "wait" if leader == "stays" else "sleep 0.05"
        process = await start_living(f"{sys.executable} -I -S -c '{storm}' & {ending}", alive)
        await process.terminate()
        assert await asyncio.to_thread(alive.all_gone, 30)


async def test_a_signal_reaches_the_process(alive: Living) -> None:
    process = await start_living("trap 'echo usr; exit 4' USR1; echo ready; while :; do sleep 0.01; done", alive)
    process.signal(signal.SIGUSR1)
    assert await process.wait() == 4
    process.signal(signal.SIGUSR1)
    await process.terminate()
    process.signal(signal.SIGUSR1)
