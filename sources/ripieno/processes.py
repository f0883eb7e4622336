"""The only room that starts a process.

A spawner starts, a process is talked to and ended, and ``collect`` waits for one with everything bounded. What
stands behind ``Spawner`` may be stronger than ``LocalSpawner``; callers see no difference.

``LocalSpawner`` gives each process a session of its own and ends the whole group. It does not find a process that
left the group (``setsid``), and nothing is ended when this program itself is killed: a sandbox does that.
"""

import asyncio
import contextlib
import dataclasses
import errno
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Protocol, Self

from ripieno.capturing import Capture, Captured
from ripieno.exceptions import ResourceFault, ValidationFault
from ripieno.pipes import ByteReader, ByteWriter, PipeReader, PipeWriter

#: Seconds for which output may still come when a process has ended, and something holds its pipes.
LINGER = 0.25
#: Seconds that a killed process may take to be gone, before it is given up.
_KILL_DEADLINE = 1.0
#: The exit code of a process that somebody else has waited for; asyncio uses the same.
_UNKNOWN_CODE = 255

#: What a child gets of our environment, whoever it is.
_BASICS = ("PATH", "LANG", "TZ", "TMPDIR", "HOME")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimits:
    """Limits of one process. Sizes are in bytes, ``grace`` in seconds."""

    #: Kept of each stream, half from its head and half from its tail.
    output_bytes: int = 64 * 1024
    #: At more output than this, of both streams together, the process is ended.
    kill_after: int = 256 * 1024 * 1024
    #: How long a process may take to end when it is asked to, before it is killed.
    grace: float = 2.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """How a process ended. ``exit_code`` is negative for a signal; ``duration`` is in seconds."""

    exit_code: int
    stdout: Captured
    stderr: Captured
    duration: float
    #: It wrote more than ``ProcessLimits.kill_after``, and was ended for it.
    flooded: bool = False
    #: How many processes it left running behind it; they were killed.
    stopped: int = 0


class Process(Protocol):
    """A process that runs, or has ended. Entered, it is ended and reaped at the end, whatever happens."""

    @property
    def pid(self) -> int:
        """Its number, for messages only."""
        ...

    @property
    def limits(self) -> ProcessLimits:
        """The limits that it was started with."""
        ...

    @property
    def stdin(self) -> ByteWriter | None:
        """What it reads, if that is a pipe."""
        ...

    @property
    def stdout(self) -> ByteReader:
        """What it writes. Closed by ``terminate``."""
        ...

    @property
    def stderr(self) -> ByteReader:
        """What it complains. Closed by ``terminate``."""
        ...

    @property
    def stopped(self) -> int:
        """How many processes it had left running when it ended by itself, and ``terminate`` killed."""
        ...

    async def wait(self) -> int:
        """Its exit code, as soon as it has ended, whoever holds its pipes; negative for a signal."""
        ...

    async def terminate(self) -> None:
        """Asks it to end, kills it after the grace, with all of its group; returns when it is gone.

        May be called twice. A cancellation is held back until the process is gone. What a process left behind
        when it ended by itself is killed without grace.
        """
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *details: object) -> None: ...


class Spawner(Protocol):
    """Starts processes. Every process of this program is started by one."""

    async def start(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        directory: str | os.PathLike[str],
        limits: ProcessLimits,
        *,
        pipe_stdin: bool = False,
    ) -> Process:
        """Starts a program; no shell sees ``argv``.

        ``argv[0]`` is looked for in the ``PATH`` of ``environment``, which is all the environment there is; with a
        slash in it, it is a path, taken from ``directory``. Without ``pipe_stdin`` there is nothing to read.
        Errors: ``ResourceFault`` when it cannot be started, ``ValidationFault`` for what no program can be given.
        """
        ...


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """PATH, LANG, TZ, TMPDIR and HOME as they are here, then ``extra``; nothing else of ours.

    Relative folders in our PATH are left out: beneath a workspace, they would let its files pass for programs.
    """
    environment = {name: os.environ[name] for name in _BASICS if name in os.environ}
    folders = environment.get("PATH", os.defpath).split(os.pathsep)
    environment["PATH"] = os.pathsep.join(folder for folder in folders if os.path.isabs(folder))
    return {**environment, **(extra or {})}


class LocalSpawner(Spawner):
    """Starts processes on this machine, with the rights of this program, each in a session of its own."""

    async def start(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        directory: str | os.PathLike[str],
        limits: ProcessLimits,
        *,
        pipe_stdin: bool = False,
    ) -> "LocalProcess":
        # Nothing may be awaited between the start and the return: a cancellation there would lose the process.
        popen = _launch(argv, environment, os.fspath(directory), pipe_stdin=pipe_stdin)
        try:
            return LocalProcess(popen, limits)
        except BaseException:
            with popen:
                popen.kill()
            raise


def _launch(
    argv: Sequence[str], environment: Mapping[str, str], directory: str, *, pipe_stdin: bool
) -> subprocess.Popen[bytes]:
    if isinstance(argv, str) or not argv:
        raise ValidationFault(f"A program and its arguments must be a list of strings that is not empty, not {argv!r}.")
    try:
        return subprocess.Popen(
            list(argv),
            bufsize=0,
            stdin=subprocess.PIPE if pipe_stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=directory,
            env=dict(environment),
            start_new_session=True,
        )
    except ValueError as error:
        # A NUL, a surrogate that stands for nothing, or "=" in the name of a variable.
        raise ValidationFault(f"{argv[0]!r} cannot be given these arguments or this environment: {error}.") from error
    except OSError as error:
        raise _start_fault(error, argv[0], directory, environment.get("PATH", os.defpath)) from error


def _start_fault(error: OSError, program: str, directory: str, path: str) -> ResourceFault:
    details = {"program": program, "directory": directory, "PATH": path}
    suggestion = None
    if error.filename == directory:
        message = f"The directory {directory!r} for {program!r} cannot be entered: {error.strerror}."
    elif error.errno == errno.ENOENT and "/" in program:
        message = f"There is no program {program!r}, or the interpreter in its first line is missing."
    elif error.errno == errno.ENOENT:
        message = f"There is no program {program!r} in any folder of PATH ({path})."
        suggestion = "Install it, add its folder to PATH, or name it by its whole path."
    elif error.errno == errno.EACCES:
        message = f"{program!r} may not be executed."
        suggestion = "It must be a file with execute permission."
    elif error.errno == errno.ENOEXEC:
        message = f"{program!r} is no program that this system can execute."
        suggestion = "A script needs a first line such as #!/bin/sh."
    else:
        message = f"{program!r} could not be started: {error.strerror}."
    return ResourceFault(message, code="not_started", details=details, suggestion=suggestion)


class LocalProcess:
    """A ``Process`` of ``LocalSpawner``, made by it only.

    When the process has ended it stays unreaped until ``terminate``, so that the number of its group cannot
    become a stranger's before the group is killed (macOS cannot look without reaping, and is left that risk).
    """

    def __init__(self, popen: subprocess.Popen[bytes], limits: ProcessLimits) -> None:
        # The file objects are there: _launch asked for them.
        assert popen.stdout is not None
        assert popen.stderr is not None
        self.pid = popen.pid
        self.limits = limits
        self.stdin = None if popen.stdin is None else PipeWriter(popen.stdin)
        self.stdout = PipeReader(popen.stdout)
        self.stderr = PipeReader(popen.stderr)
        self.stopped = 0
        self._popen = popen
        self._exit: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._ending: asyncio.Task[None] | None = None
        threading.Thread(target=self._watch, name=f"ripieno process {popen.pid}", daemon=True).start()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *details: object) -> None:
        await self.terminate()

    async def wait(self) -> int:
        return await asyncio.shield(self._exit)

    async def terminate(self) -> None:
        if self._ending is None:
            self._ending = asyncio.create_task(self._end(), name=f"end of process {self.pid}")
        cancelled: asyncio.CancelledError | None = None
        while not self._ending.done():
            try:
                await asyncio.wait((self._ending,))
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled
        if not self._ending.cancelled():
            self._ending.result()

    def _watch(self) -> None:
        """Runs in a thread of its own until the process has ended."""
        code = _await_exit(self._popen)
        with contextlib.suppress(RuntimeError):  # The loop is closed, and with it whoever waited.
            self._exit.get_loop().call_soon_threadsafe(self._ended, code)

    def _ended(self, code: int) -> None:
        if not self._exit.done():
            self._exit.set_result(code)
        else:
            self._popen.poll()

    async def _end(self) -> None:
        by_itself = self._exit.done()
        try:
            if not by_itself:
                self._signal(signal.SIGTERM)
                await asyncio.wait((self._exit,), timeout=self.limits.grace)
        finally:
            # Also when the loop is being closed, and cancels this task too.
            if not self._exit.done():
                self._signal(signal.SIGKILL)
                await asyncio.wait((self._exit,), timeout=_KILL_DEADLINE)
            if not self._exit.done():
                # Stuck in the kernel. It dies when it comes out, and is reaped by ``_ended``.
                self._exit.set_result(-signal.SIGKILL)
            self._finish(by_itself=by_itself)

    def _finish(self, *, by_itself: bool) -> None:
        self._popen.poll()
        # Reaped just now: as long as the group exists, its number is still ours.
        if self._signal(0):
            self.stopped = _count_group(self.pid) if by_itself else 0
            self._signal(signal.SIGKILL)
        for pipe in (self.stdin, self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()

    def _signal(self, number: int) -> bool:
        """Signals the whole group; False when there is none. What runs as somebody else cannot be signalled."""
        try:
            os.killpg(self.pid, number)
        except PermissionError:
            return True
        except ProcessLookupError:
            return False
        return True


def _await_exit(popen: subprocess.Popen[bytes]) -> int:
    """The exit code, when it is known; blocks until then, and reaps only where there is no other way."""
    if sys.platform == "darwin":
        return popen.wait()
    try:
        result = os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        result = None
    if result is None:
        return _UNKNOWN_CODE
    return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status


def _count_group(group: int) -> int:
    """How many living processes a group has; 1 where the system does not tell, because there are some."""
    count = 0
    for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # Fields after the name, which may hold anything, parentheses too: state, parent, group.
            state, _, number = entry.read_text(errors="replace").rpartition(")")[2].split()[:3]
            count += int(number) == group and state not in "ZX"
    return count if sys.platform == "linux" else 1


async def collect(process: Process) -> Completed:
    """Waits for a process to end, and keeps what its limits allow of what it wrote.

    Returns at most ``LINGER`` seconds after the process itself has ended, whoever still holds its pipes; what it
    left running is killed. Cancelling, and too much output, end the process. It is gone when this returns or raises.
    """
    limits = process.limits
    stdout, stderr = Capture(limits.output_bytes), Capture(limits.output_bytes)
    began = time.monotonic()
    flooded = False

    async def pump(reader: ByteReader, capture: Capture) -> None:
        nonlocal flooded
        while data := await reader.read():
            capture.feed(data)
            if stdout.total_bytes + stderr.total_bytes > limits.kill_after:
                flooded = True
                await process.terminate()

    try:
        async with asyncio.TaskGroup() as group:
            pumps = [group.create_task(pump(*pair)) for pair in ((process.stdout, stdout), (process.stderr, stderr))]
            exit_code = await process.wait()
            duration = time.monotonic() - began
            await asyncio.wait(pumps, timeout=LINGER)
            for task in pumps:
                task.cancel()
    finally:
        await process.terminate()
    return Completed(
        exit_code=exit_code,
        stdout=stdout.captured(),
        stderr=stderr.captured(),
        duration=duration,
        flooded=flooded,
        stopped=process.stopped,
    )
