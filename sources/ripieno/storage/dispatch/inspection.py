"""A look at the queue and its workers that neither creates nor changes anything. It does not import the engine."""

import contextlib
import dataclasses
import pathlib
import sqlite3
import time
from collections.abc import Generator

from ripieno.exceptions import InputError
from ripieno.storage.databases.contract import Connection, Database
from ripieno.storage.dispatch.contract import QueueInspection
from ripieno.storage.dispatch.leases import alive_workers

#: The engine's name of the workflow that conducts a submission.
WORKFLOW = "ripieno.stretch"
#: The attribute of a workflow that a person has cancelled.
CANCELLED = "cancelled"


def inspect_file(queue: pathlib.Path, journal: pathlib.Path) -> QueueInspection | None:
    """The queue in a file, and the workers in the journal's; None without a queue. Errors: ``InputError``."""
    if not queue.exists():
        return None
    with _reading(queue) as connection:
        found = _counted(connection, "workflow_status")
    with _reading(journal) as connection:
        return dataclasses.replace(found, workers=len(alive_workers(connection)))


def inspect_server(database: Database) -> QueueInspection | None:
    """The queue beside a journal in PostgreSQL, whose tables exist; None without a queue. Errors: ``InputError``."""
    with database.using("read") as connection:
        named = "quote_ident(current_schema() || '_dispatch') || '.workflow_status'"
        (table,) = connection.execute(f"SELECT CAST(to_regclass({named}) AS text)").fetchone()
        if table is None:
            return None
        return dataclasses.replace(_counted(connection, table), workers=len(alive_workers(connection)))


def _counted(connection: Connection, table: str) -> QueueInspection:
    query = (
        f"SELECT status, count(*) FROM {table} WHERE name = ? AND status IN ('ENQUEUED', 'DELAYED', 'PENDING') "
        "AND coalesce(CAST(attributes AS text), '') NOT LIKE ? GROUP BY status"
    )
    found = {str(status): int(number) for status, number in connection.execute(query, (WORKFLOW, f'%"{CANCELLED}"%'))}
    states = {"queued": "ENQUEUED", "scheduled": "DELAYED", "running": "PENDING"}
    return QueueInspection(**{name: found.get(status, 0) for name, status in states.items()})


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
