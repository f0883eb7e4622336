"""Failures of a PostgreSQL server that pass: what needs it can be tried again, on another connection if need be."""

import contextlib
import re

import psycopg
import pytest

from ripieno.exceptions import InputError
from ripieno.storage.databases import postgresql
from ripieno.storage.databases.contract import Disconnected, Locked
from ripieno.storage.databases.failures import next_step
from ripieno.storage.databases.postgresql import PostgresqlDatabase
from tests.support.postgresql import address_of_schema


@pytest.fixture
def address(postgresql_server: str) -> str:
    """The address of a schema of this test."""
    return address_of_schema(postgresql_server)


def write(database: PostgresqlDatabase) -> None:
    with database.writing("written") as connection:
        connection.execute("DELETE FROM lines")


def end(address: str, process: int) -> None:
    """Ends a connection, as a restart of the server does."""
    with psycopg.connect(address, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 60000)", (process,))


def test_a_table_that_another_program_locks_is_free_later(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(PostgresqlDatabase(address)) as other, contextlib.ExitStack() as lock:
        lock.enter_context(other.writing("written")).execute("LOCK TABLE lines")
        monkeypatch.setattr(postgresql, "_PATIENCE", 0.05)
        with contextlib.closing(PostgresqlDatabase(address)) as database:
            with pytest.raises(Locked, match="Another program holds a lock on its tables: wait for its end"):
                write(database)
            lock.close()
            write(database)


@pytest.mark.parametrize(
    ("database", "user", "step"),
    [
        ("postgres", "stranger", "Check the user in its address, or let its operator create it: createuser --pwprompt"),
        ("nowhere", "postgres", "Check the name in its address, or let its operator create it: createdb --owner USER"),
        ("postgres", "guest", "Let its operator grant CREATE once."),
    ],
)
def test_a_server_that_refuses_an_address_leaves_a_next_step(
    postgresql_server: str, database: str, user: str, step: str
) -> None:
    with psycopg.connect(postgresql_server, autocommit=True) as operator, contextlib.suppress(psycopg.Error):
        operator.execute("CREATE ROLE guest LOGIN")
    wrong = postgresql_server.replace("postgres:@/postgres?", f"{user}:@/{database}?")
    assert wrong != postgresql_server or user == database
    with contextlib.closing(PostgresqlDatabase(wrong)) as refusing:
        with pytest.raises(InputError, match=re.escape(step)) as refused, refusing.using("read"):
            pass
        assert not isinstance(refused.value, Disconnected)
        assert "Earlier records" not in str(refused.value)


@pytest.mark.parametrize(
    ("reason", "step"),
    [
        ('FATAL: password authentication failed for user "ada".', "Check the user and the password in its address."),
        ("fe_sendauth: no password supplied.", "Check the user and the password in its address."),
        ('no pg_hba.conf entry for host "10.0.0.9", user "ada"', "Let its operator permit this user and machine"),
        ("permission denied for database x. User does not have CONNECT privilege.", "Let its operator grant CONNECT"),
        ("permission denied for table lines.", "Let its operator grant access to it."),
        ("the database system is starting up.", ""),
    ],
)
def test_the_next_step_follows_from_what_the_server_says(reason: str, step: str) -> None:
    assert next_step(reason).startswith(step)
    assert bool(next_step(reason)) == bool(step)


def test_a_connection_that_the_server_has_ended_is_made_again(address: str) -> None:
    with contextlib.closing(PostgresqlDatabase(address)) as database:
        for _ in range(2):
            with database.using("read") as connection:
                process = connection.execute("SELECT pg_backend_pid()").fetchone()[0]
            end(address, process)
        write(database)


def test_after_a_failover_the_primary_server_is_looked_for_again(address: str) -> None:
    with contextlib.closing(PostgresqlDatabase(address)) as database:
        with database.using("read") as connection:
            # As the server of a connection that was the primary one.
            connection.execute("SET default_transaction_read_only = on")
        with pytest.raises(Disconnected, match="read-only transaction"):
            write(database)
        write(database)


def test_a_transaction_of_a_program_that_was_stopped_in_it_can_be_tried_again(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "_IDLE", 0.05)
    with contextlib.closing(PostgresqlDatabase(address)) as database:

        def be_stopped() -> None:
            with database.writing("written") as connection:
                process = connection.execute("SELECT pg_backend_pid()").fetchone()[0]
                with psycopg.connect(address, autocommit=True) as other:
                    query = "SELECT 1 FROM pg_stat_activity WHERE pid = %s"
                    while other.execute(query, (process,)).fetchone() is not None:
                        pass
                connection.execute("SELECT 1")

        with pytest.raises(Disconnected, match="can be reached"):
            be_stopped()
        write(database)
