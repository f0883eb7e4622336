"""Events of runs, kept for other programs: numbered, equal after reading, and only of who has the claim."""

import asyncio
import dataclasses
import pathlib
import threading
from collections.abc import Generator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.canisters import InvocationCanister, ResultCanister, TextualContent
from ripieno.canisters.conversation import Usage
from ripieno.canisters.events import (
    Alert,
    ArgumentsDelta,
    ConductEnded,
    ConfirmationRequested,
    ContentSealed,
    Event,
    ExecutionBegan,
    ExecutionProgress,
    InvocationBegan,
    InvocationSealed,
    ReasoningDelta,
    ResultReady,
    TextDelta,
    TurnBegan,
    TurnEnded,
)
from ripieno.canisters.faults import Fault
from ripieno.canisters.serialization import read, write
from ripieno.exceptions import Superseded
from ripieno.storage.databases.contract import Database
from ripieno.storage.databases.opening import database_at
from ripieno.storage.dispatch.contract import Submission
from ripieno.storage.dispatch.events import EventLog, QuestionAnswered, topic_of
from tests.support.postgresql import NewPlace

HANG = 60
CALL = InvocationCanister(identifier="call_1", name="look", arguments={"path": "a\ud800b\u0000"})
RESULT = ResultCanister(
    invocation_id="call_1", content=(TextualContent(text="Found."),), error=Fault(category="timeout", message="Late.")
)
EVENTS: tuple[Event, ...] = (
    TurnBegan(model="m", turn=1),
    TextDelta("Half \ud83d of a pair, and \u0000."),
    ReasoningDelta("Why?"),
    ContentSealed(TextualContent(text="Text.")),
    InvocationBegan(index=0, identifier="call_1", name="look", opaque={"responses": {"id": "x"}}),  # type: ignore[arg-type]
    ArgumentsDelta(index=0, text='{"path'),
    InvocationSealed(index=0, invocation=CALL),
    ConfirmationRequested(invocation=CALL, tool="mine.look", effect="read", reason="It asks."),
    ExecutionBegan(invocation=CALL, tool="mine.look", early=True),
    ExecutionProgress(invocation_id="call_1", tool="mine.look", done=1.0, total=2.0, message="Half."),
    ResultReady(invocation=CALL, result=RESULT, tool="mine.look"),
    Alert(message="Beware.", details={"number": 10**30}),  # type: ignore[arg-type]
    TurnEnded(finish="invocations", usage=Usage(input_tokens=3), turn=1),
    ConductEnded(finish="stop", turns=1, calls=1),
)
ONE = Submission(identifier="s", conversation="c", owner="ada")


@pytest.fixture
def database(new_place: NewPlace) -> Generator[Database, None, None]:
    database = database_at(new_place())
    yield database
    database.close()


def test_every_kind_of_event_is_equal_after_reading(database: Database) -> None:
    assert {type(one) for one in EVENTS} == set(Event.__args__)  # type: ignore[attr-defined]
    log = EventLog(database)
    assert log.append(ONE, 0, EVENTS[:5]) == 5
    assert log.append(ONE, 5, EVENTS[5:]) == len(EVENTS)
    assert log.after(ONE, 0) == list(enumerate(EVENTS, 1))
    assert log.last("ada", "c") == len(EVENTS)


@given(cut=st.integers(0, len(EVENTS)))
def test_law_a_watcher_that_is_cut_anywhere_gets_the_rest_and_nothing_twice(cut: int) -> None:
    stored = [write(Event, one) for one in EVENTS]
    first, rest = stored[:cut], stored[cut:]
    assert [read(Event, one, "event") for one in (*first, *rest)] == list(EVENTS)


def test_cut_at_every_event_the_rest_follows(database: Database) -> None:
    log = EventLog(database)
    log.append(ONE, 0, EVENTS)
    whole = log.after(ONE, 0)
    for number, _ in [(0, None), *whole]:
        assert log.after(ONE, number) == whole[number:]


def test_owners_and_submissions_are_apart(database: Database) -> None:
    log = EventLog(database)
    log.append(ONE, 0, EVENTS[:1])
    another = dataclasses.replace(ONE, identifier="t")
    log.append(another, 1, EVENTS[1:2])
    log.append(dataclasses.replace(ONE, owner="bob"), 0, EVENTS[2:3])
    assert log.after(ONE, 0) == [(1, EVENTS[0])]
    assert log.after(another, 0) == [(2, EVENTS[1])]
    log.forget("ada", "c")
    assert (log.last("ada", "c"), log.last("bob", "c")) == (0, 1)


def test_a_number_is_given_once(database: Database) -> None:
    log = EventLog(database)
    log.append(ONE, 0, EVENTS[:1])
    with pytest.raises(Exception, match=r"(?i)unique"):
        log.append(ONE, 0, EVENTS[1:2])
    assert log.after(ONE, 0) == [(1, EVENTS[0])]


def test_old_events_are_deleted(database: Database) -> None:
    log = EventLog(database)
    log.append(ONE, 0, EVENTS[:2])
    with database.using("written") as connection:
        connection.execute("UPDATE events SET at = at - 1000 WHERE number = 1")
    # A run is kept whole, until some minutes after its last event, and while it is under way.
    log.clean()
    assert [number for number, _ in log.after(ONE, 0)] == [1, 2]
    with database.using("written") as connection:
        connection.execute("UPDATE events SET at = at - 1000")
    log.clean(["another", ONE.identifier])
    assert [number for number, _ in log.after(ONE, 0)] == [1, 2]
    log.clean(["another"])
    assert log.after(ONE, 0) == []


def test_numbers_go_on_after_old_events_are_deleted(database: Database) -> None:
    log, answered = EventLog(database), QuestionAnswered(invocation="call_1", answer="approve")
    about = dataclasses.replace(ONE, identifier="")
    log.append(ONE, 0, EVENTS[:2])
    for last in (2, 3):
        with database.using("written") as connection:
            connection.execute("UPDATE events SET at = at - 1000")
        log.clean()
        assert log.after(ONE, 0) == []
        # A page that is open since then has read all up to this one.
        assert log.last("ada", "c") == last
        log.add(about, answered)
        assert log.since("ada", "c", last) == [(last + 1, "", answered)]
        with database.using("read") as connection:
            kept = [tuple(row) for row in connection.execute("SELECT number, body FROM events ORDER BY number")]
        assert [number for number, _ in kept] == [last, last + 1]
        assert not any("text" in body for _, body in kept)
    log.forget("ada", "c")
    assert log.last("ada", "c") == 0


def test_who_has_lost_the_claim_adds_none(postgresql_server: str, new_place: NewPlace) -> None:
    place = new_place()
    if isinstance(place, pathlib.Path):
        return  # The system's lock cannot be taken from a living process.
    mine, other = database_at(place), database_at(place)
    try:
        with mine.claimed("ada", "c") as held:
            assert held
            EventLog(mine).append(ONE, 0, EVENTS[:1])
            with other.using("written") as connection:
                connection.execute("UPDATE claims SET until = until - 1000")
            with other.claimed("ada", "c") as taken:
                assert taken
                with pytest.raises(Superseded):
                    EventLog(mine).append(ONE, 1, EVENTS[1:2])
        assert EventLog(other).after(ONE, 0) == [(1, EVENTS[0])]
    finally:
        mine.close()
        other.close()


async def test_subscribers_in_other_programs_are_woken(new_place: NewPlace) -> None:
    place = new_place()
    writer, reader = database_at(place), database_at(place)
    woken, loop = asyncio.Event(), asyncio.get_running_loop()
    try:
        EventLog(writer).append(ONE, 0, EVENTS[:1])
        with reader.subscribed(topic_of("ada", "c"), lambda: loop.call_soon_threadsafe(woken.set)):
            async with asyncio.timeout(HANG):
                await woken.wait()  # The connection is made.
                for number in range(1, 5):
                    woken.clear()
                    await asyncio.to_thread(EventLog(writer).append, ONE, number, EVENTS[1:2])
                    await woken.wait()
    finally:
        writer.close()
        reader.close()
    assert "ripieno events" not in {thread.name for thread in threading.enumerate() if not thread.daemon}
