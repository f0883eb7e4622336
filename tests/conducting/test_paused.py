"""Conversations that wait for a person: stored, answered from any process, resumed by one, and never run twice."""

import asyncio
import contextlib
import dataclasses
import pathlib
import sqlite3
import subprocess
import sys
from typing import Any

import pytest

from ripieno.approvals import Answer, Approve, Defer, DeferredConfirmer, Deny, Edit, Given
from ripieno.approvals.grants import Binding
from ripieno.canisters import Conversation, InvocationCanister, ResultCanister
from ripieno.conducting import conduct
from ripieno.conducting.paused import Paused, PausedStore
from ripieno.ensembles import Context
from ripieno.exceptions import InputError, NameAbsence
from ripieno.execution import Execution
from ripieno.storage.databases.opening import database_at
from ripieno.storage.journal import NAME
from ripieno.testing import call, turn
from ripieno.testing.wires import model_of
from tests.support.databases import paused_in
from tests.support.scripted_models import Person, ensemble, tool

WORD = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}


class Book:
    """A tool that writes words down."""

    def __init__(self, description: str = "Writes a word down.") -> None:
        self.words: list[str] = []
        write = tool("write", self._write, schema=WORD, effect="write")
        self.ensemble = ensemble(dataclasses.replace(write, description=description))

    def _write(self, context: Context, arguments: dict[str, Any]) -> str:
        self.words.append(arguments["word"])
        return f"Wrote {arguments['word']}."


def model(*words: str) -> "object":
    return model_of([turn("I write.", calls=[call("write", word=word) for word in words]), turn("Done.")])


async def paused(book: Book, *words: str) -> Conversation:
    execution = Execution(confirmer=DeferredConfirmer())
    conversation = await conduct(model(*words), "Write.", ensembles=[book.ensemble], execution=execution)
    assert conversation.finish == "open"
    return conversation


def kept(store: PausedStore, conversation: Conversation) -> Paused:
    store.save(Paused(conversation=conversation, workspace="/somewhere", model="house/small"))
    return store.find(conversation.identifier)


async def go_on(store: PausedStore, book: Book, waiting: Paused, *words: str) -> Conversation:
    execution = Execution(confirmer=DeferredConfirmer(), grants=store.grants)
    return await conduct(
        model(*words), waiting.conversation, ensembles=[book.ensemble], execution=execution, answers=waiting.answers
    )


async def answered(store: PausedStore, book: Book, answer: Answer) -> Paused:
    """A conversation that waited for one call, with an answer to it."""
    waiting = kept(store, await paused(book, "one"))
    return store.answer(waiting.identifier, {waiting.unanswered[0].invocation: answer})


def results(conversation: Conversation) -> list[str | None]:
    found = {one.invocation_id: one for one in conversation.canisters if isinstance(one, ResultCanister)}
    calls = [one for one in conversation.canisters if isinstance(one, InvocationCanister)]
    faults = [found[one.identifier].error for one in calls]
    return [None if fault is None else fault.code or fault.category for fault in faults]


async def test_what_was_approved_elsewhere_runs_once(tmp_path: pathlib.Path) -> None:
    store, book = paused_in(tmp_path), Book()
    waiting = kept(store, await paused(book, "one", "two"))
    assert [one.why for one in waiting.conversation.waiting] == ["approval", "behind"]
    first = waiting.unanswered[0].invocation
    approved = paused_in(tmp_path).answer(waiting.identifier, {first: Approve()})
    assert book.words == []
    conversation = await go_on(store, book, approved, "one", "two")
    # The second one was behind it, and is asked about now.
    assert (book.words, conversation.finish) == (["one"], "open")
    assert [one.why for one in conversation.waiting] == ["approval"]
    again = kept(store, conversation)
    last = store.answer(again.identifier, {again.unanswered[0].invocation: Approve()})
    ended = await go_on(store, book, last, "one", "two")
    assert (book.words, ended.finish, ended.text) == (["one", "two"], "stop", "Done.")
    assert results(ended) == [None, None]


async def test_a_run_that_is_cancelled_before_it_begins_runs_no_approved_call(tmp_path: pathlib.Path) -> None:
    store, book = paused_in(tmp_path), Book()
    approved = await answered(store, book, Approve())
    execution = Execution(confirmer=DeferredConfirmer(), grants=store.grants)
    run = conduct(
        model("one"), approved.conversation, ensembles=[book.ensemble], execution=execution, answers=approved.answers
    )
    run.cancel()
    conversation = await run
    assert (book.words, conversation.finish, len(conversation.open)) == ([], "cancelled", 1)
    # Its approval was not used.
    ended = await go_on(store, book, approved, "one")
    assert (book.words, ended.finish) == (["one"], "stop")


async def test_an_approval_is_good_once_even_for_a_copy_of_the_state(tmp_path: pathlib.Path) -> None:
    store, book = paused_in(tmp_path), Book()
    approved = await answered(store, book, Approve())
    first, second = await asyncio.gather(*(go_on(store, book, approved, "one") for _ in range(2)))
    assert book.words == ["one"]
    assert sorted(str(*results(one)) for one in (first, second)) == ["None", "used_grant"]


async def test_an_approval_that_is_taken_back_is_worth_nothing(tmp_path: pathlib.Path) -> None:
    store, book = paused_in(tmp_path), Book()
    approved = await answered(store, book, Approve())
    (invocation,) = approved.answers
    revoked = store.revoke(approved.identifier, [invocation])
    assert (revoked.answers, store.find("")) == ({}, revoked)
    # Nor does a program run it that has read the conversation before.
    assert results(await go_on(store, book, approved, "one")) == ["used_grant"]
    assert book.words == []
    with pytest.raises(InputError, match="has no approval"):
        store.revoke(approved.identifier, [invocation])
    with pytest.raises(NameAbsence):
        store.revoke("other", [invocation])


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(Approve(), "was used already"), (Deny("no"), "has no approval"), (None, "was approved in a chat")],
)
async def test_an_answer_that_cannot_be_taken_back_stays(
    tmp_path: pathlib.Path, answer: Answer | None, reason: str
) -> None:
    store, book = paused_in(tmp_path), Book()
    given = await answered(store, book, answer or Approve())
    (invocation,) = given.answers
    if answer is None:
        # As a chat keeps it: in its memory, too.
        answers = {name: dataclasses.replace(one, token="") for name, one in given.answers.items()}
        given = dataclasses.replace(given, answers=answers)
        store.save(given)
    elif isinstance(answer, Approve):
        await go_on(store, book, given, "one")
    with pytest.raises(InputError, match=reason):
        store.revoke(given.identifier, [invocation])
    assert store.find("") == given


async def test_whoever_is_there_answers_when_it_is_conducted_again() -> None:
    book, person = Book(), Person(Approve())
    conversation = await paused(book, "one")
    ended = await conduct(model("one"), conversation, ensembles=[book.ensemble], execution=Execution(confirmer=person))
    assert [one.tool for one in person.requests] == ["mine.write"]
    assert (book.words, ended.finish) == (["one"], "stop")


async def test_the_first_answer_stands(tmp_path: pathlib.Path) -> None:
    store = paused_in(tmp_path)
    waiting = kept(store, await paused(Book(), "one"))
    (call_,) = waiting.unanswered
    store.answer(waiting.identifier, {call_.invocation: Deny("no")})
    with pytest.raises(InputError, match="was answered already"):
        store.answer(waiting.identifier, {call_.invocation: Approve()})
    with pytest.raises(InputError, match="waits for no approval"):
        store.answer(waiting.identifier, {"call_9": Approve()})
    assert store.find("").answers[call_.invocation].answer == Deny("no")


async def test_what_is_kept_is_for_its_user_alone_and_is_forgotten(tmp_path: pathlib.Path) -> None:
    store = paused_in(tmp_path)
    waiting = kept(store, await paused(Book(), "one"))
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600
    store.forget(waiting.identifier)
    store.forget(waiting.identifier)
    assert store.all() == ()
    with pytest.raises(NameAbsence):
        store.find(waiting.identifier)


async def test_a_message_names_three_conversations_by_unique_beginnings(tmp_path: pathlib.Path) -> None:
    store, conversation = paused_in(tmp_path), await paused(Book(), "one")
    names = ["12345678a0", "12345678b0", *(f"{number}" * 32 for number in range(2, 8))]
    for name in names:
        store.save(Paused(conversation=conversation.replace(identifier=name), workspace="/w", model="m"))
    few = "12345678a, 12345678b, 222222222 and 5 more. To list all: ripieno approvals list"
    with pytest.raises(NameAbsence) as absent:
        store.find("zzz")
    assert str(absent.value) == f"There is no paused conversation named 'zzz'. Waiting: {few}"
    with pytest.raises(InputError) as several:
        store.find("1234")
    assert str(several.value) == (
        "Several conversations match: 12345678a, 12345678b. To list all: ripieno approvals list"
    )
    assert store.find("12345678b").identifier == "12345678b0"
    with pytest.raises(NameAbsence, match=f"Did you mean '{names[2]}'"):
        store.find("2" * 31 + "3")


async def test_two_owners_have_equal_identifiers(tmp_path: pathlib.Path) -> None:
    store, conversation = paused_in(tmp_path), await paused(Book(), "one")
    (call_,) = conversation.waiting
    owners = ("", "ada", "bob", 'ada", "', "\ud800")
    for owner in owners:
        store.save(Paused(conversation=conversation, workspace="/w", model=f"m{owner}", owner=owner))
    assert len(store.all()) == len(owners)
    with pytest.raises(InputError, match=r"Several conversations match: .*\(of ada\), .*\(of bob\)"):
        store.find(conversation.identifier)
    changed = store.answer(conversation.identifier, {call_.invocation: Deny("no")}, owner="ada")
    assert changed.owner == "ada"
    for owner in owners:
        found = store.load(conversation.identifier, owner=owner)
        assert found is not None
        assert (found.owner, found.model, bool(found.answers)) == (owner, f"m{owner}", owner == "ada")
    # Each has its own lock.
    with store.claimed(conversation.identifier, owner="ada"), store.claimed(conversation.identifier, owner="bob"):
        pass
    store.forget(conversation.identifier, owner="ada")
    assert {one.owner for one in store.all()} == {*owners} - {"ada"}


def test_every_answer_is_kept(tmp_path: pathlib.Path) -> None:
    binding = Binding(conversation="a", invocation="b", tool="c", definition="d", arguments="e", rules="f")
    answers = {
        "one": Given(answer=Approve(always=True), binding=binding, token="t"),
        "two": Given(answer=Deny("Not now.")),
        "three": Given(answer=Edit({"word": "other", "more": {"a": 1.5}})),
        "four": Given(answer=Defer("Later.")),
    }
    one = Paused(conversation=Conversation.of("Hi."), workspace="/w", model="m", tools=("io.*",), answers=answers)
    store = paused_in(tmp_path)
    store.save(one)
    assert store.load(one.identifier) == one
    with contextlib.closing(sqlite3.connect(tmp_path / NAME)) as file, file:
        file.execute("""UPDATE paused SET body = replace(body, '"type": "deny"', '"type": "subprocess.run"')""")
    with pytest.raises(InputError, match=r"\['two'\]\.answer: there is no type 'subprocess\.run'; known are approve"):
        store.load(one.identifier)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ('{"version": 1', "Expecting"),
        ("[]", "expected an object, not list"),
        ('{"version": 2, "type": "paused"}', "its version is 2; this is version 1"),
        ('{"version": 1, "type": "conversation"}', "its type is 'conversation', not 'paused'"),
        ('{"version": 1, "type": "paused"}', "the field 'conversation' is missing"),
    ],
)
def test_a_damaged_row_is_named(tmp_path: pathlib.Path, damage: str, reason: str) -> None:
    store = paused_in(tmp_path)
    assert store.all() == ()
    with contextlib.closing(sqlite3.connect(tmp_path / NAME)) as file, file:
        file.execute("INSERT INTO paused VALUES ('\"\"', '\"torn\"', '2026-01-01', ?)", (damage,))
    with pytest.raises(
        InputError, match=r"journal\.sqlite3: the paused conversation 'torn' cannot be read: "
    ) as caught:
        store.all()
    assert reason in str(caught.value)


CLAIM = """
import pathlib, sys
from ripieno.exceptions import InputError
from ripieno.conducting.paused import PausedStore
from ripieno.storage.databases.opening import database_at

place = sys.argv[1] if "://" in sys.argv[1] else pathlib.Path(sys.argv[1])
try:
    with PausedStore(database_at(place)).claimed("one"):
        print("claimed")
except InputError as error:
    print(error)
"""


def test_one_process_conducts_a_conversation(place: pathlib.Path | str) -> None:
    def claim() -> str:
        return subprocess.run(
            [sys.executable, "-c", CLAIM, str(place)], capture_output=True, text=True, check=True
        ).stdout

    with PausedStore(database_at(place)).claimed("one"):
        assert "Another process conducts" in claim()
    assert claim() == "claimed\n"
    if isinstance(place, pathlib.Path):
        assert list(place.with_name(f"{place.name}.claims").iterdir()) == []


def test_given_answers_do_not_print_their_token() -> None:
    assert "secret" not in repr(Given(answer=Approve(), token="secret"))
