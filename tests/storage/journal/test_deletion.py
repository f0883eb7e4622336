"""Deletions in the journal: what they take, whom they wait for, and what happens to what comes after them."""

from pathlib import Path

import pytest

from ripieno.canisters import Conversation, UserCanister
from ripieno.canisters.events import TextDelta
from ripieno.conducting.paused import Paused, PausedStore
from ripieno.storage.dispatch.contract import Submission
from ripieno.storage.dispatch.events import EventLog
from ripieno.storage.journal import Journal
from tests.storage.journal.test_journal import call
from tests.storage.journal.test_owners import said
from tests.support.postgresql import address_of_schema, address_with_queue


def test_a_deletion_while_another_reads_leaves_the_text_to_the_next_one_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "journal"
    with Journal(place) as journal:
        journal.record([call("finished", f"i{number}", text="gone-" * 900) for number in range(20)])
        with journal.database.snapshot("read") as connection:
            assert connection.execute("SELECT count(*) FROM lines").fetchone()[0] == 20
            assert journal.delete("c") == 20
            assert "Deleted text may still be in a file of" in caplog.text
            assert b"gone-gone-" in b"".join(one.read_bytes() for one in tmp_path.iterdir())
        assert journal.delete("c") == 0
        assert b"gone-gone-" not in b"".join(one.read_bytes() for one in tmp_path.iterdir())


def test_a_deletion_waits_for_no_one_who_has_locked_a_table(
    postgresql_server: str, caplog: pytest.LogCaptureFixture
) -> None:
    place = address_of_schema(postgresql_server)
    with Journal(place) as journal, Journal(place) as other:
        journal.record([call("finished", "i1", text="gone")])
        with other.database.writing("read") as connection:
            connection.execute("LOCK TABLE caller_keys IN SHARE UPDATE EXCLUSIVE MODE")
            assert journal.delete("c") == 1
        assert 'skipping vacuum of "caller_keys"' in caplog.text


def test_what_an_older_snapshot_keeps_of_a_deletion_is_left_to_the_next_one_with_a_warning(
    postgresql_server: str, caplog: pytest.LogCaptureFixture
) -> None:
    # Other tests read in the other databases.
    place = address_with_queue(postgresql_server)
    with Journal(place) as journal, Journal(place) as other:
        journal.record([call("finished", "i1", text="gone")])
        with other.database.snapshot("read") as connection:
            (reader,) = connection.execute("SELECT pg_backend_pid()").fetchone()
            assert journal.delete("c") == 1
            assert f"the server's process {reader} has a transaction from before" in caplog.text
        caplog.clear()
        assert journal.delete("c") == 0
        assert caplog.text == ""


def test_a_deletion_takes_what_waits_and_what_is_shown_of_the_conversation_and_of_no_other(place: Path | str) -> None:
    with Journal(place) as journal:
        store, log = PausedStore(journal.database), EventLog(journal.database)
        for owner, name in (("ada", "c"), ("ada", "d"), ("bob", "c")):
            journal.record([said(owner, name, "Hi.")])
            store.save(
                Paused(
                    conversation=Conversation(identifier=name, canisters=(UserCanister.of("Hi."),)),
                    workspace="/w",
                    model="m",
                    owner=owner,
                )
            )
            log.add(Submission(identifier=f"{owner}-{name}", conversation=name, owner=owner), TextDelta(text="Hi."))
        journal.delete("c", owner="ada")
        assert {(one.owner, one.identifier) for one in store.all()} == {("ada", "d"), ("bob", "c")}
        with journal.database.using("read") as connection:
            rows = connection.execute("SELECT submission FROM events ORDER BY submission").fetchall()
        assert [one[0] for one in rows] == ["ada-d", "bob-c"]


def test_what_is_recorded_after_a_deletion_is_listed_and_can_be_deleted(place: Path | str) -> None:
    with Journal(place) as journal:
        journal.record([said("ada", "c", "Hi.")])
        assert journal.delete("c", owner="ada") == 1
        assert journal.summary("c", owner="ada").deleted
        journal.record([said("ada", "c", "Again.")])
        for one in (journal.summary("c", owner="ada"), *journal.page().summaries, *journal.conversations()):
            assert (one.deleted, one.deletions, one.words) == (False, 1, "Again.")
        assert [one.identifier for one in journal.page(text="Again").summaries] == ["c"]
        assert journal.delete("c", owner="ada") == 1
        assert (journal.summary("c", owner="ada").deleted, journal.page().summaries) == (True, [])
