"""Conversations in memory that other processes continue: who reads their events sees what the journal gets."""

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

import pytest

from ripieno.canisters import UserCanister
from ripieno.exceptions import Conflict, NameAbsence
from ripieno.servers.chat import open_conversations
from ripieno.servers.chat.chat import Chat
from ripieno.servers.chat.ring import EventsLost
from ripieno.servers.chat.store import ConversationStore
from ripieno.storage.journal import Journal
from ripieno.storage.records import Record
from tests.support.chats import Reader, chatting
from tests.support.scripted_models import Blocking, invoke, invokes, says, scripted, tool

Place = pathlib.Path | str
Snapshot = Mapping[str, Any]


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_conversations, "LOOKS", 0.01)


@contextlib.asynccontextmanager
async def two(place: Place, folder: pathlib.Path, *definitions: Any) -> AsyncGenerator[tuple[Chat, Chat], None]:
    """The chat of a page, and that of another process with the same journal, whose model calls a tool."""
    model = scripted(invokes(invoke("look", "one")), says("Looked."))
    async with (
        chatting(folder, scripted(says("Hello.")), place=place) as page,
        chatting(folder, model, *definitions, place=place) as other,
    ):
        yield page, other


async def begun(chat: Chat) -> str:
    """A conversation whose first run has ended."""
    identifier = await chat.create("ada")
    reader = Reader(chat, "ada", identifier, await chat.position("ada", identifier))
    await chat.say("ada", identifier, UserCanister.of("Hi."))
    await reader.until("ConductEnded")
    return identifier


async def seen(chat: Chat, identifier: str, fits: Callable[[Snapshot], bool]) -> Snapshot:
    """The first snapshot that fits, for a reader that only loads one when it is told to."""
    while True:
        snapshot = await chat.snapshot("ada", identifier)
        if fits(snapshot):
            return snapshot
        with contextlib.suppress(EventsLost):
            await Reader(chat, "ada", identifier, snapshot["position"]).until("never")


def kinds(snapshot: Snapshot) -> Sequence[str]:
    return [one["type"] for one in snapshot["messages"]]


@contextlib.asynccontextmanager
async def calling(place: Place, folder: pathlib.Path) -> AsyncGenerator[tuple[Chat, Chat, str, asyncio.Event], None]:
    """The two chats, and a conversation of which the other process runs a call until the event is set."""
    blocking = Blocking()
    async with two(place, folder, tool("look", blocking)) as (page, other):
        identifier = await begun(page)
        await other.say("ada", identifier, UserCanister.of("Look."))
        await seen(page, identifier, lambda one: kinds(one)[-1] == "invocation")
        yield page, other, identifier, blocking.go


async def test_a_reader_sees_what_another_process_adds_while_its_run_goes_on(
    place: Place, tmp_path: pathlib.Path
) -> None:
    async with calling(place, tmp_path) as (page, _, identifier, go):
        # The call is under way: neither is its outcome unknown, nor can it be continued here.
        shown = await page.snapshot("ada", identifier)
        assert (shown["state"], shown["finish"], shown["questions"]) == ("running", None, [])
        assert kinds(shown)[2:] == ["user", "assistant", "invocation"]
        for change in (
            page.say("ada", identifier, UserCanister.of("Wait.")),
            page.resume("ada", identifier),
            page.stop("ada", identifier),
        ):
            with pytest.raises(Conflict, match="Another process conducts this conversation"):
                await change
        go.set()
        done = await seen(page, identifier, lambda one: one["state"] == "idle")
        assert done["calls"] == {}
        assert kinds(done)[2:] == ["user", "assistant", "invocation", "result", "assistant"]
        reader = Reader(page, "ada", identifier, done["position"])
        await page.say("ada", identifier, UserCanister.of("Thanks."))
        await reader.until("ConductEnded")


async def test_a_conversation_that_another_process_conducts_is_not_deleted(
    place: Place, tmp_path: pathlib.Path
) -> None:
    async with calling(place, tmp_path) as (page, other, identifier, go):
        with pytest.raises(Conflict, match="Another process conducts the conversation"):
            await page.delete("ada", identifier)
        go.set()
        done = await seen(page, identifier, lambda one: one["state"] == "idle")
        assert kinds(done)[2:] == ["user", "assistant", "invocation", "result", "assistant"]
        await page.delete("ada", identifier)
        for chat in (page, other):
            with pytest.raises(NameAbsence):
                await seen(chat, identifier, lambda one: not one["messages"])


async def test_a_reader_sees_that_another_process_was_killed(place: Place, tmp_path: pathlib.Path) -> None:
    async with chatting(tmp_path, scripted(says("Hello.")), place=place) as page:
        identifier = await begun(page)
        with Journal(place) as journal:
            with journal.database.claimed("ada", identifier):
                said = Record(
                    stage="said",
                    conversation=identifier,
                    turn=1,
                    owner="ada",
                    canister=UserCanister.of("Look."),
                    details={"place": 2},
                )
                journal.record([Record(stage="began", conversation=identifier, turn=1, owner="ada"), said])
                running = await seen(page, identifier, lambda one: len(one["messages"]) == 3)
                assert running["state"] == "running"
            # Its claim ends with it, and nothing comes into the journal.
            left = await seen(page, identifier, lambda one: one["state"] != "running")
            assert left["messages"] == running["messages"]
            journal.delete(identifier, owner="ada")
            with pytest.raises(NameAbsence):
                await seen(page, identifier, lambda one: not one["messages"])


async def test_one_look_is_for_all_conversations_with_readers_and_none_without(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    lengths = ConversationStore.lengths

    async def counted(self: ConversationStore, keys: Sequence[tuple[str, str]]) -> Sequence[int]:
        looks.append(len(keys))
        return await lengths(self, keys)

    monkeypatch.setattr(ConversationStore, "lengths", counted)
    async with two(tmp_path / "journal.sqlite3", tmp_path, tool("look", Blocking())) as (page, other):
        first, second, third = [await begun(page) for _ in range(3)]
        async with contextlib.AsyncExitStack() as readers:
            for one in (first, second):
                position = await page.position("ada", one)
                batches = await page.read("ada", one, position, quiet=0.0)
                await readers.enter_async_context(contextlib.aclosing(batches))
                await anext(batches)
            looks.clear()
            await other.say("ada", second, UserCanister.of("Look."))
            await seen(page, second, lambda one: one["state"] == "running")
            assert set(looks) == {2}
        looks.clear()
        await page.say("ada", third, UserCanister.of("Again."))
        await page.delete("ada", third)
        assert looks == []


async def test_a_look_says_that_the_list_has_changed_and_what_runs_in_other_processes(
    place: Place, tmp_path: pathlib.Path
) -> None:
    blocking = Blocking()
    async with two(place, tmp_path, tool("look", blocking)) as (page, other):
        foreign = await begun(page)
        first = await page.look("ada")
        assert (first["running"], await page.look("ada")) == ([], first)
        # Begun, renamed, ended and deleted elsewhere: each is another number, for this owner only.
        identifier = await other.create("ada")
        reader = Reader(other, "ada", identifier, await other.position("ada", identifier))
        await other.say("ada", identifier, UserCanister.of("Look."))
        await seen(page, identifier, lambda one: kinds(one)[-1:] == ["invocation"])
        numbers = [first["changed"]]
        found = await page.look("ada")
        assert found["running"] == [identifier]
        assert identifier in [one.identifier for one in await page.conversations("ada")]
        numbers.append(found["changed"])
        await other.rename("ada", identifier, "About apples")
        numbers.append((await page.look("ada"))["changed"])
        assert await page.look("ada") == {"running": [identifier], "changed": numbers[-1]}
        blocking.go.set()
        await reader.until("ConductEnded")
        found = await page.look("ada")
        assert found["running"] == []
        numbers.append(found["changed"])
        await other.delete("ada", foreign)
        numbers.append((await page.look("ada"))["changed"])
        assert numbers == sorted(set(numbers))
        assert await page.look("bob") == {"running": [], "changed": 0}


async def test_a_look_says_what_ran_elsewhere_before_and_not_what_was_killed(
    place: Place, tmp_path: pathlib.Path
) -> None:
    async with chatting(tmp_path, scripted(says("Hello.")), place=place) as page:
        with Journal(place) as journal:
            for name in ("killed", "running"):
                journal.record([Record(stage="began", conversation=name, turn=1, owner="ada")])
            with journal.database.claimed("ada", "running"):
                await page.conversations("ada")
                assert (await page.look("ada"))["running"] == ["running"]
            assert (await page.look("ada"))["running"] == []
            with journal.database.claimed("ada", "killed"):
                journal.record([Record(stage="began", conversation="killed", turn=2, owner="ada")])
                assert (await page.look("ada"))["running"] == ["killed"]
