"""Processes and what starts them. ``local_processes`` has those of this machine.

A spawner starts a process; ``collect`` waits for one, with its output and time bounded. Other spawners may be stronger
than ``LocalSpawner``; callers see no difference.

``LocalSpawner`` gives each process a supervisor that finds all its descendants: in other sessions and groups, after
double forks, without an environment. None of them is left when the process is ended, or when this program itself is
killed. On macOS it finds the process group only.
"""

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, Self

from ripieno.exceptions import ResourceFault
from ripieno.lazy.modules import asyncio
from ripieno.sandbox.capture import Capture, Captured
from ripieno.sandbox.pipes import ByteReader, ByteWriter
from ripieno.sandbox.process_limits import ProcessLimits
from ripieno.sandbox.tiers import Confinement
from ripieno.values import Value

#: Seconds for which output may still come after a process has ended, if its pipes are open.
LINGER = 0.25

#: The variables of our environment that every child gets.
_BASICS = ("PATH", "LANG", "TZ", "TMPDIR", "HOME")


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
    ) -> Process:
        # Most commands start none.
        from ripieno.sandbox.local_processes import start_process

        return await start_process(argv, environment, directory, limits, pipe_stdin=pipe_stdin, confinement=confinement)


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
        from ripieno.sandbox.orders import with_reason

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
