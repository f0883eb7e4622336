"""The journal's store: what was recorded reads back, is found, exported, deleted, and tells what became of calls."""

import hashlib
import json
import stat
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from frozendict import frozendict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ripieno.canisters import InvocationCanister, ResultCanister, UserCanister
from ripieno.canisters.serialization import serialize
from ripieno.exceptions import InputError, JsonInvalidity, NameAbsence
from ripieno.jsonvalues import canonical
from ripieno.storage.databases import sqlite
from ripieno.storage.journal import GENESIS, Journal, summaries
from ripieno.storage.journal import journal as journal_module
from ripieno.storage.records import Record
from tests.counts import count
from tests.support.canister_strategies import canisters, invocations, objects, results, texts
from tests.support.postgresql import NewPlace

#: Hang bound of one step, in seconds.
HANG = 30
STAGES: Sequence[Any] = ("began", "said", "asked", "answered", "started", "finished", "refused", "discarded", "ended")
records = st.builds(
    Record,
    stage=st.sampled_from(STAGES),
    conversation=texts,
    turn=st.integers(0, 2**40),
    tool=texts,
    invocation=st.none() | invocations,
    result=st.none() | results,
    canister=st.none() | canisters,
    details=objects,
)


def whole(record: Record | None) -> object:
    """All of a record, with what comparing leaves out."""
    assert record is not None
    parts = (record.invocation, record.result, record.canister)
    said = [None if part is None else canonical(serialize(part)) for part in parts]
    return (record.stage, record.conversation, record.turn, record.tool, *said, canonical(record.details))


def call(
    stage: Any = "started", identifier: str = "a", *, turn: int = 1, conversation: str = "c", text: str | None = None
) -> Record:
    """A record of a call, with a result of a text if one is given."""
    return Record(
        stage=stage,
        conversation=conversation,
        turn=turn,
        tool="mine.look",
        invocation=InvocationCanister(identifier=identifier, name="look", arguments=frozendict(at="home")),
        result=None
        if text is None
        else ResultCanister(invocation_id=identifier, content=UserCanister.of(text).content),
    )


@settings(max_examples=count(1000, 60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(records, max_size=3), max_size=4))
def test_any_records_read_back_equal_and_in_their_order(new_place: NewPlace, batches: list[list[Record]]) -> None:
    place = new_place()
    with Journal(place) as journal:
        for batch in batches:
            journal.record(batch)
    with Journal(place) as journal:
        lines = list(journal.lines())
        given = [record for batch in batches for record in batch]
        assert [line.record for line in lines] == given
        assert [whole(line.record) for line in lines] == [whole(record) for record in given]
        assert [line.number for line in lines] == list(range(1, len(given) + 1))
        assert journal.verify(journal.anchor()) is None


def test_halves_of_characters_and_long_integers_read_back(place: Path | str) -> None:
    record = Record(stage="ended", conversation="c", turn=0, details={"a": ["\udc80é", {"n": 10**40, "x": -0.0}]})
    with Journal(place) as journal:
        journal.record([record])
        (line,) = journal.lines(text="\udc80é")
        assert line.record == record
        assert str(line.record) == str(record)
        assert journal.verify() is None


def test_a_record_freezes_its_details_and_refuses_what_is_no_json() -> None:
    details = {"names": ["a"]}
    record = Record(stage="began", conversation="c", turn=0, details=details)
    details["names"].append("b")
    assert record.details == {"names": ("a",)}
    with pytest.raises(JsonInvalidity):
        Record(stage="began", conversation="c", turn=0, details={"x": object()})


def test_a_batch_with_one_bad_record_leaves_nothing(place: Path | str) -> None:
    with Journal(place) as journal:
        with pytest.raises(InputError):
            journal.record([call(), Record(stage="began", conversation="\ud800", turn=0)])
        with pytest.raises(InputError):
            journal.record([call(), Record(stage="began", conversation=None, turn=0)])  # type: ignore[arg-type]
        assert list(journal.lines()) == []
        journal.record([call()])
        assert len(list(journal.lines())) == 1


@given(st.data())
@settings(max_examples=count(400, 25), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_asked_for_is_what_a_filter_would_leave(new_place: NewPlace, data: st.DataObject) -> None:
    few = st.sampled_from(["", "a", 'say "b"', "é\n"])
    kept = data.draw(
        st.lists(
            st.builds(
                lambda stage, conversation, tool, said: Record(
                    stage=stage, conversation=conversation, turn=1, tool=tool, details={"inner": [said]}
                ),
                st.sampled_from(STAGES[:3]),
                few,
                few,
                few,
            ),
            max_size=8,
        )
    )
    asked: dict[str, Any] = {name: data.draw(st.none() | few) for name in ("conversation", "tool", "text")}
    asked["stage"] = data.draw(st.none() | st.sampled_from(STAGES[:3]))
    after, limit = data.draw(st.none() | st.integers(0, 8)), data.draw(st.none() | st.integers(0, 8))
    wanted = [
        number
        for number, record in enumerate(kept, 1)
        if number > (after or 0)
        and all(asked[name] in (None, getattr(record, name)) for name in ("conversation", "tool", "stage"))
        and (asked["text"] is None or asked["text"] in record.details["inner"][0])
    ]
    with Journal(new_place()) as journal:
        journal.record(kept)
        found = [line.number for line in journal.lines(**asked, after=after, limit=limit)]
    assert found == wanted[:limit]


def test_every_character_is_found_however_json_writes_it(place: Path | str) -> None:
    texts = [f"<{chr(code)}>" for code in (*range(0x180), 0x2028, 0xD800, 0xFFFF, 0x1F600)]
    with Journal(place) as journal:
        # The second of each pair is written in ASCII, since it has half of a character.
        journal.record(
            [
                Record(stage="said", conversation="c", turn=1, details={"x": text + end})
                for text in texts
                for end in ("", "\udc80")
            ]
        )
        for number, text in enumerate(texts):
            assert [line.number for line in journal.lines(text=text)] == [2 * number + 1, 2 * number + 2], text
        assert list(journal.lines(text="details")) == []


def test_more_lines_than_are_read_at_once_all_come(place: Path | str) -> None:
    with Journal(place) as journal:
        journal.record([call(conversation=str(number % 2)) for number in range(1200)])
        assert [line.number for line in journal.lines("1")] == list(range(2, 1201, 2))
        assert [line.number for line in journal.lines(limit=600, after=3)] == list(range(4, 604))
        lines = journal.lines()
        next(lines)
        journal.record([call()])  # Who reads keeps nobody from writing.
        assert sum(1 for _ in lines) == 1200


def test_long_lines_are_read_one_by_one_and_all_come(place: Path | str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "_CHARACTERS", 3000)
    with Journal(place) as journal:
        journal.record([call("finished", f"i{number}", text="x" * (number % 90) ** 2) for number in range(300)])
        assert [line.invocation for line in journal.lines()] == [f"i{number}" for number in range(300)]
        assert journal.length() == 300


def test_an_export_is_printable_and_its_digests_can_be_computed_again(place: Path | str) -> None:
    with Journal(place) as journal:
        journal.record([call("finished", text="red \x1b[31m\x7f\x9b é \u202e\n"), call(conversation="other")])
        exported = list(journal.export("c"))
        everything = list(journal.export())
    assert all(text[:-1].isprintable() and text.isascii() and text.endswith("\n") for text in everything)
    assert exported == everything[:1]
    ends: dict[str, str] = {}
    for text in everything:
        line = json.loads(text)
        body = hashlib.sha256(line["salt"].encode() + canonical(line["body"])).hexdigest()
        kept = {key: line[key] for key in ("place", "conversation", "turn", "stage", "tool", "invocation", "at")}
        previous = ends.get(line["conversation"], GENESIS)
        digest = hashlib.sha256(previous.encode() + canonical({**kept, "body": body})).hexdigest()
        assert (line["previous"], line["digest"]) == (previous, digest)
        ends[line["conversation"]] = digest


def test_the_files_are_their_owners_only(tmp_path: Path) -> None:
    path = tmp_path / "state" / "journal.sqlite"
    with Journal(path, secrets=["a long secret"]) as journal:
        journal.record([call()])
        modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in path.parent.iterdir()}
    names = ["journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm", "journal.sqlite.key"]
    assert modes == dict.fromkeys(names, 0o600)
    assert stat.S_IMODE(path.parent.stat().st_mode) & 0o077 == 0
    path.chmod(0o644)
    Journal(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_no_journal_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("x" * 5000)
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "text", tmp_path / "empty", tmp_path / "folder", tmp_path / "text" / "below"):
        with pytest.raises(InputError, match=path.name):
            Journal(path)
    assert (tmp_path / "text").read_text() == "x" * 5000
    assert sorted(one.name for one in tmp_path.iterdir()) == ["empty", "folder", "text"]


def test_a_file_that_another_writer_holds_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_PATIENCE", 0.01)
    with Journal(tmp_path / "j") as journal:
        other = sqlite.connect(tmp_path / "j")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(InputError, match="locked"):
            journal.record([call()])
        other.rollback()
        other.close()
        journal.record([call()])
        assert len(list(journal.lines())) == 1


# What became of calls.


@given(
    st.lists(
        st.tuples(
            st.integers(1, 2),
            st.sampled_from("ab"),
            st.sampled_from(["said", "asked", "started", "finished", "refused"]),
        ),
        max_size=12,
    )
)
@settings(max_examples=count(1000, 60), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_call_is_finished_never_started_or_unknown(
    new_place: NewPlace, events: list[tuple[int, str, str]]
) -> None:
    kept, expected = list[Record](), dict[tuple[int, str], tuple[str, str | None]]()
    for number, (turn, identifier, stage) in enumerate(events):
        text = str(number) if stage in ("finished", "refused") else None
        kept.append(call(stage, identifier, turn=turn, text=text))
        if text is not None:
            expected[turn, identifier] = ("finished", text)
        elif stage == "started":
            expected[turn, identifier] = ("outcome_unknown", None)
        else:
            expected.setdefault((turn, identifier), ("never_started", None))
    with Journal(new_place()) as journal:
        journal.record([*kept, call("finished", "z", conversation="other", text="x")])
        states = journal.state_of("c")
    assert {
        (one.turn, one.identifier): (one.status, None if one.result is None else one.result.text) for one in states
    } == expected
    assert [(one.turn, one.identifier) for one in states] == list(expected)
    assert all(one.invocation is not None and one.tool == "mine.look" for one in states)


# Deleting.


def test_deleting_takes_the_bodies_from_the_disk_and_leaves_a_chain_that_holds(
    place: Path | str, tmp_path: Path
) -> None:
    with Journal(place) as journal:
        for number in range(20):
            journal.record(
                [call("finished", f"i{number}", text="gone-" * 900), call(conversation="other", text="stays")]
            )
        others, anchor = list(journal.lines("other")), journal.anchor()
        exported = json.loads(next(iter(journal.export("c"))))
        assert journal.delete("c") == 20
        assert journal.delete("c") == 0
        assert b"gone-gone-" not in b"".join(one.read_bytes() for one in tmp_path.iterdir())
    with Journal(place) as journal:
        assert journal.verify(anchor) is None
        assert list(journal.lines("other")) == others
        *lines, last = journal.lines("c")
        assert [line.number for line in lines] == list(range(1, 41, 2))
        assert all(line.record is None and line.body is None and line.salt is None for line in lines)
        assert (last.stage, last.record, json.loads(str(last.body))["details"]) == ("deleted", None, {"bodies": 20})
        assert {state.status for state in journal.state_of("c")} == {"finished"}
        # A copy can still be told from a forgery.
        body = hashlib.sha256(exported["salt"].encode() + canonical(exported["body"])).hexdigest()
        assert lines[0].body_digest == body
        journal.record([call(text="again")])
        assert journal.verify(anchor) is None
        with pytest.raises(NameAbsence, match="There is no conversation named 'othr'"):
            journal.delete("othr")


def test_who_reads_all_lines_holds_up_no_record(place: Path | str, monkeypatch: pytest.MonkeyPatch) -> None:
    def recorded(function: Callable[..., Any]) -> Callable[..., Any]:
        """Calls a function of the journal while another thread has written a line."""

        def called(*arguments: Any) -> Any:
            thread = threading.Thread(target=journal.record, args=([call(conversation="other")],), daemon=True)
            thread.start()
            thread.join(HANG)
            assert not thread.is_alive()
            return function(*arguments)

        return called

    monkeypatch.setattr(journal_module, "newest", recorded(journal_module.newest))
    monkeypatch.setattr(summaries, "nearest", recorded(summaries.nearest))
    with Journal(place) as journal:
        journal.record([call(conversation="other")])
        with pytest.raises(NameAbsence, match="Did you mean 'other'"):
            journal.find("othr")
        assert [one.lines for one in journal.conversations()] == [3]
