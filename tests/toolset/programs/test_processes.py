"""Programs that go on between calls: handles, output since the last look, and that none is left."""

import asyncio
import gc
import os
import pathlib
import signal
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from ripieno.canisters.faults import Change
from ripieno.toolset.programs.jobs import MAX_RUNNING
from tests.counts import count
from tests.support.live_processes import Living, living
from tests.support.toml_ensembles import held
from tests.toolset.bundled_tools import Tools, code_of, json_of, text_of, tools_of, write_program


@pytest.fixture
def alive(workspace: pathlib.Path) -> Iterator[Living]:
    with living(workspace / "alive") as one:
        yield one


@pytest.fixture
async def tools(workspace: pathlib.Path, request: pytest.FixtureRequest) -> AsyncIterator[Tools]:
    """Without a sandbox, unless a test asks for the one that holds here."""
    level, _, tier = getattr(request, "param", "off").partition(" ")
    sandbox = {"level": level, "tier": int(tier)} if tier else {"level": level}
    async with tools_of("process", workspace, {"environment": ["CI"]}, sandbox=sandbox) as one:
        yield one


async def spawned(tools: Tools, script: str, tool: str = "spawn") -> str:
    result = await tools(tool, argv=["sh", "-c", script])
    started = json_of(result)
    assert started["state"] == "running"
    assert [change.kind for change in result.report.changes] == ["ProcessStarted"]
    return str(started["handle"])


@pytest.mark.parametrize(
    ("tools", "tool"), [("off", "spawn"), ("auto", "spawn_process"), ("off", "background")], indirect=["tools"]
)
async def test_a_program_goes_on_and_is_waited_for(tool: str, tools: Tools) -> None:
    handle = await spawned(tools, "echo out; echo err >&2; exit 3", tool)
    result = await tools("wait", handle=handle)
    assert text_of(result) == "'sh' ended with exit code 3.\nout\n--- standard error ---\nerr"
    assert result.report.exit_code == 3
    assert [(one.kind, one.data["exit_code"]) for one in result.report.changes] == [("ProcessTerminated", 3)]
    # It may be asked again, and has nothing more to say.
    again = await tools("wait", handle=handle)
    assert text_of(again).endswith("It wrote nothing since the last call.")
    assert again.report.changes == ()


@pytest.mark.parametrize("tools", ["off", "auto 1", "auto"], indirect=True)
async def test_the_number_in_the_report_is_one_that_a_person_can_use(tools: Tools) -> None:
    result = await tools("spawn", argv=["sh", "-c", "sleep 600"], env={"CI": "yes"})
    variable, started = result.report.changes
    assert variable.mapping() == {"type": "EnvVarSet", "key": "CI", "value": "yes"}
    # From here, also if the program has a namespace of its own.
    pid = started.data["pid"]
    assert isinstance(pid, int)
    assert b"sleep 600" in await asyncio.to_thread(pathlib.Path(f"/proc/{pid}/cmdline").read_bytes)
    os.kill(pid, signal.SIGKILL)
    ended = await tools("wait", handle=json_of(result)["handle"])
    assert [one.mapping() for one in ended.report.changes] == [
        {"type": "ProcessTerminated", "pid": pid, "exit_code": -signal.SIGKILL}
    ]


@pytest.mark.parametrize("tools", ["auto 2"], indirect=True)
async def test_a_program_that_was_not_started_has_no_end(tools: Tools) -> None:
    write_program(tools.workspace / "it", "#!/missing/interpreter\n")
    result = await tools("spawn", argv=["./it"])
    if result.error is None:
        # Bubblewrap has found out later.
        handle = json_of(result)["handle"]
        result = await tools("wait", handle=handle)
        assert [one["state"] for one in json_of(await tools("ps"))["processes"]] == ["not started"]
        assert code_of(await tools("kill", handle=handle)) == "not_started"
    assert code_of(result) == "not_started"


async def test_output_is_what_came_since_the_last_look(tools: Tools, workspace: pathlib.Path) -> None:
    # One for each line: a reader that opens the same one again may meet the end of what was written before.
    first, second = workspace / "first", workspace / "second"
    os.mkfifo(first)
    os.mkfifo(second)
    handle = await spawned(tools, "echo one; read x < first; echo two; read x < second; echo three")
    seen = ""
    while "one" not in seen:
        result = await tools("wait", handle=handle, timeout_seconds=0)
        assert result.report.exit_code is None
        seen += text_of(result)
    assert "still running" in seen
    await asyncio.to_thread(first.write_text, "x\n")
    seen = ""
    while "two" not in seen:
        seen += text_of(await tools("wait", handle=handle, timeout_seconds=0))
    assert "one" not in seen
    await asyncio.to_thread(second.write_text, "x\n")
    assert "three" in text_of(await tools("wait", handle=handle))


async def test_a_flood_between_two_looks_is_bounded(tools: Tools) -> None:
    handle = await spawned(tools, "head -c 5000000 /dev/zero | tr '\\0' x; echo end")
    result = await tools("wait", handle=handle)
    assert len(text_of(result)) < 40_000
    assert text_of(result).endswith("end")
    assert result.report.stdout_truncated


@pytest.mark.parametrize(("tools", "tool"), [("off", "kill"), ("auto", "kill_process")], indirect=["tools"])
async def test_killing_ends_all_that_it_started(tool: str, tools: Tools, alive: Living) -> None:
    handle = await spawned(tools, f"trap '' TERM; exec 9>{alive.path}; setsid sleep 600 & while :; do sleep 1; done")
    await held(alive)
    result = await tools(tool, handle=handle)
    assert result.report.exit_code == -signal.SIGKILL
    assert [change.kind for change in result.report.changes] == ["ProcessTerminated"]
    assert isinstance(result.report.changes[0], Change)
    assert alive.all_gone(30)
    assert (await tools(tool, handle=handle)).report.changes == ()


async def reads(tools: Tools, tool: str, until: str, **arguments: Any) -> list[dict[str, object]]:
    """The changes in the results of a tool, until one has that text."""
    found: list[dict[str, object]] = []
    while True:
        result = await tools(tool, **arguments)
        found += [change.mapping() for change in result.report.changes]
        if until in text_of(result):
            return found


@pytest.mark.parametrize("tools", ["auto"], indirect=True)
async def test_the_files_that_a_program_changes_are_in_the_results_that_read_it(tools: Tools) -> None:
    (tools.workspace / "old.txt").write_text("old")
    first, second = tools.workspace / "first", tools.workspace / "second"
    os.mkfifo(first)
    os.mkfifo(second)
    script = "rm old.txt; echo ready; read x < first; echo new > new.txt; read x < second"
    handle = await spawned(tools, script)
    found = await reads(tools, "wait", "ready", handle=handle, timeout_seconds=0)
    assert {"type": "FileDeleted", "path": "old.txt"} in found
    await asyncio.to_thread(first.write_text, "go\n")
    # It can be opened when the program reads it.
    with await asyncio.to_thread(second.open, "w"):
        killed = await tools("kill", handle=handle)
    ended, *files = [change.mapping() for change in killed.report.changes]
    assert ended["type"] == "ProcessTerminated"
    assert {"type": "FileCreated", "path": "new.txt"} in files
    # Each is reported once.
    assert {"type": "FileDeleted", "path": "old.txt"} not in files
    assert (await tools("wait", handle=handle)).report.changes == ()


@pytest.mark.parametrize("tools", ["auto"], indirect=True)
async def test_ps_reports_the_files_of_a_program_that_has_ended(tools: Tools) -> None:
    await spawned(tools, "echo new > new.txt")
    files = [{"type": "FileCreated", "path": "new.txt"}]
    assert [one for one in await reads(tools, "ps", "ended") if "path" in one] == files
    assert (await tools("ps")).report.changes == ()


async def test_signals_are_sent_by_name(tools: Tools) -> None:
    handle = await spawned(tools, "trap 'echo heard; exit 5' USR1; echo ready; while :; do sleep 0.05; done")
    while "ready" not in text_of(await tools("wait", handle=handle, timeout_seconds=0)):
        pass
    assert text_of(await tools("signal", handle=handle, signal="USR1")) == f"Sent SIGUSR1 to {handle}."
    result = await tools("wait", handle=handle)
    assert (result.report.exit_code, "heard" in text_of(result)) == (5, True)
    assert "ended" in text_of(await tools("signal", handle=handle, signal="TERM"))
    assert (await tools("signal", handle=handle, signal="9")).error is not None


async def test_ps_lists_those_of_the_conversation(tools: Tools) -> None:
    assert json_of(await tools("ps")) == {"processes": []}
    first = await spawned(tools, "exit 1")
    await tools("wait", handle=first)
    second = await spawned(tools, "sleep 600")
    listed = json_of(await tools("ps"))["processes"]
    assert [(one["handle"], one["state"]) for one in listed] == [(second, "running"), (first, "ended")]
    assert listed[1]["exit_code"] == 1
    # The end of a program is reported once, by the first result after it.
    await tools("kill", handle=second)
    assert (await tools("ps")).report.changes == ()
    assert json_of(await tools.elsewhere()("ps")) == {"processes": []}


async def test_only_handles_that_were_given_here_are_accepted(tools: Tools) -> None:
    handle = await spawned(tools, "sleep 600")
    other = tools.elsewhere()
    strange = [handle[:-1], handle.upper(), f"{handle} ", "", "p_"]
    strange += map(str, (-1, os.getpid(), os.getppid(), *range(count(1000, 200))))
    for one in strange:
        for tool, more in (("kill", {}), ("wait", {"timeout_seconds": 0}), ("signal", {"signal": "KILL"})):
            assert (await tools(tool, handle=one, **more)).error is not None
    for tool, more in (("kill", {}), ("wait", {"timeout_seconds": 0}), ("signal", {"signal": "KILL"})):
        assert code_of(await other(tool, handle=handle, **more)) == "unknown_handle"
    assert "still running" in text_of(await tools("wait", handle=handle, timeout_seconds=0))


async def test_handles_cannot_be_guessed(tools: Tools) -> None:
    handles = [await spawned(tools, "exit 0") for _ in range(3)]
    assert len(set(handles)) == 3
    assert all(len(bytes.fromhex(one.removeprefix("p_"))) >= 16 for one in handles)


async def test_too_many_are_refused(tools: Tools) -> None:
    for _ in range(MAX_RUNNING):
        await spawned(tools, "sleep 600")
    result = await tools("spawn", argv=["true"])
    assert result.error is not None
    assert result.error.category == "quota"
    # Another conversation has its own quota.
    await spawned(tools.elsewhere(), "exit 0")


async def test_what_cannot_be_started_is_told(tools: Tools) -> None:
    assert code_of(await tools("spawn", argv=["no-such-program"])) == "not_started"
    assert code_of(await tools("spawn", argv=["true"], working_directory="..")) == "outside_workspace"
    assert code_of(await tools("spawn", argv=["true"], env={"LD_PRELOAD": "x"})) == "environment"
    assert json_of(await tools("ps")) == {"processes": []}


async def test_nothing_is_left_when_the_ensemble_is_disconnected(workspace: pathlib.Path, alive: Living) -> None:
    async with tools_of("process", workspace) as tools:
        for other in (tools, tools.elsewhere()):
            await spawned(other, f"exec 9>{alive.path}; (setsid sleep 600 &); trap '' TERM; while :; do sleep 1; done")
        await held(alive)
    assert alive.all_gone(0)


async def test_nothing_is_left_when_a_conversation_is_given_up(tools: Tools, alive: Living) -> None:
    other = tools.elsewhere()
    kept = await spawned(tools, "sleep 600")
    await spawned(other, f"exec 9>{alive.path}; (setsid sleep 600 &); sleep 600")
    await held(alive)
    del other
    gc.collect()
    assert await asyncio.to_thread(alive.all_gone, 30)
    assert "still running" in text_of(await tools("wait", handle=kept, timeout_seconds=0))
