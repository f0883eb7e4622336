"""Conversations of a chat: runs that outlive their readers, questions with answers that are bound, and owners."""

import asyncio
import dataclasses
import functools
import pathlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from ripieno.approvals.presentation import show_change
from ripieno.canisters import UserCanister
from ripieno.canisters.events import ReasoningDelta, TextDelta, TurnBegan
from ripieno.conducting.paused import PausedStore
from ripieno.ensembles import Context, Definition
from ripieno.exceptions import Conflict, NameAbsence, ProviderUnreachable, RequestInvalidity
from ripieno.servers.chat import open_conversations
from ripieno.servers.chat.chat import Chat
from ripieno.servers.chat.messages import ChatLimits
from ripieno.servers.chat.ring import EventsLost
from ripieno.servers.chat.store import ConversationStore
from ripieno.servers.http.limits import Refused
from ripieno.storage.dispatch.contract import Submission
from ripieno.storage.journal import Journal
from ripieno.storage.outputs import Outputs
from ripieno.storage.places import Places
from tests.support.chats import Reader, Written, chatting, writing
from tests.support.scripted_models import Blocking, invoke, invokes, says, scripted, tool

HELLO = UserCanister.of("Hello.")


async def texts(chat: Chat, owner: str, identifier: str) -> list[tuple[str, str]]:
    """The kinds and texts of the messages of a snapshot; of a result with a fault, its suggestion."""
    found: list[tuple[str, str]] = []
    for one in (await chat.snapshot(owner, identifier))["messages"]:
        error = one.get("error")
        text = (
            error["suggestion"] or error["message"]
            if error
            else "".join(part["text"] for part in one.get("content", ()))
        )
        found.append((one["type"], text or one.get("name", "")))
    return found


async def started(chat: Chat, owner: str = "ada") -> tuple[str, Reader]:
    identifier = await chat.create(owner)
    reader = Reader(chat, owner, identifier, (await chat.snapshot(owner, identifier))["position"])
    await chat.say(owner, identifier, HELLO)
    return identifier, reader


async def questions(reader: Reader) -> Any:
    """The questions with which the run ends."""
    asked = await reader.until("QuestionsAsked")
    assert (await reader.until("ConductEnded")).finish == "open"
    return asked.questions


async def test_what_is_said_is_answered_recorded_and_shown(tmp_path: pathlib.Path) -> None:
    async with chatting(tmp_path, scripted(says("Good morning."))) as chat:
        identifier, reader = await started(chat)
        await reader.until("ConductEnded")
        assert reader.kinds == ["Said", "TurnBegan", "TextDelta", "ContentSealed", "TurnEnded", "ConductEnded"]
        expected = [("user", "Hello."), ("assistant", "Good morning.")]
        assert await texts(chat, "ada", identifier) == expected
        await chat.rename("ada", identifier, "Greetings")
        assert (await reader.until("Titled")).title == "Greetings"
    async with chatting(tmp_path, scripted(says("And good night."))) as chat:
        (summary,) = await chat.conversations("ada")
        assert (summary.identifier, summary.title) == (identifier, "Greetings")
        assert await texts(chat, "ada", identifier) == expected
        reader = Reader(chat, "ada", identifier, (await chat.snapshot("ada", identifier))["position"])
        await chat.say("ada", identifier, UserCanister.of("Bye."))
        await reader.until("ConductEnded")
        assert await texts(chat, "ada", identifier) == [*expected, ("user", "Bye."), ("assistant", "And good night.")]


async def test_a_reload_in_the_middle_of_a_turn_shows_the_turn_so_far(tmp_path: pathlib.Path) -> None:
    go = asyncio.Event()
    words = says("Good morning.")
    model = scripted([words[0], TextDelta("Good "), go.wait, TextDelta("morning."), *words[2:]])
    async with chatting(tmp_path, model) as chat:
        identifier, reader = await started(chat)
        await reader.until("TextDelta")
        snapshot = await chat.snapshot("ada", identifier)
        assert (snapshot["state"], snapshot["title"]) == ("running", "Hello.")
        assert snapshot["turn"] == [{"type": "text", "text": "Good ", "sealed": False}]
        # Another page reads on from the snapshot; the first one has left.
        other = Reader(chat, "ada", identifier, snapshot["position"])
        go.set()
        await other.until("ConductEnded")
        assert "".join(one.text for one in other.taken if isinstance(one, TextDelta)) == "morning."
        assert (await texts(chat, "ada", identifier))[-1] == ("assistant", "Good morning.")
        assert (
            (await chat.snapshot("ada", identifier))["turn"],
            (await chat.snapshot("ada", identifier))["state"],
        ) == ([], "idle")


async def test_reasoning_that_no_provider_requires_back_is_shown_again(tmp_path: pathlib.Path) -> None:
    words = says("Good morning.")
    async with chatting(tmp_path, scripted([words[0], ReasoningDelta("It is early."), *words[1:]])) as chat:
        identifier, reader = await started(chat)
        await reader.until("ConductEnded")
    async with chatting(tmp_path, scripted(words)) as chat:
        answer = (await chat.snapshot("ada", identifier))["messages"][-1]
        assert [(one["type"], one["text"]) for one in answer["content"]] == [
            ("reasoning", "It is early."),
            ("text", "Good morning."),
        ]


async def test_a_conversation_keeps_its_agent_and_model_over_a_restart_until_others_are_chosen(
    tmp_path: pathlib.Path,
) -> None:
    def look(context: Context, arguments: dict[str, Any]) -> str:
        raise NotImplementedError  # The tools are only offered.

    tools = [tool(name, look, effect="read") for name in ("look", "write")]
    configuration = {"agents": {"reader": {"tools": ["mine.look"]}}, "model": {"default": "house/default"}}
    configuration["providers"] = {"house": {"protocol": "openai-chat", "base_url": "http://127.0.0.1:9/v1"}}
    offered: list[Any] = []
    for agent, named in (("reader", "house/large"), (None, None), ("", None)):
        model = scripted(says())
        async with chatting(tmp_path, model, *tools, configuration=configuration) as chat:
            identifier = await chat.named("ada", "talk", create=True)
            reader = Reader(chat, "ada", identifier, (await chat.snapshot("ada", identifier))["position"])
            await chat.say("ada", identifier, HELLO, agent=agent, model=named)
            await reader.until("ConductEnded")
            snapshot = await chat.snapshot("ada", identifier)
            offered.append((snapshot["agent"], snapshot["model"], sorted(model.asked[0][1].names)))
    assert offered == [
        ("reader", "house/large", ["look"]),
        ("reader", "house/large", ["look"]),
        # The model was named for the agent.
        ("", "house/default", ["look", "write"]),
    ]


async def test_that_an_answer_ended_too_early_stays_with_it(tmp_path: pathlib.Path) -> None:
    model = scripted(says("It begins", finish="length"), says("Whole."), says("It", finish="filter"))
    expected = [
        {"place": 2, "texts": [], "finish": "length"},
        {"place": 6, "texts": [], "finish": "filter"},
    ]
    async with chatting(tmp_path, model) as chat:
        identifier, reader = await started(chat)
        await reader.until("ConductEnded")
        assert (await chat.snapshot("ada", identifier))["unfinished"] == expected[:1]
        for text in ("Go on.", "And now?"):
            await chat.say("ada", identifier, UserCanister.of(text))
            await reader.until("ConductEnded")
        assert (await chat.snapshot("ada", identifier))["unfinished"] == expected
    async with chatting(tmp_path, model) as chat:
        assert (await chat.snapshot("ada", identifier))["unfinished"] == expected
        part = await chat.messages("ada", identifier, before=4, limit=4)
        assert part["unfinished"] == expected[:1]


async def test_a_stopped_run_keeps_the_turn_that_was_cut_off_and_that_it_was_stopped(tmp_path: pathlib.Path) -> None:
    words = [TurnBegan(), TextDelta("Good "), asyncio.Event().wait]
    model = scripted(invokes(invoke("look")), words, says("Good night."))
    async with chatting(tmp_path, model, tool("look")) as chat:
        identifier, reader = await started(chat)
        await reader.until("TextDelta")
        assert (await chat.snapshot("ada", identifier))["finish"] is None
        await chat.stop("ada", identifier)
        await reader.until("ConductEnded")
        snapshot = await chat.snapshot("ada", identifier)
        assert snapshot["turn"] == [{"type": "text", "text": "Good ", "sealed": False}]
        assert (snapshot["state"], snapshot["finish"]) == ("idle", "cancelled")
        assert (await texts(chat, "ada", identifier))[-1] == ("result", "look")
    async with chatting(tmp_path, model, tool("look")) as chat:
        # The journal has whole turns, the end of each run, and what was cut off before it.
        snapshot = await chat.snapshot("ada", identifier)
        assert snapshot["turn"] == [{"type": "text", "text": "Good ", "sealed": False}]
        assert snapshot["finish"] == "cancelled"
        assert (await texts(chat, "ada", identifier))[-1] == ("result", "look")
        reader = Reader(chat, "ada", identifier, snapshot["position"])
        await chat.resume("ada", identifier)
        assert (await chat.snapshot("ada", identifier))["finish"] is None
        await reader.until("ConductEnded")
        snapshot = await chat.snapshot("ada", identifier)
        assert (snapshot["turn"], snapshot["finish"]) == ([], "stop")
        assert (await texts(chat, "ada", identifier))[-1] == ("assistant", "Good night.")
        (unfinished,) = snapshot["unfinished"]
        assert unfinished == {
            "place": 4,
            "texts": [{"type": "text", "text": "Good ", "sealed": False}],
            "finish": "cancelled",
        }
        await chat.say("ada", identifier, UserCanister.of("Again."))
        await reader.until("TextDelta")
        await chat.stop("ada", identifier)
        await reader.until("ConductEnded")
        whole = await chat.snapshot("ada", identifier)
    async with chatting(tmp_path, model, tool("look")) as chat:
        # It stays beside the messages, in each part of them once, and no model reads it.
        found = await chat.snapshot("ada", identifier)
        assert (found["unfinished"], found["turn"], found["place"]) == ([unfinished], whole["turn"], 0)
        assert (await chat.snapshot("ada", identifier, limit=1))["unfinished"] == []
        assert (await chat.messages("ada", identifier, before=4, limit=1))["unfinished"] == [unfinished]
        assert (await chat.messages("ada", identifier, before=3, limit=1))["unfinished"] == []
        assert chat.journal.verify() is None
        assert "'Good '" not in str(model.asked[-1][0])


async def test_a_run_that_is_stopped_during_a_call_has_its_turn_once(tmp_path: pathlib.Path) -> None:
    blocking = Blocking()
    async with chatting(tmp_path, scripted(invokes(invoke("look"))), tool("look", blocking)) as chat:
        identifier, reader = await started(chat)
        await blocking.began.wait()
        await chat.stop("ada", identifier)
        await reader.until("ConductEnded")
        snapshot = await chat.snapshot("ada", identifier)
        assert (snapshot["turn"], snapshot["finish"]) == ([], "cancelled")
        assert [one["type"] for one in snapshot["messages"]] == ["user", "assistant", "invocation", "result"]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    ("answer", "wrote", "result"),
    [
        ({"answer": "approve"}, ["one"], "written"),
        ({"answer": "deny", "reason": "Not today."}, [], "Not today."),
        ({"answer": "edit", "arguments": {"text": "two"}}, ["two"], "written"),
    ],
)
async def test_a_question_waits_also_over_a_restart_and_its_answer_is_bound(
    tmp_path: pathlib.Path, answer: dict[str, Any], wrote: list[str], result: str, *, restarts: bool
) -> None:
    written = Written()
    async with chatting(tmp_path, writing("one"), written.definition) as chat:
        identifier, reader = await started(chat)
        (question,) = await questions(reader)
        assert not written.texts
        if not restarts:
            await answered(chat, identifier, question, answer)
            assert (await texts(chat, "ada", identifier))[-2:] == [("result", result), ("assistant", "Done.")]
    if restarts:
        async with chatting(tmp_path, scripted(says("Done.")), written.definition) as chat:
            snapshot = await chat.snapshot("ada", identifier)
            assert snapshot["state"] == "waiting"
            assert await chat.questions("ada") == {identifier: snapshot["questions"]}
            assert snapshot["questions"][0]["digest"] == question["digest"]
            await answered(chat, identifier, question, answer)
            assert (await texts(chat, "ada", identifier))[-2:] == [("result", result), ("assistant", "Done.")]
    assert written.texts == wrote


async def answered(chat: Chat, identifier: str, question: Any, answer: dict[str, Any]) -> None:
    """Answers the only question, after answers that are refused, and waits for the end of the run."""
    reader = Reader(chat, "ada", identifier, (await chat.snapshot("ada", identifier))["position"])
    given = {**answer, "digest": question["digest"]}
    for wrong in ({**given, "digest": "0" * 64}, answer):
        with pytest.raises(Conflict, match="has changed"):
            await chat.answer("ada", identifier, "one", wrong)
    for wrong in ({**given, "answer": "yes"}, {**given, "always": 1}, {**given, "answer": True}):
        with pytest.raises(RequestInvalidity):
            await chat.answer("ada", identifier, "one", wrong)
    with pytest.raises(Conflict, match="No question waits"):
        await chat.answer("ada", identifier, "other", given)
    assert await chat.answer("ada", identifier, "one", given) == 0
    await reader.until("ConductEnded")
    with pytest.raises(Conflict, match="No question waits"):
        await chat.answer("ada", identifier, "one", given)


async def test_the_run_goes_on_with_the_last_of_several_answers(tmp_path: pathlib.Path) -> None:
    written = Written()
    async with chatting(tmp_path, writing("one", "two"), written.definition) as chat:
        identifier, reader = await started(chat)
        # The second call changes the same things: it waits behind the first, and is asked about with it.
        asked = await questions(reader)
        for left, question in enumerate(reversed(asked)):
            given = {"answer": "approve", "digest": question["digest"]}
            assert await chat.answer("ada", identifier, str(question["invocation"]), given) == len(asked) - 1 - left
    assert set(written.texts) <= {"one", "two"}


async def test_always_holds_for_this_owner_and_conversation_only(tmp_path: pathlib.Path) -> None:
    written = Written()
    model = scripted(invokes(invoke("write", "one", text="x")), invokes(invoke("write", "two", text="y")), says())
    async with chatting(tmp_path, model, written.definition) as chat:
        identifier, reader = await started(chat)
        (question,) = await questions(reader)
        await chat.answer("ada", identifier, "one", {"answer": "approve", "always": True, "digest": question["digest"]})
        await reader.until("ConductEnded")
        assert written.texts == ["x", "y"]
        for owner in ("ada", "bob"):
            _, reader = await started(chat, owner)
            await questions(reader)
            model.asked.clear()
        assert written.texts == ["x", "y"]


def beside_others(written: Written) -> Definition:
    """The tool, of which several calls are asked about at once, since they write different things."""
    definition = written.definition
    return dataclasses.replace(definition, policy=dataclasses.replace(definition.policy, writes=("word:{text}",)))


@pytest.mark.parametrize("answered", ["one", "two"])
async def test_always_also_answers_the_questions_that_it_covers(tmp_path: pathlib.Path, answered: str) -> None:
    written = Written()
    write = beside_others(written)
    sure = dataclasses.replace(write, name="sure", policy=dataclasses.replace(write.policy, confirm=True))
    calls = (invoke("write", "one", text="x"), invoke("write", "two", text="y"), invoke("sure", "sure", text="z"))
    async with chatting(tmp_path, scripted(invokes(*calls), says("Done.")), write, sure) as chat:
        identifier, reader = await started(chat)
        asked = {one["invocation"]: one for one in await questions(reader)}
        assert list(asked) == ["one", "two", "sure"]
        given = {"answer": "approve", "always": True, "digest": asked[answered]["digest"]}
        assert await chat.answer("ada", identifier, answered, given) == 1
        # Every page takes the other question away; what is confirmed each time still waits.
        await reader.until("QuestionAnswered", 2)
        left = (await chat.snapshot("ada", identifier))["questions"]
        assert [one["invocation"] for one in left] == ["sure"]
        assert not written.texts
        assert await chat.answer("ada", identifier, "sure", {"answer": "deny", "digest": left[0]["digest"]}) == 0
        await reader.until("ConductEnded")
    assert written.texts == ["x", "y"]


@pytest.mark.parametrize(
    ("exact", "edits", "alone", "left"),
    [(True, False, False, 1), (False, True, False, 1), (False, False, True, 1), (False, False, False, 0)],
)
async def test_always_answers_no_question_that_it_does_not_cover(
    tmp_path: pathlib.Path, exact: bool, edits: bool, alone: bool, left: int
) -> None:
    written = Written()
    async with chatting(tmp_path, writing("one", "two"), beside_others(written)) as chat:
        identifier, reader = await started(chat)
        first, second = await questions(reader)
        if edits:
            # It is asked about with other arguments now, and a yes to them is for that call alone.
            edit = {"answer": "edit", "arguments": {"text": "three"}, "digest": second["digest"]}
            assert await chat.answer("ada", identifier, "two", edit, unseen=False) == 2
        given = {"answer": "approve", "always": True, "exact": exact, "digest": first["digest"]}
        assert await chat.answer("ada", identifier, "one", given, alone=alone) == left
        if left:
            assert not written.texts
            (still,) = (await chat.snapshot("ada", identifier))["questions"]
            assert await chat.answer("ada", identifier, "two", {"answer": "deny", "digest": still["digest"]}) == 0
        await reader.until("ConductEnded")
    assert written.texts == (["one"] if left else ["one", "two"])


async def test_what_was_allowed_and_kept_ends_with_its_conversation(tmp_path: pathlib.Path) -> None:
    async with chatting(tmp_path, writing("one"), Written().definition) as chat:
        identifier, reader = await started(chat)
        (question,) = await questions(reader)
        given = {"answer": "approve", "always": True, "exact": True, "digest": question["digest"]}
        await chat.answer("ada", identifier, "one", given)
        await reader.until("ConductEnded")
        assert [one.arguments for one in (await chat.allowances("ada"))[identifier]] == ['{"text":"one"}']
        workspace = next(one.record for one in chat.journal.lines(identifier, stage="began")).details["workspace"]
        outputs = Outputs(Places.of_user().state, pathlib.Path(workspace))
        assert outputs.keep("A long text.", identifier, 100) is not None
        await chat.delete("ada", identifier)
        assert await chat.allowances("ada") == {}
        assert not list(outputs.folder.glob("*/*"))


async def test_who_writes_instead_of_answering_denies_with_these_words(tmp_path: pathlib.Path) -> None:
    written = Written()
    async with chatting(tmp_path, writing("one"), written.definition) as chat:
        identifier, reader = await started(chat)
        await questions(reader)
        await chat.say("ada", identifier, UserCanister.of("Rather tell me a joke."))
        await reader.until("ConductEnded")
        assert (await texts(chat, "ada", identifier))[-3:] == [
            ("result", "Rather tell me a joke."),
            ("user", "Rather tell me a joke."),
            ("assistant", "Done."),
        ]
        assert not await chat.questions("ada")
    assert not written.texts


async def test_readers_that_leave_stop_nothing_and_stop_does(tmp_path: pathlib.Path) -> None:
    blocking = Blocking()
    model = scripted(invokes(invoke("look", "one")), says("Done."))
    async with chatting(tmp_path, model, tool("look", blocking)) as chat:
        identifier, reader = await started(chat)
        await reader.until("ExecutionBegan")
        # The reader has left; the run goes on.
        await blocking.began.wait()
        with pytest.raises(Conflict, match="under way"):
            await chat.say("ada", identifier, HELLO)
        await chat.stop("ada", identifier)
        assert (await reader.until("ConductEnded")).finish == "cancelled"
        assert blocking.running == 0
        assert (await chat.snapshot("ada", identifier))["state"] == "idle"


async def test_the_end_of_the_server_ends_its_runs_and_an_interrupted_one_is_continued(tmp_path: pathlib.Path) -> None:
    blocking = Blocking()
    model = scripted(invokes(invoke("look", "one")), says("Done."))
    async with chatting(tmp_path, model, tool("look", blocking)) as chat:
        identifier, _ = await started(chat)
        await blocking.began.wait()
    assert blocking.running == 0
    async with chatting(tmp_path, scripted(says("Done."))) as chat:
        snapshot = await chat.snapshot("ada", identifier)
        # No one has stopped it.
        assert (snapshot["state"], snapshot["finish"]) == ("interrupted", None)
        reader = Reader(chat, "ada", identifier, snapshot["position"])
        await chat.resume("ada", identifier)
        assert (await reader.until("ConductEnded")).finish == "stop"
        assert (await chat.snapshot("ada", identifier))["state"] == "idle"
    assert blocking.running == 0


async def test_nothing_of_another_owner_can_be_reached(tmp_path: pathlib.Path) -> None:
    written = Written()
    async with chatting(tmp_path, writing("one"), written.definition) as chat:
        identifier, reader = await started(chat)
        (question,) = await questions(reader)
        given = {"answer": "approve", "digest": question["digest"]}
        for owner in ("bob", "", "ada ", "Ada", "%"):
            reaches: list[Callable[[], Awaitable[object]]] = [
                functools.partial(chat.snapshot, owner, identifier),
                functools.partial(chat.say, owner, identifier, HELLO),
                functools.partial(chat.answer, owner, identifier, "one", given),
                functools.partial(chat.rename, owner, identifier, "Mine"),
                functools.partial(chat.stop, owner, identifier),
                functools.partial(chat.resume, owner, identifier),
                functools.partial(chat.read, owner, identifier, None),
            ]
            for reach in reaches:
                with pytest.raises(NameAbsence):
                    await reach()
            with pytest.raises(NameAbsence):
                await chat.delete(owner, identifier)
            assert not await chat.conversations(owner)
            assert not await chat.questions(owner)
            assert (await chat.usage(owner))["total"]["conversations"] == 0
        assert len(await chat.conversations("ada")) == 1
        await chat.delete("ada", identifier)
        assert not await chat.conversations("ada")
        with pytest.raises(NameAbsence):
            await chat.snapshot("ada", identifier)
    assert not written.texts


async def test_equal_identifiers_of_two_owners_are_two_conversations(tmp_path: pathlib.Path) -> None:
    written = Written()
    model = scripted(invokes(invoke("write", "one", text="one")), says("Done."))
    async with chatting(tmp_path, model, written.definition) as chat:
        # As two imported ones, or as front ends name them.
        store = ConversationStore(chat.journal)
        for owner in ("ada", "bob"):
            await store.create(owner, owner, "same")
            reader = Reader(chat, owner, "same", (await chat.snapshot(owner, "same"))["position"])
            await chat.say(owner, "same", UserCanister.of(f"I am {owner}."))
            await questions(reader)
            model.asked.clear()
    async with chatting(tmp_path, scripted(says("Done.")), written.definition) as chat:
        # Both still wait, each with what its owner said.
        for owner in ("ada", "bob"):
            assert (await texts(chat, owner, "same"))[0] == ("user", f"I am {owner}.")
        (question,) = (await chat.questions("ada"))["same"]
        reader = Reader(chat, "ada", "same", (await chat.snapshot("ada", "same"))["position"])
        await chat.answer("ada", "same", "one", {"answer": "deny", "reason": "No.", "digest": question["digest"]})
        await reader.until("ConductEnded")
        assert (await chat.questions("ada"), list(await chat.questions("bob"))) == ({}, ["same"])
        await chat.delete("ada", "same")
        assert (await chat.snapshot("bob", "same"))["state"] == "waiting"
    assert not written.texts


async def test_a_conversation_is_looked_up_once_and_a_deletion_elsewhere_is_noticed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    summary = Journal.summary
    monkeypatch.setattr(
        Journal, "summary", lambda self, name, **more: looked.append(name) or summary(self, name, **more)
    )
    async with chatting(tmp_path, scripted(says())) as chat:
        now = 100.0
        monkeypatch.setattr("ripieno.servers.chat.open_conversations.time.monotonic", lambda: now)
        identifier, reader = await started(chat)
        await reader.until("ConductEnded")
        looked.clear()
        for _ in range(3):
            assert await chat.named("ada", identifier) == identifier
            assert (await chat.snapshot("ada", identifier))["title"] == "Hello."
            await chat.stop("ada", identifier)
        assert looked == [identifier]
        await chat.rename("ada", identifier, "Mine")
        assert (await chat.snapshot("ada", identifier))["title"] == "Mine"
        with Journal(tmp_path / "state" / "journal.sqlite3") as other:
            other.delete(identifier, owner="ada")
        now += 1.1
        with pytest.raises(NameAbsence):
            await chat.snapshot("ada", identifier)


async def test_an_owner_has_only_so_many_runs_and_readers(tmp_path: pathlib.Path) -> None:
    blocking = Blocking()
    model = scripted(invokes(invoke("look", "one")), says("Done."))
    limits = ChatLimits(runs=1, readers=1)
    async with chatting(tmp_path, model, tool("look", blocking), limits=limits) as chat:
        identifier, _ = await started(chat)
        await blocking.began.wait()
        with pytest.raises(Refused, match="1 runs already"):
            await started(chat)
        reading = await chat.read("ada", identifier, None)
        waiting = asyncio.ensure_future(anext(reading))
        await asyncio.sleep(0)
        with pytest.raises(Refused, match="1 streams of events already"):
            await chat.read("ada", identifier, None)
        # Others have their own share.
        other, _ = await started(chat, "bob")
        assert (await chat.snapshot("bob", other))["state"] == "running"
        waiting.cancel()
        await asyncio.wait((waiting,))
        blocking.go.set()


async def test_a_run_that_failed_before_it_answered_is_begun_again(tmp_path: pathlib.Path) -> None:
    failure = ProviderUnreachable("scripted", "It is away.")
    async with chatting(tmp_path, scripted([failure], says("Here."))) as chat:
        identifier, reader = await started(chat)
        await reader.until("RunFailed")
        assert (await reader.until("ConductEnded")).finish == "error"
        await chat.resume("ada", identifier)
        await reader.until("ConductEnded")
        assert await texts(chat, "ada", identifier) == [("user", "Hello."), ("assistant", "Here.")]
        with pytest.raises(Conflict, match="not interrupted"):
            await chat.resume("ada", identifier)


async def test_a_run_that_a_terminal_tool_ended_is_not_continued(tmp_path: pathlib.Path) -> None:
    model, submit = scripted(invokes(invoke("submit"))), tool("submit", terminal=True)
    async with chatting(tmp_path, model, submit) as chat:
        identifier, reader = await started(chat)
        assert (await reader.until("ConductEnded")).finish == "terminal"
        with pytest.raises(Conflict, match="idle, not interrupted"):
            await chat.resume("ada", identifier)
    async with chatting(tmp_path, model, submit) as chat:
        with pytest.raises(Conflict, match="idle, not interrupted"):
            await chat.resume("ada", identifier)


async def test_an_edited_call_is_shown_and_runs_only_as_it_was_shown(tmp_path: pathlib.Path) -> None:
    written, before = Written(), ["old"]

    def preview(context: Context, arguments: Mapping[str, Any]) -> str:
        return show_change("note", before[0], str(arguments["text"]))

    previewed = dataclasses.replace(written.definition, preview=preview)
    async with chatting(tmp_path, writing("one"), previewed) as chat:
        identifier, reader = await started(chat)
        (question,) = await questions(reader)
        edit = {"answer": "edit", "digest": question["digest"], "arguments": {"text": "two"}}
        for wrong in ({"text": 5}, {"words": "two"}):
            with pytest.raises(RequestInvalidity):
                await chat.revise("ada", identifier, "one", {**edit, "arguments": wrong})
        shown = await chat.revise("ada", identifier, "one", edit)
        assert "+two" in str(shown["shown"])
        assert "-old" in str(shown["shown"])
        with pytest.raises(Conflict, match="was not shown"):
            await chat.answer("ada", identifier, "one", {**edit, "shown": "0" * 64})
        # What it would change is something else by now: it is asked about again.
        before[0] = "newer"
        assert await chat.answer("ada", identifier, "one", {**edit, "shown": shown["digest"]}) == 0
        (question,) = await questions(reader)
        assert "-newer" in question["shown"]["change"]
        assert not written.texts
        edit["digest"] = question["digest"]
        shown = await chat.revise("ada", identifier, "one", edit)
        assert await chat.answer("ada", identifier, "one", {**edit, "shown": shown["digest"]}) == 0
        await reader.until("ConductEnded")
        assert written.texts == ["two"]


async def test_the_users_own_conversation_of_another_folder_is_shown_and_not_continued(tmp_path: pathlib.Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    written = Written()
    async with chatting(tmp_path, writing("a"), written.definition, workspace=lambda _: one) as chat:
        identifier, reader = await started(chat, "")
        (question,) = await questions(reader)
    approval = {"answer": "approve", "digest": question["digest"]}
    async with chatting(tmp_path, scripted(says("Done.")), written.definition, workspace=lambda _: two) as chat:
        assert (await chat.snapshot("", identifier))["state"] == "waiting"
        for change in (
            chat.answer("", identifier, question["invocation"], approval),
            chat.say("", identifier, UserCanister.of("Go on.")),
        ):
            with pytest.raises(
                Conflict, match=rf"The workspace of the conversation is {one}, not {two}. .*ripieno resume"
            ):
                await change
        # Nothing was recorded: the question is there still, and says where to answer it, in both places.
        for (asked,) in ((await chat.snapshot("", identifier))["questions"], (await chat.questions(""))[identifier]):
            assert asked["digest"] == question["digest"]
            assert asked["shown"]["notes"][0].startswith(f"The workspace of the conversation is {one}")
    async with chatting(tmp_path, scripted(says("Done.")), written.definition, workspace=lambda _: one) as chat:
        reader = Reader(chat, "", identifier, await chat.position("", identifier))
        assert await chat.answer("", identifier, question["invocation"], approval) == 0
        await reader.until("ConductEnded")
    assert written.texts == ["a"]


async def test_a_question_of_another_process_is_listed_also_if_its_run_was_looked_at(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, blocking = Written(), Blocking()
    turns = invokes(invoke("look")), invokes(invoke("write", text="a"))
    definitions = tool("look", blocking), written.definition
    async with (
        chatting(tmp_path, scripted(*turns), *definitions) as chat,
        chatting(tmp_path, scripted(says()), *definitions) as other,
    ):
        monkeypatch.setattr(open_conversations, "_CHECKED", -1.0)
        identifier, reader = await started(chat, "")
        await blocking.began.wait()
        assert (await other.snapshot("", identifier))["questions"] == []
        assert await other.questions("") == {}
        blocking.go.set()
        (question,) = await questions(reader)
        assert [one["digest"] for one in (await other.questions(""))[identifier]] == [question["digest"]]
        await chat.answer("", identifier, "write", {"answer": "approve", "digest": question["digest"]})
        await reader.until("ResultReady")
        assert await other.questions("") == {}


async def test_the_run_of_a_worker_is_not_continued_by_a_chat_without_workers(tmp_path: pathlib.Path) -> None:
    written = Written()
    async with chatting(tmp_path, writing("a"), written.definition) as chat:
        identifier, reader = await started(chat, "")
        (question,) = await questions(reader)
        paused = PausedStore(chat.journal.database)
        kept = paused.load(identifier)
        assert kept is not None
        about = Submission(identifier="run", conversation=identifier, model="score:/notes.toml")
        paused.save(dataclasses.replace(kept, submission=about))
    async with chatting(tmp_path, scripted(says("Done.")), written.definition) as chat:
        approval = {"answer": "approve", "digest": question["digest"]}
        # The page lists it before it is opened.
        ((asked,),) = (await chat.questions("")).values()
        assert asked["shown"]["notes"][0].startswith("A worker conducts this run.")
        assert (asked["choices"], asked["always"]) == ([], [])
        with pytest.raises(Conflict, match=f"A worker conducts this run. .*ripieno approvals show {identifier[:8]}"):
            await chat.answer("", identifier, question["invocation"], approval)
        kept = PausedStore(chat.journal.database).load(identifier)
        assert kept is not None
        assert not kept.answers
    assert written.texts == []


async def test_what_a_terminal_has_done_meanwhile_is_what_the_chat_goes_on_from(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes with one journal: one has the conversation in memory while the other one continues it."""
    written = Written()
    async with chatting(tmp_path, writing("one"), written.definition) as page:
        identifier, reader = await started(page, "")
        (question,) = await questions(reader)
        model = scripted(invokes(invoke("write", "two", text="two")), says("Done."))
        async with chatting(tmp_path, model, written.definition) as terminal:
            approval = {"answer": "approve", "digest": question["digest"]}
            assert await terminal.answer("", identifier, question["invocation"], approval) == 0
            other = Reader(terminal, "", identifier, await terminal.position("", identifier))
            (later,) = await questions(other)
            assert later["invocation"] == "two"
            assert written.texts == ["one"]
            # A message here, or an answer to what was asked before, would end what the terminal has begun.
            position = await page.position("", identifier)
            for change in (
                page.say("", identifier, UserCanister.of("Go on.")),
                page.answer("", identifier, question["invocation"], approval),
            ):
                with pytest.raises(Conflict):
                    await change
            assert [one["invocation"] for one in (await page.questions(""))[identifier]] == ["two"]
            snapshot = await page.snapshot("", identifier)
            assert [one["invocation"] for one in snapshot["questions"]] == ["two"]
            # Who reads the events loads the conversation again.
            assert snapshot["position"] != position
            with pytest.raises(EventsLost):
                await anext(await page.read("", identifier, position))
            given = {"answer": "deny", "digest": later["digest"], "reason": "Enough."}
            assert await terminal.answer("", identifier, "two", given) == 0
            await other.until("ConductEnded")
        monkeypatch.setattr(open_conversations, "_CHECKED", -1.0)
        assert await page.questions("") == {}
        assert (await page.snapshot("", identifier))["state"] == "idle"
    assert written.texts == ["one"]
