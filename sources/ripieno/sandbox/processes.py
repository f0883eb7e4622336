"""Starting processes: the only module that does.

A spawner starts a process; ``collect`` waits for one, with its output and time bounded. Other spawners may be stronger
than ``LocalSpawner``; callers see no difference.

``LocalSpawner`` gives each process a supervisor that finds all its descendants: in other sessions and groups, after
double forks, without an environment. None of them is left when the process is ended, or when this program itself is
killed. On macOS it finds the process group only.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Protocol, Self

from ripieno.exceptions import ResourceFault
from ripieno.postponed import asyncio
from ripieno.sandbox.capture import Capture, Captured
from ripieno.sandbox.orders import Place, make_order, precede, with_reason
from ripieno.sandbox.pipes import ByteReader, ByteWriter, PipeReader, PipeWriter
from ripieno.sandbox.refusals import explain_excess
from ripieno.sandbox.supervision.wire import Failure, Signal, Terminate
from ripieno.sandbox.supervisor import Channel, supervise
from ripieno.sandbox.tiers import Confinement
from ripieno.values import Value

#: Seconds for which output may still come after a process has ended, if its pipes are open.
LINGER = 0.25
#: Seconds in which a killed process must be gone.
_KILL_DEADLINE = 2.0

#: The variables of our environment that every child gets.
_BASICS = ("PATH", "LANG", "TZ", "TMPDIR", "HOME")


class ProcessLimits(Value, kw_only=True):
    """Limits of one process. Sizes are in bytes, ``grace`` in seconds."""

    #: Bytes kept of each stream, half from its head and half from its tail.
    output_bytes: int = 64 * 1024
    #: Output of both streams together beyond which the process is ended.
    kill_after: int = 256 * 1024 * 1024
    #: Time between the request to end and the kill.
    grace: float = 2.0


class Completed(Value, kw_only=True):
    """The end of a process. ``exit_code`` is negative for a signal; ``duration`` is in seconds."""

    exit_code: int
    stdout: Captured
    stderr: Captured
    duration: float
    #: Whether it was ended for writing more than ``ProcessLimits.kill_after``.
    flooded: bool = False
    #: The number of processes that it left running; they were killed.
    stopped: int = 0
    #: Remarks in brackets: why it was killed, or why the sandbox refused something.
    note: str = ""


class Process(Protocol):
    """A running or ended process. As a context manager, it ends and reaps the process on exit."""

    @property
    def pid(self) -> int:
        """The process ID as seen from here, also in a namespace of its own, for messages only."""
        ...

    @property
    def limits(self) -> ProcessLimits:
        """The limits that it was started with."""
        ...

    @property
    def stdin(self) -> ByteWriter | None:
        """Its standard input, if that is a pipe."""
        ...

    @property
    def stdout(self) -> ByteReader:
        """Its standard output. Closed by ``terminate``."""
        ...

    @property
    def stderr(self) -> ByteReader:
        """Its standard error. Closed by ``terminate``."""
        ...

    @property
    def stopped(self) -> int:
        """The number of processes that it left running when it ended by itself, killed by ``terminate``."""
        ...

    @property
    def remark(self) -> str:
        """Why it was killed without a request, in brackets; empty if it was not."""
        ...

    async def wait(self) -> int:
        """Its exit code, as soon as it has ended, even if its pipes are open; negative for a signal.

        Errors: ``ResourceFault`` if it turns out that the sandbox could not start the program.
        """
        ...

    def signal(self, number: int) -> None:
        """Sends a signal to it and its group; nothing when it has ended."""
        ...

    async def terminate(self) -> None:
        """Ends it with all its descendants, by force after the grace; returns when they are gone.

        May be called twice. A cancellation is held back until the process is gone. Processes that it left behind when
        it ended by itself are killed without grace.
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
        confinement: Confinement | None = None,
    ) -> Process:
        """Starts a program, without a shell.

        ``argv[0]`` is looked up in the ``PATH`` of ``environment``, which is the whole environment; with a slash it is
        a path relative to ``directory``. Without ``pipe_stdin`` standard input is empty. With a confinement the program
        has only that access, or is not started. A cancelled start leaves nothing running. Errors: ``ResourceFault``
        when it cannot be started, ``ValidationFault`` for impossible arguments or variables.
        """
        ...


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Our PATH, LANG, TZ, TMPDIR and HOME, then ``extra``, and no other variable of ours.

    Relative folders in PATH are left out: beneath a workspace, its files could pass for programs.
    """
    environment = {name: os.environ[name] for name in _BASICS if name in os.environ}
    folders = environment.get("PATH", os.defpath).split(os.pathsep)
    environment["PATH"] = os.pathsep.join(folder for folder in folders if os.path.isabs(folder))
    return {**environment, **(extra or {})}


class LocalSpawner(Spawner):
    """Starts processes on this machine, with this program's rights, each with its own supervisor."""

    async def start(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        directory: str | os.PathLike[str],
        limits: ProcessLimits,
        *,
        pipe_stdin: bool = False,
        confinement: Confinement | None = None,
    ) -> "LocalProcess":
        sys.audit("ripieno.start", tuple(argv), os.fspath(directory))
        order = make_order(argv, environment, confinement)
        path = environment.get("PATH", os.defpath)
        place = Place(argv[0], os.fspath(directory), path, confined=confinement is not None)
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            try:
                opened = place.open(order, theirs)
                if confinement is not None and confinement.tier == 2:
                    precede(order, confinement)
                files, descriptors = _pipes(ours, theirs, pipe_stdin=pipe_stdin)
                channel, answer = await supervise(order, [opened, *descriptors])
            except OSError as error:
                raise place.fault(Failure.of("process", error)) from error
            except Failure as failure:
                raise place.fault(failure) from failure
            ours.callback(channel.close)
            if isinstance(answer, Failure):
                raise place.fault(answer)
            wrapped = confinement is not None and confinement.tier == 2
            process = LocalProcess(answer, channel, files, limits, place, wrapped=wrapped)
            ours.pop_all()
            return process


def _pipes(
    ours: contextlib.ExitStack, theirs: contextlib.ExitStack, *, pipe_stdin: bool
) -> tuple[list[IO[bytes]], list[int]]:
    """Our ends and theirs of standard output, standard error and, if wanted, standard input."""
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
    """A ``Process`` of ``LocalSpawner``, created by it only."""

    def __init__(
        self,
        pid: int,
        channel: Channel,
        files: Sequence[IO[bytes]],
        limits: ProcessLimits,
        place: Place,
        *,
        wrapped: bool,
    ) -> None:
        stdout, stderr, *stdin = files
        self.pid = pid
        self.limits = limits
        self.stdin = PipeWriter(stdin[0]) if stdin else None
        self.stdout = PipeReader(stdout)
        self.stderr = PipeReader(stderr)
        self.stopped = 0
        self._channel = channel
        self._place = place
        self._wrapped = wrapped
        self._sent: set[int] = set()
        self._ending: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *details: object) -> None:
        await self.terminate()

    @property
    def remark(self) -> str:
        return "" if self._channel.exceeded is None else explain_excess(*self._channel.exceeded)

    async def wait(self) -> int:
        code = await asyncio.shield(self._channel.exit)
        if self._channel.unstarted:
            raise self._place.fault(Failure("sandbox", 0, ""))
        # bwrap survives its program by a moment, and reports a signal as 128 + its number, as shells do. Programs use
        # such codes, too (git: 129), so only a signal that was sent counts.
        return 128 - code if self._wrapped and code - 128 in self._sent else code

    def signal(self, number: int) -> None:
        self._sent.add(int(number))
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
        if not by_itself:
            self._sent |= {signal.SIGTERM, signal.SIGKILL}
        try:
            channel.ask(Terminate(grace))
            await asyncio.wait((channel.gone,), timeout=grace + _KILL_DEADLINE)
        finally:
            # Also when a closing loop cancels this task.
            if not channel.gone.done():
                channel.abandon()
                await asyncio.wait((channel.gone,), timeout=_KILL_DEADLINE)
            if not channel.gone.done():
                # It is stuck in the kernel and dies when it returns, or its keeper was stopped.
                channel.give_up()
            elif by_itself:
                self.stopped = channel.gone.result()
            channel.close()
            for pipe in (self.stdin, self.stdout, self.stderr):
                if pipe is not None:
                    pipe.close()


class RoutedSpawner(Spawner):
    """Starts confined programs with another spawner, from ``provide`` at the first use.

    The other spawner enforces the confinement in its own way or refuses.
    """

    def __init__(self, here: Spawner, provide: Callable[[], Spawner]) -> None:
        self._here = here
        self._provide = provide
        self._other: Spawner | None = None

    def other(self) -> Spawner:
        """The other spawner. Errors: any error of ``provide``."""
        if self._other is None:
            self._other = self._provide()
        return self._other

    async def start(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        directory: str | os.PathLike[str],
        limits: ProcessLimits,
        *,
        pipe_stdin: bool = False,
        confinement: Confinement | None = None,
    ) -> Process:
        spawner = self._here if confinement is None else self.other()
        return await spawner.start(argv, environment, directory, limits, pipe_stdin=pipe_stdin, confinement=confinement)


async def collect(
    process: Process, captures: tuple[Capture, Capture] | None = None, *, stdin: bytes | None = None
) -> Completed:
    """Waits for a process to end, and keeps its output within its limits.

    ``captures`` receive standard output and error instead; the caller can read them at any time, also after a cancel.
    ``stdin`` is written to its standard input, which is a pipe. Errors: those of ``Process.wait``.

    Returns at most ``LINGER`` seconds after the process has ended, even if its pipes are open; processes that it left
    running are killed. Cancelling, and too much output, end the process. It is gone when this returns or raises.
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
            if stdin is not None:
                pumps.append(group.create_task(_feed(process, stdin)))
            # The group would wrap a fault.
            ended = await _end(process)
            duration = time.monotonic() - began
            await asyncio.wait(pumps[:2], timeout=LINGER)
            for task in pumps:
                task.cancel()
    finally:
        await process.terminate()
    if isinstance(ended, ResourceFault):
        raise with_reason(ended, stderr.captured().text)
    return Completed(
        exit_code=ended,
        stdout=stdout.captured(),
        stderr=stderr.captured(),
        duration=duration,
        flooded=flooded,
        stopped=process.stopped,
        note=process.remark,
    )


async def _end(process: Process) -> int | ResourceFault:
    try:
        return await process.wait()
    except ResourceFault as fault:
        return fault


async def _feed(process: Process, data: bytes) -> None:
    if process.stdin is not None:
        # A program need not read its input.
        with contextlib.suppress(BrokenPipeError):
            await process.stdin.write(data)
        process.stdin.close()
