"""The only room that starts a process.

A spawner starts, a process is talked to and ended, and ``collect`` waits for one with everything bounded. What
stands behind ``Spawner`` may be stronger than ``LocalSpawner``; callers see no difference.

``LocalSpawner`` has a supervisor behind each process, which finds all that the process has started: in other sessions
and groups, with two forks between, without an environment. Nothing of it is left when the process is ended, nor when
this program itself is killed. On macOS it finds the group of the process only.
"""

import asyncio
import contextlib
import dataclasses
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import IO, Protocol, Self

from ripieno.sandbox.capture import Capture, Captured
from ripieno.sandbox.orders import Place, make_order, precede
from ripieno.sandbox.pipes import ByteReader, ByteWriter, PipeReader, PipeWriter
from ripieno.sandbox.supervision.wire import Failure, Signal, Terminate
from ripieno.sandbox.supervisor import Channel, supervise

#: Seconds for which output may still come when a process has ended, and something holds its pipes.
LINGER = 0.25
#: Seconds that what is killed may take to be gone, before it is given up.
_KILL_DEADLINE = 2.0

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
    #: What is to be said of it beside, in brackets: why the sandbox refused something.
    note: str = ""


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

    def signal(self, number: int) -> None:
        """Sends a signal to it and its group; nothing when it has ended."""
        ...

    async def terminate(self) -> None:
        """Asks it to end, kills it after the grace, with all that it has started; returns when that is gone.

        May be called twice. A cancellation is held back until the process is gone. What a process left behind
        when it ended by itself is killed without grace.
        """
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *details: object) -> None: ...


class Confining(Protocol):
    """What a process may reach, in the form that its supervisor applies."""

    def mapping(self) -> dict[str, object]:
        """Plain values: texts, numbers, truths, and sequences of them."""
        ...

    def prefix(self, directory: str) -> Sequence[str]:
        """A program that confines, with its arguments, to be started before the program; empty where none is."""
        ...


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
        confinement: Confining | None = None,
    ) -> Process:
        """Starts a program; no shell sees ``argv``.

        ``argv[0]`` is looked for in the ``PATH`` of ``environment``, which is all the environment there is; with a
        slash in it, it is a path, taken from ``directory``. Without ``pipe_stdin`` there is nothing to read. With a
        confinement it reaches that and no more, or is not started. Cancelled, nothing that was started goes on.
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
    """Starts processes on this machine, with the rights of this program, each with a supervisor of its own."""

    async def start(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        directory: str | os.PathLike[str],
        limits: ProcessLimits,
        *,
        pipe_stdin: bool = False,
        confinement: Confining | None = None,
    ) -> "LocalProcess":
        sys.audit("ripieno.start", tuple(argv), os.fspath(directory))
        settings = None if confinement is None else confinement.mapping()
        order = make_order(argv, environment, settings)
        place = Place(argv[0], os.fspath(directory), environment.get("PATH", os.defpath), confined=settings is not None)
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            try:
                opened = place.open(order, theirs)
                if confinement is not None and settings is not None:
                    precede(order, confinement.prefix(os.fsdecode(order.directory)), settings)
                files, descriptors = _pipes(ours, theirs, pipe_stdin=pipe_stdin)
                channel, answer = await supervise(order, [opened, *descriptors])
            except OSError as error:
                raise place.fault(Failure.of("process", error)) from error
            except Failure as failure:
                raise place.fault(failure) from failure
            ours.callback(channel.close)
            if isinstance(answer, Failure):
                raise place.fault(answer)
            process = LocalProcess(answer, channel, files, limits)
            ours.pop_all()
            return process


def _pipes(
    ours: contextlib.ExitStack, theirs: contextlib.ExitStack, *, pipe_stdin: bool
) -> tuple[list[IO[bytes]], list[int]]:
    """Our ends and theirs of standard output, standard error and, if it is wanted, standard input."""
    files: list[IO[bytes]] = []
    descriptors: list[int] = []
    for mode in ("rb", "rb", "wb") if pipe_stdin else ("rb", "rb"):
        ends = os.pipe()
        mine, other = ends if mode == "rb" else ends[::-1]
        files.append(ours.enter_context(os.fdopen(mine, mode, buffering=0)))
        theirs.callback(os.close, other)
        descriptors.append(other)
    return files, descriptors


class LocalProcess:
    """A ``Process`` of ``LocalSpawner``, made by it only."""

    def __init__(self, pid: int, channel: Channel, files: Sequence[IO[bytes]], limits: ProcessLimits) -> None:
        stdout, stderr, *stdin = files
        self.pid = pid
        self.limits = limits
        self.stdin = PipeWriter(stdin[0]) if stdin else None
        self.stdout = PipeReader(stdout)
        self.stderr = PipeReader(stderr)
        self.stopped = 0
        self._channel = channel
        self._ending: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *details: object) -> None:
        await self.terminate()

    async def wait(self) -> int:
        return await asyncio.shield(self._channel.exit)

    def signal(self, number: int) -> None:
        self._channel.ask(Signal(int(number)))

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

    async def _end(self) -> None:
        channel = self._channel
        by_itself = channel.exit.done()
        grace = 0.0 if by_itself else self.limits.grace
        try:
            channel.ask(Terminate(grace))
            await asyncio.wait((channel.gone,), timeout=grace + _KILL_DEADLINE)
        finally:
            # Also when the loop is being closed, and cancels this task too.
            if not channel.gone.done():
                channel.abandon()
                await asyncio.wait((channel.gone,), timeout=_KILL_DEADLINE)
            if not channel.gone.done():
                # Stuck in the kernel; it dies when it comes out. Or somebody has stopped its keeper.
                channel.wake()
            elif by_itself:
                self.stopped = channel.gone.result()
            channel.close()
            for pipe in (self.stdin, self.stdout, self.stderr):
                if pipe is not None:
                    pipe.close()


async def collect(process: Process, captures: tuple[Capture, Capture] | None = None) -> Completed:
    """Waits for a process to end, and keeps what its limits allow of what it wrote.

    ``captures`` take standard output and error instead; whoever made them can look at any time, and after a cancel.

    Returns at most ``LINGER`` seconds after the process itself has ended, whoever still holds its pipes; what it
    left running is killed. Cancelling, and too much output, end the process. It is gone when this returns or raises.
    """
    limits = process.limits
    stdout, stderr = captures or (Capture(limits.output_bytes), Capture(limits.output_bytes))
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
