"""Starting processes: what they are given, what is said when it fails, and what is kept of their output."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ripieno.exceptions import ResourceFault, UsageError, ValidationFault
from ripieno.sandbox import ProcessLimits, Spawner
from ripieno.sandbox.capture import Capture, Captured
from ripieno.sandbox.processes import Completed, LocalSpawner, clean_environment, collect
from tests.counts import count

SPAWNER: Spawner = LocalSpawner()


async def run(
    *argv: str, directory: str | os.PathLike[str] = "/", environment: dict[str, str] | None = None
) -> Completed:
    given_environment = clean_environment() if environment is None else environment
    async with await SPAWNER.start(argv, given_environment, directory, ProcessLimits()) as process:
        return await collect(process)


async def test_streams_and_exit_code_are_told_apart() -> None:
    completed = await run("sh", "-c", "echo out; echo err >&2; exit 3")
    assert (completed.exit_code, completed.stdout.text, completed.stderr.text) == (3, "out\n", "err\n")
    assert (completed.flooded, completed.stopped) == (False, 0)


@settings(max_examples=count(400), deadline=None)
@given(argument=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40))
def test_law_an_argument_arrives_as_it_is(argument: str) -> None:
    completed = asyncio.run(run("printf", "%s", argument))
    assert completed.stdout.head == argument.encode()


async def test_the_environment_is_exactly_the_one_that_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "secret")
    assert (await run("/usr/bin/env", environment={"ONE": "1"})).stdout.text == "ONE=1\n"


def test_a_clean_environment_has_the_basics_and_what_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "secret")
    monkeypatch.setenv("LD_PRELOAD", "")
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("PATH", "bin:/usr/bin::./tools:/bin")
    environment = clean_environment({"LANG": "C", "MORE": "yes"})
    assert environment["PATH"] == "/usr/bin:/bin"
    assert (environment["HOME"], environment["LANG"], environment["MORE"]) == ("/home/somebody", "C", "yes")
    assert set(environment) <= {"PATH", "LANG", "TZ", "TMPDIR", "HOME", "MORE"}
    monkeypatch.delenv("PATH")
    assert clean_environment()["PATH"] == "/bin:/usr/bin"


async def test_a_process_gets_its_directory_a_session_and_no_descriptor_of_ours(tmp_path: Path) -> None:
    held = os.open(tmp_path, os.O_RDONLY)
    try:
        os.set_inheritable(held, True)
        completed = await run(
            "sh", "-c", "pwd; ls /proc/self/fd | wc -l; cut -d' ' -f5,6 /proc/$$/stat; echo $$", directory=tmp_path
        )
    finally:
        os.close(held)
    directory, descriptors, group_and_session, pid = completed.stdout.text.splitlines()
    assert directory == str(tmp_path)
    assert descriptors.strip() == "4"  # 0, 1, 2, and the one that ls reads them with
    assert group_and_session == f"{pid} {pid}"


async def test_there_is_nothing_to_read_unless_it_is_asked_for() -> None:
    assert (await run("cat")).stdout.total_bytes == 0


async def test_more_than_a_pipe_holds_passes_both_ways_in_order() -> None:
    data = bytes(range(256)) * 16384  # 4 MiB
    async with await SPAWNER.start(["cat"], clean_environment(), "/", ProcessLimits(), pipe_stdin=True) as process:
        assert process.stdin is not None
        half = len(data) // 2
        writing = [asyncio.create_task(process.stdin.write(part)) for part in (data[:half], data[half:])]
        received = bytearray()
        while len(received) < len(data):
            received += await process.stdout.read()
        await asyncio.gather(*writing)
    assert received == data


async def test_two_readers_are_one_too_many_and_closing_wakes_the_first() -> None:
    async with await SPAWNER.start(["sleep", "60"], clean_environment(), "/", ProcessLimits()) as process:
        first = asyncio.create_task(process.stdout.read())
        await asyncio.sleep(0)
        with pytest.raises(UsageError, match="Two tasks"):
            await process.stdout.read()
        process.stdout.close()
        assert await first == b""
        assert await process.stdout.read() == b""


async def test_a_cancelled_read_loses_nothing() -> None:
    async with await SPAWNER.start(["cat"], clean_environment(), "/", ProcessLimits(), pipe_stdin=True) as process:
        assert process.stdin is not None
        for _ in range(50):
            reading = asyncio.create_task(process.stdout.read())
            await asyncio.sleep(0)
            reading.cancel()
            await process.stdin.write(b"x")
            await asyncio.wait((reading,))
            assert reading.cancelled()
        process.stdin.close()
        received = b""
        while data := await process.stdout.read():
            received += data
    assert received == b"x" * 50


async def test_writing_to_a_process_that_has_ended_is_an_error() -> None:
    async with await SPAWNER.start(["true"], clean_environment(), "/", ProcessLimits(), pipe_stdin=True) as process:
        assert process.stdin is not None
        await process.wait()
        with pytest.raises(BrokenPipeError):
            await process.stdin.write(b"x")
        process.stdin.close()
        with pytest.raises(BrokenPipeError):
            await process.stdin.write(b"x")


async def test_what_cannot_be_started_says_why(tmp_path: Path) -> None:
    for name, text, mode in (
        ("plain", "", 0o400),
        ("headless", "echo\n", 0o755),
        ("orphan", "#!/there/is/none\n", 0o755),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    environment = {"PATH": "/one:/two"}
    descriptors = len(os.listdir("/proc/self/fd"))
    for program, directory, expected in (
        ("no-such-program", tmp_path, r"no program 'no-such-program' in any folder of PATH\.$"),
        ("./no-such-program", tmp_path, "no program './no-such-program', or the interpreter"),
        ("./orphan", tmp_path, "no program './orphan', or the interpreter"),
        ("./plain", tmp_path, "'./plain' may not be executed"),
        ("./headless", tmp_path, "is not a program that this system can execute"),
        ("/bin/true", tmp_path / "nowhere", "nowhere' for '/bin/true' cannot be entered"),
    ):
        with pytest.raises(ResourceFault, match=expected) as caught:
            await run(program, directory=directory, environment=environment)
        assert caught.value.details["PATH"] == "/one:/two"
    with pytest.raises(ResourceFault, match="could not be started: Argument list too long"):
        await run("/bin/true", "x" * (1 << 22))
    assert len(os.listdir("/proc/self/fd")) == descriptors


@pytest.mark.parametrize(
    ("argv", "environment"),
    [
        ((), {}),
        ("true", {}),
        (("true", "a\0b"), {}),
        (("true", "\ud800"), {}),
        (("true",), {"A=B": "1"}),
        (("true",), {"A": "1\0"}),
    ],
)
async def test_what_no_program_can_be_given_is_refused(argv: tuple[str, ...], environment: dict[str, str]) -> None:
    with pytest.raises(ValidationFault):
        await SPAWNER.start(argv, environment, "/", ProcessLimits())


MARKER = "[... {} bytes left out ...]\n"

pieces = st.lists(st.binary(max_size=40), max_size=30)


def capture(limit: int, parts: list[bytes]) -> Captured:
    capturing = Capture(limit)
    for part in parts:
        capturing.feed(part)
    return capturing.captured()


def test_the_marker_has_a_line_of_its_own_and_adds_no_empty_one() -> None:
    assert capture(4, [b"a\nbcde\nf"]).text == "a\n" + MARKER.format(4) + "\nf"


def test_no_character_is_split_and_its_rest_is_counted() -> None:
    text = "aé€😀" * 50
    data = text.encode()
    for limit in range(1, 60):
        shown = capture(limit, [data]).text
        head, rest = shown.split("[... ")
        left_out, tail = rest.split(" bytes left out ...]\n")
        head = head.removesuffix("\n")
        assert "\ufffd" not in shown
        assert text.startswith(head)
        assert text.endswith(tail)
        assert len(head.encode()) + int(left_out) + len(tail.encode()) == len(data)


def test_what_is_no_utf_8_is_replaced() -> None:
    assert capture(64, [b"a\xff\xfeb"]).text == "a\ufffd\ufffdb"
    assert capture(6, [b"\x80" * 100]).text.count("\ufffd") == 3  # of the head; the tail may belong to a character


@given(limit=st.integers(0, 50), parts=pieces)
def test_law_kept_bytes_are_the_head_and_the_tail_of_the_stream(limit: int, parts: list[bytes]) -> None:
    data = b"".join(parts)
    captured = capture(limit, parts)
    assert captured.total_bytes == len(data)
    assert len(captured.head) + len(captured.tail) == min(limit, len(data))
    assert data.startswith(captured.head)
    assert data.endswith(captured.tail)
    assert captured.truncated == (len(data) > limit)
    assert not captured.truncated or len(captured.tail) == limit // 2


@pytest.mark.parametrize("size", [1, 4096, 1 << 20])
def test_memory_stays_within_half_of_the_limit_above_it(size: int) -> None:
    limit = 64 * 1024
    capturing = Capture(limit)
    piece = b"x" * size
    for _ in range(max(4, 4 * limit // size)):
        capturing.feed(piece)
        # A bytearray asks for an eighth more than it holds.
        held = sys.getsizeof(capturing._head) + sys.getsizeof(capturing._tail)
        assert held <= (limit + limit // 2) * 9 // 8 + size + 1024


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="0 bytes or more"):
        Capture(-1)
