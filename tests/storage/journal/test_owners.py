"""Owners of conversations in the journal: no look-up of one owner reads, names or deletes lines of another."""

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.canisters import UserCanister
from ripieno.exceptions import InputError, NameAbsence
from ripieno.storage.journal import Journal
from ripieno.storage.records import Record

NAMES = st.sampled_from(["c", "cc", "d", "c%", "C"])
OWNERS = st.sampled_from(["", "ada", "bob", "ada ", "ad_"])


def said(owner: str, conversation: str, text: str) -> Record:
    return Record(stage="said", conversation=conversation, turn=0, owner=owner, canister=UserCanister.of(text))


def titled(owner: str, conversation: str, title: str) -> Record:
    return Record(stage="titled", conversation=conversation, turn=0, owner=owner, details={"title": title})


@given(st.lists(st.tuples(OWNERS, NAMES), min_size=1, max_size=12), OWNERS, NAMES)
def test_an_owner_sees_a_journal_of_his_own(
    tmp_path_factory: pytest.TempPathFactory, written: list[tuple[str, str]], owner: str, name: str
) -> None:
    folder = tmp_path_factory.mktemp("owners")
    records = [said(whose, what, f"{whose}/{what}/{number}") for number, (whose, what) in enumerate(written)]
    records += [titled(whose, what, f"{what} of {whose}") for whose, what in written]
    with Journal(folder / "all") as shared, Journal(folder / "own") as alone:
        shared.record(records)
        alone.record([one for one in records if one.owner == owner])
        view = [(one.identifier, one.owner, one.words, one.title) for one in shared.conversations(owner=owner)]
        assert view == [(one.identifier, one.owner, one.words, one.title) for one in alone.conversations()]
        assert [one.body for one in shared.lines(owner=owner)] == [one.body for one in alone.lines()]
        found = shared.statistics(owner=owner).mapping()["total"]
        assert found == alone.statistics().mapping()["total"]
        if (owner, name) in written:
            own = alone.restore(name)
            assert shared.restore(name, owner=owner).conversation.canisters == own.conversation.canisters
            assert shared.fork(name, owner=owner).canisters == own.conversation.canisters
            assert shared.summary(name, owner=owner).title == f"{name} of {owner}"
            bodies = len([one for one in shared.lines(name) if one.owner != owner and one.body])
            assert shared.delete(name, owner=owner) == alone.delete(name)
            assert len([one for one in shared.lines(name) if one.owner != owner and one.body]) == bodies
            with pytest.raises(InputError, match="was deleted"):
                shared.restore(name, owner=owner)
        else:
            for look in (shared.restore, shared.fork, shared.summary, shared.delete):
                with pytest.raises(NameAbsence) as absence:
                    look(name, owner=owner)
                # Nor are names of others suggested.
                own_names = {what for whose, what in written if whose == owner}
                others = {what for _, what in written} - own_names - {name}
                assert not any(f"{one!r}" in str(absence.value) for one in others)
        assert shared.verify() is None


@pytest.mark.parametrize(
    ("version", "refusal"),
    [
        (2, r"not a journal of version 7\. Move it away"),
        (8, r"version 8, of a newer program; .* Use a newer program\."),
    ],
)
def test_a_journal_of_another_version_is_refused_and_stays(tmp_path: Path, version: int, refusal: str) -> None:
    path = tmp_path / "journal"
    with Journal(path) as journal:
        journal.record([said("", "c", "Hi.")])
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    with pytest.raises(InputError, match=refusal):
        Journal(path)
    assert path.exists()


@pytest.mark.parametrize("owner", ["bob", ""])
def test_a_line_that_is_given_to_another_owner_is_found(tmp_path: Path, owner: str) -> None:
    path = tmp_path / "journal"
    with Journal(path) as journal:
        journal.record([said("ada", "c", "Hi."), said("ada", "c", "Ho.")])
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE lines SET owner = ? WHERE number = 2", (owner,))
    connection.close()
    with Journal(path) as journal:
        found = journal.verify()
    assert found is not None
    assert found.number == 2


def test_owners_are_looked_up_in_an_index(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        journal.record([said("ada", "c", "Hi.")])
    with sqlite3.connect(tmp_path / "journal") as connection:
        query = "EXPLAIN QUERY PLAN SELECT conversation, owner FROM lines WHERE owner = ? AND owner != '' GROUP BY 1, 2"
        plan = " ".join(row[3] for row in connection.execute(query, ("ada",)))
    connection.close()
    assert "lines_of_owner" in plan
