"""The contract of dispatchers: they queue submissions, and start each on one worker at a time."""

import contextlib
import datetime
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Literal, Protocol, TypeAlias

from frozendict import frozendict

from ripieno.canisters import Canister
from ripieno.canisters.serialization import register
from ripieno.values import Value, uncompared

#: Runs of low priority have one place in each worker, beside those of the others, and never delay them.
Priority = Literal["normal", "low"]
PRIORITIES: tuple[Priority, ...] = ("normal", "low")
#: ``scheduled`` waits for its time, ``queued`` for a worker. ``waiting`` ended with calls that wait for a person.
#: ``failed`` ended with an error; ``ended`` in any other way. ``answered`` was waiting, and its calls have their
#: answers, or was queued with the answers, and another program has continued it. That is kept beside the journal: a
#: dispatcher alone says ``waiting`` or ``queued``.
State = Literal["scheduled", "queued", "running", "waiting", "answered", "ended", "failed", "cancelled"]
STATES: tuple[State, ...] = ("scheduled", "queued", "running", "waiting", "answered", "ended", "failed", "cancelled")


#: The ensemble of the tools that a client declares.
CLIENT = "client"
#: The ``host`` of background responses: workers with the configuration of a gateway, on any machine.
GATEWAY = "(gateway)"


class ClientTool(Value, kw_only=True):
    """A tool that the client of a run declares and runs itself. ``arguments`` is their JSON Schema."""

    name: str
    arguments: frozendict[str, object]
    description: str = ""


class Submission(Value, kw_only=True):
    """The message that a worker continues a conversation with, until its end, a question or a limit. It has no secrets.

    ``canisters`` are said first; without any, the calls that wait are continued with the answers that are kept beside
    the journal. Names of models, agents and tools are those of the worker's configuration. ``workspace`` is a folder on
    ``host``; without a host, any worker takes it, in its own workspace. ``client_tools`` are offered, too.
    ``continues`` is the submission whose waiting calls have their answers now.

    ``response``: the conversation is the identifier of a stored response of a gateway, and ``owner`` its caller. What
    it asks for is encrypted in its row.
    """

    identifier: str
    conversation: str
    owner: str = ""
    canisters: tuple[Canister, ...] = ()
    model: str = ""
    agent: str = ""
    tools: tuple[str, ...] | None = None
    workspace: str = ""
    host: str = ""
    priority: Priority = "normal"
    client_tools: tuple[ClientTool, ...] = ()
    continues: str = ""
    response: bool = False


register({Submission: "submission"})


class Dispatched(Value, kw_only=True):
    """The state of a submission. ``worker`` is the last one that took it; ``reason`` is that of a failure."""

    submission: Submission
    state: State
    submitted: datetime.datetime
    finish: str = ""
    reason: str = ""
    worker: str = ""
    starts: datetime.datetime | None = None
    ended: datetime.datetime | None = None

    @property
    def over(self) -> bool:
        """Whether nothing more comes of it."""
        return self.state not in ("scheduled", "queued", "running")


class Ending(Value, kw_only=True):
    """The end of one stretch of a conduct: the finish of its run, and the reason of a failure."""

    finish: str
    reason: str = ""


@uncompared("next")
class Schedule(Value, kw_only=True):
    """A submission that is repeated. ``cron`` has five fields, in UTC. A listed one has its ``next`` time."""

    name: str
    cron: str
    submission: Submission
    next: datetime.datetime | None = None


class QueueInspection(Value, kw_only=True):
    """The workers that are alive, and the submissions that wait for one, for their time, or run.

    ``answered`` are in the queue still, and another program has continued their conversations. ``lost`` are those of
    the running whose worker is gone: its lease has ended. ``unattended`` are the hosts of queued ones that no worker
    takes.
    """

    workers: int = 0
    queued: int = 0
    answered: int = 0
    scheduled: int = 0
    running: int = 0
    lost: int = 0
    unattended: tuple[str, ...] = ()


class RunCounter(Protocol):
    """Counts what a worker does."""

    def end(self, finish: str, seconds: float) -> None:
        """Counts a stretch that has ended, or was given back to the queue (``finish`` is then ``given_back``)."""
        ...

    def take_over(self) -> None:
        """Counts a dead worker whose runs this one has given back."""
        ...


#: One stretch of a conduct. It raises nothing; None gives the submission back to the queue.
Stretch: TypeAlias = Callable[[Submission], Awaitable[Ending | None]]


class Dispatcher(Protocol):
    """A queue that several machines share. Its methods block: an event loop calls them in a thread.

    Submissions of one conversation and priority run one after another, in the order of their arrival. Those of others
    run beside them, in any order. Errors of all methods: ``InputError``.
    """

    def submit(self, submission: Submission, *, at: datetime.datetime | None = None) -> bool:
        """Queues a submission, at once or at a time. False, and nothing else happens, if its identifier is known."""
        ...

    def find(self, identifier: str) -> Dispatched:
        """The state of a submission. Errors: ``NameAbsence``."""
        ...

    def listed(
        self, *, owner: str | None = None, states: Collection[State] = (), limit: int = 100
    ) -> Sequence[Dispatched]:
        """Submissions, the newest first."""
        ...

    def cancel(self, identifier: str) -> None:
        """Cancels what has not ended. A running one ends soon, and each of its calls has its result."""
        ...

    def forget(self, owner: str, conversation: str) -> None:
        """Deletes all submissions of a conversation, with their content."""
        ...

    def repeat(self, schedule: Schedule) -> Schedule | None:
        """Repeats a submission, in place of the schedule of this name, which is returned if there was one.

        Errors: also ``InputError`` that says what is wrong with ``cron``.
        """
        ...

    def schedules(self) -> Sequence[Schedule]:
        """All schedules, by name."""
        ...

    def end_schedule(self, name: str) -> None:
        """Ends a schedule. Errors: ``NameAbsence``."""
        ...

    def working(
        self, worker: str, *, hosts: Sequence[str], slots: int, stretch: Stretch
    ) -> contextlib.AbstractAsyncContextManager[Callable[[], None]]:
        """Starts stretches on the running event loop, of submissions for any machine and for these hosts.

        At most ``slots`` at once are for each of these places, and one of low priority, whatever other workers have.
        Yields what ends the taking: those that were taken go on.

        The stretch of one that was cancelled before is called, too: it ends a response, or lets calls wait again.

        Enter it once at a time in a process. At its end no stretch may be under way; those that returned None are
        queued again.
        """
        ...

    def cancelled(self, identifiers: Sequence[str]) -> Collection[str]:
        """The cancelled ones of running submissions."""
        ...

    def taken(self, worker: str) -> Collection[str]:
        """The submissions that a worker has taken and not ended, also those that it has not begun."""
        ...

    def take_back(self, worker: str, identifiers: Sequence[str] | None = None) -> Collection[str]:
        """Queues again what a worker was running, all of it or some; returns the identifiers."""
        ...

    def workers(self) -> Collection[str]:
        """The workers that have runs under way, whether they are alive or not."""
        ...

    def clean(self, before: datetime.datetime) -> None:
        """Deletes submissions that ended before a time."""
        ...

    def close(self) -> None:
        """Closes its connections."""
        ...
