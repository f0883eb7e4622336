"""Rates of submitted runs: laws of the times, and both databases."""

import concurrent.futures
import contextlib
import dataclasses
import datetime
import pathlib
from collections.abc import Generator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.assembly.submissions import dispatcher_beside
from ripieno.canisters import UserCanister
from ripieno.descriptors.durable import Rate
from ripieno.exceptions import InputError
from ripieno.storage.databases.contract import Database
from ripieno.storage.databases.opening import database_at
from ripieno.storage.dispatch.contract import Dispatched, Dispatcher, Submission
from ripieno.storage.dispatch.rates import Rates, first_free
from tests.support.postgresql import NewPlace

#: A period that is longer than any test.
HOUR = 3_600
NONE: Mapping[str, Rate] = {}


@given(st.integers(1, 4), st.integers(1, 9), st.lists(st.integers(0, 60), max_size=20))
def test_no_period_has_more_starts_than_the_rate_allows(runs: int, period: int, wanted: list[int]) -> None:
    rate = Rate(runs=runs, seconds=period / 1_000)
    starts: list[int] = []
    for at in wanted:
        found = first_free(starts, at, rate)
        assert found >= at
        # It is the first such time: each earlier one is in a period that is full.
        assert all(_full(starts, one, rate.runs, period) for one in range(at, found))
        starts = sorted((*starts, found))
    assert all(sum(one <= other < one + period for other in starts) <= runs for one in starts)


def _full(starts: list[int], at: int, runs: int, period: int) -> bool:
    together = sorted((*starts, at))
    return any(sum(one <= other < one + period for other in together) > runs for one in together)


@pytest.fixture
def database(new_place: NewPlace) -> Generator[Database, None, None]:
    database = database_at(new_place())
    yield database
    database.close()


def submission(
    conversation: str = "c", owner: str = "ada", model: str = "house/small", said: bool = True
) -> Submission:
    canisters = (UserCanister.of("Go."),) if said else ()
    return Submission(identifier="s", conversation=conversation, owner=owner, model=model, canisters=canisters)


def rates(database: Database, owner: int | None = None, providers: Mapping[str, int] | None = None) -> Rates:
    of_owner = None if owner is None else Rate(runs=owner, seconds=HOUR)
    of_providers = {name: Rate(runs=runs, seconds=HOUR) for name, runs in (providers or {}).items()}
    return Rates(database, lambda one: one.model.partition("/")[0], owner=of_owner, providers=of_providers)


def hours(at: datetime.datetime | None) -> int:
    """The hours from now, rounded; 0 for at once."""
    now = datetime.datetime.now(datetime.UTC)
    return 0 if at is None else round((at - now).total_seconds() / HOUR)


def test_each_owner_and_each_provider_has_its_rate(database: Database) -> None:
    mine = rates(database, owner=2, providers={"house": 3})
    assert [hours(mine.start(submission(f"a{number}"), None)) for number in range(3)] == [0, 0, 1]
    # Another owner's first run is the last one that the provider may begin now, and a second one has another provider.
    models = ("house/small", "hut/small", "hut/small")
    starts = [mine.start(submission(f"b{number}", "bob", model), None) for number, model in enumerate(models)]
    assert [hours(one) for one in starts] == [0, 0, 1]
    assert hours(mine.start(submission("c", "eve", "hut/small"), None)) == 0
    # Of this hour, the provider had three, and of the next one it has one.
    assert [hours(mine.start(submission(f"d{number}", "dan"), None)) for number in range(2)] == [1, 1]
    assert hours(mine.start(submission("e", "eve"), None)) == 2


def test_a_later_run_of_a_conversation_is_not_before_an_earlier_one(place_with_queue: pathlib.Path | str) -> None:
    with contextlib.closing(dispatcher_beside(place_with_queue, rates(database_at(place_with_queue), 1))) as mine:
        without_rates = dispatcher_beside(place_with_queue)

        def submit(name: str, dispatcher: Dispatcher = mine, **fields: object) -> Dispatched:
            assert dispatcher.submit(dataclasses.replace(submission("talk"), identifier=name, **fields))  # type: ignore[arg-type]
            return dispatcher.find(name)

        def due(found: Dispatched) -> int:
            return hours(found.starts)

        assert submit("other", conversation="other").state == "queued"
        second = submit("second")
        assert (second.state, due(second)) == ("scheduled", 1)
        with contextlib.closing(without_rates):
            third = submit("third", without_rates)
            assert third.starts is not None
            assert second.starts is not None
            assert (third.state, third.starts >= second.starts) == ("scheduled", True)
            # It would be in another queue, and could overtake them.
            with pytest.raises(InputError, match="could overtake it"):
                submit("elsewhere", without_rates, host="h")
            assert submit("walk", without_rates, conversation="walk").state == "queued"
            # An answer to an earlier one waits for none of them.
            assert submit("continued", without_rates, canisters=(), continues="other").state == "queued"
            for name in ("second", "third", "continued"):
                mine.cancel(name)
            assert submit("elsewhere", without_rates, host="h").state == "queued"


def test_an_answer_waits_for_no_rate(database: Database) -> None:
    mine = rates(database, owner=1)
    assert mine.start(submission(), None) is None
    assert mine.start(submission(said=False), None) is None
    assert hours(mine.start(submission(), None)) == 1


def test_background_responses_have_the_rate_of_their_owner(database: Database) -> None:
    mine = rates(database, owner=1)
    starts = [
        mine.start(Submission(identifier=name, conversation=name, owner=owner, response=True), None)
        for name, owner in (("a", "ada"), ("b", "ada"), ("c", "bob"))
    ]
    assert [hours(one) for one in starts] == [0, 1, 0]


def test_a_run_of_tomorrow_takes_no_place_of_today(database: Database) -> None:
    mine = rates(database, owner=1)
    tomorrow = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=24)
    assert mine.start(submission("a"), tomorrow) == tomorrow
    assert [hours(mine.start(submission(name), None)) for name in "bc"] == [0, 1]
    assert hours(mine.start(submission("d"), tomorrow)) in (23, 25)


def test_programs_that_submit_at_once_share_the_rate(new_place: NewPlace) -> None:
    place = new_place()

    def begin(number: int) -> int:
        database = database_at(place)
        try:
            mine = rates(database, owner=3, providers={"house": 3})
            return sum(hours(mine.start(submission(f"{number} {one}"), None)) == 0 for one in range(2))
        finally:
            database.close()

    with concurrent.futures.ThreadPoolExecutor(6) as threads:
        assert sum(threads.map(begin, range(6))) == 3


def test_what_counts_no_more_is_deleted(database: Database) -> None:
    mine = rates(database, owner=1, providers={"house": 1})
    for name in ("a", "b"):
        mine.start(submission(name), None)

    def count() -> int:
        with database.using("read") as connection:
            return int(connection.execute("SELECT count(*) FROM rates").fetchone()[0])

    with database.using("written") as connection:
        # As the release before has written it.
        connection.execute("INSERT INTO rates VALUES ('conversation', 'c', 9000000000000, '[]')")
    mine.clean()
    assert count() == 3
    with database.using("written") as connection:
        connection.execute("UPDATE rates SET until = 0")
    mine.clean()
    assert count() == 0
