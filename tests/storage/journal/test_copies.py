"""Copies of journals between databases: nothing is lost, changed or doubled, and what was altered is refused."""

import sqlite3
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ripieno.approvals import Grants
from ripieno.approvals.grant_stores import DatabaseStore
from ripieno.approvals.grants import Binding
from ripieno.canisters import Conversation, UserCanister
from ripieno.conducting.paused import Paused, PausedStore
from ripieno.exceptions import InputError, PermissionFault
from ripieno.storage.journal import Journal, copies
from ripieno.storage.journal.copies import copy_journal
from tests.counts import count
from tests.storage.journal.test_journal import call
from tests.storage.journal.test_owners import said, titled
from tests.support.postgresql import NewPlace, address_of_schema


@pytest.fixture
def places(new_place: NewPlace, tmp_path: Path, postgresql_server: str) -> list[Path | str]:
    """A place of one database, one of the other, and one of the first again."""
    first = new_place()
    other = tmp_path / "other" if isinstance(first, str) else address_of_schema(postgresql_server)
    return [first, other, new_place()]


def content(journal: Journal) -> list[object]:
    """All lines without their numbers."""
    return [{name: value for name, value in line.mapping().items() if name != "number"} for line in journal.lines()]


NAMES, OWNERS = st.sampled_from(["c", "d", "é"]), st.sampled_from(["", "ada", "bob"])
STEPS = st.lists(st.tuples(OWNERS, NAMES, st.sampled_from(["say", "title", "delete", "copy"])), max_size=20)


@given(STEPS)
@settings(max_examples=count(200, 20), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_copy_has_what_the_journal_has(
    new_place: NewPlace, tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, str]]
) -> None:
    source, target = new_place(), tmp_path_factory.mktemp("copies") / "target"
    known: set[tuple[str, str]] = set()
    with Journal(source) as journal, Journal(target) as other:
        for number, (owner, name, step) in enumerate(steps):
            if step == "copy":
                copy_journal(journal, other)
            elif step == "delete" and (owner, name) in known:
                journal.delete(name, owner=owner)
            elif step != "delete":
                known.add((owner, name))
                journal.record([said(owner, name, f"{number}") if step == "say" else titled(owner, name, f"{number}")])
        copy_journal(journal, other)
        assert content(other) == content(journal)
        assert copy_journal(journal, other) == 0
        assert other.verify(other.anchor()) is None
        if not isinstance(source, str):
            assert other.anchor() == journal.anchor()


def test_paused_conversations_and_approvals_come_too_and_back(places: list[Path | str]) -> None:
    binding = Binding(conversation="c", invocation="i", tool="t", definition="d", arguments="a", rules="r")
    one = Paused(conversation=Conversation.of("Hi."), workspace="/w", model="m", owner="ada")
    with Journal(places[0]) as first, Journal(places[1]) as second, Journal(places[2]) as third:
        first.record([call("finished", f"i{number}", text="é\x00" * 40) for number in range(1200)])
        PausedStore(first.database).save(one)
        grant = Grants(DatabaseStore(first.database)).issue(binding)
        seen: list[int] = []
        assert copy_journal(first, second, seen.append) == 1200
        assert seen == [500, 1000]
        assert copy_journal(second, third) == 1200
        assert content(third) == content(first)
        assert third.anchor() == first.anchor()
        assert PausedStore(third.database).all() == (one,)
        Grants(DatabaseStore(third.database)).redeem(grant.token, binding)


def test_a_conversation_that_went_on_in_both_is_refused(places: list[Path | str]) -> None:
    with Journal(places[0]) as first, Journal(places[1]) as second:
        first.record([said("ada", "c", "One."), said("bob", "c", "Two.")])
        copy_journal(first, second)
        first.record([said("ada", "c", "Here.")])
        second.record([said("ada", "c", "There.")])
        with pytest.raises(InputError, match="has another conversation 'c', or this one was continued in both"):
            copy_journal(first, second)
        assert second.verify() is None
        assert len([*second.lines()]) == 3


def test_a_deletion_is_not_left_out_where_the_copy_has_gone_on(places: list[Path | str]) -> None:
    with Journal(places[0]) as first, Journal(places[1]) as second:
        first.record([said("ada", "c", "One.")])
        copy_journal(first, second)
        second.record([said("ada", "c", "Two."), said("ada", "c", "Three.")])
        assert copy_journal(first, second) == 0
        first.delete("c", owner="ada")
        with pytest.raises(InputError, match="has another conversation 'c', or this one was continued in both"):
            copy_journal(first, second)


def test_an_altered_line_is_not_copied(tmp_path: Path) -> None:
    with Journal(tmp_path / "first") as first, Journal(tmp_path / "second") as second:
        first.record([said("", "c", "One."), said("", "c", "Two.")])
        with sqlite3.connect(tmp_path / "first") as file:
            file.execute("UPDATE lines SET body = replace(body, 'Two', 'Too') WHERE number = 2")
        file.close()
        with pytest.raises(InputError, match="Line 2 was altered"):
            copy_journal(first, second)


def test_a_repeated_copy_has_no_more_than_the_journal(places: list[Path | str], tmp_path: Path) -> None:
    binding = Binding(conversation="c", invocation="i", tool="t", definition="d", arguments="a", rules="r")

    def paused(name: str, model: str) -> Paused:
        conversation = Conversation(identifier=name, canisters=(UserCanister.of("gone-" * 900),))
        return Paused(conversation=conversation, workspace="/w", model=model, owner="ada")

    with Journal(places[0]) as first, Journal(places[1]) as second:
        here, there = PausedStore(first.database), PausedStore(second.database)
        first.record([said("ada", name, "gone-" * 900) for name in ("deleted", "answered", "changed", "elsewhere")])
        for name in ("deleted", "answered", "changed", "elsewhere"):
            here.save(paused(name, "old"))
        grants = Grants(DatabaseStore(first.database))
        used, revoked, valid = (grants.issue(binding).token for _ in range(3))
        copy_journal(first, second)
        first.delete("deleted", owner="ada")
        first.record([said("ada", "answered", "Yes.")])
        here.forget("answered", owner="ada")
        here.save(paused("changed", "new"))
        here.forget("elsewhere", owner="ada")
        grants.redeem(used, binding)
        grants.revoke(revoked)
        # These have gone on in the copy only.
        second.record([said("ada", "elsewhere", "There."), said("ada", "other", "There.")])
        there.save(paused("other", "old"))
        copy_journal(first, second)
        assert {(one.identifier, one.model) for one in there.all()} == {
            ("changed", "new"),
            ("elsewhere", "old"),
            ("other", "old"),
        }
        copied = Grants(DatabaseStore(second.database))
        for token in (used, revoked):
            with pytest.raises(PermissionFault, match="used already"):
                copied.redeem(token, binding)
        copied.redeem(valid, binding)
        copy_journal(first, second)
        with pytest.raises(PermissionFault, match="used already"):
            copied.redeem(valid, binding)


def test_what_a_repeated_copy_deletes_leaves_the_file(tmp_path: Path) -> None:
    target = tmp_path / "copy" / "target"
    with Journal(tmp_path / "first") as first, Journal(target) as second:
        first.record([said("ada", "c", "gone-" * 900)])
        copy_journal(first, second)
        first.delete("c", owner="ada")
        copy_journal(first, second)
        assert b"gone-gone-" not in b"".join(one.read_bytes() for one in target.parent.iterdir())


def test_what_a_copy_deletes_leaves_the_file_also_if_it_then_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "_BATCH", 1)
    target = tmp_path / "copy" / "target"
    with Journal(tmp_path / "first") as first, Journal(target) as second:
        first.record([said("ada", "c", "gone-" * 900), said("ada", "d", "Hi.")])
        copy_journal(first, second)
        second.record([said("ada", "d", "There.")])
        first.delete("c", owner="ada")
        first.record([said("ada", "d", "Here.")])
        with pytest.raises(InputError, match="continued in both"):
            copy_journal(first, second)
        assert b"gone-gone-" not in b"".join(one.read_bytes() for one in target.parent.iterdir())


def test_two_copies_into_one_target_at_once_are_named(places: list[Path | str]) -> None:
    with Journal(places[0]) as first, Journal(places[1]) as second, Journal(places[1]) as third:
        first.record([said("ada", "c", f"{number}") for number in range(1200)])

        def other(number: int) -> None:
            if number == 1000:
                copy_journal(first, third)

        with pytest.raises(InputError, match="such as another copy"):
            copy_journal(first, second, other)
        assert copy_journal(first, second) == 0
        assert content(second) == content(first)


def test_long_lines_are_copied_in_commits_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "_CHARACTERS", 10_000)
    with Journal(tmp_path / "first") as first, Journal(tmp_path / "second") as second:
        first.record([said("ada", "c", "Hi."), said("ada", "c", "x" * 20_000), said("ada", "c", "Two.")])
        with sqlite3.connect(tmp_path / "first") as file:
            file.execute("UPDATE lines SET body = replace(body, 'Two', 'Too') WHERE number = 3")
        file.close()
        with pytest.raises(InputError, match="Line 3 was altered"):
            copy_journal(first, second)
        # What was committed before.
        assert len([*second.lines()]) == 2


def test_a_source_may_wait_for_its_target(postgresql_server: str) -> None:
    with Journal(address_of_schema(postgresql_server)) as journal:
        query = "SELECT current_setting('idle_in_transaction_session_timeout')"
        with journal.database.snapshot("read") as connection:
            assert connection.execute(query).fetchone()[0] == "0"
        with journal.database.using("read") as connection:
            assert connection.execute(query).fetchone()[0] != "0"
