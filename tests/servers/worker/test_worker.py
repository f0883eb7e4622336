"""Workers: runs survive the worker that began them, and end or are given back with it."""

import asyncio
import collections
import multiprocessing
import os
import pathlib
import signal
import time
import uuid
from collections.abc import Callable, Generator, Sequence

import pytest

from ripieno.approvals import Approve
from ripieno.assembly.submission_states import find_submission
from ripieno.assembly.submission_workers import Conductor
from ripieno.assembly.submissions import SubmittedRun, submit
from ripieno.canisters import ResultCanister, UserCanister
from ripieno.canisters.events import ConductEnded, Event, ResultReady, TurnEnded
from ripieno.conducting.paused import PausedStore
from ripieno.models import Model
from ripieno.servers.worker import worker as worker_module
from ripieno.storage.databases.claims import LEASE
from ripieno.storage.dispatch import leases
from ripieno.storage.dispatch.contract import Dispatched, Dispatcher
from ripieno.storage.dispatch.events import EventLog
from ripieno.storage.dispatch.leases import WorkerLeases
from ripieno.testing import call, model_of, turn
from tests.counts import count
from tests.support import workers
from tests.support.postgresql import address_with_queue
from tests.support.workers import IN_A_TOOL, Site, WorkerProcess, check, submission

#: Seconds after which a test counts as hung.
HANG = 120


@pytest.fixture
def site(place_with_queue: pathlib.Path | str, tmp_path: pathlib.Path) -> Site:
    folder = tmp_path / "folder"
    folder.mkdir()
    return Site(place=place_with_queue, folder=folder, host=f"host-{uuid.uuid4().hex[:8]}")


@pytest.fixture
def postgresql_site(postgresql_server: str, tmp_path: pathlib.Path) -> Site:
    folder = tmp_path / "folder"
    folder.mkdir()
    return Site(place=address_with_queue(postgresql_server), folder=folder, host=f"host-{uuid.uuid4().hex[:8]}")


@pytest.fixture
def start(site: Site) -> Generator[Callable[..., WorkerProcess], None, None]:
    yield from _starting(site)


def _starting(site: Site) -> Generator[Callable[..., WorkerProcess], None, None]:
    begun: list[WorkerProcess] = []

    def start(**settings: object) -> WorkerProcess:
        begun.append(WorkerProcess(site, **settings))  # type: ignore[arg-type]
        begun[-1].wait_until_ready()
        return begun[-1]

    yield start
    for one in begun:
        one.signal(signal.SIGKILL)
        one.process.join(HANG)


def ended(dispatcher: Dispatcher, *identifiers: str) -> list[Dispatched]:
    """The submissions, when they have ended; the time limit begins anew with each that has."""
    over, left, until = dict[str, Dispatched](), collections.deque(identifiers), time.monotonic() + HANG
    while left:
        found = dispatcher.find(left[0])
        if found.over:
            over[left.popleft()] = found
            until = time.monotonic() + HANG
            continue
        assert time.monotonic() < until, (left[0], found.state, len(left))
        left.rotate(-1)
        time.sleep(0.02)  # Between looks into a database.
    return [over[one] for one in identifiers]


def test_a_worker_conducts_what_was_submitted(site: Site, start: Callable[..., WorkerProcess]) -> None:
    worker = start()
    with site.dispatcher() as dispatcher, site.journal() as journal:
        dispatcher.submit(submission("c", site.host))
        (found,) = ended(dispatcher, "submission of c")
        assert (found.state, found.finish) == ("ended", "stop")
        assert check(site, journal, "c") == 0
        assert [one.hosts for one in WorkerLeases(journal.database).alive()] == [(site.host,)]
        assert worker.end() == 0
        assert WorkerLeases(journal.database).alive() == []


def test_each_worker_has_slots_of_its_own(site: Site, start: Callable[..., WorkerProcess]) -> None:
    for slots in (3, 1):
        start(slots=slots)
    names = [f"c{number}" for number in range(4)]
    with site.dispatcher() as dispatcher:
        for name in names:
            dispatcher.submit(submission(name, site.host, model="house/hang"))
        until = time.monotonic() + HANG
        while len(running := dispatcher.listed(states=["running"])) < len(names):
            assert time.monotonic() < until, [one.worker for one in running]
            time.sleep(0.02)  # Between looks into a database.
    assert sorted(collections.Counter(one.worker for one in running).values()) == [1, 3]


@pytest.mark.parametrize("buried", [False, True])
def test_another_worker_takes_over_from_a_killed_one(
    site: Site, start: Callable[..., WorkerProcess], *, buried: bool
) -> None:
    doomed = start(moment=IN_A_TOOL)
    with site.dispatcher() as dispatcher, site.journal() as journal:
        dispatcher.submit(submission("c", site.host))
        doomed.process.join(HANG)
        if buried:
            # It was so slow that it was taken for dead before it took the run.
            (found,) = dispatcher.workers()
            WorkerLeases(journal.database).forget(found)
        died = time.monotonic()
        start()
        ended(dispatcher, "submission of c")
        # The lease of these tests, a look, and the run, on a machine that may be busy.
        assert time.monotonic() - died < HANG
        assert check(site, journal, "c") == 1
        assert journal.verify() is None
    words = site.words()
    assert len(words) == len(set(words)) == 8


async def test_a_run_that_is_deleted_before_its_worker_has_its_conversation_is_not_conducted(site: Site) -> None:
    one = submission("c", site.host)
    with site.dispatcher() as dispatcher, site.journal() as journal:
        async with asyncio.timeout(HANG), site.worker() as worker:
            with PausedStore(journal.database).claimed("c"):
                dispatcher.submit(one)
                while not worker.running:  # noqa: ASYNC110
                    await asyncio.sleep(0)
                dispatcher.forget("", "c")
            while worker.running:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert (journal.length(), dispatcher.listed(), EventLog(journal.database).after(one, 0)) == (0, [], [])
    assert site.words() == []


async def test_a_call_of_unknown_outcome_has_an_event(site: Site, start: Callable[..., WorkerProcess]) -> None:
    os.mkfifo(site.folder / "pipe")
    doomed = start()
    with site.dispatcher() as dispatcher, site.journal() as journal:
        run = submit(submission("c", site.host, model="house/gate"), dispatcher, journal)
        seen: list[Event] = []
        async with asyncio.timeout(HANG):
            async for event in run:
                seen.append(event)
                if isinstance(event, TurnEnded) and doomed.process.is_alive():
                    while next(iter(journal.lines("c", stage="turned")), None) is None:  # noqa: ASYNC110  in a database
                        await asyncio.sleep(0.01)
                    doomed.signal(signal.SIGKILL)
                    doomed.process.join(HANG)
                    start()
        kinds = [type(one).__name__ for one in seen]
        place = kinds.index("ResultReady")
        assert "ExecutionBegan" in kinds[:place]
        assert kinds[place - 1 : place + 2] == ["TurnEnded", "ResultReady", "TurnBegan"]
        ready = seen[place]
        assert isinstance(ready, ResultReady)
        assert (ready.tool, ready.invocation.name) == ("mine.gate", "gate")
        assert ready.result.error is not None
        assert ready.result.error.category == "outcome_unknown"
        assert kinds.count("ResultReady") == 1
        conversation = await run
        assert ready.result in conversation.canisters
        assert ready.invocation in conversation.canisters


def test_a_stopped_worker_that_goes_on_changes_nothing(postgresql_site: Site, request: pytest.FixtureRequest) -> None:
    site = postgresql_site
    for start in _starting(site):
        stopped = start()
        with site.dispatcher() as dispatcher, site.journal() as journal:
            dispatcher.submit(submission("c", site.host))
            while not site.words():
                time.sleep(0)
            stopped.signal(signal.SIGSTOP)
            start()
            ended(dispatcher, "submission of c")
            lines = list(journal.lines("c"))
            stopped.signal(signal.SIGCONT)
            assert stopped.end() == 0
            assert list(journal.lines("c")) == lines
            assert check(site, journal, "c") <= 2
        words = site.words()
        assert len(words) == len(set(words))


async def test_cancelled_from_elsewhere_each_call_has_its_result(site: Site) -> None:
    waiting = model_of([turn("I wait.", calls=[call("hang", word="x"), call("look", word="y")])])
    async with asyncio.timeout(HANG), site.worker(model_of=lambda _: waiting) as worker:
        with site.dispatcher() as dispatcher, site.journal() as journal:
            one = submission("c", site.host)
            run = SubmittedRun(one, dispatcher, journal)
            await asyncio.to_thread(dispatcher.submit, one)
            async for _, event in run.numbered():
                if type(event).__name__ == "ExecutionBegan":
                    assert await run.conductor() == Conductor(name=worker.name, alive=True, awaited=True)
                    await run.cancel()
                    break
            conversation = await run
            # What was recorded before the cancellation is all there is.
            restored = journal.restore("c")
            assert (await run.state()).state == "cancelled"
            assert await run.conductor() is None
    assert restored.ended
    assert not restored.conversation.open
    assert not conversation.open


async def test_watchers_in_this_and_other_programs_see_the_same(site: Site) -> None:
    async with asyncio.timeout(HANG), site.worker():
        with site.dispatcher() as dispatcher, site.journal() as journal:
            one = submission("c", site.host)
            run = SubmittedRun(one, dispatcher, journal)
            await asyncio.to_thread(dispatcher.submit, one)
            live = [pair async for pair in run.numbered()]
            # The first one says where the conversation goes on, and is not the run's.
            assert [number for number, _ in live] == list(range(2, len(live) + 2))
            assert isinstance(live[-1][1], ConductEnded)
            for cut in range(0, len(live), 7):
                assert [pair async for pair in run.numbered(cut + 1)] == live[cut:]
            assert (await run).text == "All is written."


async def test_a_worker_that_ends_gives_its_runs_to_the_next(site: Site) -> None:
    begun, going = asyncio.Event(), asyncio.Event()

    class Slow:
        def __call__(self, name: str) -> object:
            begun.set()
            return workers.model(name)

    with site.dispatcher() as dispatcher, site.journal() as journal:
        async with asyncio.timeout(HANG):
            async with site.worker(grace=0, model_of=Slow()):
                await asyncio.to_thread(dispatcher.submit, submission("c", site.host))
                await begun.wait()
            going.set()
            found = await asyncio.to_thread(dispatcher.find, "submission of c")
            assert found.state in ("queued", "ended")
            async with site.worker():
                await asyncio.to_thread(ended, dispatcher, "submission of c")
        assert check(site, journal, "c") == 0
        said = [one for one in journal.restore("c").conversation.canisters if isinstance(one, UserCanister)]
        assert len(said) == 1


async def test_an_answered_run_that_is_given_back_is_queued(site: Site) -> None:
    script = [
        turn("I write.", calls=[call("append", word="w")]),
        turn("I wait.", calls=[call("hang", word="x")]),
        turn("Done."),
    ]

    def model(_: str) -> Model:
        return model_of(script)

    with site.dispatcher() as dispatcher, site.journal() as journal:
        store = PausedStore(journal.database)
        async with asyncio.timeout(HANG):
            async with site.worker(approved=False, grace=0, model_of=model):
                await asyncio.to_thread(dispatcher.submit, submission("c", site.host))
                await asyncio.to_thread(ended, dispatcher, "submission of c")
                (paused,) = store.all()
                following = store.answer("c", {one.invocation: Approve() for one in paused.unanswered}).next_submission
                assert following is not None
                await asyncio.to_thread(dispatcher.submit, following)
                while not any(one.tool == "mine.hang" for one in journal.lines("c", stage="started")):  # noqa: ASYNC110  in a database
                    await asyncio.sleep(0.02)
            found = await asyncio.to_thread(find_submission, dispatcher, journal.database, following.identifier)
            assert (found.state, found.over) == ("queued", False)
            async with site.worker(approved=False, model_of=model):
                await asyncio.to_thread(ended, dispatcher, following.identifier)
        assert journal.restore("c").conversation.text == "Done."
        assert site.words() == ["c:w"]
        assert not store.all()


def test_workers_never_conduct_one_conversation_at_once_and_keep_its_order(
    site: Site, start: Callable[..., WorkerProcess]
) -> None:
    many = count(1000, 100)
    for _ in range(2):
        start()
    with site.dispatcher() as dispatcher, site.journal() as journal:
        # Their identifiers have the opposite order, and many are of one second.
        names = [f"s{number:04}" for number in reversed(range(many))]
        for name in names:
            dispatcher.submit(submission("c", site.host, name, identifier=name, model="house/ask"))
        ended(dispatcher, *names)
        conversation = journal.restore("c").conversation
        said = [one.content[0].text for one in conversation.canisters if isinstance(one, UserCanister)]  # type: ignore[union-attr]
        assert said == names
        assert journal.verify() is None
        began = [line.stage for line in journal.lines("c") if line.stage in ("began", "ended")]
        assert began == ["began", "ended"] * many


def _submit(place: pathlib.Path | str, folder: pathlib.Path, host: str, times: int) -> int:
    with Site(place=place, folder=folder, host=host).dispatcher() as dispatcher:
        return sum(dispatcher.submit(submission("c", host)) for _ in range(times))


def test_of_submissions_with_one_identifier_one_runs(site: Site, start: Callable[..., WorkerProcess]) -> None:
    with site.dispatcher() as dispatcher:
        dispatcher.listed()  # Its tables are there.
    context = multiprocessing.get_context("forkserver")
    with context.Pool(8) as pool:
        arguments = [(site.place, site.folder, site.host, count(100, 8) // 8 + 1)] * 8
        pool.starmap(_submit, arguments)
    start()
    with site.dispatcher() as dispatcher, site.journal() as journal:
        ended(dispatcher, "submission of c")
        assert len(dispatcher.listed()) == 1
        assert check(site, journal, "c") == 0
    assert len(site.words()) == len(set(site.words()))


def test_clocks_that_differ_by_an_hour_end_no_lease(postgresql_site: Site) -> None:
    site = postgresql_site
    for start in _starting(site):
        ahead, behind = start(clock=3600.0), start(clock=-3600.0)
        with site.dispatcher() as dispatcher, site.journal() as journal:
            names = [f"c{number}" for number in range(4)]
            for name in names:
                dispatcher.submit(submission(name, site.host))
            ended(dispatcher, *(f"submission of {name}" for name in names))
            assert sum(check(site, journal, name) for name in names) == 0
            assert len(WorkerLeases(journal.database).alive()) == 2
        assert (ahead.end(), behind.end()) == (0, 0)


async def test_waiting_costs_nothing_and_an_answer_goes_on(site: Site) -> None:
    """1,000 conversations that wait are no workflows, and hold no memory."""
    many = count(1000, 200)
    asks = [turn("I write.", calls=[call("append", word="w")]), turn("Done.")]
    with site.dispatcher() as dispatcher, site.journal() as journal:
        store = PausedStore(journal.database)
        names = [f"c{number}" for number in range(many)]
        for name in names:
            dispatcher.submit(submission(name, site.host))
        async with asyncio.timeout(HANG * 5), site.worker(approved=False, slots=8, model_of=lambda _: model_of(asks)):
            while len(store.all()) < many:  # noqa: ASYNC110  in a database
                await asyncio.sleep(0.05)
            await asyncio.to_thread(ended, dispatcher, *(f"submission of {name}" for name in names))
            assert await asyncio.to_thread(dispatcher.listed, states=["queued", "running", "scheduled"]) == []
            paused = store.all()[0]
            waiting = {one.invocation: Approve() for one in paused.unanswered}
            changed = await asyncio.to_thread(lambda: store.answer(paused.identifier, waiting))
            following = changed.next_submission
            assert following is not None
            assert await asyncio.to_thread(dispatcher.submit, following)
            assert not await asyncio.to_thread(dispatcher.submit, following)
            (found,) = await asyncio.to_thread(ended, dispatcher, following.identifier)
            assert found.finish == "stop"
        results = [
            one for one in journal.restore(paused.identifier).conversation.canisters if isinstance(one, ResultCanister)
        ]
        assert [one.error for one in results] == [None]


async def test_a_worker_looks_for_dead_ones_only_when_a_lease_may_have_ended(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the renewals of its own lease, that is all that one without runs asks the journal."""
    used: list[str] = []

    class Counted(WorkerLeases):
        def renew(self, name: str, hosts: Sequence[str]) -> None:
            used.append("renew")
            super().renew(name, hosts)

        def left(self) -> float:
            used.append("look")
            return super().left()

    monkeypatch.setattr(worker_module, "_BEAT", 0.01)
    monkeypatch.setattr(leases, "RENEWAL", 0.3)
    monkeypatch.setattr(leases, "WorkerLeases", Counted)
    async with asyncio.timeout(HANG), site.worker():
        while used.count("renew") < 6:  # noqa: ASYNC110  of the worker
            await asyncio.sleep(0.01)
    # There are many beats between two renewals.
    assert 0 < used.count("look") <= 2 * used.count("renew")


def test_leases_are_what_the_help_promises() -> None:
    assert LEASE + 2 == 17
