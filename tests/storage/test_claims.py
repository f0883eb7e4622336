"""Claims of conversations on several machines: one continues a conversation, and a stopped one writes nothing more."""

import concurrent.futures
import contextlib
import json
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from typing import Any

import psycopg
import pytest

from ripieno.canisters import Conversation
from ripieno.canisters.controls import Rules
from ripieno.conducting import conduct
from ripieno.conducting.paused import Paused, PausedStore
from ripieno.conducting.resume import resumable
from ripieno.descriptors import Policy
from ripieno.ensembles import Definition, Ensemble
from ripieno.exceptions import Conflict, Superseded
from ripieno.execution import Execution
from ripieno.schemas import Schema
from ripieno.storage.databases import claims, postgresql
from ripieno.storage.databases.contract import Database
from ripieno.storage.databases.opening import database_at
from ripieno.storage.databases.tables import BESIDE, CLEANED, MIGRATIONS
from ripieno.storage.journal import Journal
from ripieno.storage.records import Record
from ripieno.storage.responses.store import callers_in
from ripieno.testing import call, model_of, turn
from tests.counts import count
from tests.support.postgresql import address_of_schema

#: Hang bound of one step, in seconds.
HANG = 60


@pytest.fixture
def url(postgresql_server: str) -> str:
    """The address of a schema that does not exist yet."""
    return address_of_schema(postgresql_server)


def expire(database: Database, conversation: str) -> bool:
    """Lets a claim end as if it had not been renewed for its whole time. Returns whether there was one."""
    with database.using("written") as connection:
        query = "UPDATE claims SET until = 1 WHERE conversation = ? AND until > 1"
        return connection.execute(query, (json.dumps(conversation),)).rowcount == 1


def record(conversation: str, number: int, owner: str = "") -> Record:
    return Record(stage="started", conversation=conversation, turn=1, tool="t", owner=owner, details={"number": number})


@contextlib.contextmanager
def stolen(journal: Journal, conversation: str, owner: str = "") -> Generator[None, None, None]:
    """Takes a claim from the one who has it, who does not notice."""
    assert expire(journal.database, conversation)
    with journal.database.claimed(owner, conversation) as held:
        assert held
        yield


def test_any_name_can_be_claimed(url: str) -> None:
    database, other, name = database_at(url), database_at(url), 'ill "named" \ud800\x00'
    with PausedStore(database).claimed(name, owner=name):
        for owner, held in ((name, False), ("", True)):
            with database.claimed(owner, name) as found:
                assert found is held
        paused = Paused(conversation=Conversation(identifier=name), workspace="/", model="m", owner=name)
        PausedStore(database).save(paused)
        assert expire(database, name)
        with other.claimed(name, name) as taken:
            assert taken
            with pytest.raises(Superseded):
                PausedStore(database).forget(name, owner=name)
    database.close()
    other.close()


def test_who_lost_a_claim_writes_nothing_more(url: str) -> None:
    name = "c"
    with Journal(url) as stopped, Journal(url) as other, contextlib.ExitStack() as claim:
        stack = contextlib.ExitStack()
        assert stack.enter_context(stopped.database.claimed("ada", name))
        with other.database.claimed("ada", name) as held:
            assert not held
        stopped.record([record(name, 1, "ada")])
        claim.enter_context(stolen(other, name, "ada"))
        paused = Paused(conversation=Conversation(identifier=name), workspace="/", model="m", owner="ada")
        PausedStore(other.database).save(paused)
        for write in (
            lambda: stopped.record([record(name, 2, "ada")]),
            # In one batch with a conversation of its own, too: all or none.
            lambda: stopped.record([record("free", 1), record(name, 2, "ada")]),
            lambda: PausedStore(stopped.database).save(paused),
            lambda: PausedStore(stopped.database).forget(name, owner="ada"),
        ):
            with pytest.raises(Superseded, match="Another process continues the conversation"):
                write()
        other.record([record(name, 3, "ada"), record("free", 2)])
        assert [line.record.details["number"] for line in other.lines(name) if line.record is not None] == [1, 3]
        assert [line.conversation for line in other.lines("free")] == ["free"]
        # Another owner's conversation of this name is another one.
        stopped.record([record(name, 4, "bob")])
        # The end of the lost claim does not end the other one.
        stack.close()
        with stopped.database.claimed("ada", name) as held:
            assert not held
        assert other.verify() is None


def test_claims_are_renewed_and_end_with_their_block(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "RENEWAL", 0.01)
    database, other = database_at(url), database_at(url)
    query = "SELECT until - now_seconds() FROM claims"

    def left() -> float:
        with other.using("read") as connection:
            return float(connection.execute(query).fetchone()[0])

    with database.claimed("", "c") as held:
        assert held
        assert expire(other, "c")
        until = time.monotonic() + HANG
        while left() < claims.LEASE / 2:
            assert time.monotonic() < until, "it was not renewed"
    assert left() < 0
    # At once, without waiting for its time.
    with other.claimed("", "c") as held:
        assert held
    database.close()
    other.close()


def test_a_claim_that_cannot_be_renewed_does_not_end_the_others(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "RENEWAL", 0.01)
    monkeypatch.setattr(postgresql, "_PATIENCE", 1)
    database, other, locking = database_at(url), database_at(url), database_at(url)
    row = "SELECT until - now_seconds() FROM claims WHERE conversation = ?"
    with database.claimed("", "locked"), database.claimed("", "free"), locking.writing("written") as connection:
        connection.execute(f"{row} FOR UPDATE", (json.dumps("locked"),))
        until = time.monotonic() + HANG
        # Those of one look come in their order: the second look has met the locked one.
        for _ in range(2):
            assert expire(other, "free")
            left = 0.0
            while left < claims.LEASE / 2:
                assert time.monotonic() < until, "it was not renewed"
                with other.using("read") as reading:
                    left = float(reading.execute(row, (json.dumps("free"),)).fetchone()[0])
    for one in (database, other, locking):
        one.close()


def test_the_clock_is_that_of_the_server(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose clock is an hour ahead takes no claim, and one that is behind keeps none."""
    database, other = database_at(url), database_at(url)
    with database.claimed("", "c") as held:
        assert held
        for hour in (3600, -3600):
            for name in ("time", "monotonic"):
                real = getattr(time, name)
                monkeypatch.setattr(time, name, lambda real=real, hour=hour: real() + hour)
            with other.claimed("", "c") as too:
                assert not too
            monkeypatch.undo()
    database.close()
    other.close()


def test_lines_of_lost_claims_never_follow_those_of_later_ones(url: str) -> None:
    """Claims are taken from living writers at any moment: no acknowledged line is lost, and none comes too late."""
    writers, thefts = 4, count(300, 60)
    taken = threading.Semaphore(0)
    enough = threading.Event()
    kept: list[tuple[int, int]] = []
    refused: list[int] = []
    Journal(url).close()

    def work(name: int) -> None:
        with Journal(url) as journal:
            while not enough.is_set():
                expire(journal.database, "c")
                with journal.database.claimed("", "c") as held:
                    if not held:
                        continue
                    fence = journal.database.fence("", "c")
                    assert fence is not None
                    epoch = int(fence.parameters[-1])
                    taken.release()
                    for number in range(20):
                        try:
                            journal.record([record("c", epoch * 100 + number)])
                        except Superseded:
                            refused.append(epoch)
                            break
                        kept.append((epoch, number))

    with Journal(url) as journal:
        with journal.database.claimed("", "c"):
            pass
        threads = [threading.Thread(target=work, args=(name,)) for name in range(writers)]
        for thread in threads:
            thread.start()
        for _ in range(thefts):
            assert taken.acquire(timeout=HANG)
        enough.set()
        for thread in threads:
            thread.join(HANG)
        numbers = [line.record.details["number"] for line in journal.lines("c") if line.record is not None]
        assert numbers == sorted(numbers)
        assert sorted(kept) == [divmod(number, 100) for number in numbers]
        assert refused
        assert journal.verify(journal.anchor()) is None


async def test_a_run_that_was_taken_over_ends_and_runs_no_further_call(url: str) -> None:
    done: list[str] = []
    with Journal(url) as journal, Journal(url) as other, contextlib.ExitStack() as theft:

        def append(_: Any, arguments: Any) -> str:
            done.append(arguments["word"])
            if arguments["word"] == "second":
                theft.enter_context(stolen(other, "c"))
            return "Written."

        word = Schema.of({"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]})
        definition = Definition(name="append", schema=word, invocable=append, policy=Policy(effect="write"))
        ensemble = Ensemble.of("mine", (definition,))
        turns = [turn("", calls=[call("append", word=one)]) for one in ("first", "second", "third")]
        rules = Rules(approve=("mine.*",))
        async with ensemble:
            with PausedStore(journal.database).claimed("c"), pytest.raises(Superseded):
                await conduct(
                    model_of([*turns, turn("End.")]),
                    Conversation(identifier="c").say("Write."),
                    ensembles=[ensemble],
                    execution=Execution(rules=rules, recorder=journal),
                )
            assert done == ["first", "second"]
            # Nobody knows how the second one ended; the one who took it over goes on.
            found = resumable(other, "c")
            assert [one.stage for one in other.lines("c") if one.tool][-1] == "started"
            ended = await conduct(
                model_of([turn("End.")]),
                found.conversation,
                ensembles=[ensemble],
                execution=Execution(rules=rules, recorder=other),
            )
        assert ended.finish == "stop"
        assert done == ["first", "second"]
        assert other.verify() is None


HOLD = """
import sys
from ripieno.exceptions import Superseded
from ripieno.storage.journal import Journal
from ripieno.storage.responses.store import callers_in
from ripieno.storage.records import Record

def record(number):
    journal.record([Record(stage="started", conversation="c", turn=1, tool="t", details={"number": number})])

with Journal(sys.argv[1]) as journal, journal.database.claimed("", "c") as held:
    assert held
    record(1)
    print("held", flush=True)
    input()
    try:
        record(2)
    except Superseded as error:
        print(error, flush=True)
"""


def test_a_stopped_process_wakes_up_and_writes_nothing(url: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        process.send_signal(signal.SIGSTOP)
        with Journal(url) as journal, stolen(journal, "c"):
            journal.record([record("c", 3)])
            process.send_signal(signal.SIGCONT)
            process.stdin.write("\n")
            process.stdin.flush()
            assert "Another process continues the conversation c" in process.stdout.readline()
            assert process.wait(HANG) == 0
            numbers = [line.record.details["number"] for line in journal.lines("c") if line.record is not None]
            assert numbers == [1, 3]


def test_the_claim_of_a_killed_process_ends_with_its_lease(url: str) -> None:
    script = HOLD.replace("import sys", "import sys\nfrom ripieno.storage.databases import claims\nclaims.LEASE = 1.0")
    with subprocess.Popen(
        [sys.executable, "-c", script, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        process.kill()
        process.wait()
    database = database_at(url)
    until, tries = time.monotonic() + HANG, 0
    while True:
        with database.using("read") as connection:
            alive = connection.execute("SELECT until > now_seconds() FROM claims").fetchone()[0]
        with database.claimed("", "c") as held:
            # Time passes between the two: it may have ended meanwhile, and cannot have begun again.
            assert held or alive or tries == 0
            if held:
                break
        tries += 1
        assert time.monotonic() < until
    database.close()


#: What each version has added.
_LATEST = ("INDEX lines_of_answers",)
_STORED = [f"TABLE {one}" for one in CLEANED if one not in ("lines", *BESIDE)]
_LATER = ("TABLE events", "TABLE workers", *_STORED, "TABLE rates", *_LATEST)
ADDED = {3: ("TABLE claims", *_LATER), 4: _LATER, 5: ("TABLE rates", *_LATEST), 6: _LATEST}


@pytest.mark.parametrize("version", ADDED)
def test_tables_of_earlier_versions_are_brought_up_to_date(place: pathlib.Path | str, version: int) -> None:
    assert ADDED.keys() == MIGRATIONS.keys()
    with Journal(place) as journal:
        journal.record([record("c", 1)])
        with journal.database.using("written") as connection:
            for added in ADDED[version]:
                connection.execute(f"DROP {added}")
            remote = journal.database.remote
            connection.execute(
                f"UPDATE versions SET version = {version}" if remote else f"PRAGMA user_version = {version}"
            )
    with Journal(place) as journal:
        assert [line.conversation for line in journal.lines()] == ["c"]
        store = PausedStore(journal.database)
        with store.claimed("c"), pytest.raises(Conflict), store.claimed("c"):
            pass
        assert callers_in(journal.database) == []


def test_a_process_has_one_claim_of_a_conversation_also_after_its_lease(url: str) -> None:
    with Journal(url) as journal, journal.database.claimed("", "c") as held:
        assert held
        assert expire(journal.database, "c")
        with journal.database.claimed("", "c") as again:
            assert not again
        # Its lines are still under its own claim.
        journal.record([record("c", 1)])
        with Journal(url) as other, other.database.claimed("", "c") as taken:
            assert taken
            with pytest.raises(Superseded):
                journal.record([record("c", 2)])
        assert [line.place for line in journal.lines("c")] == [1]


def test_a_program_that_starts_while_another_makes_the_tables_waits_for_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = database_at(url)
    # Seconds: shorter than what the other program takes.
    monkeypatch.setattr(postgresql, "_PATIENCE", 0.01)
    waiting = "locktype = 'advisory' AND objid = %s AND waitstart < clock_timestamp() - interval '0.1 seconds'"
    with psycopg.connect(url, autocommit=True) as other, concurrent.futures.ThreadPoolExecutor() as threads:
        other.execute("SELECT pg_advisory_lock(%s)", (postgresql._CREATING,))

        def start() -> None:
            with database.using("opened"):
                pass

        started = threads.submit(start)
        while not started.done():
            if other.execute(f"SELECT FROM pg_locks WHERE {waiting}", (postgresql._CREATING,)).rowcount:
                other.execute("SELECT pg_advisory_unlock(%s)", (postgresql._CREATING,))
                break
        started.result()
    database.close()
