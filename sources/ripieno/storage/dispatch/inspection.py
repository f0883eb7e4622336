"""A look at the queue and its workers that neither creates nor changes anything. It does not import the engine."""

import contextlib
import dataclasses
import json
import pathlib
import sqlite3
import time
from collections.abc import Callable, Generator, Sequence

from ripieno.canisters.serialization import deserialize
from ripieno.exceptions import InputError, SerializationInvalidity
from ripieno.storage.databases.contract import Connection, Database
from ripieno.storage.dispatch.contract import QueueInspection, Submission
from ripieno.storage.dispatch.leases import alive_workers

#: The engine's name of the workflow that conducts a submission.
WORKFLOW = "ripieno.stretch"
#: The attribute of a workflow that a person has cancelled.
CANCELLED = "cancelled"
#: The pattern of the attributes, as text, of such a workflow.
CANCELLED_PATTERN = f'%"{CANCELLED}"%'
_CURRENT = "name = ? AND coalesce(CAST(attributes AS text), '') NOT LIKE ?"
#: Whether another program has continued what a queued submission was to continue. The connection is that of a journal.
IsAnswered = Callable[[Connection, Submission], bool]


def inspect_file(queue: pathlib.Path, journal: pathlib.Path, is_answered: IsAnswered) -> QueueInspection | None:
    """The queue in a file, and the workers in the journal's; None without a queue. Errors: ``InputError``."""
    if not queue.exists():
        return None
    with _reading(queue) as connection:
        found, continuing = _counted(connection, "workflow_status")
    with _reading(journal) as connection:
        return _completed(found, continuing, connection, is_answered)


def inspect_server(database: Database, is_answered: IsAnswered) -> QueueInspection | None:
    """The queue beside a journal in PostgreSQL, whose tables exist; None without a queue. Errors: ``InputError``."""
    with database.using("read") as connection:
        named = "quote_ident(current_schema() || '_dispatch') || '.workflow_status'"
        (table,) = connection.execute(f"SELECT CAST(to_regclass({named}) AS text)").fetchone()
        if table is None:
            return None
        return _completed(*_counted(connection, table), connection, is_answered)


def _counted(connection: Connection, table: str) -> tuple[QueueInspection, Sequence[Submission]]:
    """The numbers of submissions, and those queued ones that continue what waited for answers."""
    current = (WORKFLOW, CANCELLED_PATTERN)
    query = f"SELECT status, count(*) FROM {table} WHERE {_CURRENT} AND status IN (?, ?, ?) GROUP BY status"
    states = {"queued": "ENQUEUED", "scheduled": "DELAYED", "running": "PENDING"}
    found = {str(status): int(number) for status, number in connection.execute(query, (*current, *states.values()))}
    given = table.replace("workflow_status", "workflow_input")
    identifiers = f"SELECT workflow_uuid FROM {table} WHERE {_CURRENT} AND status = ?"
    queued = f"SELECT inputs FROM {given} WHERE workflow_uuid IN ({identifiers})"
    continuing: list[Submission] = []
    for (inputs,) in connection.execute(queued, (*current, states["queued"])):
        with contextlib.suppress(SerializationInvalidity):  # Of another release.
            submission = deserialize(Submission, json.loads(inputs)["args"][0])
            continuing += [submission] if submission.continues else []
    return QueueInspection(**{name: found.get(status, 0) for name, status in states.items()}), continuing


def _completed(
    found: QueueInspection, continuing: Sequence[Submission], journal: Connection, is_answered: IsAnswered
) -> QueueInspection:
    answered = sum(is_answered(journal, one) for one in continuing)
    workers = len(alive_workers(journal))
    return dataclasses.replace(found, workers=workers, queued=found.queued - answered, answered=answered)


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
