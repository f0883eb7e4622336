"""Conversations out of the journal: restored wherever they were cut off, forked, listed, added up, anchored."""

import json
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from frozendict import frozendict
from hypothesis import given, settings
from hypothesis import strategies as st

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    TextualContent,
    UserCanister,
)
from ripieno.canisters.controls import Rules
from ripieno.canisters.conversation import Usage, assistant_messages
from ripieno.canisters.faults import Fault, Report
from ripieno.conducting import conduct
from ripieno.exceptions import InputError, NameAbsence
from ripieno.execution import Execution
from ripieno.storage.journal import GENESIS, Anchor, Journal, anchor_line, read_anchor
from ripieno.storage.journal.verification import find_anchor
from ripieno.storage.records import Record, Stage
from tests.counts import count
from tests.support.postgresql import address_of_schema
from tests.support.scripted_models import ensemble, invoke, invokes, says, scripted, tool

USED = {"input_tokens": 100, "output_tokens": 7, "cache_read_tokens": 60}


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "journal.sqlite3") as one:
        yield one


def said(canister: Canister, turn: int = 0, conversation: str = "c", **details: object) -> Record:
    return Record(stage="said", conversation=conversation, turn=turn, canister=canister, details=details)


def told(stage: Stage, turn: int = 0, conversation: str = "c", **details: object) -> Record:
    return Record(stage=stage, conversation=conversation, turn=turn, details=details)


def done(
    stage: Stage, call: InvocationCanister, turn: int, result: ResultCanister | None = None, tool: str = "mine.look"
) -> Record:
    return Record(stage=stage, conversation="c", turn=turn, tool=tool, invocation=call, result=result)


def call(identifier: str, name: str = "look") -> InvocationCanister:
    return InvocationCanister(identifier=identifier, name=name, arguments=frozendict(at="home"))


def result(identifier: str, text: str = "seen", error: Fault | None = None, **report: object) -> ResultCanister:
    facts = Report(**{"attempts": 1, "duration_ms": 10.0, **report})  # type: ignore[arg-type]
    return ResultCanister(invocation_id=identifier, content=(TextualContent(text=text),), error=error, report=facts)


#: How far a call came: what stands in the journal of it, before and after the model's message was complete.
FATES: dict[str, tuple[Sequence[Stage], Sequence[Stage]]] = {
    "early": (("started", "finished"), ()),
    "begun early": (("started",), ("finished",)),
    "late": ((), ("started", "finished")),
    "asked": ((), ("asked", "answered", "started", "finished")),
    "refused": ((), ("refused",)),
    "denied": ((), ("asked", "answered", "refused")),
}


def conducted(runs: Sequence[Sequence[Sequence[str]]]) -> Iterator[Record]:
    """The records of runs in one conversation, whose turns name their calls anew."""
    turn = place = 0

    def saying(canister: Canister) -> Record:
        nonlocal place
        place += 1
        return said(canister, turn, place=place - 1)

    for run in runs:
        yield told("began", turn, model="house/small")
        yield saying(UserCanister.of("Go."))
        for fates in run:
            turn += 1
            calls = [(call(f"call_{index}"), fate) for index, fate in enumerate(fates)]
            for one, fate in calls:
                yield from (step(stage, one, turn) for stage in FATES[fate][0])
            yield saying(AssistantCanister.of("I look."))
            for one, _ in calls:
                yield saying(one)
            yield told("turned", turn, model="house/small", finish="invocations", usage=USED)
            for one, fate in calls:
                yield from (step(stage, one, turn) for stage in FATES[fate][1])
            place += len(calls)
        yield told("ended", turn, finish="stop")


def standing(written: Sequence[Record]) -> tuple[Canister, ...]:
    """What these records mean, said in another way: what was said, and behind each answer the results of its calls."""
    canisters: list[Canister] = []
    for number, record in enumerate(written):
        if record.canister is not None:
            canisters.append(record.canister)
        following = next((one.canister for one in written[number + 1 :] if one.canister is not None), None)
        if isinstance(record.canister, InvocationCanister) and not isinstance(following, InvocationCanister):
            canisters += (
                one.result
                for asked in written
                if isinstance(asked.canister, InvocationCanister) and asked.turn == record.turn
                for one in written
                if one.result is not None and one.invocation is asked.canister
            )
    return tuple(canisters)


def step(stage: Stage, one: InvocationCanister, turn: int) -> Record:
    return done(stage, one, turn, result(one.identifier) if stage in ("finished", "refused") else None)


@settings(max_examples=count(400, 40))
@given(
    st.lists(
        st.lists(st.lists(st.sampled_from(sorted(FATES)), max_size=3), max_size=3).filter(bool), min_size=1, max_size=3
    ),
    st.data(),
)
def test_whatever_was_written_before_a_crash_is_what_is_restored(
    runs: list[list[list[str]]], data: st.DataObject
) -> None:
    records = list(conducted(runs))
    written = records[: data.draw(st.integers(2, len(records)))]
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder, "j")) as journal:
        journal.record(written)
        restored = journal.restore("c")
    spoken = standing(written)
    assert restored.conversation.canisters == spoken
    assert restored.conversation.usage.input_tokens == 100 * sum(record.stage == "turned" for record in written)
    assert restored.ended == (written[-1].stage == "ended")
    assert restored.conversation.finish == ("stop" if restored.ended else None)
    # The calls of the message that the last words belong to, and what stands of each.
    messages = assistant_messages(spoken)
    answered = bool(messages) and not isinstance(spoken[-1], UserCanister)
    calls = [one for one in messages[-1] if isinstance(one, InvocationCanister)] if answered else []
    assert [state.identifier for state in restored.states] == [one.identifier for one in calls]
    for state, one in zip(restored.states, calls, strict=True):
        assert state.invocation is not None
        assert state.invocation.timestamp == one.timestamp
        stages = [record.stage for record in written if record.invocation is one]
        known = any(stage in ("finished", "refused") for stage in stages)
        assert state.status == (
            "finished" if known else "outcome_unknown" if "started" in stages else "never_started"
        ), stages
        assert (state.result is not None) == known


async def test_a_run_is_restored_as_it_was(journal: Journal) -> None:
    model = scripted(
        invokes(invoke("look", "a"), invoke("burn", "b"), invoke("look", "a2"), usage=Usage(input_tokens=9)),
        invokes(invoke("no_such_tool", "c"), usage=Usage(input_tokens=5, output_tokens=2)),
        says("I saw it."),
    )
    execution = Execution(recorder=journal, rules=Rules(deny=("mine.burn",)))
    tools = [ensemble(tool("look"), tool("burn", effect="destructive"))]
    first = await conduct(model, "Go.", ensembles=tools, execution=execution)
    again = await conduct(model, first.say("And again."), ensembles=tools, execution=execution)
    restored = journal.restore(first.identifier)
    assert restored.ended
    assert restored.conversation == again
    assert restored.states == ()
    summary = next(journal.conversations())
    assert (summary.model, summary.turns, summary.calls, summary.words) == (model.identity, 6, 4, "Go.")
    found = journal.statistics()
    assert (found.total.calls, found.total.denied, found.unfinished) == (4, 2, 0)
    assert found.unknown == {"no_such_tool": 2}
    assert found.total.input_tokens == again.usage.input_tokens
    # Another answer than the first one, from the same question on.
    forked = journal.fork(first.identifier, until=1)
    other = await conduct(model, forked, ensembles=tools, execution=execution)
    assert journal.restore(forked.identifier).conversation == other
    assert journal.verify() is None


def test_a_result_that_was_said_makes_its_call_finished(journal: Journal) -> None:
    one, other = call("a"), call("b")
    journal.record([said(UserCanister.of("Go.")), said(AssistantCanister(), 1), said(one, 1), said(other, 1)])
    assert [state.status for state in journal.state_of("c")] == ["never_started", "never_started"]
    assert journal.restore("c").conversation.open == (one, other)
    journal.record([done("started", one, 1), said(result("a", "by the client"), 1)])
    first, second = journal.state_of("c")
    assert (first.status, first.result and first.result.text) == ("finished", "by the client")
    assert second.status == "never_started"
    assert journal.restore("c").conversation.open == (other,)


def test_the_same_call_said_twice_is_not_to_be_run_again(journal: Journal) -> None:
    one = call("a")
    spoken = [said(UserCanister.of("Go.")), said(AssistantCanister(), 1), said(one, 1)]
    journal.record([*spoken, done("started", one, 1), said(one, 1)])
    (state,) = journal.state_of("c")
    assert state.status == "outcome_unknown"


def test_whoever_goes_back_goes_on_from_there(journal: Journal) -> None:
    old, new = SupervisorCanister.of("Be kind."), SupervisorCanister.of("Be brief.")
    journal.record([said(old, place=0), said(UserCanister.of("Go."), place=1)])
    journal.record([said(new, place=0), said(UserCanister.of("Come."), place=1)])
    assert journal.restore("c").conversation.canisters == (new, UserCanister.of("Come."))


@pytest.fixture
def spoken(journal: Journal) -> list[Canister]:
    """A conversation of two turns; the second one's usage counts only when it is kept."""
    canisters: list[Canister] = [
        UserCanister.of("Look into it, please."),
        AssistantCanister.of("I look."),
        call("a"),
        call("b"),
        result("a"),
        result("b"),
        AssistantCanister.of("There is nothing."),
    ]
    journal.record([told("began", model="house/small")])
    journal.record([told("turned", 1, model="house/small", finish="invocations", usage=USED)])
    journal.record([said(one, 1) for one in canisters[:6]])
    journal.record([told("turned", 2, model="house/small", finish="stop", usage=USED), said(canisters[6], 2)])
    journal.record([told("ended", 2, finish="stop")])
    return canisters


@pytest.mark.parametrize("until", [1, 6, 7])
def test_a_fork_goes_on_by_itself(journal: Journal, spoken: list[Canister], until: int) -> None:
    forked = journal.fork("c", until=until)
    assert forked.canisters == tuple(spoken[:until])
    assert forked.identifier != "c"
    assert forked.open == ()
    again = journal.restore(forked.identifier)
    assert again.conversation == forked
    assert again.ended
    assert all(state.status == "finished" for state in again.states)
    assert journal.restore("c").conversation.canisters == tuple(spoken)
    assert journal.verify() is None
    forked.say("And now?")


def test_a_fork_is_at_a_message_that_there_is_and_parts_no_calls_from_results(
    journal: Journal, spoken: list[Canister]
) -> None:
    for until in (2, 3, 4, 5):
        with pytest.raises(InputError, match=r"in the middle of a turn.*before it, at 1"):
            journal.fork("c", until=until)
    for until in (0, -1, 8):
        with pytest.raises(InputError, match="the conversation has 7"):
            journal.fork("c", until=until)
    assert len(list(journal.conversations())) == 1


def test_what_is_deleted_is_not_restored(journal: Journal, spoken: list[Canister]) -> None:
    journal.delete("c")
    with pytest.raises(InputError, match="was deleted"):
        journal.restore("c")
    (summary,) = journal.conversations()
    assert (summary.deleted, summary.words, summary.model, summary.turns) == (True, "", None, 2)


def test_conversations_in_short(journal: Journal, spoken: list[Canister]) -> None:
    journal.record([told("began", conversation="d", model="house/large"), said(UserCanister.of("é" * 300), 0, "d")])
    second, first = journal.conversations()
    assert (first.identifier, first.model, first.finish, first.turns) == ("c", "house/small", "stop", 2)
    assert first.words == "Look into it, please."
    assert first.first < first.last < second.first
    assert (second.identifier, second.model, second.finish) == ("d", "house/large", None)
    assert second.words == "é" * 200 + " ..."
    assert next(journal.conversations(limit=1)).identifier == "d"


def test_a_conversation_is_found_by_how_it_begins(journal: Journal) -> None:
    journal.record([told("began", conversation=name) for name in ("ab", "abc", "abd", "x%y", "x_y")])
    assert journal.find("ab").identifier == "ab"
    assert journal.find("abc").identifier == "abc"
    assert journal.find("x%").identifier == "x%y"
    with pytest.raises(InputError, match="ab, abc, abd"):
        journal.find("a")
    with pytest.raises(NameAbsence, match="ripieno journal list"):
        journal.find("q")
    with pytest.raises(InputError):
        journal.find("")


def test_what_it_adds_up_to(journal: Journal) -> None:
    slow, bad = result("a", duration_ms=30.0, attempts=3), Fault(category="execution", message="No.")
    unknown = Fault(category="unknown_tool", message="There is none.")
    denied = Fault(category="denied", message="No.")
    journal.record([told("turned", 1, model="house/small", usage=USED | {"reasoning_tokens": 2}, milliseconds=400.5)])
    journal.record([told("turned", 2, model="house/large", usage={}, milliseconds=1)])
    journal.record([done("started", call("a"), 1), done("finished", call("a"), 1, slow)])
    journal.record([done("finished", call("b"), 1, result("b", error=bad)), done("started", call("e"), 2)])
    journal.record([done("finished", call("f"), 2, result("f", cached=True), tool="mine.other")])
    journal.record([done("started", call("b"), 1), told("asked", 2)])
    journal.record([done("refused", call("c"), 2, result("c", error=denied, attempts=0))])
    journal.record([done("refused", call("d"), 2, result("d", error=unknown), tool="red_file") for _ in range(2)])
    found = journal.statistics()
    total = found.total
    assert (total.turns, total.calls, total.errors, total.refused, total.denied) == (2, 3, 1, 3, 1)
    assert (total.cached, total.retries, found.unfinished, found.asked) == (1, 2, 1, 1)
    assert (total.input_tokens, total.cache_read_tokens, total.reasoning_tokens) == (100, 60, 2)
    assert (total.answering, total.running, total.longest) == (401.5, 50.0, 30.0)
    assert list(found.tools) == ["mine.look", "mine.other"]
    assert (found.tools["mine.look"].calls, found.tools["mine.look"].refused) == (2, 1)
    assert found.unknown == {"red_file": 2}
    assert found.categories == {"unknown_tool": 2, "execution": 1, "denied": 1}
    assert {name: one.calls for name, one in found.models.items()} == {"house/small": 2, "house/large": 1}
    (day,) = found.days
    assert day == next(journal.lines()).at[:10]
    json.dumps(found.mapping(), allow_nan=False)
    assert journal.statistics(since="9999").total.turns == 0
    assert journal.statistics(conversation="d").conversations == 0


def test_an_anchor_holds_up_no_writer(place: Path | str) -> None:
    with Journal(place) as journal, Journal(place) as other:
        other.record([told("began")])
        anchor = journal.anchor()
        with journal.database.snapshot("read", complete=True) as connection:
            assert find_anchor(connection) == anchor
            other.record([told("began", 1)])
            assert find_anchor(connection) == anchor
        assert journal.anchor().number == 2


def test_an_anchor_has_the_line_that_is_being_written(postgresql_server: str) -> None:
    place = address_of_schema(postgresql_server)
    waiting = "SELECT 1 FROM pg_locks WHERE relation = to_regclass('lines') AND NOT granted"
    with Journal(place) as journal, Journal(place) as other, ThreadPoolExecutor() as threads:
        with other.database.writing("written") as connection:
            other.record([told("began")])
            anchor = threads.submit(journal.anchor)
            while connection.execute(waiting).fetchone() is None:
                assert not anchor.done()
        assert anchor.result().number == 1


def test_an_anchor_on_the_last_line_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "export.jsonl"
    anchor = Anchor(number=12, digest="ab" * 32)
    file.write_text("x" * 10_000 + "\n" + anchor_line(anchor))
    assert read_anchor(file) == anchor
    file.write_text(anchor_line(Anchor()))
    assert read_anchor(file) == Anchor(number=0, digest=GENESIS)


@pytest.mark.parametrize(
    "text", ["", "\n", "[]", "{}", '{"anchor":1}', '{"anchor":{"number":"1","digest":""}}', "\udc80"]
)
def test_what_does_not_end_with_an_anchor_is_said(tmp_path: Path, text: str) -> None:
    file = tmp_path / "export.jsonl"
    file.write_text(text, errors="surrogateescape")
    with pytest.raises(InputError, match="ripieno journal export"):
        read_anchor(file)


def test_a_journal_that_is_not_read_yet_is_told_of(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        journal.record([told("began") for _ in range(2500)])
        heard: list[int] = []
        assert journal.verify(progress=heard.append) is None
        assert heard == [1000, 2000]
