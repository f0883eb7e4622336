"""Programs that run for a call: real processes, beneath a real workspace, with real deadlines."""

import asyncio
import dataclasses
import os
import pathlib
import shlex
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.canisters import ResultCanister
from ripieno.ensembles import Context
from ripieno.exceptions import PermissionFault, ResourceFault, ToolFault, ValidationFault
from ripieno.execution.call import Call, settle
from ripieno.origins.command.outcomes import failure, outcome, share
from ripieno.origins.command.programs import GRACE, entered, resolve, run
from ripieno.sandbox import ProcessLimits
from ripieno.sandbox.capture import Capture, Captured
from ripieno.sandbox.processes import Completed, LocalSpawner
from tests.counts import count
from tests.support.live_processes import Living, Outputs, living
from tests.support.scripted_models import Listening, fault_of
from tests.support.single_calls import begin
from tests.support.virtual_time import MovableClock

WRITE = "import sys; data = b'x' * 65536\nwhile True: sys.stdout.buffer.write(data)"


@pytest.fixture
def alive(tmp_path: pathlib.Path) -> Iterator[Living]:
    with living(tmp_path / "alive") as one:
        yield one


@pytest.fixture
def start(tmp_path: pathlib.Path) -> Callable[..., Call]:
    """Starts a call of a tool that runs a program."""
    listening = Listening(tmp_path)
    listening.surroundings = dataclasses.replace(listening.surroundings, spawner=LocalSpawner())

    def begin_with(argv: list[str], seconds: float = 30, seen: list[Context] | None = None, **settings: Any) -> Call:
        async def tool(context: Context, _: dict[str, Any]) -> object:
            if seen is not None:
                seen.append(context)
            return outcome(await run(context, argv, **settings), 64 * 1024)

        return begin(tool, listening=listening, timeout=seconds)

    return begin_with


async def result_of(call: Call) -> ResultCanister:
    await settle((call,))
    return call.result.result()


def text_of(result: ResultCanister) -> str:
    return str(getattr(result.content[0], "text", "")) if result.error is None else result.error.text()


async def test_what_is_left_running_is_told(start: Callable[..., Call], alive: Living) -> None:
    result = await result_of(start(["sh", "-c", f"exec 9>{alive.path}; sleep 600 & sleep 600 & echo done"]))
    assert "2 processes that were left running: ended" in text_of(result)
    assert alive.all_gone(30)


async def test_at_the_deadline_what_was_written_is_told(
    start: Callable[..., Call], alive: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever hangs: it has written, and goes on when the time of its call is over."""
    clock, outputs = MovableClock(), Outputs(monkeypatch)
    program = f"exec 9>{alive.path}; echo half; echo because >&2"
    calls = [start(["sh", "-c", f"{program}; {one}"]) for one in HANGS]
    await outputs.have(b"half", len(HANGS))
    await outputs.have(b"because", len(HANGS))
    await clock.move(30)
    for call, hang in zip(calls, HANGS, strict=True):
        fault = fault_of(await result_of(call))
        assert (fault.category, fault.code) == ("timeout", "timeout")
        assert "half\n--- standard error ---\nbecause" in fault.text()
        assert fault.details["partial_output"] == "half\n--- standard error ---\nbecause"
        assert fault.details["command"] == shlex.join(["sh", "-c", f"{program}; {hang}"])
    assert alive.all_gone(30)


HANGS = (
    *("exec sleep 600", "trap '' TERM INT HUP; while :; do sleep 1; done", "kill -STOP $$", "cat; sleep 600"),
    *("(trap '' TERM; sleep 600) & wait", "setsid sh -c 'trap \"\" TERM; sleep 600' & sleep 600"),
    *("sleep 600 < /dev/zero", "exec >&- 2>&-; sleep 600"),
)


async def test_what_a_cancelled_program_had_written_is_told(
    start: Callable[..., Call], alive: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = Outputs(monkeypatch)
    script = f"exec 9>{alive.path}; i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done"
    script += "; printf '#'; printf @ >&2"
    calls = [start(["sh", "-c", f"{script}; {one}"]) for one in HANGS]
    # One byte each: a longer text may come in two parts.
    await outputs.have(b"#", len(HANGS))
    await outputs.have(b"@", len(HANGS))
    for call in calls:
        call.cancel()
    for call in calls:
        fault = fault_of(await result_of(call))
        assert fault.category == "cancelled"
        assert fault.message.startswith("The call was cancelled, and ")
        # The head and the tail, within the limit of its tool.
        assert "line 0\nline 1\n" in fault.message
        assert "line 19999\n#\n--- standard error ---\n@" in fault.message
        assert len(fault.message) < 64 * 1024
        assert str(fault.details["partial_output"]) in fault.message
    assert alive.all_gone(30)


async def test_a_cancelled_call_is_no_timeout(start: Callable[..., Call], alive: Living) -> None:
    call = start(["sh", "-c", f"exec 9>{alive.path}; sleep 600"])
    os.close(await asyncio.to_thread(os.open, alive.path, os.O_RDONLY))
    call.cancel()
    result = await result_of(call)
    assert (fault_of(result).category, fault_of(result).message) == ("cancelled", "The call was cancelled.")
    assert alive.all_gone(30)


async def test_a_flood_is_ended_and_bounded(start: Callable[..., Call]) -> None:
    limits = ProcessLimits(output_bytes=4096, kill_after=8 * 2**20, grace=GRACE)
    result = await result_of(start([sys.executable, "-c", WRITE], limits=limits))
    # The tool here takes it as it comes; ``failure`` is what others make of it.
    assert result.report.total_bytes >= 8 * 2**20
    assert result.report.stdout_truncated
    assert len(text_of(result)) < 5000


async def test_standard_input_is_what_was_given_or_nothing(start: Callable[..., Call]) -> None:
    assert text_of(await result_of(start(["cat"], stdin=b"text"))).startswith("text\n")
    assert text_of(await result_of(start(["cat"]))) == "[exit code 0]"
    # Who does not read is not waited for.
    assert text_of(await result_of(start(["true"], stdin=b"x" * 2**22))) == "[exit code 0]"


async def test_the_last_line_is_told_at_most_twice_a_second(tmp_path: pathlib.Path) -> None:
    told: list[tuple[float, float, str]] = []
    loop = asyncio.get_running_loop()
    listening = Listening(tmp_path)
    surroundings = dataclasses.replace(listening.surroundings, spawner=LocalSpawner())

    async def tool(context: Context, _: dict[str, Any]) -> object:
        context.surroundings = surroundings
        context.progress = lambda done, total, message: told.append((loop.time(), done, message))
        script = "i=0; while [ $i -lt 30 ]; do i=$((i+1)); printf 'line %s\\033[1m\\n' $i; sleep 0.05; done"
        return outcome(await run(context, ["sh", "-c", script]), 1000)

    await result_of(begin(tool))
    assert 2 <= len(told) <= 1 + (told[-1][0] - told[0][0]) / 0.45
    assert all(message.startswith("line ") and message.isprintable() for _, _, message in told)
    done = [one for _, one, _ in told]
    assert done == sorted(done)


async def test_a_directory_is_beneath_the_workspace(start: Callable[..., Call], tmp_path: pathlib.Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "inner").symlink_to("sub")
    (tmp_path / "outer").symlink_to(tmp_path.parent)
    (tmp_path / "root").symlink_to("/")
    for directory in ("sub", "./sub/../sub", "inner", str(tmp_path / "sub")):
        result = await result_of(start(["pwd", "-P"], directory=directory))
        assert text_of(result).splitlines()[0] == str(tmp_path / "sub")
    for directory in ("..", "outer", "root", "/", "/etc", "sub/../..", "inner/../../x", "/proc/self/cwd", "root/tmp"):
        assert fault_of(await result_of(start(["pwd"], directory=directory))).code == "outside_workspace"
    for directory in ("missing", "file", "sub/missing"):
        assert fault_of(await result_of(start(["pwd"], directory=directory))).category == "resource"
    for directory in ("a\0b", "\ud800"):
        assert fault_of(await result_of(start(["pwd"], directory=directory))).category == "validation"


def test_a_directory_that_is_exchanged_is_never_another(tmp_path: pathlib.Path) -> None:
    outside = tmp_path / "outside"
    workspace = tmp_path / "workspace"
    for folder in (outside / "deep", workspace / "a" / "deep"):
        folder.mkdir(parents=True)
    identity = os.stat(workspace / "a" / "deep").st_ino
    for _ in range(count(2000, 100)):
        with entered(str(workspace), "a/deep") as place:
            os.rename(workspace / "a", workspace / "b")
            (workspace / "a").symlink_to(outside)
            assert os.stat(place).st_ino == identity
        with pytest.raises((PermissionFault, ResourceFault)), entered(str(workspace), "a/deep"):
            pass
        (workspace / "a").unlink()
        os.rename(workspace / "b", workspace / "a")


@given(st.text(st.sampled_from("ab./\\~ \0é"), max_size=20))
def test_what_is_resolved_is_beneath(path: str) -> None:
    try:
        found = resolve("/work place/here", path)
    except (ToolFault, ValidationFault):
        return
    assert found == "/work place/here" or found.startswith("/work place/here/")


@given(st.binary(max_size=200), st.integers(0, 250), st.integers(0, 250))
def test_what_is_cut_down_keeps_head_and_tail(data: bytes, first: int, second: int) -> None:
    capture = Capture(first)
    capture.feed(data)
    cut = capture.captured().within(second)
    assert len(cut.head) + len(cut.tail) <= max(0, min(first, second))
    assert data.startswith(cut.head)
    assert data.endswith(cut.tail)
    assert cut.total_bytes == len(data)
    assert cut.truncated == (len(data) > len(cut.head) + len(cut.tail))
    if second >= first or len(data) <= second:
        assert cut == capture.captured()


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 300))
def test_streams_share_their_limit(first: int, second: int, limit: int) -> None:
    shared = share(*(Captured(head=b"x" * size, total_bytes=size) for size in (first, second)), limit)
    kept = [len(one.head) + len(one.tail) for one in shared]
    assert sum(kept) <= limit
    assert sum(kept) == min(limit, first + second)


def test_a_failure_says_how_it_ended() -> None:
    def done(code: int, **more: Any) -> Completed:
        return Completed(exit_code=code, stdout=Captured(), stderr=Captured(), duration=1.0, **more)

    assert failure("it", done(3), 1000).message == "'it' ended with exit code 3."
    assert failure("it", done(-9), 1000).message == "'it' was ended by the signal SIGKILL."
    assert failure("it", done(-9, flooded=True), 1000).code == "output_flood"
    assert "1 process that was left running" in failure("it", done(1, stopped=1), 1000).message
