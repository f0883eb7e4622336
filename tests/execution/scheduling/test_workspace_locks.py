"""Locks between processes that work in the same workspace: real processes, and a folder that they share."""

import asyncio
import contextlib
import fcntl
import os
import pathlib
import subprocess
import sys
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from ripieno.canisters.controls import Limits
from ripieno.ensembles import Ensemble
from ripieno.execution.scheduling import workspace_locks
from ripieno.execution.scheduling.locks import Locks
from ripieno.execution.scheduling.workspace_locks import WorkspaceLocks
from tests.execution.scheduling.test_locks import Talk, act
from tests.support.scripted_models import Blocking, Listening, ensemble, settle_down, tool

#: Holds a folder until its input ends.
_HOLDER = """
import fcntl, os, sys
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), int(sys.argv[2]))
print("held", flush=True)
sys.stdin.read()
"""
_CONTENDER = "from tests.execution.scheduling.test_workspace_locks import contend; import sys; contend(sys.argv[1])"
#: Calls of each conversation, and conversations of each process.
CALLS, CONVERSATIONS = 20, 3
_LOOK = tool("look", reads=("file:{path}",))


def done(*_: Any) -> str:
    """A tool that writes nothing."""
    return "done"


@contextlib.contextmanager
def held(folder: pathlib.Path, kind: int) -> Generator[subprocess.Popen[str], None, None]:
    """Another process that holds the folder."""
    command = [sys.executable, "-c", _HOLDER, str(folder), str(kind)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


@pytest.fixture
def workspace(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    folder = tmp_path / "workspace"
    folder.mkdir()
    yield folder
    assert is_free(folder)


def is_free(folder: pathlib.Path) -> bool:
    """Whether nobody holds the folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def playing(folder: pathlib.Path, *tools: Any) -> Ensemble:
    """Tools in the workspace, for the calls of a worker."""
    Locks.here().workspaces = WorkspaceLocks()
    return ensemble(*tools, surroundings=Listening(folder).surroundings)


@pytest.mark.parametrize(
    ("name", "kind"), [("act", fcntl.LOCK_SH), ("act", fcntl.LOCK_EX), ("look", fcntl.LOCK_EX)], ids=str
)
async def test_a_call_waits_for_another_process_in_its_workspace(workspace: pathlib.Path, name: str, kind: int) -> None:
    tools = playing(workspace, act(done), _LOOK)
    with held(workspace, kind) as other:
        talk = Talk(tools, (name, "a"))
        task = asyncio.create_task(talk.turn.finish())
        await settle_down()
        assert talk.told == ["waiting for a worker that uses the same workspace"]
        # A process that dies releases what it holds.
        other.kill()
        other.wait()
        await task
    assert talk.results == ["done" if name == "act" else "look"]
    assert Locks.here().idle


async def test_readers_of_several_processes_do_not_wait(workspace: pathlib.Path) -> None:
    with held(workspace, fcntl.LOCK_SH):
        talk = Talk(playing(workspace, _LOOK), ("look", "a"))
        await talk.turn.finish()
    assert (talk.told, talk.results) == ([], ["look"])


async def test_a_call_that_waits_too_long_says_for_whom(workspace: pathlib.Path) -> None:
    with held(workspace, fcntl.LOCK_SH):
        talk = Talk(playing(workspace, act(done)), ("act", "a"), limits=Limits(wall=0.2))
        await talk.turn.finish()
    (result,) = (entry.result for entry in talk.turn.entries)
    assert result is not None
    assert result.error is not None
    assert "a worker that uses the same workspace did not end in time" in result.error.message


async def test_the_end_of_a_call_that_only_needs_a_place_releases_no_workspace(workspace: pathlib.Path) -> None:
    blocking = Blocking()
    tools = playing(workspace, act(blocking), tool("count", effect="none", reads=(), writes=(), max_parallel=1))
    writing = Talk(tools, ("act", "a"))
    task = asyncio.create_task(writing.turn.finish())
    await settle_down()
    counting = Talk(tools, ("count", "a"))
    await counting.turn.finish()
    assert (counting.results, is_free(workspace)) == (["count"], False)
    blocking.go.set()
    await task


async def test_other_processes_have_their_turn(workspace: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace_locks, "_TURN", -1.0)
    locks, place = WorkspaceLocks(), str(workspace)
    assert locks.enter(place, alone=False, within=False)
    # It has held the folder for too long to take in another call, unless it runs within the first one.
    assert not locks.enter(place, alone=False, within=False)
    assert locks.enter(place, alone=True, within=True)
    assert not is_free(workspace)
    locks.leave(place)
    locks.leave(place)
    assert is_free(workspace)


async def test_a_writer_waits_for_the_readers_of_its_process(workspace: pathlib.Path) -> None:
    locks, place = WorkspaceLocks(), str(workspace)
    assert locks.enter(place, alone=False, within=False)
    assert not locks.enter(place, alone=True, within=False)
    locks.leave(place)
    assert locks.enter(place, alone=True, within=False)
    assert locks.enter(place, alone=False, within=False)
    locks.leave(place)
    locks.leave(place)


async def test_a_workspace_that_cannot_be_locked_is_named_once(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    locks, gone = WorkspaceLocks(), str(tmp_path / "gone")
    for _ in range(2):
        assert locks.enter(gone, alone=True, within=False)
        locks.leave(gone)
    assert [record.getMessage().partition(": ")[0] for record in caplog.records] == [
        f"Workers cannot take turns in the workspace {gone}"
    ]


async def test_a_workspace_that_could_not_be_locked_once_is_locked_later(tmp_path: pathlib.Path) -> None:
    locks, workspace = WorkspaceLocks(), tmp_path / "workspace"
    place = str(workspace)
    assert locks.enter(place, alone=True, within=False)
    workspace.mkdir()
    with held(workspace, fcntl.LOCK_EX):
        assert not locks.enter(place, alone=True, within=False)
    assert locks.enter(place, alone=True, within=False)
    # The end of the call without a lock is not that of the one with it.
    locks.leave(place)
    assert not is_free(workspace)
    locks.leave(place)
    assert is_free(workspace)


def test_writers_of_several_processes_never_meet(workspace: pathlib.Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _CONTENDER, str(workspace)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        results = [process.communicate("go\n")[0].split() for process in _started(processes)]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert results == [["done"] * (CALLS * CONVERSATIONS)] * 3


def _started(processes: list[subprocess.Popen[str]]) -> list[subprocess.Popen[str]]:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return processes


def contend(folder: str) -> None:
    """In another process: conversations whose calls must be alone in the workspace, or fail."""
    asyncio.run(_contend(pathlib.Path(folder)))


async def _contend(folder: pathlib.Path) -> None:
    busy = folder / "busy"

    async def alone(*_: Any) -> str:
        try:
            os.close(os.open(busy, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return "met"
        # The other conversations and processes may try meanwhile.
        await asyncio.to_thread(os.sched_yield)
        busy.unlink()
        return "done"

    tools = playing(folder, act(alone))
    print("ready", flush=True)
    sys.stdin.readline()

    async def converse() -> list[str | None]:
        found: list[str | None] = []
        for _ in range(CALLS):
            talk = Talk(tools, ("act", "busy"))
            await talk.turn.finish()
            found += talk.results
        return found

    for results in await asyncio.gather(*(converse() for _ in range(CONVERSATIONS))):
        print(*results)
