"""Requests of a chat that come at once: whatever waits in the middle, the conversation stays one and whole."""

import asyncio
import collections
import contextlib
import pathlib
import random
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ripieno.canisters import UserCanister
from ripieno.exceptions import Conflict, NameAbsence
from ripieno.servers.chat import store
from ripieno.servers.chat.chat import Chat
from ripieno.servers.chat.messages import ChatLimits
from ripieno.servers.http.limits import Refused
from tests.counts import count
from tests.support.chats import Reader, Written, chatting, writing
from tests.support.scripted_models import Blocking, invoke, invokes, says, scripted, tool

HELLO = UserCanister.of("Hello.")


class Steps(random.Random):
    """Decides how many steps of others come before and after each use of the store, and where one is cancelled."""

    left = 0
    reached = asyncio.Event()
    cancelled = threading.Event()

    async def wait(self) -> None:
        for _ in range(self.randrange(5)):
            await asyncio.sleep(0)

    def begin(self) -> bool:
        """Whether this use lasts until its request was cancelled."""
        self.left -= 1
        if self.left == 0:
            self.reached.set()
        return self.left == 0


@pytest.fixture(params=range(count(40, 6)))
def dice(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Steps:
    steps = Steps(request.param)
    in_thread = getattr(store, "_in_thread")  # noqa: B009  the only way to the journal

    async def slow(function: Callable[..., object], *arguments: object) -> object:
        await steps.wait()
        lasts = steps.begin()

        def work() -> object:
            value = function(*arguments)
            if lasts:
                steps.cancelled.wait()
            return value

        try:
            return await in_thread(work)
        finally:
            await steps.wait()

    monkeypatch.setattr(store, "_in_thread", slow)
    return steps


async def ended(chat: Chat, identifier: str) -> None:
    """Waits until no run is under way."""
    async with contextlib.aclosing(await chat.read("ada", identifier, None, quiet=0.01)) as batches:
        async for _ in batches:
            if not await chat.running("ada", identifier):
                return


async def outcomes(*requests: Coroutine[Any, Any, object]) -> collections.Counter[str]:
    """Makes requests at once, and counts their outcomes by name."""
    found = await asyncio.gather(*requests, return_exceptions=True)
    for one in found:
        if isinstance(one, BaseException) and not isinstance(one, Conflict | NameAbsence | Refused):
            raise one
    return collections.Counter(type(one).__name__ if isinstance(one, Exception) else "done" for one in found)


async def asked(chat: Chat) -> tuple[str, Reader, list[dict[str, Any]]]:
    """A conversation whose calls wait, a reader, and its answers that approve."""
    identifier = await chat.create("ada")
    reader = Reader(chat, "ada", identifier, await chat.position("ada", identifier))
    await chat.say("ada", identifier, HELLO)
    await reader.until("ConductEnded")
    waiting = (await chat.snapshot("ada", identifier))["questions"]
    answers = [{"answer": "approve", "digest": one["digest"], "invocation": one["invocation"]} for one in waiting]
    return identifier, reader, answers


async def test_of_messages_at_once_one_is_said(tmp_path: pathlib.Path, dice: Steps) -> None:
    go = asyncio.Event()
    async with chatting(tmp_path, scripted([go.wait, *says("Yes.")])) as chat:
        identifier = await chat.create("ada")
        reader = Reader(chat, "ada", identifier, await chat.position("ada", identifier))
        found = await outcomes(*(chat.say("ada", identifier, HELLO) for _ in range(6)))
        assert found == {"done": 1, "Conflict": 5}
        go.set()
        await reader.until("ConductEnded")
        messages = (await chat.snapshot("ada", identifier))["messages"]
        assert [one["type"] for one in messages] == ["user", "assistant"]


async def test_a_message_for_another_state_than_was_shown_is_refused(tmp_path: pathlib.Path) -> None:
    async with chatting(tmp_path, scripted(says("Yes."))) as chat:
        identifier = await chat.create("ada")
        at = await chat.position("ada", identifier)
        await chat.rename("ada", identifier, "Mine")
        with pytest.raises(Conflict, match="gone on meanwhile"):
            await chat.say("ada", identifier, HELLO, at=at)


async def test_limits_hold_for_runs_that_begin_at_once(tmp_path: pathlib.Path, dice: Steps) -> None:
    blocking = Blocking()
    model = scripted(*(invokes(invoke("look")) for _ in range(2)))
    async with chatting(tmp_path, model, tool("look", blocking), limits=ChatLimits(runs=2)) as chat:
        names = [await chat.create("ada") for _ in range(6)]
        found = await outcomes(*(chat.say("ada", name, HELLO) for name in names))
        assert found == {"done": 2, "Refused": 4}


async def test_each_question_is_answered_once_and_one_run_goes_on(tmp_path: pathlib.Path, dice: Steps) -> None:
    written = Written()
    async with chatting(tmp_path, writing("one", "two"), written.definition) as chat:
        identifier, reader, answers = await asked(chat)
        sent = [*answers, *answers]
        dice.shuffle(sent)
        found = await outcomes(*(chat.answer("ada", identifier, one["invocation"], one) for one in sent))
        assert found == {"done": len(answers), "Conflict": len(answers)}
        await reader.until("ConductEnded")
        while answers := (await chat.snapshot("ada", identifier))["questions"]:
            (one,) = answers
            given = {"answer": "approve", "digest": one["digest"]}
            await chat.answer("ada", identifier, one["invocation"], given)
            await reader.until("ConductEnded")
        assert sorted(written.texts) == ["one", "two"]


async def test_an_answer_and_a_message_at_once_are_one_or_the_other(tmp_path: pathlib.Path, dice: Steps) -> None:
    written = Written()
    async with chatting(tmp_path, writing("one"), written.definition) as chat:
        identifier, _, (answer,) = await asked(chat)
        requests = [chat.answer("ada", identifier, "one", answer), chat.say("ada", identifier, HELLO)]
        dice.shuffle(requests)
        await outcomes(*requests)
        await ended(chat, identifier)
        messages = (await chat.snapshot("ada", identifier))["messages"]
        users = sum(one["type"] == "user" for one in messages)
        # The answer came too late, or the message did, or it came when the run had ended.
        assert (written.texts, users) in (([], 2), (["one"], 1), (["one"], 2))


async def test_what_is_loaded_twice_at_once_is_one_conversation(tmp_path: pathlib.Path, dice: Steps) -> None:
    async with chatting(tmp_path, scripted(says())) as chat:
        identifier = await chat.create("ada")
    async with chatting(tmp_path, scripted(says())) as chat:
        # Each load has positions of its own.
        assert len({*await asyncio.gather(*(chat.position("ada", identifier) for _ in range(6)))}) == 1


async def test_what_begins_a_run_stays_in_memory(tmp_path: pathlib.Path, dice: Steps) -> None:
    async with chatting(tmp_path, scripted(says()), limits=ChatLimits(held=1)) as chat:
        identifier, *others = [await chat.create("ada") for _ in range(5)]
        await asyncio.gather(chat.say("ada", identifier, HELLO), *(chat.position("ada", name) for name in others))
        await ended(chat, identifier)
        messages = (await chat.snapshot("ada", identifier))["messages"]
        assert [one["type"] for one in messages] == ["user", "assistant"]


async def test_what_is_deleted_stays_deleted(tmp_path: pathlib.Path, dice: Steps) -> None:
    blocking = Blocking()
    model = scripted(invokes(invoke("look")))
    async with chatting(tmp_path, model, tool("look", blocking)) as chat:
        identifier = await chat.create("ada")
        if dice.random() < 0.5:
            await chat.say("ada", identifier, HELLO)
        requests = [
            chat.delete("ada", identifier),
            chat.delete("ada", identifier),
            chat.snapshot("ada", identifier),
            chat.say("ada", identifier, HELLO),
            chat.rename("ada", identifier, "Mine"),
            chat.stop("ada", identifier),
        ]
        dice.shuffle(requests)
        await outcomes(*requests)
        for _ in range(2):
            with pytest.raises(NameAbsence):
                await chat.snapshot("ada", identifier)
        assert await chat.conversations("ada") == []
        assert blocking.running == 0


async def test_a_cancelled_request_leaves_no_claim_and_no_half_change(tmp_path: pathlib.Path, dice: Steps) -> None:
    written = Written()
    async with chatting(tmp_path, writing("one"), written.definition) as chat:
        identifier = await chat.create("ada")
        reader = Reader(chat, "ada", identifier, await chat.position("ada", identifier))
        await cancelled(chat.say("ada", identifier, HELLO), dice)
        # It was said all the same, or it was not at all.
        with contextlib.suppress(Conflict):
            await chat.say("ada", identifier, HELLO)
        await reader.until("QuestionsAsked")
        await reader.until("ConductEnded")
        (question,) = (await chat.snapshot("ada", identifier))["questions"]
        answer = {"answer": "approve", "digest": question["digest"]}
        await cancelled(chat.answer("ada", identifier, "one", answer), dice)
        with contextlib.suppress(Conflict):
            await chat.answer("ada", identifier, "one", answer)
        await reader.until("ConductEnded")
        assert written.texts == ["one"]
        await chat.say("ada", identifier, HELLO)
        await reader.until("ConductEnded")


async def cancelled(request: Coroutine[Any, Any, object], dice: Steps) -> None:
    """Makes a request, and cancels it during one of its uses of the store, which has happened."""
    dice.left, dice.reached, dice.cancelled = dice.randrange(1, 3), asyncio.Event(), threading.Event()
    tasks = asyncio.create_task(request), asyncio.create_task(dice.reached.wait())
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    dice.cancelled.set()


async def test_memory_and_journal_agree_after_any_requests(tmp_path: pathlib.Path, dice: Steps) -> None:
    written = Written()
    turns = [invokes(invoke("write", f"call-{number}", text=str(number))) for number in range(40)]
    async with chatting(tmp_path, scripted(*turns), written.definition, limits=ChatLimits(held=1)) as chat:
        names = [await chat.create("ada") for _ in range(3)]

        async def answer(name: str) -> None:
            for one in (await chat.snapshot("ada", name))["questions"]:
                sent = {"answer": dice.choice(["approve", "deny"]), "digest": one["digest"]}
                await chat.answer("ada", name, one["invocation"], sent)

        makers: list[Callable[[str], Coroutine[Any, Any, object]]] = [
            lambda name: chat.say("ada", name, HELLO),
            lambda name: chat.snapshot("ada", name),
            lambda name: chat.rename("ada", name, str(dice.random())),
            lambda name: chat.stop("ada", name),
            lambda name: chat.resume("ada", name),
            answer,
        ]
        for _ in range(6):
            await outcomes(*(dice.choice(makers)(dice.choice(names)) for _ in range(8)))
        for name in names:
            await chat.stop("ada", name)
            await ended(chat, name)
        before = [_lasting(await chat.snapshot("ada", name)) for name in names]
    async with chatting(tmp_path, scripted(says()), written.definition) as chat:
        assert [_lasting(await chat.snapshot("ada", name)) for name in names] == before
        assert chat.journal.verify() is None
    assert len(written.texts) == len({*written.texts})


def _lasting(snapshot: dict[str, Any]) -> list[Any]:
    return [snapshot[name] for name in ("title", "messages", "questions", "state")]
