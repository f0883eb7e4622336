"""How processes end: on time whoever holds the pipe, whatever they ignore, whenever we are cancelled."""

import asyncio
import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ripieno.ensembles.threads import end_idle_threads
from ripieno.sandbox import ProcessLimits, local_processes, zygote
from ripieno.sandbox.pipes import CHUNK
from ripieno.sandbox.processes import LocalSpawner, clean_environment, collect
from tests.counts import count
from tests.support.live_processes import QUICK, Living, living, start_living

#: Seconds. Less than what the scripts sleep; whoever waits for those, hangs.
HANG = 40
#: More of them are in the tests of supervisors.
ADVERSARIES = {
    "children": "sleep 60 & sleep 60 & ready; wait",
    "deaf": "trap '' TERM HUP INT; sleep 60 & ready; while :; do sleep 60; done",
}


@pytest.fixture
def alive(tmp_path: Path) -> Iterator[Living]:
    with living(tmp_path / "alive") as one:
        yield one


async def test_the_grace_is_two_seconds_and_is_given(alive: Living) -> None:
    assert ProcessLimits().grace == 2
    process = await start_living(ADVERSARIES["deaf"], alive, ProcessLimits(grace=0.3))
    began = time.monotonic()
    async with asyncio.timeout(HANG):
        await process.terminate()
    assert time.monotonic() - began > 0.29
    assert await process.wait() == -signal.SIGKILL


async def test_who_listens_ends_in_its_own_way(alive: Living) -> None:
    process = await start_living("trap 'exit 7' TERM; ready; sleep 60 & wait", alive)
    await process.terminate()
    assert await process.wait() == 7


async def test_terminate_may_be_called_by_many_and_again() -> None:
    process = await LocalSpawner().start(["sleep", "60"], clean_environment(), "/", QUICK)
    await asyncio.gather(*(process.terminate() for _ in range(5)))
    await process.terminate()
    assert await asyncio.gather(process.wait(), process.wait()) == [-signal.SIGTERM] * 2


async def test_an_error_in_the_body_ends_the_process(alive: Living) -> None:
    with pytest.raises(LookupError):
        async with await start_living("ready; sleep 60 & sleep 60", alive):
            raise LookupError
    assert alive.all_gone(30)


async def test_cancelling_a_wait_leaves_the_process_to_its_owner() -> None:
    async with await LocalSpawner().start(["sleep", "60"], clean_environment(), "/", QUICK) as process:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(process.wait(), 0.01)
        os.kill(process.pid, 0)


@pytest.mark.parametrize("script", [ADVERSARIES["children"], ADVERSARIES["deaf"]], ids=["listening", "deaf"])
async def test_cancelling_a_collect_at_any_instant_leaves_nothing(script: str, alive: Living) -> None:
    chance = random.Random(7)
    for _ in range(count(1000, 100)):
        process = await start_living(script, alive, ProcessLimits(grace=0.02))
        collecting = asyncio.create_task(collect(process))
        # Instants within the first steps of the collect, and while it waits.
        for _ in range(chance.randrange(6)):
            await asyncio.sleep(0)
        collecting.cancel()
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
            collecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await collecting
        await process.terminate()  # when the cancellation came before its first step
        assert alive.all_gone(30)
        with pytest.raises(ProcessLookupError):
            os.kill(process.pid, 0)


def test_a_loop_that_is_closed_meanwhile_still_kills(alive: Living) -> None:
    async def scenario() -> None:
        process = await start_living(ADVERSARIES["deaf"], alive, ProcessLimits(grace=60))
        ending = asyncio.create_task(process.terminate())
        await asyncio.sleep(0.01)
        assert not ending.done()
        # Leaving now cancels every task, the one that waits for the grace too.

    began = time.monotonic()
    asyncio.run(scenario())
    assert time.monotonic() - began < HANG
    assert alive.all_gone(30)


async def test_a_process_that_cannot_be_killed_is_given_up_and_reaped_later(
    monkeypatch: pytest.MonkeyPatch, alive: Living
) -> None:
    monkeypatch.setattr(local_processes, "_KILL_DEADLINE", 0.0)
    process = await start_living(ADVERSARIES["deaf"], alive, ProcessLimits(grace=0.0))
    await process.terminate()
    assert await process.wait() == -signal.SIGKILL
    async with asyncio.timeout(60):
        with contextlib.suppress(ProcessLookupError):
            while True:
                os.kill(process.pid, 0)
                await asyncio.sleep(0.001)


async def test_an_application_may_ignore_the_ends_of_children() -> None:
    """The system then waits for this program's own; those of supervisors are not among them."""
    former = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # The next zygote is started under it too.
    zygote.ZYGOTES.drop()
    try:
        async with await LocalSpawner().start(["sh", "-c", "exit 3"], clean_environment(), "/", QUICK) as process:
            assert await process.wait() == 3
    finally:
        signal.signal(signal.SIGCHLD, former)


MIXES = (
    "sleep 60 & printf {text}",
    "setsid sleep 60 & printf {text}",
    "nohup sleep 60 & printf {text}",
    "sleep 60 >/dev/null & printf {text}",
    "sleep 60 2>/dev/null & printf {text}",
    "sleep 60 >&2 & printf {text}",
    "(sleep 60 &) ; printf {text}",
    "printf {text}; exec sleep 0",
)


async def test_a_result_does_not_wait_for_who_holds_the_pipe_and_nothing_is_lost() -> None:
    """``make bench`` tells how long after its leader a result comes; here it comes before the holder's end."""
    text = "x" * 60_000

    async def once(mix: str) -> None:
        environment = clean_environment({"TEXT": text})
        script = mix.format(text='"$TEXT"')
        async with await LocalSpawner().start(["sh", "-c", script], environment, "/", ProcessLimits()) as process:
            async with asyncio.timeout(HANG):
                completed = await collect(process)
        assert (completed.exit_code, completed.stdout.total_bytes) == (0, len(text))
        assert completed.stdout.head + completed.stdout.tail == text.encode()

    for _ in range(0, count(1000, 100), len(MIXES)):
        await asyncio.gather(*(once(mix) for mix in MIXES))


def memory(field: str) -> int:
    """A line of Linux's account of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def forget_peak() -> None:
    """Makes VmHWM begin anew."""
    Path("/proc/self/clear_refs").write_text("5")


async def test_a_flood_costs_little_memory() -> None:
    """At most 16 MiB, for 10 GB under attack."""
    size = count(10 * 1000**3, 100)
    limits = ProcessLimits(kill_after=20 * 1000**3)
    forget_peak()
    before = memory("VmRSS")
    began = time.monotonic()
    async with await LocalSpawner().start(
        ["head", "-c", str(size), "/dev/zero"], clean_environment(), "/", limits
    ) as process:
        completed = await collect(process)
    rate = size / (time.monotonic() - began) / 1000**3
    grown = memory("VmHWM") - before
    print(f"flood: {size / 1000**3:.1f} GB at {rate:.1f} GB/s, peak +{grown / 2**20:.1f} MiB")
    assert (completed.exit_code, completed.stdout.total_bytes, completed.flooded) == (0, size, False)
    assert len(completed.stdout.head + completed.stdout.tail) == limits.output_bytes
    assert grown <= 16 * 2**20


@pytest.mark.parametrize(
    "script", ["yes", "yes >&2", "trap '' TERM; while :; do head -c 100000 /dev/zero; done", "yes & yes >&2"]
)
async def test_too_much_output_ends_the_process(script: str, alive: Living) -> None:
    limits = ProcessLimits(kill_after=4 * 2**20, grace=0.1)
    async with await start_living(f"ready; {script}", alive, limits) as process:
        completed = await collect(process)
    assert completed.flooded
    assert completed.exit_code < 0
    assert limits.kill_after < completed.stdout.total_bytes + completed.stderr.total_bytes <= limits.kill_after + 2**18
    assert alive.all_gone(30)


async def test_a_flood_lets_the_event_loop_turn() -> None:
    """Others have their turn after each piece that is read, however fast the pieces come."""
    turns = 0

    async def watch() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    async with await LocalSpawner().start(["yes"], clean_environment(), "/", ProcessLimits()) as process:
        completed = await collect(process)
    watching.cancel()
    assert completed.flooded
    assert turns >= completed.stdout.total_bytes / CHUNK


async def test_many_processes_leave_no_descriptor_thread_or_task() -> None:
    def census() -> tuple[int, int, int]:
        return len(os.listdir("/proc/self/fd")), threading.active_count(), len(asyncio.all_tasks())

    async def once() -> None:
        async with await LocalSpawner().start(["true"], clean_environment(), "/", QUICK, pipe_stdin=True) as process:
            await collect(process)
            assert threading.active_count() == threads

    end_idle_threads()
    threads = threading.active_count()
    await once()
    before = census()
    for _ in range(count(2000, 100)):
        await once()
    assert census() == before
