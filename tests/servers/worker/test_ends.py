"""A worker that ends, and the ends of its runs, which the engine writes after them."""

import asyncio
import contextlib
import datetime
import os
import pathlib
import threading
import uuid
from collections.abc import Collection, Sequence
from typing import Any

import pytest
from dbos import _queue as engine
from dbos._sys_db import SystemDatabase

from ripieno.assembly.submissions import SubmittedRun
from ripieno.canisters.events import ConductEnded, ExecutionBegan
from ripieno.conducting.driver import Driver
from ripieno.exceptions import Superseded
from ripieno.servers.worker import worker as worker_module
from ripieno.servers.worker.restoration import Restored, Restorer
from ripieno.storage.databases import claims
from ripieno.storage.databases.contract import Disconnected
from ripieno.storage.dispatch import leases
from ripieno.storage.dispatch.contract import Dispatched, Ending, Submission
from ripieno.storage.dispatch.dbos import DbosDispatcher
from tests.support.postgresql import address_with_queue
from tests.support.workers import Site, model, submission

#: Seconds after which a test counts as hung.
HANG = 120


async def conducted(place: pathlib.Path | str, folder: pathlib.Path, **settings: Any) -> Submission:
    """A run that a worker with these settings has conducted, in the sight of a watcher, to its answer."""
    site = Site(place=place, folder=folder, host=f"host-{uuid.uuid4().hex[:8]}")
    one = submission("c", site.host)
    with site.dispatcher() as dispatcher, site.journal() as journal:
        async with asyncio.timeout(HANG), site.worker(**settings):
            dispatcher.submit(one)
            events = SubmittedRun(one, dispatcher, journal)
            ends = [event.finish async for event in events if isinstance(event, ConductEnded)]
            assert ends[-1] == "stop"
        assert dispatcher.find(one.identifier).finish == "stop"
    return one


async def test_a_worker_leaves_when_the_queue_has_the_ends_of_its_runs(
    place_with_queue: pathlib.Path | str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine writes an end only when the worker has looked for it, or takes its runs back."""
    looked, taken = threading.Event(), list[Collection[str]]()
    write, listed, take_back = SystemDatabase.update_workflow_outcome, DbosDispatcher.listed, DbosDispatcher.take_back

    def write_late(*arguments: Any, **more: Any) -> bool:
        assert looked.wait(HANG)
        return write(*arguments, **more)

    def look(*arguments: Any, **more: Any) -> Sequence[Dispatched]:
        looked.set()
        return listed(*arguments, **more)

    def note(*arguments: Any) -> Collection[str]:
        taken.append(take_back(*arguments))
        looked.set()
        return taken[-1]

    monkeypatch.setattr(SystemDatabase, "update_workflow_outcome", write_late)
    monkeypatch.setattr(DbosDispatcher, "listed", look)
    monkeypatch.setattr(DbosDispatcher, "take_back", note)
    site = Site(place=place_with_queue, folder=tmp_path, host=f"host-{uuid.uuid4().hex[:8]}")
    one = submission("c", site.host)
    with site.dispatcher() as dispatcher, site.journal() as journal:
        async with site.worker():
            dispatcher.submit(one)
            assert [event async for event in SubmittedRun(one, dispatcher, journal) if isinstance(event, ConductEnded)]
            assert not looked.is_set()
        assert dispatcher.find(one.identifier).state == "ended"
    assert not any(taken)


async def test_a_run_that_the_engine_has_taken_and_forgotten_is_queued_again(
    place_with_queue: pathlib.Path | str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where its database goes away between: the engine logs an error, and the run stays with its worker."""
    begin, failed = engine.execute_dequeued_workflow, list[str]()

    def fail_once(owner: Any, status: Any, *more: Any) -> Any:
        if not failed:
            failed.append(status["workflow_uuid"])
            raise ConnectionError("The server is away.")
        return begin(owner, status, *more)

    monkeypatch.setattr(engine, "execute_dequeued_workflow", fail_once)
    monkeypatch.setattr(leases, "RENEWAL", 0.1)
    monkeypatch.setattr(worker_module, "UNBEGUN", 0.1)
    reported = list[str]()
    one = await conducted(place_with_queue, tmp_path, report=reported.append)
    assert failed == [one.identifier]
    assert "! Runs that were taken and could not begin are queued again (submission of c)." in reported


async def test_a_run_that_waits_for_another_of_its_conversation_is_not_lost(
    place_with_queue: pathlib.Path | str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, looks, looked = DbosDispatcher.taken, list[Collection[str]](), asyncio.Event()
    loop = asyncio.get_running_loop()

    def note(dispatcher: DbosDispatcher, worker: str) -> Collection[str]:
        looks.append(taken(dispatcher, worker))
        if sum(len(one) == 2 for one in looks) == 4:
            loop.call_soon_threadsafe(looked.set)
        return looks[-1]

    monkeypatch.setattr(DbosDispatcher, "taken", note)
    monkeypatch.setattr(worker_module, "_BEAT", 0.05)
    monkeypatch.setattr(leases, "RENEWAL", 0.1)
    monkeypatch.setattr(worker_module, "UNBEGUN", 0.1)
    site = Site(place=place_with_queue, folder=tmp_path, host=f"host-{uuid.uuid4().hex[:8]}")
    os.mkfifo(tmp_path / "pipe")
    reported = list[str]()
    with site.dispatcher() as dispatcher:
        # What is for later may be for another place: each is in another queue of this worker.
        now = datetime.datetime.now(datetime.UTC)
        for name, host, at in (("later", "", now), ("first", site.host, None)):
            dispatcher.submit(submission("c", host, identifier=name, model="house/gate"), at=at)
        async with asyncio.timeout(HANG), site.worker(report=reported.append):
            await looked.wait()
            while any(one.state == "running" for one in await asyncio.to_thread(dispatcher.listed)):
                with contextlib.suppress(OSError):
                    os.close(os.open(tmp_path / "pipe", os.O_WRONLY | os.O_NONBLOCK))
        assert {one.finish for one in dispatcher.listed()} == {"stop"}
    assert reported == []


async def test_a_run_whose_journal_goes_away_before_it_begins_is_tried_again(
    place_with_queue: pathlib.Path | str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads the results that another worker has lost first, and the next attempt finds the server."""
    accept, failed = Driver._accept_losses, list[Driver]()

    async def fail_once(driver: Driver) -> None:
        if not failed:
            failed.append(driver)
            raise Disconnected("The journal cannot be read.")
        await accept(driver)

    monkeypatch.setattr(Driver, "_accept_losses", fail_once)
    await conducted(place_with_queue, tmp_path)
    assert len(failed) == 1


async def test_a_worker_that_has_a_run_again_which_another_one_took_goes_on_with_it(
    place_with_queue: pathlib.Path | str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one has died, for example. That the first stretch was cut off is no end of the run."""
    restore, superseded = Restorer.restore, list[str]()

    def lose_once(restorer: Restorer, one: Submission) -> Restored | Ending:
        if not superseded:
            superseded.append(one.identifier)
            raise Superseded("Another process has taken over the conversation c.")
        return restore(restorer, one)

    monkeypatch.setattr(Restorer, "restore", lose_once)
    one = await conducted(place_with_queue, tmp_path)
    assert superseded == [one.identifier]


async def test_a_run_whose_claim_is_taken_while_it_waits_has_no_end_here(
    postgresql_server: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a worker that was stopped for longer than its lease: it cuts its run off, which goes on elsewhere."""
    monkeypatch.setattr(claims, "RENEWAL", 0.1)
    host = f"host-{uuid.uuid4().hex[:8]}"
    site = Site(place=address_with_queue(postgresql_server), folder=tmp_path, host=host)
    one, models, ends = submission("c", host), iter(("house/hang", "house/text")), list[str]()
    with site.dispatcher() as dispatcher, site.journal() as journal:
        async with asyncio.timeout(HANG), site.worker(model_of=lambda _: model(next(models))):
            dispatcher.submit(one)
            async for event in SubmittedRun(one, dispatcher, journal):
                if isinstance(event, ExecutionBegan):
                    with journal.database.using("written") as connection:
                        connection.execute("UPDATE claims SET epoch = epoch + 1, until = 0")
                if isinstance(event, ConductEnded):
                    ends.append(event.finish)
        assert dispatcher.find(one.identifier).finish == "stop"
    assert ends == ["stop"]
