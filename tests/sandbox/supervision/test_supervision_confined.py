"""Supervisors and a confinement: who applies it, which keepers are ready, and namespaces of processes."""

import asyncio
import os
import pathlib
import signal

import pytest

from ripieno.exceptions import ResourceFault
from ripieno.sandbox import zygote as zygote_module
from ripieno.sandbox.processes import LocalSpawner, clean_environment
from tests.counts import count
from tests.sandbox.supervision.starts import HANG, Settings, confined, run
from tests.skips import lacking
from tests.support.live_processes import QUICK, Living


@pytest.mark.usefixtures("stand_in")
async def test_a_confinement_is_applied_by_the_process_that_becomes_the_program(tmp_path: pathlib.Path) -> None:
    completed = await confined(["sh", "-c", "echo $$; pwd; exit 3"], directory=str(tmp_path))
    applied, pid, directory = completed.stdout.text.splitlines()
    assert (applied, directory, completed.exit_code) == (f"applied to {pid}", str(tmp_path), 3)
    # Whoever has none is started beside it as before.
    assert (await run("echo", "free")).stdout.text == "free\n"


@pytest.mark.usefixtures("stand_in")
async def test_what_cannot_be_confined_is_not_started(tmp_path: pathlib.Path) -> None:
    for step in ("enter", "ready", "apply"):
        with pytest.raises(
            ResourceFault, match=r"'touch' was not started, .* could not be confined: .*no such lock"
        ) as caught:
            await confined(["touch", "marker"], str(tmp_path), **{step: "no such lock"})
        assert caught.value.code == "not_started"
    assert not (tmp_path / "marker").exists()
    with pytest.raises(ResourceFault, match="There is no program 'no-such-program'"):
        await confined(["no-such-program"])
    with pytest.raises(ResourceFault, match="may not be executed"):
        await confined(["./stand-in"], str(tmp_path))


@pytest.mark.usefixtures("stand_in")
async def test_a_keeper_is_ready_for_the_same_confinement_only(tmp_path: pathlib.Path) -> None:
    for number in (1, 1, 2, 2, 1):
        completed = await confined(["sh", "-c", "exit 3"], number=number)
        assert (completed.exit_code, completed.stdout.text.split()[0]) == (3, "applied")
        assert (await run("echo", "free")).stdout.text == "free\n"
    # One that could not be made ready is not there, and the start says why.
    for _ in range(3):
        with pytest.raises(ResourceFault, match="no such lock"):
            await confined(["true"], enter="no such lock")
        with pytest.raises(ResourceFault, match="no such lock"):
            await confined(["true"], ready="no such lock")


def forked() -> set[int]:
    """The keepers that there are now."""
    zygote = zygote_module.ZYGOTES._zygote
    assert zygote is not None
    return set(map(int, pathlib.Path(f"/proc/{zygote.pid}/task/{zygote.pid}/children").read_text().split()))


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize("kinds", [(None, 1), (1, 2), (None, 1, 2)])
async def test_kinds_in_turn_have_a_keeper_ready_each(kinds: tuple[int | None, ...]) -> None:
    for number in kinds * 3:
        known = forked() if zygote_module.ZYGOTES._zygote is not None else set[int]()
        settings = None if number is None else Settings(number=number)
        process = await LocalSpawner().start(["true"], clean_environment(), "/", QUICK, confinement=settings)
        async with process:
            await process.wait()
            keeper = process._channel._keeper
        assert keeper in known or len(known) < len(kinds)
        # What was handed over is forked in a moment, and who has ended is waited for.
        async with asyncio.timeout(HANG):
            while keeper in forked() or len(forked()) < min(len(known) + 1, len(kinds)):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
    # No more are ready than were wanted, and never more than three.
    for number in range(3, 9):
        await confined(["true"], number=number)
    async with asyncio.timeout(HANG):
        while len(forked()) > 3:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


@pytest.mark.usefixtures("stand_in")
async def test_a_namespace_of_processes_ends_with_its_process(alive: Living, tmp_path: pathlib.Path) -> None:
    script = f"exec 9>{alive.path}; setsid sleep 600 & (sleep 600 &) ; kill -9 1; echo $$; exit 3"
    try:
        for _ in range(count(200, 100)):
            completed = await confined(["sh", "-c", script], pid=True)
            assert (completed.exit_code, completed.stopped) == (3, 2)
            assert completed.stdout.text == "applied to 2\n2\n"
            assert await asyncio.to_thread(alive.all_gone, 30)
    except ResourceFault as fault:
        lacking(f"This system has no namespaces for us: {fault}")


@pytest.mark.usefixtures("stand_in")
async def test_an_init_goes_with_its_keeper(alive: Living) -> None:
    """Also when the keeper is killed from outside."""
    try:
        process = await LocalSpawner().start(
            ["sh", "-c", f"exec 9>{alive.path}; setsid sleep 600 & echo ready; sleep 600"],
            clean_environment(),
            "/",
            QUICK,
            confinement=Settings(pid=True),
        )
    except ResourceFault as fault:
        lacking(f"This system has no namespaces for us: {fault}")
    async with process:
        while b"ready" not in await process.stdout.read():
            pass
        os.kill(process._channel._keeper, signal.SIGKILL)
        assert await process.wait() == -signal.SIGKILL
        assert await asyncio.to_thread(alive.all_gone, 30)
