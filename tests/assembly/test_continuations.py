"""Runs that were to continue with answers, and ended before they began: the calls wait again, for another answer."""

import asyncio
import pathlib
from collections.abc import Collection, Sequence

import pytest

from ripieno.approvals import Answer, Approve, Deny
from ripieno.assembly.continuations import cancel_submission, reopen_lost
from ripieno.assembly.submission_states import find_submission
from ripieno.assembly.submissions import SubmittedRun
from ripieno.conducting.paused import Paused, PausedStore
from ripieno.storage.dispatch.contract import Dispatcher, Ending, Submission
from ripieno.storage.dispatch.dbos import DbosDispatcher
from ripieno.storage.journal import Journal
from tests.support.workers import Site, submission

#: Seconds after which a test counts as hung.
HANG = 60


async def asked(site: Site, dispatcher: Dispatcher, journal: Journal) -> SubmittedRun:
    """A run that a worker has conducted until its question. The worker has ended."""
    first = submission("c", site.host, model="house/ask")
    dispatcher.submit(first)
    run = SubmittedRun(first, dispatcher, journal)
    async with asyncio.timeout(HANG), site.worker(approved=False):
        assert (await run).finish == "open"
        # The row of the queue is written last.
        assert (await run.ended()).state == "waiting"
    return run


def answer(store: PausedStore, given: Answer) -> Paused:
    (paused,) = store.all()
    return store.answer("c", {one.invocation: given for one in paused.unanswered})


def following(paused: Paused) -> Submission:
    found = paused.next_submission
    assert found is not None
    return found


async def test_after_a_cancellation_before_it_begins_the_call_waits_again(
    place_with_queue: pathlib.Path | str, tmp_path: pathlib.Path
) -> None:
    site = Site(place=place_with_queue, folder=tmp_path, host="h")
    with site.dispatcher() as dispatcher, Journal(site.place) as journal:
        run = await asked(site, dispatcher, journal)
        store = PausedStore(journal.database)
        approved = answer(store, Approve())
        dispatcher.submit(following(approved))
        await SubmittedRun(following(approved), dispatcher, journal).cancel()
        (paused,) = store.all()
        assert (paused.answers, len(paused.unanswered)) == ({}, 1)
        (given,) = approved.answers.values()
        assert not store.grants.revoke(given.token), "the approval is no longer valid"
        assert find_submission(dispatcher, journal.database, run.identifier).state == "waiting"
        # The same answer, taken back, and the other one: each is another run.
        again = answer(store, Approve())
        store.revoke("c", list(again.answers))
        denied = answer(store, Deny("No."))
        assert len({following(one).identifier for one in (approved, again, denied)}) == 3
        dispatcher.submit(following(denied))
        continued = await run.following()
        assert continued is not None
        assert continued.identifier == following(denied).identifier
        async with asyncio.timeout(HANG), site.worker(approved=False):
            assert (await continued).finish == "stop"
        assert (site.words(), store.all()) == ([], ())
        assert find_submission(dispatcher, journal.database, run.identifier).state == "answered"
        assert cancel_submission(dispatcher, journal, continued.identifier) is None


async def test_after_a_failure_before_it_begins_the_call_waits_again(
    place_with_queue: pathlib.Path | str, tmp_path: pathlib.Path
) -> None:
    site = Site(place=place_with_queue, folder=tmp_path, host="h")
    with site.dispatcher() as dispatcher, Journal(site.place) as journal:
        await asked(site, dispatcher, journal)
        store = PausedStore(journal.database)
        approved = answer(store, Approve())
        assert reopen_lost(dispatcher, journal, approved) == approved, "it is not submitted"
        dispatcher.submit(following(approved))
        assert reopen_lost(dispatcher, journal, approved) == approved, "it waits for a worker"
        with store.claimed("c"), Journal(site.place) as other, pytest.raises(Exception, match="Another process"):
            PausedStore(other.database).reopen(approved)

        async def fail(one: Submission) -> Ending:
            return Ending(finish="error", reason="The model has no key.")

        async with asyncio.timeout(HANG), dispatcher.working("w", hosts=[site.host], slots=1, stretch=fail):
            await SubmittedRun(following(approved), dispatcher, journal).ended()
        reopened = reopen_lost(dispatcher, journal, approved)
        assert (reopened.answers, store.all()) == ({}, (reopened,))
        # Another program, which has seen the earlier answer, changes nothing.
        answered = answer(store, Deny("No."))
        assert reopen_lost(dispatcher, journal, approved) == answered


async def test_after_a_cancellation_of_what_a_worker_has_taken_the_call_waits_again(
    place_with_queue: pathlib.Path | str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is cancelled between the moment when the queue gives it to the worker and the worker's look."""
    site = Site(place=place_with_queue, folder=tmp_path, host="h")
    with site.dispatcher() as dispatcher, Journal(site.place) as journal:
        await asked(site, dispatcher, journal)
        store = PausedStore(journal.database)
        run = SubmittedRun(following(answer(store, Approve())), dispatcher, journal)
        look = DbosDispatcher.cancelled
        found: list[Paused | None] = []

        def cancel(one: DbosDispatcher, identifiers: Sequence[str]) -> Collection[str]:
            if run.identifier in identifiers and not found:
                found.append(cancel_submission(dispatcher, journal, run.identifier))
            return look(one, identifiers)

        monkeypatch.setattr(DbosDispatcher, "cancelled", cancel)
        async with asyncio.timeout(HANG), site.worker(approved=False):
            dispatcher.submit(run.submission)
            assert (await run.ended()).state == "cancelled"
        assert found == [None], "it has not ended then"
        (paused,) = store.all()
        assert (paused.answers, len(paused.unanswered)) == ({}, 1)
        assert site.words() == []
