"""DBOS as the dispatcher: queue, order, priorities and schedules in PostgreSQL or SQLite. Needs ``ripieno[durable]``.

It only dispatches. What a run has done is in the journal, so that its workflows have no steps, return a short status
and never raise. Measured facts of DBOS 3.4 that this file depends on:

* A launch recovers only workflows of its own executor. Those of dead workers are listed by executor and resumed.
* One process has one instance, so that ``working`` can be entered once at a time. Clients have no instance.
* Workflows run on the event loop in which it was launched.
* A queue with ``partition_concurrency=1`` runs the workflows of one key one after another. Among keys it chooses by
  chance, whatever their priorities: each priority has a queue of its own. Within a key, its priorities are places.
* It orders by the time of submission, in seconds where SQLite is older than 3.42: runs of one second would begin in the
  order of their identifiers.
"""

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import datetime
import logging
import pathlib
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Mapping, Sequence
from typing import Any

import dbos
import sqlalchemy.exc

from ripieno.canisters.serialization import deserialize, serialize
from ripieno.exceptions import InputError, NameAbsence, SerializationInvalidity
from ripieno.storage.databases.contract import Disconnected, sentences
from ripieno.storage.databases.failures import is_outage
from ripieno.storage.dispatch import cron
from ripieno.storage.dispatch.addresses import address_of, create
from ripieno.storage.dispatch.contract import (
    PRIORITIES,
    Dispatched,
    Ending,
    Priority,
    Schedule,
    State,
    Stretch,
    Submission,
)
from ripieno.storage.dispatch.inspection import CANCELLED, WORKFLOW
from ripieno.storage.dispatch.queue_client import APPLICATION, IDLE, RATED, QueueClient
from ripieno.storage.dispatch.queues import key_of, queue_after, queue_of
from ripieno.storage.dispatch.rates import Rates
from ripieno.storage.dispatch.rows import STATUSES, dispatched_of, schedule_of
from ripieno.storage.dispatch.serializer import JsonSerializer
from ripieno.storage.dispatch.slots import Slots

#: The version of the workflow and its arguments. Workers of any release take those of the same version.
VERSION = "ripieno-1"
_OCCURRENCE = "ripieno.occurrence"
#: Seconds between looks for queued submissions of each priority.
_LOOKS: Mapping[Priority, float] = {"normal": 0.75, "low": 3.0}
_OVER = ["SUCCESS", "ERROR", "MAX_RECOVERY_ATTEMPTS_EXCEEDED", "CANCELLED"]
#: Rows that are read at once.
_MOST = 1_000


class DbosDispatcher:
    """The queue in a SQLite file, or beside a journal in PostgreSQL. Errors of all methods: ``InputError``.

    ``rates`` are those at which runs begin. They are closed with it.
    """

    def __init__(self, place: pathlib.Path | str, rates: Rates | None = None) -> None:
        self._place = place
        self._rates = rates
        self._lock = threading.Lock()
        self._client: QueueClient | None = None
        self._url, self._schema = address_of(place)
        # It writes to standard error, with its own format; warnings also of what it then raises.
        logger = logging.getLogger("dbos")
        logger.propagate = True
        logger.setLevel(logging.ERROR)

    def submit(self, submission: Submission, *, at: datetime.datetime | None = None) -> bool:
        scheduled = at is not None
        with self._using("written") as client:
            if self._rates is not None and client.find(submission.identifier) is not None:
                return False  # It takes no place among those that a rate counts.
            key = key_of(submission.owner, submission.conversation)
            places, active, due = client.places(key)
            queue = queue_after(submission, () if scheduled else active)
            options = _options(submission, queue, key)
            if due and not scheduled and submission.canisters:
                at = datetime.datetime.fromtimestamp(due / 1_000, datetime.UTC)
            if self._rates is not None:
                # The engine limits a queue or a partition, and its partitions are conversations.
                at = self._rates.start(submission, at)
            if at is not None:
                options["delay_seconds"] = max(0.0, (at - datetime.datetime.now(datetime.UTC)).total_seconds())
                if not scheduled:
                    options["attributes"] = {RATED: True}
            # Among the runs of its conversation that have not ended, the first of which runs.
            options["priority"] = 1 + places.get(queue, 0)
            try:
                client.enqueue(options, serialize(submission))
            except dbos.error.DBOSWorkflowIDInUseError:
                return False
        return True

    def find(self, identifier: str) -> Dispatched:
        with self._using("read") as client:
            found = client.find(identifier)
        if found is None:
            raise NameAbsence("submission", identifier)
        return dispatched_of(found)

    def listed(
        self, *, owner: str | None = None, states: Collection[State] = (), limit: int = 100
    ) -> Sequence[Dispatched]:
        statuses = sorted({one for state in states for one in STATUSES[state]})
        listed: list[Dispatched] = []
        with self._using("read") as client:
            for offset in range(0, 1 << 31, _MOST):
                rows = client.list_workflows(
                    name=WORKFLOW,
                    user=owner,
                    status=statuses or None,
                    limit=_MOST if states else limit,
                    offset=offset,
                    sort_desc=True,
                )
                listed += (one for one in map(dispatched_of, rows) if not states or one.state in states)
                if len(listed) >= limit or len(rows) < _MOST:
                    break
        return listed[:limit]

    def cancel(self, identifier: str) -> None:
        self.find(identifier)
        with self._using("written") as client:
            # Not by the engine's own state: it would end at once, while its calls are still under way.
            client.update_workflow_attributes(identifier, {CANCELLED: True})

    def cancelled(self, identifiers: Sequence[str]) -> Collection[str]:
        if not identifiers:
            return ()
        with self._using("read") as client:
            return client.cancelled(identifiers)

    def forget(self, owner: str, conversation: str) -> None:
        key = key_of(owner, conversation)
        with self._using("written") as client:
            # A file has no index of keys.
            rows = client.list_workflows(user=owner, load_input=False, load_output=False)
            if found := [one.workflow_id for one in rows if one.queue_partition_key == key]:
                client.delete_workflows(found)

    def repeat(self, schedule: Schedule) -> Schedule | None:
        if problem := cron.problem_of(schedule.cron):
            raise InputError(f"The schedule {schedule.name!r} is not valid: {problem}")
        with self._using("written") as client:
            earlier = client.get_schedule(schedule.name)
            client.apply_schedules(
                [
                    {
                        "schedule_name": schedule.name,
                        "workflow_name": _OCCURRENCE,
                        "schedule": schedule.cron,
                        "context": {"schedule": schedule.name, "submission": serialize(schedule.submission)},
                    }
                ]
            )
        return None if earlier is None else schedule_of(earlier)

    def schedules(self) -> Sequence[Schedule]:
        with self._using("read") as client:
            rows = client.list_schedules()
        return sorted(map(schedule_of, rows), key=lambda one: one.name)

    def end_schedule(self, name: str) -> None:
        known = [one.name for one in self.schedules()]
        if name not in known:
            raise NameAbsence("schedule", name, known)
        with self._using("written") as client:
            client.delete_schedule(name)

    def taken(self, worker: str) -> Collection[str]:
        with self._using("read") as client:
            return [row.workflow_id for row in _taken(client, worker)]

    def take_back(self, worker: str, identifiers: Sequence[str] | None = None) -> Collection[str]:
        with self._using("written") as client:
            rows = _taken(client, worker, identifiers)
            for row in rows:
                client.resume_workflow(row.workflow_id, queue_name=row.queue_name)
        return [row.workflow_id for row in rows]

    def workers(self) -> Collection[str]:
        with self._using("read") as client:
            return client.workers()

    def clean(self, before: datetime.datetime) -> None:
        with self._using("written") as client:
            rows = client.list_workflows(
                status=_OVER, completed_before=before.isoformat(), limit=_MOST, load_input=False, load_output=False
            )
            if rows:
                client.delete_workflows([one.workflow_id for one in rows])
        if self._rates is not None:
            self._rates.clean()

    @contextlib.asynccontextmanager
    async def working(
        self, worker: str, *, hosts: Sequence[str], slots: int, stretch: Stretch
    ) -> AsyncGenerator[Callable[[], None], None]:
        queues: dict[str, Priority] = {
            queue_of(priority, host): priority for priority in PRIORITIES for host in ("", *hosts)
        }

        async def run(stored: dict[str, Any]) -> dict[str, Any]:
            ending: Ending | None
            try:
                ending = await stretch(deserialize(Submission, stored))
            except SerializationInvalidity as error:
                ending = Ending(finish="error", reason=f"It was submitted by another release: {error}")
            if ending is None:
                # The one way to end without a written end, so that ``take_back`` finds it.
                raise asyncio.CancelledError
            return {"finish": ending.finish, "reason": ending.reason}

        async def occur(at: str, context: Mapping[str, Any]) -> None:
            one = deserialize(Submission, context["submission"])
            name = f"{context['schedule']}-{datetime.datetime.fromisoformat(at):%Y%m%dT%H%M%S}"
            one = dataclasses.replace(one, identifier=name, conversation=one.conversation or name)
            try:
                await asyncio.to_thread(self.submit, one)
            except InputError as error:
                # The database is away, or a run that it could overtake has not ended: ``take_back`` tries it again.
                raise asyncio.CancelledError from error

        numbers = {name: slots if priority == "normal" else 1 for name, priority in queues.items()}
        taken = Slots(numbers)
        with taken.limiting():
            with self._refusing("opened"):
                create(self._place)  # The engine would create a file that all may read.
                dbos.DBOS(
                    config={
                        "name": APPLICATION,
                        "system_database_url": self._url,
                        "dbos_system_schema": self._schema,
                        "executor_id": worker,
                        "application_version": VERSION,
                        "serializer": JsonSerializer(),
                        "log_level": "ERROR",
                        "scheduler_polling_interval_sec": 1.0,
                        "sys_db_idle_transaction_timeout_sec": IDLE,
                    }
                )
                dbos.DBOS.workflow(name=WORKFLOW)(run)
                dbos.DBOS.workflow(name=_OCCURRENCE)(occur)
                dbos.DBOS.listen_queues(list(queues))
                dbos.DBOS.launch()
            try:
                for name, priority in queues.items():
                    await dbos.DBOS.register_queue_async(
                        name,
                        partition_concurrency=1,
                        # For workers of an earlier release, which take as many as the row says.
                        worker_concurrency=numbers[name],
                        polling_interval_sec=_LOOKS[priority],
                        on_conflict="always_update",
                    )
                yield taken.close
            finally:
                # The engine has put its own executor in the loop, and shuts it down.
                asyncio.get_running_loop().set_default_executor(concurrent.futures.ThreadPoolExecutor())
                await asyncio.to_thread(dbos.DBOS.destroy, destroy_registry=True)
                await asyncio.to_thread(self.take_back, worker)

    def close(self) -> None:
        if self._rates is not None:
            self._rates.close()
        with self._lock:
            if self._client is not None:
                self._client.destroy()
                self._client = None

    @contextlib.contextmanager
    def _using(self, action: str) -> Generator[QueueClient, None, None]:
        with self._refusing(action):
            yield self._opened()

    def _opened(self) -> QueueClient:
        with self._lock:
            if self._client is None:
                create(self._place)
                dbos.DBOS.migrate(self._url, schema=self._schema)
                self._client = QueueClient(self._url, self._schema)
            return self._client

    @contextlib.contextmanager
    def _refusing(self, action: str) -> Generator[None, None, None]:
        with _refused(f"The queue of submissions cannot be {action}"):
            yield


@contextlib.contextmanager
def _refused(what: str) -> Generator[None, None, None]:
    """Turns errors of the engine and its database into ``InputError``, or ``Disconnected``."""
    try:
        yield
    except (sqlalchemy.exc.SQLAlchemyError, dbos.error.DBOSException, OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        cause = getattr(error, "orig", None) or error
        # While connecting takes long, others wait for a connection in vain.
        may_pass = is_outage(cause) or isinstance(error, sqlalchemy.exc.TimeoutError)
        kind = Disconnected if may_pass else InputError
        raise kind(f"{what}: {sentences(str(cause)) or f'{type(cause).__name__}.'}") from error


def _taken(client: QueueClient, worker: str, identifiers: Sequence[str] | None = None) -> Sequence[dbos.WorkflowStatus]:
    return client.list_workflows(
        workflow_ids=None if identifiers is None else list(identifiers),
        status="PENDING",
        executor_id=worker,
        load_input=False,
        load_output=False,
        queues_only=True,
    )


def _options(submission: Submission, queue: str, key: str) -> dbos.EnqueueOptions:
    return {
        "workflow_name": WORKFLOW,
        "queue_name": queue,
        "workflow_id": submission.identifier,
        "workflow_id_reuse_policy": "reject",
        "app_version": VERSION,
        "queue_partition_key": key,
        "authenticated_user": submission.owner,
    }
