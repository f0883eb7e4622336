"""A look at the queue and its workers that neither creates nor changes anything. It does not import the engine."""

import contextlib
import json
import pathlib
import sqlite3
import time
from collections.abc import Callable, Generator, Mapping, Sequence

from ripieno.canisters.serialization import deserialize
from ripieno.exceptions import InputError, SerializationInvalidity
from ripieno.storage.databases.contract import Connection, Database
from ripieno.storage.dispatch.contract import QueueInspection, Submission
from ripieno.storage.dispatch.leases import alive_workers
from ripieno.values import Value

#: The engine's name of the workflow that conducts a submission.
WORKFLOW = "ripieno.stretch"
#: The attribute of a workflow that a person has cancelled.
CANCELLED = "cancelled"
#: The pattern of the attributes, as text, of such a workflow.
CANCELLED_PATTERN = f'%"{CANCELLED}"%'
_CURRENT = "name = ? AND coalesce(CAST(attributes AS text), '') NOT LIKE ?"
#: Whether another program has continued what a queued submission was to continue. The connection is that of a journal.
IsAnswered = Callable[[Connection, Submission], bool]


class _Queue(Value, kw_only=True):
    """The submissions of a queue: the ``queued`` ones that can be read, and numbers; ``running`` by their workers."""

    queued: Sequence[Submission]
    waiting: int
    scheduled: int
    running: Mapping[str, int]


def inspect_file(queue: pathlib.Path, journal: pathlib.Path, is_answered: IsAnswered) -> QueueInspection | None:
    """The queue in a file, and the workers in the journal's; None without a queue. Errors: ``InputError``."""
    if not queue.exists():
        return None
    with _reading(queue) as connection:
        found = _read(connection, "workflow_status")
    with _reading(journal) as connection:
        return _completed(found, connection, is_answered)


def inspect_server(database: Database, is_answered: IsAnswered) -> QueueInspection | None:
    """The queue beside a journal in PostgreSQL, whose tables exist; None without a queue. Errors: ``InputError``."""
    with database.using("read") as connection:
        named = "quote_ident(current_schema() || '_dispatch') || '.workflow_status'"
        (table,) = connection.execute(f"SELECT CAST(to_regclass({named}) AS text)").fetchone()
        if table is None:
            return None
        return _completed(_read(connection, table), connection, is_answered)


def _read(connection: Connection, table: str) -> _Queue:
    current = (WORKFLOW, CANCELLED_PATTERN)
    query = (
        f"SELECT status, executor_id, count(*) FROM {table} "
        f"WHERE {_CURRENT} AND status IN ('ENQUEUED', 'DELAYED', 'PENDING') GROUP BY status, executor_id"
    )
    numbers = [(status, worker, int(number)) for status, worker, number in connection.execute(query, current)]
    given = table.replace("workflow_status", "workflow_input")
    identifiers = f"SELECT workflow_uuid FROM {table} WHERE {_CURRENT} AND status = ?"
    query = f"SELECT inputs FROM {given} WHERE workflow_uuid IN ({identifiers})"
    queued: list[Submission] = []
    for (inputs,) in connection.execute(query, (*current, "ENQUEUED")):
        with contextlib.suppress(SerializationInvalidity):  # Of another release.
            queued.append(deserialize(Submission, json.loads(inputs)["args"][0]))
    return _Queue(
        queued=queued,
        waiting=sum(number for status, _, number in numbers if status == "ENQUEUED"),
        scheduled=sum(number for status, _, number in numbers if status == "DELAYED"),
        running={worker: number for status, worker, number in numbers if status == "PENDING"},
    )


def _completed(found: _Queue, journal: Connection, is_answered: IsAnswered) -> QueueInspection:
    left = [one for one in found.queued if not (one.continues and is_answered(journal, one))]
    answered = len(found.queued) - len(left)
    workers = alive_workers(journal)
    alive, hosts = {one.name for one in workers}, {one.host for one in left if one.host}
    return QueueInspection(
        workers=len(workers),
        queued=found.waiting - answered,
        answered=answered,
        scheduled=found.scheduled,
        running=sum(found.running.values()),
        lost=sum(number for worker, number in found.running.items() if worker not in alive),
        unattended=tuple(sorted(host for host in hosts if not any(one.takes(host) for one in workers))),
    )


@contextlib.contextmanager
def _reading(path: pathlib.Path) -> Generator[sqlite3.Connection, None, None]:
    """A connection that only reads. Errors: ``InputError``."""
    # Without a write-ahead log no program has it open, and a plain connection would create one.
    options = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "mode=ro&immutable=1"
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?{options}", uri=True)) as connection:
            connection.create_function("now_seconds", 0, time.time)
            yield connection
    except sqlite3.Error as error:
        raise InputError(f"The queue of submissions cannot be read ({path}): {error}.") from error
