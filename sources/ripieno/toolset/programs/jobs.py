"""Processes that run on between calls, identified by random handles, by conversation.

A handle is valid only in its conversation. A conversation's processes are ended with the conversation, and all of an
ensemble's when it is disconnected.
"""

import asyncio
import contextlib
import dataclasses
import secrets
import weakref
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import msgspec

from ripieno.canisters.faults import Change
from ripieno.ensembles import Context, Surroundings
from ripieno.exceptions import QuotaFault, ResourceFault
from ripieno.origins.settings import read_configuration
from ripieno.sandbox import Process
from ripieno.sandbox.capture import Capture, Captured
from ripieno.sandbox.changed_files import Look
from ripieno.sandbox.processes import Completed, collect
from ripieno.toolset.programs.settings import GRANTS, Grants
from ripieno.values import uncompared

#: Processes that one conversation may have running, and ended ones that are remembered.
MAX_RUNNING, MAX_ENDED = 32, 64
#: Bytes kept of each stream between two reads.
OUTPUT = 16 * 1024


class Recent(Capture):
    """The output since the last read."""

    __slots__ = ()

    def take(self) -> Captured:
        """Returns and clears the kept output."""
        captured = self.captured()
        self._head.clear()
        self._tail.clear()
        self.total_bytes = 0
        return captured


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """One such process. ``task`` collects its output and its end; ``reported``: a result has named its end.

    ``look`` are the changes of files since the last read; None if the process has ended, or nothing looks at them.
    """

    handle: str
    command: tuple[str, ...]
    process: Process
    stdout: Recent
    stderr: Recent
    began: float
    task: asyncio.Task[Completed]
    look: Look | None = None
    reported: bool = False

    @property
    def ended(self) -> Completed | None:
        """Its outcome; None while it runs."""
        if not self.task.done() or self.task.cancelled() or self.task.exception() is not None:
            return None
        return self.task.result()

    @property
    def unstarted(self) -> ResourceFault | None:
        """The fault of a program that turned out never to have started; None for others."""
        failed = self.task.exception() if self.task.done() and not self.task.cancelled() else None
        return failed if isinstance(failed, ResourceFault) else None

    def report_end(self) -> tuple[Change, ...]:
        """Its end as a change, once: for the first result after it."""
        ended = self.ended
        if ended is None or self.reported:
            return ()
        self.reported = True
        return (Change.of("ProcessTerminated", pid=self.process.pid, exit_code=ended.exit_code),)

    def take_look(self) -> Look | None:
        """The look, once."""
        look, self.look = self.look, None
        return look

    async def end(self) -> None:
        """Ends it with all its descendants."""
        await self.process.terminate()
        await asyncio.wait((self.task,))


class ConversationJobs:
    """The jobs of one conversation, by handle."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}

    def access(self, handle: str) -> Job:
        """The job of a handle. Errors: ``ResourceFault``."""
        if handle not in self.jobs:
            raise ResourceFault(
                f"No process of this conversation has the handle {handle[:80]!r}.",
                code="unknown_handle",
                suggestion="Use the handle from spawn, not a process number. ps lists the handles.",
            )
        return self.jobs[handle]

    def check_quota(self) -> None:
        """Errors: ``QuotaFault`` when there are too many."""
        if sum(not job.task.done() for job in self.jobs.values()) >= MAX_RUNNING:
            raise QuotaFault(
                f"{MAX_RUNNING} processes are running, which is the limit.", suggestion="End one with kill, or wait."
            )

    def forget(self) -> None:
        """Drops all but the latest ended jobs."""
        ended = [job for job in self.jobs.values() if job.task.done()]
        for job in ended[: max(0, len(ended) - MAX_ENDED)]:
            del self.jobs[job.handle]


@uncompared("jobs")
class JobManager(Grants, kw_only=True):
    """The connection of the ensemble: its grants, and the jobs of all conversations."""

    jobs: set[Job] = msgspec.field(default_factory=set["Job"])

    def jobs_of(self, context: Context) -> ConversationJobs:
        """The jobs of the conversation of a call. They are ended with the conversation."""
        known: object = context.namespace.get("jobs")
        if isinstance(known, ConversationJobs):
            return known
        owned = context.namespace["jobs"] = ConversationJobs()
        weakref.finalize(owned, _abandon, asyncio.get_running_loop(), owned.jobs).atexit = False
        return owned

    def add(self, owned: ConversationJobs, process: Process, command: Sequence[str], look: Look | None = None) -> Job:
        """Takes over a process. Nothing is awaited, so that none can be lost."""
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
            look=look,
        )
        self.jobs.add(job)
        task.add_done_callback(lambda _: self.jobs.discard(job))
        # Its fault is for those who ask. asyncio would log one that was never looked at.
        task.add_done_callback(lambda _: job.unstarted)
        owned.jobs[job.handle] = job
        owned.forget()
        return job


def _abandon(loop: asyncio.AbstractEventLoop, jobs: Mapping[str, Job]) -> None:
    """Ends the jobs of a conversation that is gone; called by the garbage collector."""
    with contextlib.suppress(RuntimeError):  # The loop is closed, which has ended every process.
        for job in jobs.values():
            # ``collect`` ends the process when it is cancelled.
            loop.call_soon_threadsafe(job.task.cancel)


@contextlib.asynccontextmanager
async def open_jobs(configuration: Mapping[str, Any], _: Surroundings) -> AsyncGenerator[JobManager, None]:
    """The factory of the connection. At its end no job is left running."""
    manager = JobManager(**read_configuration(GRANTS, configuration))
    try:
        yield manager
    finally:
        jobs = tuple(manager.jobs)
        if jobs:
            await asyncio.gather(*(job.end() for job in jobs), return_exceptions=True)
