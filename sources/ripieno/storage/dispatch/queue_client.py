"""The engine's client, with those looks at the queue that each submission needs.

The engine builds each of its queries anew (measured: 2 ms of CPU a look). These are texts, and take a twentieth. The
columns are those that it documents: https://docs.dbos.dev/explanations/system-tables.
"""

import contextlib
import json
import time
from collections.abc import Collection, Generator, Sequence
from typing import Any

import dbos
import sqlalchemy
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry

from ripieno.storage.dispatch.inspection import CANCELLED_PATTERN, WORKFLOW
from ripieno.storage.dispatch.serializer import JsonSerializer

#: The name of the application, which the engine writes into each row.
APPLICATION = "ripieno"
#: Seconds after which the server ends a transaction whose program was stopped.
IDLE = 5.0
#: Seconds to wait for other programs that write, and for a free connection.
_PATIENCE = 30
#: Seconds after its last use from which a connection may be lost, and is asked before it is used.
_FRESH = 0.1
_FOUND = """
    SELECT status, executor_id, queue_partition_key, created_at, delay_until_epoch_ms, completed_at,
        CAST(attributes AS text), coalesce(i.inputs, s.inputs), coalesce(o.output, s.output), coalesce(o.error, s.error)
    FROM {0}workflow_status s
    LEFT JOIN {0}workflow_input i ON i.workflow_uuid = s.workflow_uuid
    LEFT JOIN {0}workflow_output o ON o.workflow_uuid = s.workflow_uuid
    WHERE s.workflow_uuid = ? AND name = ?
"""
_CANCELLED = """
    SELECT workflow_uuid FROM {0}workflow_status
    WHERE CAST(attributes AS text) LIKE ? AND workflow_uuid IN ({1})
"""
_WORKERS = "SELECT DISTINCT executor_id FROM {0}workflow_status WHERE status = 'PENDING' AND queue_name IS NOT NULL"
_NOT_ENDED = "status IN ('ENQUEUED', 'PENDING') AND queue_partition_key IS NOT NULL"
_NOT_ENDED_HERE = "queue_name = queues.name AND queue_partition_key = ? AND status IN ('ENQUEUED', 'PENDING')"
#: The attribute of a submission that waits for a rate, and not for a time of its own; and its pattern.
RATED = "rated"
_RATED_PATTERN = f'%"{RATED}"%'
#: The last place of a conversation in each queue, whether a run of it there has not ended, and the time of the last one
#: that waits for a rate. The queues are found one by one in the index of their keys.
_PLACES = f"""
    WITH RECURSIVE queues(name) AS (
        SELECT min(queue_name) FROM {{0}}workflow_status WHERE {_NOT_ENDED}
        UNION ALL
        SELECT (SELECT min(queue_name) FROM {{0}}workflow_status WHERE {_NOT_ENDED} AND queue_name > queues.name)
        FROM queues WHERE queues.name IS NOT NULL
    )
    SELECT name, (SELECT max(priority) FROM {{0}}workflow_status WHERE {_NOT_ENDED_HERE}), CASE WHEN EXISTS (
        SELECT 1 FROM {{0}}workflow_status
        WHERE {_NOT_ENDED_HERE} AND coalesce(CAST(attributes AS text), '') NOT LIKE ?
    ) THEN 1 ELSE 0 END, 0
    FROM queues WHERE name IS NOT NULL
    UNION ALL
    SELECT queue_name, max(priority), max(CASE WHEN rated THEN 1 ELSE 0 END), max(CASE WHEN rated THEN due ELSE 0 END)
    FROM (
        SELECT queue_name, priority, delay_until_epoch_ms AS due, CAST(attributes AS text) LIKE ? AS rated
        FROM {{0}}workflow_status WHERE queue_partition_key = ? AND status = 'DELAYED'
    ) AS waiting GROUP BY queue_name
"""


class QueueClient(dbos.DBOSClient):
    """A client of the queue at an address for SQLAlchemy, in a schema. Errors of what it adds: those of SQLAlchemy."""

    def __init__(self, url: str, schema: str) -> None:
        self._connections = _connections(url)
        super().__init__(
            system_database_engine=self._connections,
            dbos_system_schema=schema,
            serializer=JsonSerializer(),
            application_name=APPLICATION,
            retry_connection_errors=False,
        )
        self._dialect = self._connections.dialect
        self._is_file = self._dialect.name == "sqlite"
        self._within = "" if self._is_file else f"{self._dialect.identifier_preparer.quote(schema)}."

    def find(self, identifier: str) -> dbos.WorkflowStatus | None:
        """A submission, with what its state, its times and its content need."""
        rows = self._rows(_FOUND.format(self._within), identifier, WORKFLOW)
        return _status(identifier, *rows[0]) if rows else None

    def cancelled(self, identifiers: Sequence[str]) -> Collection[str]:
        """Those of the submissions that a person has cancelled."""
        given = ", ".join("?" * len(identifiers))
        rows = self._rows(_CANCELLED.format(self._within, given), CANCELLED_PATTERN, *identifiers)
        return {identifier for (identifier,) in rows}

    def workers(self) -> Collection[str]:
        """The workers that have something under way."""
        return {worker for (worker,) in self._rows(_WORKERS.format(self._within)) if worker}

    def places(self, key: str) -> tuple[dict[str, int], Collection[str], int]:
        """The last place of a conversation in each queue, and the queues with a run of it that has not ended.

        One that waits for a time of its own is in no one's way, nor is one that was cancelled. Third is the time, in
        milliseconds, of the last one that waits for a rate; 0 without one.
        """
        rows = self._rows(_PLACES.format(self._within), key, key, CANCELLED_PATTERN, _RATED_PATTERN, key)
        places: dict[str, int] = {}
        for queue, place, _, _ in rows:
            places[queue] = max(places.get(queue, 0), place or 0)
        return places, {queue for queue, _, active, _ in rows if active}, max((due or 0 for *_, due in rows), default=0)

    def destroy(self) -> None:
        """Closes all connections."""
        super().destroy()
        self._connections.dispose()

    def _rows(self, query: str, *parameters: str) -> Sequence[Any]:
        """The rows of a query with ``?`` for its parameters."""
        text = query if self._is_file else query.replace("%", "%%").replace("?", "%s")
        errors = self._dialect.loaded_dbapi
        try:
            try:
                return self._look(text, parameters)
            except errors.OperationalError:
                if self._is_file:
                    raise
                # The server may have ended its connections, which were not asked.
                self._connections.dispose()
                return self._look(text, parameters)
        except errors.Error as error:
            raise DBAPIError(None, None, error) from error

    def _look(self, text: str, parameters: Sequence[str]) -> Sequence[Any]:
        with contextlib.closing(self._connections.raw_connection()) as connection:
            try:
                with self._without_transaction(connection.driver_connection):
                    cursor = connection.cursor()
                    cursor.execute(text, parameters)
                    return cursor.fetchall()
            except BaseException:
                # It may be lost, and is not used again.
                connection.invalidate()
                raise

    @contextlib.contextmanager
    def _without_transaction(self, connection: Any) -> Generator[None, None, None]:
        """Saves PostgreSQL the two commands of a transaction that only reads."""
        if self._is_file:
            yield
            return
        connection.autocommit = True
        yield
        connection.autocommit = False


def _connections(url: str) -> sqlalchemy.Engine:
    """Connections as the engine makes its own, which cannot be shared otherwise."""
    address = sqlalchemy.make_url(url)
    if address.drivername == "postgresql":
        address = address.set(drivername="postgresql+psycopg")
    connections = sqlalchemy.create_engine(address, pool_timeout=_PATIENCE, max_overflow=0)

    @event.listens_for(connections, "connect")
    def set_up(connection: Any, _: object) -> None:
        if connections.dialect.name == "sqlite":
            connection.isolation_level = "IMMEDIATE"
            connection.execute(f"PRAGMA busy_timeout = {_PATIENCE * 1_000}")
            connection.execute("PRAGMA foreign_keys = ON")
        else:
            connection.execute(f"SET idle_in_transaction_session_timeout = {IDLE * 1_000:.0f}")
            connection.commit()

    @event.listens_for(connections, "checkin")
    def note(_connection: Any, record: ConnectionPoolEntry) -> None:
        record.info["used"] = time.monotonic()

    @event.listens_for(connections, "checkout")
    def ask(connection: Any, record: ConnectionPoolEntry, _: object) -> None:
        if time.monotonic() - record.info.get("used", 0.0) > _FRESH:
            try:
                connections.dialect.do_ping(connection)
            except connections.dialect.loaded_dbapi.Error as error:
                # The pool opens another one.
                raise DisconnectionError(str(error)) from error

    return connections


def _status(identifier: str, *row: Any) -> dbos.WorkflowStatus:
    found = dbos.WorkflowStatus()
    found.workflow_id = identifier
    found.status, found.executor_id, found.queue_partition_key, found.created_at = row[:4]
    found.delay_until_epoch_ms, found.completed_at = row[4:6]
    found.attributes, found.input, found.output, found.error = (
        None if one is None else json.loads(one) for one in row[6:]
    )
    return found
