"""Runs that workers conduct: how they are submitted, watched and cancelled, from any program with the same database."""

import asyncio
import contextlib
import dataclasses
import datetime
import importlib
import os
import pathlib
import socket
import uuid
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from typing import Any, TypeVar

from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.assembly.continuations import cancel_submission
from ripieno.assembly.failures import require_tools
from ripieno.assembly.journal import open_database, place_of_journal
from ripieno.assembly.submission_states import find_following, find_queued, find_submission, is_answered, runs_of
from ripieno.assembly.submission_workers import Conductor, conductors_of
from ripieno.canisters import Conversation
from ripieno.canisters.events import ConductEnded, Event
from ripieno.canisters.serialization import serialize
from ripieno.conducting.resume import resumable
from ripieno.descriptors import ConfigurationDescriptor
from ripieno.descriptors.durable import SCORE
from ripieno.ensembles.threads import run_in_thread
from ripieno.exceptions import InputError, NameAbsence, RipienoError
from ripieno.storage.databases.contract import Database
from ripieno.storage.databases.subscribers import woken
from ripieno.storage.dispatch.contract import Dispatched, Dispatcher, QueueInspection, Submission
from ripieno.storage.dispatch.events import EventLog, Logged, QuestionAnswered, RunFailed, StretchBegan, topic_of
from ripieno.storage.dispatch.rates import Rates
from ripieno.storage.journal import Journal
from ripieno.storage.records import Recorder

Result = TypeVar("Result")
#: The file name of the queue in a user's state folder.
NAME = "dispatch.sqlite3"
#: Seconds after which the state of a submission is looked at again, although no event has come.
_LOOKS = 1.0
#: The first such pause, and that after an event. Each further one is twice as long.
_SOON = 0.05
#: Seconds by which the time of a submission may have passed: programs compute it, and people name minutes.
_LATE = 60.0


def open_dispatcher(loaded: LoadedConfiguration, environment: Mapping[str, str]) -> Dispatcher:
    """The queue: beside the journal's tables in PostgreSQL, or in a file beside the journal's. Opened at its first use.

    Errors: ``InputError`` if the engine is not installed.
    """
    configuration = loaded.configuration
    rates, durable = None, configuration.durable
    if durable.owner_rate is not None or durable.provider_rates:

        def provider_of(submission: Submission) -> str:
            if submission.response:
                return ""  # Its model is encrypted in its row.
            model = model_of(submission, configuration)
            return SCORE if model.startswith(f"{SCORE}:") else model.partition("/")[0]

        database = open_database(loaded, environment)
        rates = Rates(database, provider_of, owner=durable.owner_rate, providers=durable.provider_rates)
    return dispatcher_beside(place_of_journal(loaded, environment), rates)


def model_of(submission: Submission, configuration: ConfigurationDescriptor) -> str:
    """The model of a submission with this configuration: its own, its agent's, or the default; empty without one."""
    return submission.model or configuration.model_of(submission.agent)


def dispatcher_beside(journal: pathlib.Path | str, rates: Rates | None = None) -> Dispatcher:
    """The queue beside a journal: in a file of its folder, or in its database. Errors: ``InputError``."""
    place = journal.with_name(NAME) if isinstance(journal, pathlib.Path) else journal
    require_engine()
    from ripieno.storage.dispatch.dbos import DbosDispatcher

    return DbosDispatcher(place, rates)


def require_engine() -> None:
    """Errors: ``InputError`` if the engine of the queue, or what it needs, is not installed."""
    try:
        importlib.import_module("ripieno.storage.dispatch.dbos")
    except ImportError as error:
        raise InputError(
            f"Submitted runs need an engine ({error}). Install it: pip install 'ripieno[durable]'"
        ) from None


def inspect_queue(place: pathlib.Path | str, database: Database) -> QueueInspection | None:
    """The workers and waiting submissions of the queue beside a journal, whose tables exist; None without a queue.

    Nothing is created or changed. Errors: ``InputError``.
    """
    from ripieno.storage.dispatch.inspection import inspect_file, inspect_server  # It imports sqlite3.

    if isinstance(place, pathlib.Path):
        return inspect_file(place.with_name(NAME), place, is_answered)
    return inspect_server(database, is_answered)


def find_not_begun(
    place: pathlib.Path | str, database: Database, beginning: str, owner: str | None
) -> tuple[str, str] | None:
    """The identifier and the owner of a conversation that only the queue beside a journal has, by its beginning.

    Errors: ``InputError``, also if several match.
    """
    with existing_queue(place, database) as dispatcher:
        return None if dispatcher is None else find_queued(dispatcher, beginning, owner=owner)


def find_runs(place: pathlib.Path | str, database: Database, conversation: str, owner: str) -> Sequence[Dispatched]:
    """The submissions of a conversation in the queue beside a journal, the newest first. Errors: ``InputError``."""
    with existing_queue(place, database) as dispatcher:
        return () if dispatcher is None else runs_of(dispatcher, conversation, owner)


@contextlib.contextmanager
def existing_queue(place: pathlib.Path | str, database: Database) -> Generator[Dispatcher | None, None, None]:
    """The queue beside a journal, if there is one. Errors: ``InputError``, also if its engine is not installed."""
    exists = (
        place.with_name(NAME).exists()
        if isinstance(place, pathlib.Path)
        else inspect_queue(place, database) is not None
    )
    dispatcher = dispatcher_beside(place) if exists else None
    try:
        yield dispatcher
    finally:
        if dispatcher is not None:
            dispatcher.close()


class SubmittedRun:
    """A run that a worker conducts, on this machine or another one.

    Iterating gives its events, from the first one that is kept (for ten minutes after its end). Awaiting gives the
    conversation, when the run has ended, waits for a person, or has reached a limit. Nothing of it depends on this
    program: it goes on when no one watches. ``known``: its identifier was known already, so that it is an earlier
    submission. Errors of all methods: ``InputError`` of the database.
    """

    def __init__(
        self, submission: Submission, dispatcher: Dispatcher, journal: Journal, *, known: bool = False
    ) -> None:
        self.submission = submission
        self.known = known
        self._dispatcher = dispatcher
        self._journal = journal

    @property
    def identifier(self) -> str:
        """The identifier of the submission."""
        return self.submission.identifier

    async def state(self) -> Dispatched:
        """Its state now. Errors: ``NameAbsence`` after its deletion."""
        database = self._journal.database
        return await _looked(find_submission, self._dispatcher, database, self.identifier)

    async def conductor(self) -> Conductor | None:
        """Its worker, unless it has ended or waits for its time."""
        found = await run_in_thread(conductors_of, [await self.state()], self._journal.database, name="submission")
        return found.get(self.identifier)

    async def following(self) -> "SubmittedRun | None":
        """The run with which its conversation goes on, if there is one: after an answer, or with the next message."""
        found = await run_in_thread(find_following, self._dispatcher, await self.state(), name="submission")
        return None if found is None else SubmittedRun(found.submission, self._dispatcher, self._journal)

    async def cancel(self) -> None:
        """Cancels it, soon. Each call that was started still gets its result.

        If it was to continue with answers, and has not begun, its calls wait again.
        """
        await run_in_thread(cancel_submission, self._dispatcher, self._journal, self.identifier, name="submission")

    def __aiter__(self) -> AsyncGenerator[Event, None]:
        return self._events()

    def __await__(self) -> Generator[Any, None, Conversation]:
        return self._wait().__await__()

    async def numbered(self, after: int = 0) -> AsyncGenerator[tuple[int, Event], None]:
        """The events with their numbers, after a number, until the end. Another watcher gets the same ones."""
        async with contextlib.aclosing(self.logged(after)) as batches:
            async for batch in batches:
                for number, event in batch:
                    if not isinstance(event, StretchBegan | QuestionAnswered | RunFailed):
                        yield number, event

    async def logged(self, after: int = 0) -> AsyncGenerator[Sequence[tuple[int, Logged]], None]:
        """All that the log has of it after a number, until the end; nothing, whenever there is nothing more yet."""
        log, submission = EventLog(self._journal.database), self.submission
        async with self._woken() as changed:
            loop = asyncio.get_running_loop()
            # Its state first: what was written before its end is then read after it.
            over, look = (await self.state()).over, loop.time() + _LOOKS
            while True:
                changed.clear()
                while events := await _looked(log.after, submission, after):
                    after = events[-1][0]
                    yield events
                    if isinstance(events[-1][1], ConductEnded):
                        return
                if over:
                    return
                yield ()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(look):
                        await changed.wait()
                # Another run of its conversation may wake it more often.
                if loop.time() >= look:
                    over, look = (await self.state()).over, loop.time() + _LOOKS

    async def _events(self) -> AsyncGenerator[Event, None]:
        async with contextlib.aclosing(self.numbered()) as numbered:
            async for _, event in numbered:
                yield event

    async def ended(self) -> Dispatched:
        """Its state, as soon as nothing more comes of it. It is written shortly after the last event."""
        return await self._when_over(lambda dispatched: dispatched)

    async def _when_over(self, outcome: Callable[[Dispatched], Result]) -> Result:
        """The value of ``outcome`` for its state, in a thread, as soon as nothing more comes of it."""

        def look() -> tuple[Result] | None:
            dispatched = find_submission(self._dispatcher, self._journal.database, self.identifier)
            return (outcome(dispatched),) if dispatched.over else None

        if found := await _looked(look):
            return found[0]  # Nothing need listen.
        pause = _SOON
        async with self._woken() as changed:
            while True:
                changed.clear()
                if found := await _looked(look):
                    return found[0]
                try:
                    async with asyncio.timeout(pause):
                        await changed.wait()
                except TimeoutError:
                    pause = min(2 * pause, _LOOKS)
                else:
                    pause = _SOON

    async def _wait(self) -> Conversation:
        return await self._when_over(self._restore)

    def _woken(self) -> contextlib.AbstractAsyncContextManager[asyncio.Event]:
        return woken(self._journal.database, topic_of(self.submission.owner, self.submission.conversation))

    def _restore(self, dispatched: Dispatched) -> Conversation:
        if dispatched.state == "failed":
            raise RipienoError(f"The submitted run failed: {dispatched.reason}")
        submission = self.submission
        try:
            found = resumable(self._journal, submission.conversation, owner=submission.owner).conversation
        except NameAbsence:
            if dispatched.state != "cancelled":
                raise
            # It was cancelled before a worker took it.
            return Conversation(identifier=submission.conversation, finish="cancelled")
        # One that waits is kept as what is to be continued, without a finish. So is one that goes on after an answer.
        open_ = dispatched.state in ("waiting", "answered") and found.finish is None
        return dataclasses.replace(found, finish="open") if open_ else found


async def _looked(look: Callable[..., Result], *arguments: object) -> Result:
    """The outcome of a look in a thread. A cancellation waits for its end, so that its connection can be closed."""
    task = asyncio.current_task()
    # One that a program has caught stays counted.
    before = 0 if task is None else task.cancelling()
    found = await run_in_thread(look, *arguments, name="submission")
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError  # The thread had the outcome, and the wait gave it.
    return found


def make_submission(
    loaded: LoadedConfiguration,
    recorder: Recorder | None,
    conversation: Conversation,
    *,
    identifier: str = "",
    workspace: str | os.PathLike[str] | None = None,
    anywhere: bool = False,
    last: Submission | None = None,
    **fields: Any,
) -> Submission:
    """A submission, after checks that need no worker; ``fields`` are those of ``Submission``.

    ``anywhere``: any worker takes it, in its own workspace. ``last``: that of the run before it in its conversation,
    whose model or agent, tools and place it has if none are given. Errors: ``InputError``; ``NameAbsence`` for an
    unknown agent, a model of an unknown provider, or a tool that a known ensemble lacks.
    """
    configuration = loaded.configuration
    require_tools(loaded, fields.get("tools") or ())
    agent, model = fields.get("agent") or "", fields.get("model") or ""
    if last is not None and not (agent or model):
        agent, model = last.agent, last.model
        fields["tools"] = last.tools if fields.get("tools") is None else fields["tools"]
    if agent and agent not in configuration.agents:
        raise NameAbsence("agent", agent, configuration.agents, hint="Add one as a table [agents.NAME].")
    model = model or ("" if agent else configuration.model or "")
    if not (model or agent):
        raise InputError('No model is named. Name one, or set default = "provider/model" under [model].')
    provider = model.partition("/")[0]
    if model and provider not in loaded.providers and not model.startswith(f"{SCORE}:"):
        raise NameAbsence("provider", provider, loaded.providers)
    place, host = "", ""
    if last is not None and workspace is None and not anywhere:
        place, host = last.workspace, last.host
    elif not anywhere:
        path = pathlib.Path(workspace or loaded.workspace).absolute()
        if not path.is_dir():
            raise InputError(f"The workspace {path} is not a folder.")
        place, host = str(path), configuration.durable.host or socket.gethostname()
    settled: dict[str, Any] = {**fields, "model": model, "agent": agent, "workspace": place, "host": host}
    submission = Submission(
        identifier=identifier or uuid.uuid4().hex,
        conversation=conversation.identifier,
        canisters=conversation.canisters,
        **settled,
    )
    if journal_of(recorder).redactor.value(serialize(submission)) != serialize(submission):
        raise InputError(
            "The message has the value of a variable that the configuration uses as a secret, such as a key. The queue "
            "would store it. Leave it out."
        )
    return submission


def journal_of(recorder: Recorder | None) -> Journal:
    """The journal of an assembly. Errors: ``InputError`` if it has none."""
    if not isinstance(recorder, Journal):
        raise InputError(
            "Submitted runs are in the journal, and this assembly has none. Set enabled = true under [journal]."
        )
    return recorder


def submit(
    submission: Submission, dispatcher: Dispatcher, recorder: Recorder | None, *, at: datetime.datetime | None = None
) -> SubmittedRun:
    """Queues a submission, not before a time; without a zone, that of this machine. It blocks.

    If its identifier is known, nothing is queued, and the run is that of the known submission. Errors: ``InputError``,
    also for a time that has passed, and an identifier that another owner has used.
    """
    journal = journal_of(recorder)
    # A script that is run again submits nothing twice, whatever the time.
    new = at is None or not is_known(dispatcher, submission)
    if new:
        new = dispatcher.submit(submission, at=None if at is None else _checked(at))
    # Another program may have submitted it, with a conversation of its own.
    stored = submission if new else dispatcher.find(submission.identifier).submission
    if stored.owner != submission.owner:
        raise InputError(f"The identifier {submission.identifier!r} is taken. Choose another one.")
    return SubmittedRun(stored, dispatcher, journal, known=not new)


def is_known(dispatcher: Dispatcher, submission: Submission) -> bool:
    """Whether the queue has a submission, or another one with its identifier. Errors: ``InputError``."""
    try:
        dispatcher.find(submission.identifier)
    except NameAbsence:
        return False
    return True


def _checked(at: datetime.datetime) -> datetime.datetime:
    """A time with its zone. Errors: ``InputError`` if it has passed."""
    starts = at if at.tzinfo is not None else at.astimezone()
    now = datetime.datetime.now(datetime.UTC)
    if (now - starts).total_seconds() > _LATE:
        # Of a time without a zone, the machine's zone counts, which may have another offset now.
        here = now.astimezone(at.tzinfo)
        given, present = (one.isoformat(" ", "minutes") for one in (starts, here))
        raise InputError(
            f"The time {given} has passed: it is {present} now. Name a later one, or none to start at once."
        )
    return starts
