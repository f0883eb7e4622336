"""The contract of dispatchers, over both databases: queue, order, identity, cancellation, schedules."""

import asyncio
import contextlib
import dataclasses
import datetime
import os
import pathlib
import re
import uuid
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

import psycopg
import pytest
from dbos import DBOS
from dbos._dbos import _get_dbos_instance

from ripieno.assembly.submissions import dispatcher_beside
from ripieno.canisters import UserCanister
from ripieno.canisters.serialization import serialize
from ripieno.exceptions import InputError, NameAbsence
from ripieno.storage.databases.contract import Disconnected
from ripieno.storage.dispatch import dbos, queue_client
from ripieno.storage.dispatch.contract import (
    PRIORITIES,
    Dispatched,
    Dispatcher,
    Ending,
    Schedule,
    Stretch,
    Submission,
)
from ripieno.storage.dispatch.queues import queue_of
from tests.support.postgresql import address_of_schema

#: Seconds after which a test counts as hung.
HANG = 60


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def dispatcher(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Dispatcher, None, None]:
    """One queue for all tests of a database, since its engine needs seconds to create its tables."""
    if request.param == "sqlite":
        made = dispatcher_beside(tmp_path_factory.mktemp("queue") / "journal")
    else:
        made = dispatcher_beside(address_of_schema(request.getfixturevalue("postgresql_server")))
    yield made
    made.close()


@pytest.fixture
def host() -> str:
    """A host of this test alone, with which all its names begin."""
    return f"host-{uuid.uuid4().hex[:8]}"


class Queue:
    """The queue as one test uses it: its submissions, owners and schedules are of its host alone."""

    def __init__(self, dispatcher: Dispatcher, host: str) -> None:
        self.dispatcher = dispatcher
        self.host = host

    def one(self, name: str, conversation: str = "c", *, owner: str = "", **fields: Any) -> Submission:
        return Submission(
            **{
                "identifier": self.identifier(name),
                "conversation": conversation,
                "owner": self.owner(owner),
                "canisters": (UserCanister.of(f"This is {name}."),),
                "model": "provider/model",
                "host": self.host,
                **fields,
            }
        )

    def identifier(self, name: str) -> str:
        return f"{name}/{self.host}"

    def owner(self, name: str) -> str:
        return f"{name}@{self.host}"

    def submit(self, name: str, conversation: str = "c", **fields: Any) -> bool:
        return self.dispatcher.submit(self.one(name, conversation, **fields))

    def find(self, name: str) -> Dispatched:
        return self.dispatcher.find(self.identifier(name))

    def listed(self, owner: str = "", **given: Any) -> list[str]:
        found = self.dispatcher.listed(owner=self.owner(owner), **given)
        return [one.submission.identifier.partition("/")[0] for one in found]

    @contextlib.asynccontextmanager
    async def working(
        self, stretch: Stretch, worker: str = "w", slots: int = 4
    ) -> AsyncGenerator[Callable[[], None], None]:
        async with (
            asyncio.timeout(HANG),
            self.dispatcher.working(
                f"{worker}/{self.host}", hosts=[self.host], slots=slots, stretch=stretch
            ) as take_no_more,
        ):
            yield take_no_more

    async def over(self, *names: str) -> None:
        """Waits until submissions have ended."""
        for name in names:
            while not (await asyncio.to_thread(self.find, name)).over:  # noqa: ASYNC110  in a database
                await asyncio.sleep(0.01)


@pytest.fixture
def queue(dispatcher: Dispatcher, host: str) -> Queue:
    return Queue(dispatcher, host)


class Work:
    """Runs stretches and notes their order; ``enough`` is set when ``wanted`` have run."""

    def __init__(self, wanted: int) -> None:
        self.ran: list[str] = []
        self._now: set[str] = set()
        self._wanted = wanted
        self.enough = asyncio.Event()

    async def stretch(self, submission: Submission) -> Ending | None:
        assert submission.conversation not in self._now, "two runs of one conversation at once"
        self._now.add(submission.conversation)
        self.ran.append(submission.identifier.partition("/")[0])
        for _ in range(5):
            await asyncio.sleep(0)
        self._now.discard(submission.conversation)
        if len(self.ran) >= self._wanted:
            self.enough.set()
        return Ending(finish="stop")


async def test_submissions_run_once_in_the_order_of_each_conversation(queue: Queue) -> None:
    # Their identifiers have the opposite order, and most are of one second.
    names = [f"s{8 - number}" for number in range(9)]
    for number, name in enumerate(names):
        assert queue.submit(name, f"c{number % 3}")
    assert not queue.submit("s0", "another conversation")
    work = Work(len(names))
    async with queue.working(work.stretch):
        await work.enough.wait()
        await queue.over(*names)
    assert sorted(work.ran) == sorted(names)
    for place in range(3):
        assert [name for name in work.ran if name in names[place::3]] == names[place::3]
    found = queue.find("s8")
    assert (found.state, found.finish, found.worker) == ("ended", "stop", f"w/{queue.host}")
    assert found.submission == queue.one("s8", "c0")
    assert found.ended is not None


async def test_low_priorities_have_one_place_beside_the_others(queue: Queue) -> None:
    low: list[str] = []
    free, begun = asyncio.Event(), asyncio.Event()
    others = Work(3)

    async def stretch(submission: Submission) -> Ending | None:
        if submission.priority == "low":
            low.append(submission.identifier)
            begun.set()
            await free.wait()
            return Ending(finish="stop")
        return await others.stretch(submission)

    for number in range(3):
        queue.submit(f"low {number}", f"low {number}", priority="low")
    async with queue.working(stretch):
        await begun.wait()
        for number in range(3):
            await asyncio.to_thread(queue.submit, f"normal {number}", f"c{number}")
        await others.enough.wait()
        assert len(low) == 1
        free.set()
        await queue.over(*(f"low {number}" for number in range(3)))


async def test_each_worker_has_its_own_slots_also_in_its_first_look(queue: Queue) -> None:
    names = [f"s{number}" for number in range(4)]
    running, most = 0, 0

    async def stretch(_: Submission) -> Ending:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.to_thread(queue.listed)
        running -= 1
        return Ending(finish="stop")

    async with queue.working(stretch, slots=len(names)):
        limits = {one.name: one._worker_concurrency for one in await DBOS.list_queues_async()}
    # Workers of an earlier release read them there.
    of_host = [limits[queue_of(priority, queue.host)] for priority in PRIORITIES]
    assert of_host == [len(names) if priority == "normal" else 1 for priority in PRIORITIES]
    for number, name in enumerate(names):
        queue.submit(name, f"c{number}")
    async with queue.working(stretch, slots=1):
        await queue.over(*names)
    assert most == 1


async def test_a_worker_that_takes_no_more_leaves_it_to_others(queue: Queue) -> None:
    queue.dispatcher.repeat(Schedule(name=queue.host, cron="* * * * * *", submission=queue.one("pattern", "")))
    work = Work(1)
    async with queue.working(work.stretch) as take_no_more:
        take_no_more()
        # Each second one more: the worker looks more often.
        while len(await asyncio.to_thread(queue.listed)) < 4:  # noqa: ASYNC110  in a database
            await asyncio.sleep(0.01)
    queue.dispatcher.end_schedule(queue.host)
    assert (work.ran, queue.listed(states=["running", "ended"])) == ([], [])


async def test_what_is_for_another_host_or_another_time_is_not_taken(queue: Queue) -> None:
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    queue.submit("elsewhere", host=f"{queue.host}-other")
    queue.dispatcher.submit(queue.one("later", "c2"), at=later)
    queue.dispatcher.submit(queue.one("past", "c3"), at=later - datetime.timedelta(days=2))
    queue.submit("anywhere", "c4", host="")
    work = Work(2)
    async with queue.working(work.stretch):
        await work.enough.wait()
    assert sorted(work.ran) == ["anywhere", "past"]
    assert (queue.find("elsewhere").state, queue.find("later").state) == ("queued", "scheduled")
    starts = queue.find("later").starts
    assert starts is not None
    assert abs((starts - later).total_seconds()) < 1


async def test_the_stretch_of_one_that_was_cancelled_before_its_turn_ends_it(queue: Queue) -> None:
    queue.submit("first")
    queue.submit("second", "c2")
    for _ in range(2):
        queue.dispatcher.cancel(queue.identifier("first"))
    assert queue.find("first").state == "cancelled"
    seen, both_seen = dict[str, bool](), asyncio.Event()

    async def stretch(one: Submission) -> Ending:
        cancelled = bool(await asyncio.to_thread(queue.dispatcher.cancelled, [one.identifier]))
        seen[one.identifier.partition("/")[0]] = cancelled
        if len(seen) == 2:
            both_seen.set()
        return Ending(finish="cancelled" if cancelled else "stop")

    async with queue.working(stretch):
        await both_seen.wait()
        await queue.over("first", "second")
    assert seen == {"first": True, "second": False}
    assert queue.find("first").state == "cancelled"
    both = [queue.identifier(name) for name in ("first", "second")]
    assert queue.dispatcher.cancelled(both) == {both[0]}
    with pytest.raises(NameAbsence):
        queue.dispatcher.cancel("third")


async def test_what_a_worker_did_not_end_is_queued_again(queue: Queue) -> None:
    queue.submit("given back")
    begun = asyncio.Event()

    async def leave(_: Submission) -> None:
        begun.set()

    async with queue.working(leave, "first"):
        await begun.wait()
    assert queue.find("given back").state == "queued"
    work = Work(1)
    async with queue.working(work.stretch, "second"):
        await work.enough.wait()
        await queue.over("given back")
    assert queue.find("given back").worker == f"second/{queue.host}"
    assert queue.dispatcher.take_back(f"second/{queue.host}") == []


def test_lists_are_newest_first_by_owner_and_state(queue: Queue) -> None:
    for number, owner in enumerate(("ada", "bob", "ada")):
        queue.submit(f"s{number}", f"c{number}", owner=owner)
    queue.dispatcher.cancel(queue.identifier("s2"))
    assert queue.listed("ada") == ["s2", "s0"]
    assert queue.listed("bob") == ["s1"]
    assert queue.listed("ada", limit=1) == ["s2"]
    assert queue.listed("ada", states=["queued"]) == ["s0"]
    assert queue.listed("ada", states=["cancelled", "ended"]) == ["s2"]


async def test_each_is_found_as_the_lists_have_it(queue: Queue) -> None:
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    queue.submit("elsewhere", host=f"{queue.host}-other")
    queue.dispatcher.submit(queue.one("later", "c2"), at=later)
    queue.submit("cancelled", "c3", host=f"{queue.host}-other")
    queue.dispatcher.cancel(queue.identifier("cancelled"))
    finishes = {"ended": "stop", "waiting": "open", "failed": "error"}
    for state in finishes:
        queue.submit(state, state)

    async def stretch(submission: Submission) -> Ending:
        finish = finishes[submission.conversation]
        return Ending(finish=finish, reason='It failed: é " %s ?' if finish == "error" else "")

    async with queue.working(stretch):
        await queue.over(*finishes)
    listed = queue.dispatcher.listed(owner=queue.owner(""))
    assert {one.state for one in listed} == {"queued", "scheduled", "cancelled", *finishes}
    for one in listed:
        assert queue.dispatcher.find(one.submission.identifier) == one


def test_a_forgotten_conversation_leaves_nothing(queue: Queue) -> None:
    queue.submit("hers", owner="ada")
    queue.submit("another of hers", "c2", owner="ada")
    queue.submit("his", owner="bob")
    queue.dispatcher.forget(queue.owner("ada"), "c")
    assert (queue.listed("ada"), queue.listed("bob")) == (["another of hers"], ["his"])


async def test_old_submissions_are_deleted_and_open_ones_stay(queue: Queue) -> None:
    queue.submit("open", host=f"{queue.host}-other")
    queue.submit("over", "c2")
    work = Work(1)
    async with queue.working(work.stretch):
        await queue.over("over")
    now = datetime.datetime.now(datetime.UTC)
    queue.dispatcher.clean(now - datetime.timedelta(days=1))
    assert queue.listed() == ["over", "open"]
    queue.dispatcher.clean(now + datetime.timedelta(days=1))
    assert queue.listed() == ["open"]


async def test_a_schedule_submits_again_and_again(queue: Queue) -> None:
    schedule = Schedule(name=queue.host, cron="* * * * * *", submission=queue.one("pattern", ""))
    queue.dispatcher.repeat(schedule)
    assert schedule in queue.dispatcher.schedules()
    work = Work(2)
    async with queue.working(work.stretch):
        await work.enough.wait()
    queue.dispatcher.end_schedule(queue.host)
    assert queue.dispatcher.schedules() == []
    assert len(set(work.ran)) == len(work.ran)
    # The name of the schedule and its time, without blanks.
    assert all(re.fullmatch(rf"{queue.host}-\d{{8}}T\d{{6}}", name) for name in work.ran)
    with pytest.raises(NameAbsence):
        queue.dispatcher.end_schedule(queue.host)


async def test_an_occurrence_waits_for_a_run_that_it_could_overtake(queue: Queue) -> None:
    queue.submit("elsewhere", host=f"{queue.host}-other")
    queue.dispatcher.repeat(Schedule(name=queue.host, cron="* * * * * *", submission=queue.one("pattern")))
    work = Work(1)
    async with queue.working(work.stretch, "first"):
        while not await asyncio.to_thread(queue.dispatcher.taken, f"first/{queue.host}"):  # noqa: ASYNC110  in a database
            await asyncio.sleep(0.01)
    queue.dispatcher.end_schedule(queue.host)
    assert queue.listed() == ["elsewhere"]
    queue.dispatcher.cancel(queue.identifier("elsewhere"))
    async with queue.working(work.stretch, "second"):
        await work.enough.wait()
    assert work.ran[0].startswith(f"{queue.host}-")


def test_an_invalid_schedule_is_refused(queue: Queue) -> None:
    with pytest.raises(InputError, match="The schedule 'x' is not valid"):
        queue.dispatcher.repeat(Schedule(name="x", cron="every day", submission=queue.one("s")))


async def test_a_submission_of_another_release_fails_by_name(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(dbos, "serialize", lambda value: {**serialize(value), "version": 99})
        queue.submit("newer", owner="ada")
    work = Work(1)
    async with queue.working(work.stretch):
        await queue.over("newer")
    found = queue.find("newer")
    assert (found.state, found.finish) == ("failed", "error")
    assert "another release" in found.reason
    assert (found.submission.owner, found.submission.conversation) == (queue.owner("ada"), "c")
    assert work.ran == []


@pytest.mark.parametrize("umask", [0, 0o022])
async def test_files_of_a_queue_that_a_worker_opens_first_are_for_their_owner(
    tmp_path: pathlib.Path, umask: int
) -> None:
    dispatcher = dispatcher_beside(tmp_path / "state" / "journal")
    before = os.umask(umask)
    try:
        async with dispatcher.working("w", hosts=["h"], slots=1, stretch=Work(1).stretch):
            modes = [file.stat().st_mode & 0o777 for file in (tmp_path / "state").iterdir()]
    finally:
        os.umask(before)
        dispatcher.close()
    assert modes == [0o600] * 3, "the file, its log and its index"
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


def test_files_are_for_their_owner(tmp_path: pathlib.Path) -> None:
    dispatcher = dispatcher_beside(tmp_path / "journal")
    Queue(dispatcher, "h").submit("s")
    dispatcher.close()
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}


def test_a_further_run_cannot_overtake_one_for_another_place(queue: Queue) -> None:
    assert queue.submit("first", host="")
    with pytest.raises(InputError, match=rf"for any worker; this one is for the host {queue.host}, and could overtake"):
        queue.submit("second")
    assert queue.listed() == ["first"]
    # Neither does it hold back other conversations, nor what is submitted for later.
    assert queue.submit("other", "other")
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    assert queue.dispatcher.submit(queue.one("second"), at=later)
    queue.dispatcher.cancel(queue.identifier("first"))
    assert queue.submit("third")
    # Any worker would take it, also that of the next test.
    queue.dispatcher.forget(queue.owner(""), "c")


async def test_a_further_run_shares_the_priority_of_those_before_it(queue: Queue) -> None:
    for name, priority in (("first", "low"), ("second", "low"), ("third", "normal")):
        assert queue.submit(name, priority=priority)
    work = Work(3)
    async with queue.working(work.stretch):
        await work.enough.wait()
    assert work.ran == ["first", "second", "third"]


def test_a_server_that_is_not_there_is_reported_in_sentences(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    address = f"postgresql://ripieno@/ripieno?host={tmp_path}"
    # It may come back.
    with contextlib.closing(dispatcher_beside(address)) as dispatcher, pytest.raises(Disconnected) as caught:
        dispatcher.find("one")
    text = str(caught.value)
    assert text.startswith("The queue of submissions cannot be read: ")
    assert re.search(r"\. [A-Z].*\?$", text), text
    assert "\n" not in text
    assert caplog.messages == [], "what the engine says of it"


async def test_a_machine_that_vanishes_is_noticed_by_all_connections(postgresql_server: str) -> None:
    address = f"{address_of_schema(postgresql_server)}&keepalives_idle=7"
    wanted = {"connect_timeout": "10", "keepalives_idle": "7", "tcp_user_timeout": "30000"}
    with contextlib.closing(dbos.DbosDispatcher(address)) as dispatcher:
        async with dispatcher.working("w", hosts=["h"], slots=1, stretch=Work(1).stretch):
            engine: Any = _get_dbos_instance()._sys_db.engine
            for connections in (engine, dispatcher._opened()._connections):
                with contextlib.closing(connections.raw_connection()) as connection:
                    assert connection.driver_connection is not None
                    found = connection.driver_connection.info.get_parameters()
                    assert {name: found.get(name) for name in wanted} == wanted


def test_a_queue_whose_connections_are_all_busy_may_be_asked_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_client, "_PATIENCE", 0)
    with contextlib.closing(dbos.DbosDispatcher(tmp_path / "queue")) as dispatcher, contextlib.ExitStack() as busy:
        connections = dispatcher._opened()._connections
        for _ in range(5):
            busy.enter_context(contextlib.closing(connections.raw_connection()))
        with pytest.raises(Disconnected, match="The queue of submissions cannot be read"):
            dispatcher.find("one")


def test_a_server_that_ends_its_connections_is_looked_at_again(postgresql_server: str) -> None:
    address = f"{address_of_schema(postgresql_server)}&application_name=ended"
    one = Submission(identifier="one", conversation="c", canisters=(), model="provider/model")
    with contextlib.closing(dispatcher_beside(address)) as dispatcher, psycopg.connect(postgresql_server) as server:
        for name in ("one", "two", "three"):
            assert dispatcher.submit(dataclasses.replace(one, identifier=name))
            dispatcher.find(name)
            ended = server.execute(
                "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE application_name = 'ended'"
            )
            assert ended.fetchall()
            # At once: a connection that was just used is not asked.
            assert dispatcher.find(name).state == "queued"
