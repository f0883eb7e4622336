"""Supervisors: what holds when they themselves are attacked, and wherever this program goes."""

import asyncio
import concurrent.futures
import contextlib
import itertools
import os
import pathlib
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.exceptions import ResourceFault
from ripieno.sandbox import Confinement, ProcessLimits, supervision, supervisor
from ripieno.sandbox import zygote as zygote_module
from ripieno.sandbox.orders import make_order
from ripieno.sandbox.processes import Completed, LocalSpawner, clean_environment, collect
from ripieno.sandbox.supervision.wire import Inbox, Order, Signal, Terminate, send_with
from tests.counts import count
from tests.skips import lacking
from tests.support.live_processes import QUICK, Living, living, start_living
from tests.support.sandbox_tiers import shelter

HANG = 60
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


#: The beginning of an application's program.
PRELUDE = """
import asyncio, os, signal
from ripieno.sandbox.processes import LocalSpawner, clean_environment
from ripieno.sandbox import ProcessLimits
"""


@pytest.fixture
def alive(tmp_path: pathlib.Path) -> Iterator[Living]:
    with living(tmp_path / "alive") as one:
        yield one


async def run(*argv: str) -> Completed:
    async with await LocalSpawner().start(argv, clean_environment(), "/", ProcessLimits()) as process:
        return await collect(process)


def parent(pid: int) -> int:
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def program_of(code: str) -> list[str]:
    return [sys.executable, "-W", "error", "-c", PRELUDE + code]


def run_python(code: str) -> str:
    """What an application of its own writes."""
    completed = subprocess.run(program_of(code), capture_output=True, timeout=HANG, text=True, check=False)
    assert (completed.returncode, completed.stderr) == (0, "")
    return completed.stdout


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
                targets = [os.readlink(link) for link in (folder / "fd").iterdir()]
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


# When supervisors are attacked


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


async def end_of(descriptors: list[int]) -> int:
    """How many of these processes have not ended after a while."""
    left = 0
    for descriptor in descriptors:
        gone = select.poll()
        gone.register(descriptor, select.POLLIN)
        left += not await asyncio.to_thread(gone.poll, 5000)
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
        if await end_of(kept) and signals != (signal.SIGKILL, signal.SIGSTOP, signal.SIGKILL):
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


# With a confinement


class Settings(Confinement):
    """A confinement that a stand-in of the real one reads."""

    def __init__(self, **settings: object) -> None:
        super().__init__(tier=0)
        object.__setattr__(self, "settings", settings)

    def mapping(self) -> dict[str, object]:
        found: dict[str, object] = vars(self)["settings"]
        return found


STAND_IN = """
import ctypes, os

def enter(settings):
    if "enter" in settings:
        raise OSError(1, settings["enter"])
    if not settings.get("pid"):
        return frozenset()
    if ctypes.CDLL(None, use_errno=True).unshare(0x10000000 * (os.geteuid() != 0) | 0x20000000):
        raise OSError(ctypes.get_errno(), "unshare")
    return frozenset(("pid",))

def get_ready(settings):
    if "ready" in settings:
        raise OSError(1, settings["ready"])

def apply(settings):
    if "apply" in settings:
        raise OSError(1, settings["apply"])
    if "signals" in settings:
        # To the keeper, which has the order and has not reported its start, and to the zygote.
        keeper = os.getppid()
        zygote = int(open(f"/proc/{keeper}/stat").read().rpartition(")")[2].split()[1])
        for number, process in zip(settings["signals"], (zygote, keeper)):
            os.kill(process, number)
    os.environ["UNSEEN"] = "1"
    os.write(1, b"applied to %d\\n" % os.getpid())
"""


@pytest.fixture
def stand_in(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A zygote whose room of confinements is a stand-in."""
    package = tmp_path / "stand-in"
    shutil.copytree(pathlib.Path(supervision.__file__).parent, package / "supervision")
    (package / "confinement").mkdir()
    (package / "confinement" / "__init__.py").touch()
    imports = "from ripieno.sandbox.confinement.namespaces import apply, get_ready\n"
    (package / "confinement" / "apply.py").write_text(imports)
    (package / "confinement" / "namespaces.py").write_text(STAND_IN)
    monkeypatch.setattr(zygote_module, "_LAUNCHER", package / "supervision" / "launcher.py")
    zygote_module.ZYGOTES.drop()
    yield
    zygote_module.ZYGOTES.drop()


async def confined(argv: list[str], directory: str = "/", **settings: object) -> Completed:
    spawner = LocalSpawner()
    async with await spawner.start(
        argv, clean_environment(), directory, ProcessLimits(), confinement=Settings(**settings)
    ) as process:
        return await collect(process)


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
