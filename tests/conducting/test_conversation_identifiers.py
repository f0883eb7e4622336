"""A program that names a conversation gets that one or none, never one with a similar identifier."""

import contextlib
import itertools
import pathlib
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.canisters import Conversation, UserCanister
from ripieno.conducting.paused import Paused
from ripieno.conducting.resume import resumable
from ripieno.exceptions import InputError, NameAbsence
from ripieno.storage.journal import Journal
from ripieno.storage.records import Record
from tests.support.databases import paused_in

identifiers = st.sets(st.text("aA1-*%_ \u00e4", min_size=1, max_size=4), min_size=1, max_size=5)


def similar(name: str) -> set[str]:
    """What may be taken for a name: its prefixes, longer ones, other cases, and patterns that match it."""
    prefixes = {name[:length] for length in range(len(name))}
    return {*prefixes, name + "0", name + " ", name.swapcase(), name + "%", name[:-1] + "_", name[:-1] + "*", "%"}


@given(identifiers)
def test_identifiers_are_exact(names: set[str]) -> None:
    with tempfile.TemporaryDirectory() as folder, Journal(pathlib.Path(folder, "journal.sqlite3")) as journal:
        store = paused_in(pathlib.Path(folder))
        for name in names:
            journal.record([Record(stage="said", conversation=name, turn=0, canister=UserCanister.of(name))])
            store.save(Paused(conversation=Conversation(identifier=name), workspace="/somewhere", model="house/small"))
        for name in names:
            assert resumable(journal, name).conversation.text == journal.restore(name).conversation.text
            (canister,) = journal.restore(name).conversation.canisters
            assert canister == UserCanister.of(name)
            found = store.load(name)
            assert found is not None
            assert found.identifier == name
        for other in set(itertools.chain.from_iterable(map(similar, names))) - names:
            for look in (journal.restore, journal.fork, journal.delete, lambda one: resumable(journal, one)):
                with pytest.raises(NameAbsence):
                    look(other)
            assert store.load(other) is None
            assert (*journal.lines(other), *journal.export(other), *journal.state_of(other)) == ()
            with pytest.raises(NameAbsence):
                store.answer(other, {})
        assert {one.identifier for one in journal.conversations()} == names


@given(identifiers, st.text("aA1-", max_size=4))
def test_people_may_write_a_prefix_that_only_one_has(names: set[str], beginning: str) -> None:
    with tempfile.TemporaryDirectory() as folder, Journal(pathlib.Path(folder, "journal.sqlite3")) as journal:
        for name in names:
            journal.record([Record(stage="said", conversation=name, turn=0, canister=UserCanister.of(name))])
        matching = {name for name in names if name.startswith(beginning)}
        if beginning in names:
            assert journal.find(beginning).identifier == beginning
        elif beginning and len(matching) == 1:
            assert {journal.find(beginning).identifier} == matching
        else:
            with contextlib.suppress(NameAbsence), pytest.raises(InputError):
                journal.find(beginning)
