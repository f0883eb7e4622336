"""A PostgreSQL server that is stopped or killed while a journal is written: nothing is lost, and nothing is doubled."""

import itertools
import queue
import threading
from typing import Any

import pytest

from ripieno.storage.journal import Journal
from ripieno.storage.records import Record
from tests.counts import count
from tests.support.postgresql import address_of_schema, server_of

#: Hang bound of one step, in seconds.
HANG = 60


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server of this test alone. It ends with the process."""
    return server_of(tmp_path_factory.mktemp("restarted"))


def test_a_writer_goes_on_after_each_restart(server: Any) -> None:
    kept: queue.Queue[int] = queue.Queue()
    enough = threading.Event()
    with Journal(address_of_schema(server.get_uri())) as journal:

        def write() -> None:
            for number in itertools.count():
                if enough.is_set():
                    return
                details = {"number": number}
                journal.record([Record(stage="started", conversation="c", turn=1, tool="t", details=details)])
                kept.put(number)

        writer = threading.Thread(target=write)
        writer.start()
        for restart in range(count(20, 10)):
            for _ in range(20):
                kept.get(timeout=HANG)
            if restart % 2:
                server.stop()
            else:
                process = server.get_postmaster_info().process
                process.kill()
                process.wait()
            server.ensure_postgres_running()
        for _ in range(20):
            last = kept.get(timeout=HANG)
        enough.set()
        writer.join(HANG)
        while not kept.empty():
            last = kept.get()
        numbers = [line.record.details["number"] for line in journal.lines() if line.record is not None]
        assert numbers == list(range(last + 1))
        assert journal.verify(journal.anchor()) is None


#: The first commit of lines fails, after all statements, as if the server went away.
_FAILING = (
    "CREATE SEQUENCE commits",
    "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF nextval('commits') = 1 THEN "
    "RAISE EXCEPTION 'the server goes away' USING ERRCODE = '57P01'; END IF; RETURN NULL; END $$",
    "CREATE CONSTRAINT TRIGGER failing AFTER INSERT ON lines DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
    "EXECUTE FUNCTION fail()",
)


def test_lines_whose_commit_failed_leave_no_gap(postgresql_server: str) -> None:
    with Journal(address_of_schema(postgresql_server)) as journal:
        database = journal.database

        def record(number: int) -> None:
            journal.record(
                [Record(stage="started", conversation=name, turn=number, tool="t") for name in ("one", "two")]
            )

        with database.claimed("", "one") as first, database.claimed("", "two") as second:
            assert first
            assert second
            record(1)
            with database.using("written") as connection:
                for statement in _FAILING:
                    connection.execute(statement)
            for number in (2, 3):
                record(number)
        assert journal.verify() is None
        assert [line.turn for line in journal.lines("one")] == [1, 2, 3]
