"""Events of a run are written once and in order, whatever the database refuses meanwhile."""

import asyncio
import contextlib
from collections.abc import Generator, Sequence

import pytest

from ripieno.canisters.events import Event, TextDelta, TurnBegan
from ripieno.servers.worker.event_writer import EventWriter
from ripieno.storage.databases.contract import Database, Disconnected
from ripieno.storage.databases.opening import database_at
from ripieno.storage.dispatch.contract import Submission
from ripieno.storage.dispatch.events import EventLog
from ripieno.storage.redaction import NO_SECRETS
from tests.support.postgresql import NewPlace

ONE = Submission(identifier="s", conversation="c")
#: Events that are not joined.
MANY = [TurnBegan(model="m", turn=turn) for turn in range(1, 2_502)]


@pytest.fixture
def database(new_place: NewPlace) -> Generator[Database, None, None]:
    database = database_at(new_place())
    yield database
    database.close()


def stored(database: Database) -> list[Event]:
    log, found = EventLog(database), list[tuple[int, Event]]()
    while more := log.after(ONE, len(found)):
        found += more
    assert [number for number, _ in found] == list(range(1, len(found) + 1))
    return [event for _, event in found]


async def test_more_events_than_one_statement_can_have(database: Database) -> None:
    async with EventWriter(EventLog(database), ONE, NO_SECRETS, after=0) as writer:
        for event in MANY:
            writer.take(event)
    assert stored(database) == MANY


class Interrupted(EventLog):
    """A log whose connection breaks in its first and second commit, before or after the server has written."""

    def __init__(self, database: Database, *, written: bool) -> None:
        super().__init__(database)
        self._written = written
        self.broken = 0
        self.tried = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def append(self, submission: Submission, after: int, events: Sequence[Event]) -> int:
        with contextlib.ExitStack() as stack:
            if self.broken < 2:
                self.broken += 1
                stack.callback(self._loop.call_soon_threadsafe, self.tried.set)
                if not self._written:
                    raise Disconnected("The server went away.")
                stack.callback(self._fail)
            return super().append(submission, after, events)

    def _fail(self) -> None:
        raise Disconnected("The server went away.")


@pytest.mark.parametrize("written", [True, False], ids=["written", "not_written"])
async def test_events_of_a_commit_that_broke_are_there_once(database: Database, written: bool) -> None:
    log = Interrupted(database, written=written)
    async with EventWriter(log, ONE, NO_SECRETS, after=0) as writer:
        for place, event in enumerate(MANY[:4]):
            writer.take(event)
            writer.take(TextDelta(f"Text {place}. "))
            if place < 2:
                await log.tried.wait()
                log.tried.clear()
    assert log.broken == 2
    expected: list[Event] = []
    for place, event in enumerate(MANY[:4]):
        expected += [event, TextDelta(f"Text {place}. ")]
    assert stored(database) == expected
