"""Submissions with an identifier that is known, with a time, and with tools: what a program gets for them."""

import asyncio
import concurrent.futures
import contextlib
import datetime
import pathlib
import re
import threading
import zoneinfo
from collections.abc import Generator

import pytest

from ripieno.assembly import submissions
from ripieno.assembly.configuration import load_configuration
from ripieno.assembly.submissions import dispatcher_beside, make_submission, submit
from ripieno.canisters import Conversation
from ripieno.exceptions import InputError, NameAbsence
from ripieno.storage.dispatch.contract import Dispatcher
from ripieno.storage.dispatch.events import EventLog, topic_of
from ripieno.storage.journal import NAME, Journal
from tests.support.workers import configuration, submission

#: Seconds after which a test counts as hung.
HANG = 60


@pytest.fixture
def journal(tmp_path: pathlib.Path) -> Generator[Journal, None, None]:
    with Journal(tmp_path / NAME) as journal:
        yield journal


@pytest.fixture
def dispatcher(tmp_path: pathlib.Path) -> Generator[Dispatcher, None, None]:
    dispatcher = dispatcher_beside(tmp_path / NAME)
    yield dispatcher
    dispatcher.close()


def test_a_known_submission_keeps_its_conversation(dispatcher: Dispatcher, journal: Journal) -> None:
    first = submit(submission("c", "h", identifier="i"), dispatcher, journal)
    again = submit(submission("another", "h", "Another text.", identifier="i"), dispatcher, journal)
    assert (first.known, again.known) == (False, True)
    assert again.submission == first.submission == submission("c", "h", identifier="i")


def test_of_programs_that_submit_at_the_same_time_all_have_one_conversation(
    dispatcher: Dispatcher, journal: Journal
) -> None:
    dispatcher.listed()  # Its tables are there.

    def one(number: int) -> str:
        return submit(submission(f"c{number}", "h", identifier="i"), dispatcher, journal).submission.conversation

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        (conversation,) = set(pool.map(one, range(8)))
    assert dispatcher.find("i").submission.conversation == conversation


def test_the_identifier_of_another_owner_tells_nothing(dispatcher: Dispatcher, journal: Journal) -> None:
    submit(submission("c", "h", identifier="i", owner="ada"), dispatcher, journal)
    with pytest.raises(InputError, match="The identifier 'i' is taken"):
        submit(submission("d", "h", identifier="i", owner="bob"), dispatcher, journal)


async def test_a_watch_ends_although_something_else_of_its_conversation_goes_on(
    place_with_queue: pathlib.Path | str,
) -> None:
    with Journal(place_with_queue) as journal, contextlib.closing(dispatcher_beside(place_with_queue)) as dispatcher:
        run = submit(submission("c", "h"), dispatcher, journal)

        def wake() -> None:
            with journal.database.writing("written") as connection:
                journal.database.announce(connection, topic_of("", "c"))

        async def keep_waking() -> None:
            while True:
                await asyncio.to_thread(wake)

        waking = asyncio.create_task(keep_waking())
        try:
            async with asyncio.timeout(HANG), contextlib.aclosing(run.logged()) as logged:
                assert await anext(logged) == ()
                await run.cancel()
                assert not any([batch async for batch in logged])
        finally:
            waking.cancel()
            await asyncio.wait((waking,))


@pytest.mark.parametrize("watched", [True, False])
async def test_a_watch_that_is_cancelled_in_a_look_ends(
    dispatcher: Dispatcher, journal: Journal, monkeypatch: pytest.MonkeyPatch, *, watched: bool
) -> None:
    run, looking, go_on = submit(submission("c", "h"), dispatcher, journal), asyncio.Event(), threading.Event()
    loop, after, find = asyncio.get_running_loop(), EventLog.after, submissions.find_submission

    def wait() -> None:
        loop.call_soon_threadsafe(looking.set)
        assert go_on.wait(HANG)

    monkeypatch.setattr(EventLog, "after", lambda *given: (wait(), after(*given))[1])
    monkeypatch.setattr(submissions, "find_submission", lambda *given: (watched or wait(), find(*given))[1])

    async def watch() -> None:
        async for _ in run.logged():
            pass

    watching = asyncio.create_task(watch() if watched else run.ended())
    await looking.wait()
    watching.cancel()
    go_on.set()
    assert await asyncio.wait((watching,), timeout=HANG) == ({watching}, set())
    assert watching.cancelled()


async def test_a_run_is_watched_in_a_task_that_has_caught_its_cancellation(
    dispatcher: Dispatcher, journal: Journal
) -> None:
    run = submit(submission("c", "h"), dispatcher, journal)
    await run.cancel()

    async def watch() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return (await run.state()).state

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    watching.cancel()
    assert await watching == "cancelled"


def test_a_time_that_has_passed_is_refused_in_its_zone(dispatcher: Dispatcher, journal: Journal) -> None:
    for zone in ("UTC", "Asia/Kolkata"):
        now = datetime.datetime.now(zoneinfo.ZoneInfo(zone))
        with pytest.raises(InputError) as refused:
            submit(submission("c", "h"), dispatcher, journal, at=now - datetime.timedelta(days=366))
        _, then, said = str(refused.value).split(" has passed")[0].partition("The time ")
        assert (then, said) == ("The time ", (now - datetime.timedelta(days=366)).isoformat(" ", "minutes"))
        assert now.isoformat(" ", "minutes")[-6:] in str(refused.value).partition(" it is ")[2]
    assert dispatcher.listed() == []
    # What a program means by now.
    assert not submit(submission("c", "h"), dispatcher, journal, at=now).known


def test_a_submission_that_is_known_is_no_error_after_its_time(dispatcher: Dispatcher, journal: Journal) -> None:
    now = datetime.datetime.now(datetime.UTC)
    submit(submission("c", "h"), dispatcher, journal, at=now + datetime.timedelta(days=1))
    again = submit(submission("c", "h"), dispatcher, journal, at=now - datetime.timedelta(days=1))
    assert again.known


@pytest.mark.parametrize(
    ("tools", "why"),
    [
        (["mine.apend"], "There is no tool named 'mine.apend'. Did you mean 'mine.append'"),
        (["mine.append", "io.reed_*"], "There is no tool named 'io.reed_*'."),
        # Those of a connection are known to its worker only, and an ensemble may be.
        (["mine.app*", "io", "there.any", "elsewhere.any"], ""),
    ],
)
def test_a_tool_that_a_known_ensemble_lacks_is_refused_at_once(
    journal: Journal, tmp_path: pathlib.Path, tools: list[str], why: str
) -> None:
    settings = configuration(tmp_path)
    settings["ensembles"].append({"ensemble": {"name": "there"}, "connection": {"origin": "mcp", "command": ["there"]}})
    loaded, said = load_configuration(settings, workspace=tmp_path, user=False), Conversation.of("Hello?")
    with pytest.raises(NameAbsence, match=re.escape(why)) if why else contextlib.nullcontext():
        make_submission(loaded, journal, said, model="score:x", tools=tuple(tools))
