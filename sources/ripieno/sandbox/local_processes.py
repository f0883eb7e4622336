"""Processes of ``LocalSpawner``, each with its own supervisor."""

import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Self

from ripieno.lazy.modules import asyncio
from ripieno.sandbox.orders import Place, make_order, precede
from ripieno.sandbox.pipes import PipeReader, PipeWriter
from ripieno.sandbox.process_limits import ProcessLimits
from ripieno.sandbox.refusals import explain_excess
from ripieno.sandbox.supervision.wire import Failure, Signal, Terminate
from ripieno.sandbox.supervisor import Channel, supervise
from ripieno.sandbox.tiers import Confinement

#: Seconds in which a killed process must be gone.
_KILL_DEADLINE = 2.0


async def start_process(
    argv: Sequence[str],
    environment: Mapping[str, str],
    directory: str | os.PathLike[str],
    limits: ProcessLimits,
    *,
    pipe_stdin: bool,
    confinement: Confinement | None,
) -> "LocalProcess":
    """Starts a program on this machine, as ``Spawner.start`` describes."""
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
