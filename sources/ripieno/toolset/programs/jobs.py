"""Processes that go on between calls: known by handles that nobody can guess, one shelf for each conversation.

A handle is good in the conversation that it was made in, and nowhere else. All of a conversation's processes are ended
when it is given up, all of an ensemble's when it is disconnected.
"""

import asyncio
import contextlib
import dataclasses
import secrets
import weakref
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any

from ripieno.ensembles import Context, Surroundings
from ripieno.exceptions import QuotaFault, ResourceFault
from ripieno.sandbox import Process
from ripieno.sandbox.capture import Capture, Captured
from ripieno.sandbox.processes import Completed, collect
from ripieno.toolset.programs.settings import Grants, read_grants

#: Processes that one conversation may have running, and ended ones that it is told of.
MAX_RUNNING, MAX_ENDED = 32, 64
#: Bytes that are kept of each stream between two looks at it.
OUTPUT = 16 * 1024


class Recent(Capture):
    """What came since the last look."""

    __slots__ = ()

    def take(self) -> Captured:
        """What is kept; from now on it is loaded anew."""
        captured = self.captured()
        self._head.clear()
        self._tail.clear()
        self.total_bytes = 0
        return captured


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """One process that goes on. ``task`` gathers what it writes, and has how it ended."""

    handle: str
    command: tuple[str, ...]
    process: Process
    stdout: Recent
    stderr: Recent
    began: float
    task: asyncio.Task[Completed]

    @property
    def ended(self) -> Completed | None:
        """How it ended; None while it runs."""
        if not self.task.done() or self.task.cancelled() or self.task.exception() is not None:
            return None
        return self.task.result()

    async def end(self) -> None:
        """Ends it and all that it has started."""
        await self.process.terminate()
        await asyncio.wait((self.task,))


class Shelf:
    """The jobs of one conversation, by handle."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}

    def access(self, handle: str) -> Job:
        """The job of a handle. Errors: ``ResourceFault``."""
        if handle not in self.jobs:
            raise ResourceFault(
                f"No process of this conversation has the handle {handle[:80]!r}.",
                code="unknown_handle",
                suggestion="Processes are known by the handle that spawn gives, never by a number. ps lists them.",
            )
        return self.jobs[handle]

    @property
    def running(self) -> list[Job]:
        """Those that still run."""
        return [job for job in self.jobs.values() if not job.task.done()]

    def forget(self) -> None:
        """Keeps no more than the latest of those that have ended."""
        ended = [job for job in self.jobs.values() if job.task.done()]
        for job in ended[: max(0, len(ended) - MAX_ENDED)]:
            del self.jobs[job.handle]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Workshop(Grants):
    """The connection of the ensemble: what is granted, and every job of every conversation."""

    jobs: set[Job] = dataclasses.field(default_factory=set["Job"], compare=False)

    def shelf(self, context: Context) -> Shelf:
        """The shelf of the conversation of a call. When that is given up, its jobs are ended."""
        known: object = context.namespace.get("shelf")
        if isinstance(known, Shelf):
            return known
        shelf = context.namespace["shelf"] = Shelf()
        weakref.finalize(shelf, _abandon, asyncio.get_running_loop(), shelf.jobs).atexit = False
        return shelf

    def check_room(self, shelf: Shelf) -> None:
        """Errors: ``QuotaFault`` when a conversation has too many."""
        if len(shelf.running) >= MAX_RUNNING:
            raise QuotaFault(
                f"{MAX_RUNNING} processes are running, and no more may.", suggestion="End one with kill, or wait."
            )

    def add(self, shelf: Shelf, process: Process, command: Sequence[str]) -> Job:
        """Takes charge of a process. Nothing is awaited, so that none can be lost."""
        stdout, stderr = Recent(OUTPUT), Recent(OUTPUT)
        task = asyncio.create_task(collect(process, (stdout, stderr)), name=f"process {process.pid}")
        job = Job(
            handle=f"p_{secrets.token_hex(16)}",
            command=tuple(command),
            process=process,
            stdout=stdout,
            stderr=stderr,
            began=asyncio.get_running_loop().time(),
            task=task,
        )
        self.jobs.add(job)
        task.add_done_callback(lambda _: self.jobs.discard(job))
        shelf.jobs[job.handle] = job
        shelf.forget()
        return job


def _abandon(loop: asyncio.AbstractEventLoop, jobs: Mapping[str, Job]) -> None:
    """Ends what a conversation that is gone had running; called by whoever collects garbage."""
    if any(not job.task.done() for job in jobs.values()):
        with contextlib.suppress(RuntimeError):  # The loop is closed, and with it every process ended.
            loop.call_soon_threadsafe(_cancel, tuple(jobs.values()))


def _cancel(jobs: Iterable[Job]) -> None:
    for job in jobs:
        # Whoever collects ends the process when it is cancelled.
        job.task.cancel()


@contextlib.asynccontextmanager
async def open_workshop(configuration: Mapping[str, Any], _: Surroundings) -> AsyncGenerator[Workshop, None]:
    """The factory of the connection. At its end no process that was spawned is left."""
    workshop = Workshop(**read_grants(configuration))
    try:
        yield workshop
    finally:
        jobs = tuple(workshop.jobs)
        if jobs:
            await asyncio.gather(*(job.end() for job in jobs), return_exceptions=True)
