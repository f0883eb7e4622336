"""``Worker``: takes submissions from the queue, and cares for those of workers that have died."""

import asyncio
import contextlib
import datetime
import functools
import os
import secrets
import socket
import time
from collections.abc import Callable, Collection, Sequence

from ripieno.assembly import Assembly
from ripieno.assembly.submissions import is_known, journal_of
from ripieno.canisters.display import count, short
from ripieno.ensembles.threads import run_in_thread
from ripieno.exceptions import InputError
from ripieno.execution.scheduling.locks import Locks
from ripieno.execution.scheduling.workspace_locks import WorkspaceLocks
from ripieno.models import Model
from ripieno.servers.worker.stretches import Responses, Stretches
from ripieno.storage.dispatch import leases
from ripieno.storage.dispatch.contract import GATEWAY, Dispatcher, Ending, RunCounter, Submission
from ripieno.storage.dispatch.events import EventLog

#: Seconds between looks for cancelled submissions and dead workers.
_BEAT = 1.0
#: Seconds between deletions of what is old.
_CLEANING = 60.0
#: Submissions under way whose events are kept, however old they are.
_MOST = 10_000
#: Seconds after which an end that the queue does not have is written again.
UNWRITTEN = 10.0
#: Seconds after which what was taken and has not begun counts as lost: far more than a beginning takes.
UNBEGUN = 30.0
#: Seconds for which a worker that ends waits until the queue has the ends of its runs, and between looks.
_WRITING, _LOOKS = 5.0, 0.05
#: Seconds for which submissions that have ended are kept.
KEPT = 30 * 86_400.0


class Worker:
    """Conducts at most ``slots`` submissions at once, until ``stop`` is called.

    The assembly is entered, and records in a ``Journal``. ``hosts`` are the names of this machine for workspaces.
    ``grace`` are the seconds for which runs may go on after ``stop``. ``report`` gets sentences for the operator, of
    which warnings begin with ``! ``. ``model_of`` finds models that the configuration does not have. ``metrics`` counts
    the runs. With ``[gateway.store]`` and ``servers = true``, it also answers background responses.

    Errors: ``InputError``.
    """

    def __init__(
        self,
        assembly: Assembly,
        dispatcher: Dispatcher,
        *,
        hosts: Sequence[str] = (),
        slots: int = 4,
        grace: float = 30.0,
        report: Callable[[str], None] = lambda _: None,
        model_of: Callable[[str], str | Model | None] = lambda name: name,
        metrics: RunCounter | None = None,
    ) -> None:
        journal = journal_of(assembly.execution.reporter.recorder)
        self.hosts = tuple(hosts) or (socket.gethostname(),)
        self.name = f"{self.hosts[0]}-{os.getpid()}-{secrets.token_hex(4)}"
        self._dispatcher = dispatcher
        self._slots = slots
        self._grace = grace
        self._report = report
        chosen = assembly.configuration
        responses: Responses | None = None
        if chosen.durable.servers and chosen.gateway.store is not None:
            from ripieno.servers.gateway.queued_responses import QueuedResponses

            responses = QueuedResponses(assembly)
        #: The places whose submissions it takes.
        self._places = self.hosts if responses is None else (*self.hosts, GATEWAY)
        self._responses = responses
        known = functools.partial(is_known, dispatcher)
        self._stretches = Stretches(assembly, journal, model_of, responses, worker=self.name, is_known=known)
        self._leases = leases.WorkerLeases(journal.database)
        self._events = EventLog(journal.database)
        self._metrics = metrics
        #: The ends of stretches until the queue has them, and when each was given to it.
        self._endings: dict[str, tuple[float, Ending]] = {}
        #: Stretches that could not go on without the database. They are dispatched again.
        self._interrupted: set[str] = set()
        #: Submissions that were taken and have not begun, and when that was first seen.
        self._unbegun: dict[str, float] = {}
        self._stopping = asyncio.Event()

    @property
    def running(self) -> tuple[str, ...]:
        """The identifiers of the submissions under way."""
        return self._stretches.running

    def stop(self) -> None:
        """Ends ``run``: no further submission is taken, and those under way end, or are given back."""
        if self.running and not self._stopping.is_set():
            running = count(len(self.running), "run")
            self._report(f"The worker takes nothing new. {running} under way: {self._grace:.0f} s to end.")
        self._stopping.set()

    async def run(self) -> None:
        """Works until ``stop``. Errors: ``InputError`` if the queue or the journal cannot be used at the start."""
        # Other workers of this machine may have the same workspaces.
        Locks.here().workspaces = WorkspaceLocks()
        # Before the first submission: a worker without a lease would never be missed.
        await run_in_thread(self._leases.renew, self.name, self._places, name="lease")
        working = self._dispatcher.working(self.name, hosts=self._places, slots=self._slots, stretch=self._conduct)
        async with working as take_no_more:
            left = asyncio.Event()
            beating = asyncio.create_task(self._beat(left), name="ripieno worker")
            try:
                await self._stopping.wait()
                take_no_more()
                await self._stretches.leave(self._grace)
                await self._written()
            finally:
                left.set()
                await asyncio.wait((beating,))
        # Not if the queue could not take back what was running: another worker does that when the lease ends.
        await run_in_thread(self._leases.forget, self.name, name="lease")

    async def _conduct(self, submission: Submission) -> Ending | None:
        began = time.monotonic()
        cancelled = await self._is_cancelled(submission)
        if submission.identifier in self._endings and not cancelled:
            # The engine could not write it, for example to a full disk.
            return self._endings[submission.identifier][1]
        ending = await self._stretches.conduct(submission, cancelled=cancelled)
        if ending is not None:
            self._endings[submission.identifier] = time.monotonic(), ending
        else:
            self._interrupted.add(submission.identifier)
        if self._metrics is not None:
            self._metrics.end("given_back" if ending is None else ending.finish, time.monotonic() - began)
        return ending

    async def _is_cancelled(self, submission: Submission) -> bool:
        """Whether it was, before its turn."""
        try:
            return bool(await run_in_thread(self._dispatcher.cancelled, [submission.identifier], name="cancelled"))
        except InputError:
            return False  # The next beat looks again.

    async def _beat(self, left: asyncio.Event) -> None:
        """Renews the lease, and looks after cancelled submissions and dead workers, until the event is set."""
        renewed = cleaned = look = time.monotonic()
        failing = False
        while not left.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_BEAT):
                    await left.wait()
            now = time.monotonic()
            try:
                if now - renewed >= leases.RENEWAL:
                    await run_in_thread(self._leases.renew, self.name, self._places, name="lease")
                    renewed = now
                    await self._drop_unbegun(now)
                for identifier in await run_in_thread(self._dispatcher.cancelled, self.running, name="cancelled"):
                    self._stretches.stop(identifier)
                await self._stretches.allowed.take_back()
                if now >= look:
                    look = now + await self._bury()
                await self._begin_again()
                await self._end_again(now)
                if now - cleaned >= _CLEANING:
                    cleaned = now
                    await run_in_thread(self._clean, name="cleaning")
            except InputError as error:
                if not failing:
                    self._report(f"! {error} It is tried again.")
                failing = True
            else:
                if failing:
                    self._report("The worker has reached its database again, and goes on.")
                failing = False

    async def _bury(self) -> float:
        """Queues again the runs of dead workers; returns the seconds until there may be further ones."""
        taken: dict[str, Collection[str]] = {}

        def take_back(worker: str) -> None:
            taken[worker] = self._dispatcher.take_back(worker)

        for name in await run_in_thread(self._leases.bury, take_back, self._dispatcher.workers, name="lease"):
            runs = ", ".join(map(short, taken[name]))
            then = f": its runs are queued again ({runs})." if runs else ". It had no runs."
            self._report(f"! The worker {name} has not renewed its lease{then}")
            if self._metrics is not None:
                self._metrics.take_over()
        # A worker that comes later has a lease that ends later.
        return max(0.0, min(await run_in_thread(self._leases.left, name="lease"), leases.RENEWAL))

    async def _begin_again(self) -> None:
        """Queues again what could not go on."""
        interrupted, self._interrupted = self._interrupted, set()
        try:
            if interrupted:
                await run_in_thread(self._dispatcher.take_back, self.name, list(interrupted), name="interrupted")
        except InputError:
            self._interrupted |= interrupted
            raise

    async def _drop_unbegun(self, now: float) -> None:
        """Queues again what was taken for this worker long ago, and has not begun.

        The engine forgets what it has taken if the database goes away before it begins (measured).
        """
        taken = set(await run_in_thread(self._dispatcher.taken, self.name, name="taken"))
        unbegun = taken.difference(self.running, self._endings, self._interrupted)
        self._unbegun = {one: self._unbegun.get(one, now) for one in sorted(unbegun)}
        lost = [one for one, since in self._unbegun.items() if now - since >= UNBEGUN]
        if lost:
            await run_in_thread(self._dispatcher.take_back, self.name, lost, name="taken")
            for one in lost:
                del self._unbegun[one]
            self._report(
                f"! Runs that were taken and could not begin are queued again ({', '.join(map(short, lost))})."
            )

    async def _end_again(self, now: float) -> None:
        """Queues again what has ended here, and has no end in the queue: it ends at once, or is cancelled."""
        due = [one for one, (since, _) in self._endings.items() if now - since >= UNWRITTEN]
        taken = await run_in_thread(self._dispatcher.take_back, self.name, due, name="ends") if due else ()
        for one in due:
            if one in taken:
                self._endings[one] = now, self._endings[one][1]
                self._report(f"! The end of the run {one} could not be written. It is written again.")
            else:
                del self._endings[one]

    async def _written(self) -> None:
        """Waits until the queue has the ends of all runs: another worker would find a run that has ended.

        The next one has what cannot be written in this time, or while the database is away.
        """
        with contextlib.suppress(TimeoutError, InputError):
            async with asyncio.timeout(_WRITING):
                while True:
                    if not self._endings.keys() & await run_in_thread(self._unwritten, name="ends"):
                        return
                    await asyncio.sleep(_LOOKS)

    def _unwritten(self) -> set[str]:
        """The submissions that have no end in the queue."""
        if not self._endings:
            return set()
        running = self._dispatcher.listed(states=["running"], limit=_MOST)
        return {one.submission.identifier for one in running if one.worker == self.name}

    def _clean(self) -> None:
        running = self._dispatcher.listed(states=["running"], limit=_MOST)
        self._events.clean([one.submission.identifier for one in running])
        self._dispatcher.clean(datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=KEPT))
        lost = () if self._responses is None else self._responses.end_lost(self._dispatcher)
        if lost:
            self._report(f"! Background responses that no gateway has submitted have failed ({', '.join(lost)}).")
