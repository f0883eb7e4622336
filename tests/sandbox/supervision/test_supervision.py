"""Supervisors: the messages of both sides, and what holds wherever this program goes."""

import asyncio
import concurrent.futures
import os
import pathlib
import signal
import socket
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.exceptions import ResourceFault
from ripieno.sandbox import zygote as zygote_module
from ripieno.sandbox.processes import LocalSpawner, clean_environment
from ripieno.sandbox.supervision.wire import (
    Inbox,
    Order,
    Signal,
    Terminate,
    expect_numbers,
    receive_number,
    send_number,
    send_with,
)
from tests.sandbox.supervision.starts import HANG, confined, parent, program_of, run, run_python
from tests.skips import lacking
from tests.support.live_processes import QUICK, living
from tests.support.open_files import open_files

# What is said between the two sides


#: What can be said to a program.
WORDS = st.binary(max_size=30).map(lambda data: data.replace(b"\0", b""))


@given(
    words=st.lists(WORDS, min_size=1),
    environment=st.dictionaries(WORDS.map(lambda data: data.replace(b"=", b"")), WORDS),
    grace=st.floats(allow_nan=False),
    number=st.integers(0, 64),
    cuts=st.lists(st.integers(1, 50), max_size=10),
)
def test_law_requests_arrive_as_they_were_sent(
    words: list[bytes], environment: dict[bytes, bytes], grace: float, number: int, cuts: list[int]
) -> None:
    order = Order(words[:1], words, environment, b"/", b'{"tier": 1}')
    data = b"".join(request.pack() for request in (order, Terminate(grace), Signal(number)))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        inbox, received = Inbox(theirs), []
        for cut in [*cuts, len(data)]:
            piece, data = data[:cut], data[cut:]
            if piece:
                ours.sendall(piece)
                received += inbox.receive() or []
        assert inbox.receive() is None if ours.shutdown(socket.SHUT_WR) is None else False
    first, second, third = received
    assert isinstance(first, Order)
    assert vars(first) == vars(order)
    assert isinstance(second, Terminate)
    assert isinstance(third, Signal)
    assert (second.grace, third.number) == (grace, number)


async def test_a_program_hears_every_signal_and_ignores_none(stand_in: None) -> None:
    for completed in (await run("cat", "/proc/self/status"), await confined(["cat", "/proc/self/status"])):
        lines = dict(line.split(":", 1) for line in completed.stdout.text.splitlines() if ":" in line)
        # What is above 31 is the C library's own.
        assert [int(lines[name], 16) & 0x7FFFFFFF for name in ("SigBlk", "SigIgn")] == [0, 0]


def test_descriptors_come_with_a_request_and_are_not_inherited() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, open(os.devnull) as file:
        data = Terminate(1).pack()
        send_with(ours, data[:1], [file.fileno()] * 4)
        ours.sendall(data[1:])
        inbox, requests = Inbox(theirs), []
        while not requests:
            requests = inbox.receive() or []
        assert len(inbox.descriptors) == 4
        for descriptor in inbox.descriptors:
            assert os.path.samestat(os.fstat(descriptor), os.fstat(file.fileno()))
            assert not os.get_inheritable(descriptor)
            os.close(descriptor)


def test_a_process_number_comes_with_its_line_or_that_of_the_sender() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, subprocess.Popen(["sleep", "600"]) as process:
        expect_numbers(ours)
        # The kernel refuses a number that there is not, and, without rights, that of another process.
        for pid, known in ((process.pid, {process.pid, os.getpid()}), (2**30, {os.getpid()})):
            send_number(theirs, b"started 0\n", pid)
            data, number = receive_number(ours, 100)
            assert (data, number in known) == (b"started 0\n", True)
        process.kill()


@pytest.mark.parametrize("lists", [True, False], ids=["listed", "scanned"])
def test_descendants_are_found_with_and_without_the_kernels_list(lists: bool) -> None:
    """A tree with sessions, double forks and orphans, and one child of ours that is to stay."""
    written = run_python(f"""
import os, signal, subprocess
from ripieno.sandbox.supervision import linux
from ripieno.sandbox.supervision.descendants import Tree, open_proc

linux.adopt_orphans()
spared = subprocess.Popen(["sleep", "600"])
script = "setsid sh -c 'sleep 600 & sleep 600' & (sleep 600 &) ; env -i sleep 600 & echo ready; exec sleep 600"
leader = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE)
assert leader.stdout.readline() == b"ready\\n"
tree = Tree(open_proc())
tree._scans |= not {lists}
while tree.strike({{spared.pid}}):
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        break
os.kill(spared.pid, 0)
spared.kill()
leader.stdout.close()
leader.returncode = spared.wait() and 0
print("done")
""")
    assert written == "done\n"


# Wherever this program goes


def test_no_child_of_this_program_is_there_to_be_waited_for() -> None:
    written = run_python("""
async def main():
    async with await LocalSpawner().start(["true"], clean_environment(), "/", ProcessLimits()) as process:
        assert await process.wait() == 0
        os.waitpid(-1, os.WNOHANG)

try:
    asyncio.run(main())
except ChildProcessError:
    print("none")
""")
    assert written == "none\n"


async def test_supervisors_hold_nothing_of_ours(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No descriptor, whatever may be inherited, and no variable."""
    monkeypatch.setenv("CANARY", "secret")
    zygote_module.ZYGOTES.drop()
    held = os.open(tmp_path, os.O_RDONLY)
    try:
        os.set_inheritable(held, True)
        async with await LocalSpawner().start(["sleep", "60"], clean_environment(), "/", QUICK) as process:
            keeper = parent(process.pid)
            for supervisor in (keeper, parent(keeper)):
                folder = pathlib.Path(f"/proc/{supervisor}")
                if not os.access(folder / "fd", os.R_OK):
                    lacking("A supervisor is hidden from us, as it should be.")
                # A keeper closes the descriptors of its order after the start.
                targets = [*open_files(supervisor).values()]
                assert str(tmp_path) not in targets
                assert len(targets) <= 12
                assert b"CANARY" not in (folder / "environ").read_bytes()
    finally:
        os.close(held)


def test_many_loops_in_many_threads_start_at_the_same_time() -> None:
    zygote_module.ZYGOTES.drop()

    def loop(number: int) -> list[int]:
        async def several() -> list[int]:
            return [(await run("sh", "-c", f"exit {number}")).exit_code for _ in range(3)]

        return asyncio.run(several())

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        assert list(threads.map(loop, range(16))) == [[number] * 3 for number in range(16)]


async def test_more_starts_at_once_than_a_socket_holds() -> None:
    completed = await asyncio.gather(*(run("sh", "-c", f"exit {number % 100}") for number in range(400)))
    assert [one.exit_code for one in completed] == [number % 100 for number in range(400)]


def test_a_forked_application_has_supervisors_of_its_own_and_leaves_its_parents_alone() -> None:
    written = run_python("""
def start(*argv):
    return LocalSpawner().start(argv, clean_environment(), "/", ProcessLimits(), pipe_stdin=True)

async def again():
    async with await start("true") as one:
        assert await one.wait() == 0

def fork():
    child = os.fork()
    if child == 0:
        asyncio.run(again())
        os._exit(0)
    return os.waitpid(child, 0)[1]

async def main():
    async with await start("cat") as one:
        assert await asyncio.to_thread(fork) == 0
        await one.stdin.write(b"still there")
        print(await one.stdout.read())

assert fork() == 0
asyncio.run(again())
assert fork() == 0
asyncio.run(main())
""")
    assert written == "b'still there'\n"


def test_a_fork_does_not_keep_what_its_parent_has_started(tmp_path: pathlib.Path) -> None:
    """The application is killed, and a child that it forked lives on."""
    with living(tmp_path / "alive") as alive:
        argv = program_of(f"""
async def main():
    script = "exec 9>{alive.path}; echo ready; setsid sleep 600 & sleep 600"
    one = await LocalSpawner().start(["sh", "-c", script], clean_environment(), "/", ProcessLimits())
    await one.stdout.read()
    if os.fork():
        os.kill(os.getpid(), signal.SIGKILL)
    os.read(0, 1)
    os._exit(0)

asyncio.run(main())
""")
        with subprocess.Popen(argv, stdin=subprocess.PIPE) as application:
            assert application.wait(HANG) == -signal.SIGKILL
            assert alive.all_gone(HANG)


async def test_another_user_has_another_zygote(monkeypatch: pytest.MonkeyPatch) -> None:
    async def zygote() -> int:
        async with await LocalSpawner().start(["sleep", "60"], clean_environment(), "/", QUICK) as process:
            return parent(parent(process.pid))

    first = await zygote()
    assert await zygote() == first
    monkeypatch.setattr(zygote_module, "_identity", lambda: "somebody else")
    second = await zygote()
    assert second != first
    assert await zygote() == second


async def test_without_an_interpreter_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    zygote_module.ZYGOTES.drop()
    monkeypatch.setattr(sys, "executable", "/there/is/none")
    with pytest.raises(ResourceFault, match=r"'true' could not be started: its supervisor could not be started"):
        await run("true")
    monkeypatch.undo()
    assert (await run("true")).exit_code == 0
