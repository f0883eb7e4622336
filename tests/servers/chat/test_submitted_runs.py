"""Chats whose runs workers conduct: any server shows them, and no killed server and no killed worker ends them."""

import asyncio
import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from typing import Any

import httpx2
import pytest

from ripieno.assembly.submissions import SubmittedRun
from ripieno.canisters import Conversation, ResultCanister, TextualContent, UserCanister
from ripieno.canisters.events import ConductEnded, EventBase, ResultReady
from ripieno.canisters.serialization import register
from ripieno.ensembles import Definition
from ripieno.exceptions import Conflict, InputError, NameAbsence
from ripieno.schemas import Schema
from ripieno.servers.chat import submitted_runs
from ripieno.servers.chat.chat import Chat
from ripieno.servers.chat.events import Said
from ripieno.servers.chat.followed_run import FollowedRun
from ripieno.servers.chat.held import HeldConversation
from ripieno.servers.chat.messages import ChatLimits
from ripieno.servers.chat.ring import Entry, EventsLost
from ripieno.servers.http.limits import Refused
from ripieno.storage.databases.contract import Disconnected
from ripieno.storage.dispatch.contract import Dispatched, Submission
from ripieno.storage.dispatch.dbos import DbosDispatcher
from ripieno.storage.dispatch.events import EventLog, StretchBegan
from ripieno.storage.journal import NAME
from ripieno.storage.places import Places
from ripieno.storage.records import Record
from tests.support.chat_servers import ChatProcess, assembly_of_server, chat_server
from tests.support.chats import Reader, chatting
from tests.support.interruptions import way_to
from tests.support.postgresql import address_with_queue
from tests.support.scripted_models import says, scripted
from tests.support.workers import IN_A_TOOL, Site, WorkerProcess, check, submission

#: Seconds after which a test counts as hung.
HANG = 120
HELLO = UserCanister.of("Hello.")
Start = Callable[..., WorkerProcess]


@pytest.fixture(params=["sqlite", "postgresql"])
def site(request: pytest.FixtureRequest, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "folder"
    folder.mkdir()
    place: pathlib.Path | str = Places.of_user().state / NAME
    if request.param == "postgresql":
        place = address_with_queue(request.getfixturevalue("postgresql_server"))
        monkeypatch.setenv("JOURNAL_URL", place)
    return Site(place=place, folder=folder, host=f"host-{uuid.uuid4().hex[:8]}")


@pytest.fixture
def start(site: Site) -> Generator[Start, None, None]:
    begun: list[WorkerProcess] = []

    def start(**settings: Any) -> WorkerProcess:
        begun.append(WorkerProcess(site, **settings))
        begun[-1].wait_until_ready()
        return begun[-1]

    yield start
    for one in begun:
        one.signal(signal.SIGKILL)
        one.process.join(HANG)


@pytest.fixture
def serving(site: Site) -> Generator[Callable[[], ChatProcess], None, None]:
    begun: list[ChatProcess] = []

    def start() -> ChatProcess:
        begun.append(ChatProcess(site))
        return begun[-1]

    yield start
    for one in begun:
        one.kill()


async def following(chat: Chat, identifier: str, owner: str = "ada") -> Reader:
    return Reader(chat, owner, identifier, (await chat.snapshot(owner, identifier))["position"])


async def shown(chat: Chat, identifier: str, owner: str = "ada") -> dict[str, Any]:
    """The snapshot, but for its position, which is of this server, and the model, which workers give another name."""
    found = await chat.snapshot(owner, identifier)
    return {name: one for name, one in found.items() if name not in ("position", "model")}


def whole(reader: Reader) -> list[str]:
    """The kinds of the events, but for parts, which are joined as they come."""
    return [one for one in reader.kinds if not one.endswith("Delta")]


async def at_the_end(chat: Chat, identifier: str, reader: Reader | None = None) -> dict[str, Any]:
    """What is shown when no run is under way. A reader that needs another snapshot gets it, as a page does."""
    while True:
        reader = reader or await following(chat, identifier)
        if not await chat.running("ada", identifier):
            return await shown(chat, identifier)
        try:
            await reader.until("ConductEnded")
        except EventsLost:
            reader = None


async def test_every_server_shows_the_run_while_it_goes_on(site: Site, start: Start) -> None:
    start()
    limits = ChatLimits(runs=1)
    async with (
        asyncio.timeout(HANG),
        chat_server(site, limits=limits) as one,
        chat_server(site, limits=limits) as other,
    ):
        identifier = await one.create("ada")
        readers = [await following(chat, identifier) for chat in (one, other)]
        await one.say("ada", identifier, HELLO, model="house/text")
        for reader in readers:
            await reader.until("ConductEnded")
            assert whole(reader) == ["Said", "TurnBegan", "ContentSealed", "TurnEnded", "ConductEnded"]
        seen = await shown(one, identifier)
        assert seen == await shown(other, identifier)
        assert [part["type"] for part in seen["messages"]] == ["user", "assistant"]
        assert (seen["state"], seen["finish"]) == ("idle", "stop")
        # The other server continues it.
        await other.say("ada", identifier, HELLO, model="house/text")
        for reader in readers:
            await reader.until("ConductEnded")
        assert await shown(one, identifier) == await shown(other, identifier)
        with pytest.raises(NameAbsence):
            await other.snapshot("bob", identifier)
    async with asyncio.timeout(HANG), chat_server(site) as later:
        assert len((await shown(later, identifier))["messages"]) == 4
        assert later.journal.verify() is None


async def test_a_question_is_answered_at_another_server(site: Site, start: Start) -> None:
    start(approved=False)
    async with asyncio.timeout(HANG), chat_server(site) as one, chat_server(site) as other:
        identifier = await one.create("ada")
        readers = [await following(chat, identifier) for chat in (one, other)]
        await one.say("ada", identifier, HELLO, model="house/two")
        for reader in readers:
            asked = (await reader.until("QuestionsAsked")).questions
            assert (await reader.until("ConductEnded")).finish == "open"
        first, second = asked
        assert first["choices"] == ("approve", "always", "edit", "deny")
        assert (await other.snapshot("ada", identifier))["state"] == "waiting"
        approve = {"answer": "approve", "digest": first["digest"]}
        assert await other.answer("ada", identifier, first["invocation"], approve) == 1
        assert (await readers[0].until("QuestionAnswered")).answer == "approve"
        assert [part["invocation"] for part in (await shown(one, identifier))["questions"]] == [second["invocation"]]
        with pytest.raises(Conflict):
            await one.answer("ada", identifier, first["invocation"], approve)
        deny = {"answer": "deny", "digest": second["digest"], "reason": "Not this one."}
        assert await one.answer("ada", identifier, second["invocation"], deny) == 0
        for reader in readers:
            assert (await reader.until("ConductEnded")).finish == "stop"
        assert await shown(one, identifier) == await shown(other, identifier)
    assert site.words("note") == [f"{identifier}:v"]


async def test_an_answer_at_another_server_is_seen_after_the_events_before_it_were_deleted(
    site: Site, start: Start
) -> None:
    start(approved=False)
    async with asyncio.timeout(HANG), chat_server(site) as one, chat_server(site) as other:
        identifier = await one.create("ada")
        reader = await following(one, identifier)
        await one.say("ada", identifier, HELLO, model="house/two")
        first, _ = (await reader.until("QuestionsAsked")).questions
        await reader.until("ConductEnded")
        with one.journal.database.using("written") as connection:
            connection.execute("UPDATE events SET at = at - 1000")
        EventLog(one.journal.database).clean()
        answer = {"answer": "approve", "digest": first["digest"]}
        assert await other.answer("ada", identifier, first["invocation"], answer) == 1
        assert (await reader.until("QuestionAnswered")).answer == "approve"


async def test_what_is_allowed_always_counts_at_any_worker_and_is_taken_back_at_any_server(
    site: Site, start: Start
) -> None:
    worker = start(approved=False)
    async with asyncio.timeout(HANG), chat_server(site) as one, chat_server(site) as other:
        identifier = await one.create("ada")
        reader = await following(one, identifier)

        async def say() -> str | None:
            await one.say("ada", identifier, HELLO, model="house/two")
            return (await reader.until("ConductEnded")).finish

        assert await say() == "open"
        first, _ = (await shown(other, identifier))["questions"]
        assert "for seven days or until you take it back" in first["always"][0]["terms"]
        given = {"answer": "approve", "always": True, "digest": first["digest"]}
        # It also answers the other question.
        assert await other.answer("ada", identifier, first["invocation"], given) == 0
        assert (await reader.until("ConductEnded")).finish == "stop"
        worker.end()
        start(approved=False)
        assert await say() == "stop"
        # The two calls of an answer run at once.
        assert sorted(site.words("note")) == [f"{identifier}:{word}" for word in ("v", "v", "w", "w")]
        ((allowance,),) = (await other.allowances("ada")).values()
        assert str(allowance) == "mine.note with any arguments"
        assert await other.allowances("bob") == {}
        with pytest.raises(NameAbsence):
            await one.take_back("bob", identifier, allowance.identifier)
        await one.take_back("ada", identifier, allowance.identifier)
        assert await other.allowances("ada") == {}
        assert await say() == "open"
        with pytest.raises(NameAbsence):
            await other.take_back("ada", identifier, allowance.identifier)


async def test_an_edited_call_is_shown_and_then_runs(site: Site, start: Start) -> None:
    start(approved=False)
    async with asyncio.timeout(HANG), chat_server(site) as chat:
        identifier = await chat.create("ada")
        reader = await following(chat, identifier)
        await chat.say("ada", identifier, HELLO, model="house/ask")
        (asked,) = (await reader.until("QuestionsAsked")).questions
        await reader.until("ConductEnded")
        edited = {"arguments": {"word": "edited"}, "digest": asked["digest"]}
        question = await chat.revise("ada", identifier, asked["invocation"], edited)
        answer = {**edited, "answer": "edit", "shown": question["digest"]}
        assert await chat.answer("ada", identifier, asked["invocation"], answer) == 0
        assert (await reader.until("ConductEnded")).finish == "stop"
    assert site.words() == [f"{identifier}:edited"]


async def test_a_message_instead_of_an_answer_is_the_reason(site: Site, start: Start) -> None:
    start(approved=False)
    async with asyncio.timeout(HANG), chat_server(site) as one, chat_server(site) as other:
        identifier = await one.create("ada")
        readers = [await following(chat, identifier) for chat in (one, other)]
        await one.say("ada", identifier, HELLO, model="house/ask")
        for reader in readers:
            await reader.until("ConductEnded")
        await other.say("ada", identifier, UserCanister.of("Rather tomorrow."), model="house/text")
        for reader in readers:
            await reader.until("ConductEnded")
        seen = await shown(one, identifier)
        assert seen == await shown(other, identifier)
        (result,) = (part for part in seen["messages"] if part["type"] == "result")
        assert result["error"]["suggestion"] == "Rather tomorrow."
    assert site.words() == []


async def test_a_run_is_stopped_at_another_server(site: Site, start: Start) -> None:
    start()
    async with asyncio.timeout(HANG), chat_server(site) as one, chat_server(site) as other:
        identifier = await one.create("ada")
        reader = await following(one, identifier)
        await one.say("ada", identifier, HELLO, model="house/hang")
        await reader.until("ExecutionBegan")
        assert (await shown(other, identifier))["state"] == "running"
        await other.stop("ada", identifier)
        assert (await reader.until("ConductEnded")).finish == "cancelled"
        seen = await at_the_end(other, identifier)
        assert seen == await shown(one, identifier)
        assert [part["type"] for part in seen["messages"]] == ["user", "assistant", "invocation", "result"]


async def test_a_run_that_no_worker_has_taken_is_shown_and_can_be_stopped(site: Site) -> None:
    async with asyncio.timeout(HANG), chat_server(site) as one:
        identifier = await one.create("ada")
        await one.say("ada", identifier, HELLO, model="house/text")
    async with asyncio.timeout(HANG), chat_server(site) as other:
        seen = await shown(other, identifier)
        assert (seen["state"], [part["type"] for part in seen["messages"]]) == ("running", ["user"])
        reader = await following(other, identifier)
        await other.stop("ada", identifier)
        assert (await reader.until("ConductEnded")).finish == "cancelled"


async def test_an_answer_whose_run_is_stopped_before_it_begins_is_asked_for_again(site: Site, start: Start) -> None:
    worker = start(approved=False)
    async with asyncio.timeout(HANG), chat_server(site) as chat:
        identifier = await chat.create("ada")
        reader = await following(chat, identifier)
        await chat.say("ada", identifier, HELLO, model="house/ask")
        (question,) = (await reader.until("QuestionsAsked")).questions
        assert (await reader.until("ConductEnded")).finish == "open"
        await asyncio.to_thread(worker.end)
        approve, deny = ({"answer": one, "digest": question["digest"]} for one in ("approve", "deny"))
        for _ in range(2):
            assert await chat.answer("ada", identifier, question["invocation"], approve) == 0
            with pytest.raises(Conflict):
                await chat.answer("ada", identifier, question["invocation"], deny)
            await chat.stop("ada", identifier)
            assert (await reader.until("ConductEnded")).finish == "cancelled"
            seen = await shown(chat, identifier)
            assert (seen["state"], [one["digest"] for one in seen["questions"]]) == ("waiting", [question["digest"]])
        assert await chat.answer("ada", identifier, question["invocation"], deny) == 0
        await asyncio.to_thread(start, approved=False)
        assert (await reader.until("ConductEnded")).finish == "stop"
    assert site.words() == []


async def test_a_killed_server_loses_nothing(site: Site, start: Start, serving: Callable[[], ChatProcess]) -> None:
    os.mkfifo(site.folder / "pipe")
    start()
    doomed = serving()
    async with asyncio.timeout(HANG), httpx2.AsyncClient(headers={"owner": "ada"}, timeout=HANG) as client:
        identifier = (await client.post(f"{doomed.url}/conversations", json={})).json()["identifier"]
        conversation = f"conversations/{identifier}"
        position = (await client.get(f"{doomed.url}/{conversation}")).json()["position"]
        events = client.stream("GET", f"{doomed.url}/{conversation}/events", params={"after": position})
        async with events as stream:
            said = {"text": "Hello.", "model": "house/gate"}
            assert (await client.post(f"{doomed.url}/{conversation}/messages", json=said)).status_code == 200
            async for line in stream.aiter_lines():
                if line.startswith("data:") and json.loads(line[5:])["type"] == "ExecutionBegan":
                    break
            doomed.kill()
        second = serving()
        found = (await client.get(f"{second.url}/{conversation}")).json()
        assert found["state"] == "running"
        assert [(one["type"], one.get("began")) for one in found["turn"]] == [("text", None), ("call", True)]
        events = client.stream("GET", f"{second.url}/{conversation}/events", params={"after": found["position"]})
        async with events as stream:
            await asyncio.to_thread(lambda: open(site.folder / "pipe", "wb").close())
            kinds = []
            async for line in stream.aiter_lines():
                if line.startswith("data:"):
                    kinds.append(json.loads(line[5:])["type"])
                    if kinds[-1] == "ConductEnded":
                        break
        assert [one for one in kinds if not one.endswith("Delta")] == [
            "ResultReady",
            "TurnBegan",
            "ContentSealed",
            "TurnEnded",
            "ConductEnded",
        ]
        second.kill()
        third = serving()
        found = (await client.get(f"{third.url}/{conversation}")).json()
        assert (found["state"], found["finish"]) == ("idle", "stop")
        types = [one["type"] for one in found["messages"]]
        assert types == ["user", "assistant", "invocation", "result", "assistant"]


async def test_the_page_goes_on_when_a_worker_is_killed(site: Site, start: Start) -> None:
    doomed = start(moment=IN_A_TOOL)
    async with asyncio.timeout(HANG), chat_server(site) as chat:
        identifier = await chat.create("ada")
        reader = await following(chat, identifier)
        await chat.say("ada", identifier, HELLO, model="house/it")
        await asyncio.to_thread(doomed.process.join, HANG)
        await asyncio.to_thread(start)
        seen = await at_the_end(chat, identifier, reader)
        assert (seen["state"], seen["finish"]) == ("idle", "stop")
        results = [part for part in seen["messages"] if part["type"] == "result"]
        assert len(results) == 12
        unknown = [part for part in results if (part.get("error") or {}).get("category") == "outcome_unknown"]
        assert len(unknown) == 1
        assert check(site, chat.journal, identifier) == 1
        async with chat_server(site) as other:
            assert await shown(other, identifier) == seen
    assert len(site.words()) == len(set(site.words())) == 8


async def test_the_page_shows_a_call_of_unknown_outcome_once(site: Site, start: Start) -> None:
    os.mkfifo(site.folder / "pipe")
    doomed = start()
    async with asyncio.timeout(HANG), chat_server(site) as chat:
        identifier = await chat.create("ada")
        reader = await following(chat, identifier)
        await chat.say("ada", identifier, HELLO, model="house/gate")
        await reader.until("TurnEnded")
        while next(iter(chat.journal.lines(identifier, owner="ada", stage="turned")), None) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        doomed.signal(signal.SIGKILL)
        await asyncio.to_thread(start)
        seen = await at_the_end(chat, identifier, reader)
        assert [one["type"] for one in seen["messages"]] == ["user", "assistant", "invocation", "result", "assistant"]
        # The log has an event of its result for those who do not read the conversation. This server has read it.
        with site.dispatcher() as dispatcher:
            (found,) = dispatcher.listed()
            logged = [one async for one in SubmittedRun(found.submission, dispatcher, chat.journal)]
            taken: list[object] = []
            run = FollowedRun(
                SubmittedRun(found.submission, dispatcher, chat.journal),
                chat._store,
                Conversation(identifier=identifier),
            )
            run.watch(taken.append)
            await run
        assert sum(isinstance(one, ResultReady) for one in logged) == 1
        assert [one for one in taken if not isinstance(one, StretchBegan)] == [
            one for one in logged if not isinstance(one, ResultReady)
        ]


async def test_a_reload_at_each_event_shows_the_same(site: Site, start: Start) -> None:
    start()
    async with asyncio.timeout(HANG), assembly_of_server(site) as assembly, Chat(assembly) as chat:
        identifier = await chat.create("ada")
        reader = await following(chat, identifier)
        await chat.say("ada", identifier, HELLO, model="house/it")

        async def reload() -> dict[str, Any]:
            async with Chat(assembly) as other:
                return await at_the_end(other, identifier)

        pages: list[asyncio.Task[dict[str, Any]]] = []
        while not reader.taken or type(reader.taken[-1]).__name__ != "ConductEnded":
            await _next(reader)
            pages.append(asyncio.create_task(reload()))
        seen = await shown(chat, identifier)
        for page in pages:
            assert await page == seen
    print(json.dumps({"reloads": len(pages)}))


async def _next(reader: Reader) -> None:
    """Reads one more event, of whatever kind."""
    batches = await reader._chat.read(*reader._of, reader.position)
    async for batch in batches:
        if batch:
            reader.position = batch[0].position
            reader.taken.append(batch[0].event)
            break
    await batches.aclose()


async def test_a_client_runs_its_tool_between_two_runs(site: Site, start: Start) -> None:
    start()
    schema = Schema.of({"type": "object", "properties": {"shape": {"type": "string"}}})
    async with asyncio.timeout(HANG), chat_server(site) as one, chat_server(site) as other:
        identifier = await one.create("ada")
        reader = await following(one, identifier)
        tools = one.declared([Definition(name="draw", description="Draws.", schema=schema)])
        await one.say("ada", identifier, HELLO, model="house/client", tools=tools)
        (asked,) = (await reader.until("QuestionsAsked")).questions
        await reader.until("ConductEnded")
        assert (asked["kind"], asked["name"], dict(asked["arguments"])) == ("client", "draw", {"shape": "round"})
        assert [part["invocation"] for part in (await shown(other, identifier))["questions"]] == [asked["invocation"]]
        result = ResultCanister(invocation_id=asked["invocation"], content=(TextualContent(text="Drawn."),))
        assert await other.deliver("ada", identifier, result) == 0
        assert (await reader.until("QuestionAnswered")).answer == "result"
        assert (await reader.until("ConductEnded")).finish == "stop"
        seen = await at_the_end(other, identifier)
        assert seen == await shown(one, identifier)
        assert [part["type"] for part in seen["messages"]] == ["user", "assistant", "invocation", "result", "assistant"]


async def test_what_a_terminal_adds_without_a_worker_is_seen(site: Site, tmp_path: pathlib.Path) -> None:
    terminal = chatting(tmp_path, scripted(says("From a terminal.")), place=site.place)
    async with asyncio.timeout(HANG), chat_server(site) as server, terminal as other:
        identifier = await server.create("ada")
        reader = await following(server, identifier)
        await other.say("ada", identifier, HELLO)
        while len(found := (await server.snapshot("ada", identifier))["messages"]) < 2:
            with pytest.raises(EventsLost):
                await reader.until("ConductEnded")
            reader = await following(server, identifier)
        assert [one["type"] for one in found] == ["user", "assistant"]


async def test_the_limit_of_an_owner_is_that_of_all_servers(site: Site) -> None:
    limits = ChatLimits(runs=1)
    async with (
        asyncio.timeout(HANG),
        chat_server(site, limits=limits) as one,
        chat_server(site, limits=limits) as other,
    ):
        await one.say("ada", await one.create("ada"), HELLO, model="house/text")
        with pytest.raises(Refused):
            await other.say("ada", await other.create("ada"), HELLO, model="house/text")
        await other.say("bob", await other.create("bob"), HELLO, model="house/text")


async def test_deleting_a_conversation_ends_its_run_and_leaves_nothing(site: Site, start: Start) -> None:
    start()
    async with asyncio.timeout(HANG), chat_server(site) as one, chat_server(site) as other:
        identifier = await one.create("ada")
        reader = await following(one, identifier)
        await one.say("ada", identifier, HELLO, model="house/hang")
        await reader.until("ExecutionBegan")
        await other.delete("ada", identifier)
        with site.dispatcher() as dispatcher:
            assert dispatcher.listed() == []
        with other.journal.database.using("read") as connection:
            assert connection.execute("SELECT count(*) FROM events").fetchone()[0] == 0
        with pytest.raises(NameAbsence):
            await other.snapshot("ada", identifier)


class Newer(EventBase, kw_only=True):
    """An event that only workers of a newer release know."""


register({Newer: "newer"})


@pytest.mark.parametrize("later", [(), (Newer(),)], ids=["readable", "unreadable"])
async def test_a_conversation_whose_only_worker_died_can_be_deleted(
    site: Site, start: Start, monkeypatch: pytest.MonkeyPatch, later: Sequence[Newer]
) -> None:
    monkeypatch.setattr(submitted_runs, "_STOPPING", 0.2)
    doomed = start(moment=IN_A_TOOL)
    async with asyncio.timeout(HANG), chat_server(site) as chat:
        identifier = await chat.create("ada")
        await chat.say("ada", identifier, HELLO, model="house/it")
        await asyncio.to_thread(doomed.process.join, HANG)
        with site.dispatcher() as dispatcher:
            (found,) = dispatcher.listed()
        for event in later:
            await asyncio.to_thread(EventLog(chat.journal.database).add, found.submission, event)
        while True:
            try:
                await chat.delete("ada", identifier)
                break
            except Conflict as error:
                # On PostgreSQL, the dead worker is noticed when its lease ends.
                assert "Another process conducts the conversation" in str(error)  # noqa: PT017
        with site.dispatcher() as dispatcher:
            assert dispatcher.listed() == []
        with pytest.raises(NameAbsence):
            await chat.snapshot("ada", identifier)


async def test_a_failed_run_says_why(site: Site, start: Start) -> None:
    start()
    async with asyncio.timeout(HANG), chat_server(site) as chat:
        identifier = await chat.create("ada")
        reader = await following(chat, identifier)
        await chat.say("ada", identifier, HELLO, model="house/fail")
        failed = await reader.until("RunFailed")
        assert failed.message
        assert (await reader.until("ConductEnded")).finish == "error"
        # It failed before it began, so that nothing was said.
        seen = await shown(chat, identifier)
        assert (seen["state"], seen["messages"]) == ("idle", [])
        await chat.say("ada", identifier, HELLO, model="house/text")
        assert (await reader.until("ConductEnded")).finish == "stop"


def queued(site: Site, identifier: str) -> Submission:
    """A run of a conversation, of which the test writes the log instead of a worker."""
    run = submission(identifier, site.host, "Hello.", owner="ada", model="house/text")
    with site.dispatcher() as dispatcher:
        dispatcher.submit(run)
    return run


def began(run: Submission) -> StretchBegan:
    return StretchBegan(kept=0, canisters=run.canisters, worker="w")


async def message_of(page: AsyncGenerator[Sequence[Entry], None]) -> None:
    """Reads until a message is said, for a page that has asked before: a request would look at the log itself."""
    async with contextlib.aclosing(page):
        async for batch in page:
            if any(isinstance(one.event, Said) for one in batch):
                return


async def test_an_event_that_cannot_be_read_ends_the_following_of_its_run_alone(site: Site) -> None:
    async with asyncio.timeout(HANG), chat_server(site) as chat:
        log = EventLog(chat.journal.database)
        names = [await chat.create("ada") for _ in range(2)]
        first, second = [await following(chat, one) for one in names]
        run, other = [await asyncio.to_thread(queued, site, one) for one in names]
        await asyncio.to_thread(log.append, run, 0, (began(run), Newer()))
        failed = await first.until("RunFailed")
        assert failed.message.startswith("This server cannot show the rest of the run. Load the conversation again ")
        assert "there is no type 'newer'" in failed.message
        assert (await first.until("ConductEnded")).finish == "error"
        await asyncio.to_thread(log.append, other, 0, (began(other),))
        await second.until("Said")
        # At its end, the conversation is loaded.
        said = Record(stage="said", conversation=names[0], turn=1, owner="ada", canister=HELLO, details={"place": 0})
        started = Record(stage="began", conversation=names[0], turn=1, owner="ada")
        await asyncio.to_thread(chat.journal.record, [started, said])
        end = ConductEnded(finish="stop", turns=1, calls=0)
        await asyncio.to_thread(log.append, run, 2, (end,))
        with pytest.raises(EventsLost):
            await first.until("never")
        assert [one["type"] for one in (await shown(chat, names[0]))["messages"]] == ["user"]


async def test_a_change_that_takes_long_holds_up_no_other_conversation(site: Site) -> None:
    changing, go = asyncio.Event(), asyncio.Event()

    async def change(held: HeldConversation) -> None:
        changing.set()
        await go.wait()

    async with asyncio.timeout(HANG), chat_server(site) as chat:
        log = EventLog(chat.journal.database)
        names = [await chat.create("ada") for _ in range(3)]
        pages = [await chat.read("ada", one, None) for one in names]
        runs = [await asyncio.to_thread(queued, site, one) for one in names]
        long = asyncio.create_task(chat._open.change("ada", names[0], change))
        await changing.wait()
        try:
            await asyncio.to_thread(log.append, runs[0], 0, (began(runs[0]),))
            # The second one may be looked at before the first one. The third one is looked at after it.
            for run, page in zip(runs[1:], pages[1:], strict=True):
                await asyncio.to_thread(log.append, run, 0, (began(run),))
                await message_of(page)
        finally:
            go.set()
        await long
        await message_of(pages[0])


async def test_a_run_whose_beginning_is_read_while_the_queue_goes_away_is_followed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    find, lost = DbosDispatcher.find, []

    def find_later(self: DbosDispatcher, identifier: str) -> Dispatched:
        if not lost:
            lost.append(identifier)
            raise Disconnected("The queue of submissions cannot be read.")
        return find(self, identifier)

    monkeypatch.setattr(submitted_runs, "_PATIENCE", 0.01)
    async with asyncio.timeout(HANG), chat_server(site) as chat:
        identifier = await chat.create("ada")
        page = await chat.read("ada", identifier, None)
        run = await asyncio.to_thread(queued, site, identifier)
        monkeypatch.setattr(DbosDispatcher, "find", find_later)
        await asyncio.to_thread(EventLog(chat.journal.database).append, run, 0, (began(run),))
        await message_of(page)
        assert (lost, await chat.running("ada", identifier)) == ([run.identifier], True)


async def test_a_run_is_followed_on_when_the_database_is_back(
    postgresql_server: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, failures = SubmittedRun.state, asyncio.Queue[InputError]()

    async def watched(self: SubmittedRun) -> Dispatched:
        try:
            return await state(self)
        except InputError as error:
            failures.put_nowait(error)
            raise

    monkeypatch.setattr(SubmittedRun, "state", watched)
    with way_to(postgresql_server) as way:
        near = Site(place=address_with_queue(postgresql_server), folder=tmp_path, host="here")
        name = str(near.place).partition("?")[0].rpartition("/")[2]
        far = dataclasses.replace(near, place=f"{way.address.rpartition('/')[0]}/{name}")
        async with asyncio.timeout(HANG), chat_server(far) as chat:
            identifier = await chat.create("ada")
            reader = await following(chat, identifier)
            run = await asyncio.to_thread(queued, near, identifier)
            with near.journal() as journal:
                log = EventLog(journal.database)
                await asyncio.to_thread(log.append, run, 0, (began(run),))
                await reader.until("Said")
                way.cut()
                assert isinstance(await failures.get(), Disconnected)
                way.restore()
                end = ConductEnded(finish="stop", turns=1, calls=0)
                await asyncio.to_thread(log.append, run, 1, (end,))
            assert (await reader.until("ConductEnded")).finish == "stop"
        assert "RunFailed" not in reader.kinds


async def test_another_journal_than_that_of_the_workers_is_refused(site: Site, tmp_path: pathlib.Path) -> None:
    from ripieno.storage.journal import Journal

    assembly = assembly_of_server(site)
    with Journal(tmp_path / "another") as journal:
        assembly.execution.reporter.recorder = journal
        async with assembly:
            with pytest.raises(InputError, match="recorder="):
                async with Chat(assembly):
                    pass


def test_without_the_setting_nothing_of_the_engine_is_imported(tmp_path: pathlib.Path) -> None:
    program = (
        "import asyncio, sys, ripieno\n"
        "from ripieno.servers.chat.chat import Chat\n"
        "async def main():\n"
        "    settings = {'journal': {'enabled': True}, 'ensembles': []}\n"
        "    async with ripieno.assemble(settings) as assembly, Chat(assembly):\n"
        "        print([one for one in sys.modules if one.partition('.')[0] in ('dbos', 'sqlalchemy', 'psycopg')])\n"
        "asyncio.run(main())\n"
    )
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    folder = tmp_path / "folder"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
