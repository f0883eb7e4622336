"""Journal commands about conversations whose runs are in the queue: what they say, and the next command."""

import contextlib
import datetime
import pathlib
import sqlite3

import pytest

from ripieno.assembly.submissions import NAME as QUEUE
from ripieno.assembly.submissions import dispatcher_beside
from ripieno.cli.common import exit_codes
from ripieno.cli.journal import deletion
from ripieno.conducting.paused import PausedStore
from ripieno.storage.dispatch.contract import Submission
from ripieno.storage.journal import NAME, Journal
from ripieno.storage.records import Record
from tests.support.command_line import User
from tests.support.postgresql import address_with_queue
from tests.support.users import Call


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, user: User, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path | str:
    """The user's journal, in each of the databases."""
    if request.param == "sqlite":
        user.state.mkdir(parents=True, exist_ok=True)
        return user.state / NAME
    place = address_with_queue(request.getfixturevalue("postgresql_server"))
    monkeypatch.setenv("JOURNAL_URL", place)
    user.configure('[journal]\nurl = "{env:JOURNAL_URL}"\n')
    return place


def submit(place: pathlib.Path | str, run: str, conversation: str, *, at: datetime.datetime | None = None) -> None:
    with contextlib.closing(dispatcher_beside(place)) as dispatcher:
        dispatcher.submit(Submission(identifier=run, conversation=conversation), at=at)


def test_of_a_conversation_that_has_not_begun_its_run_is_named(place: pathlib.Path | str, call: Call) -> None:
    with Journal(place) as journal:
        journal.record([Record(stage="began", conversation="known", turn=0)])
    submit(place, "run-1", "conversation-1")
    submit(place, "run-2", "conversation-2", at=datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1))
    waits = call("journal", "show", "conversation-1")
    assert (waits.code, waits.out) == (exit_codes.INPUT, "")
    assert (
        "Nothing of conversation-1 is recorded yet: its run run-1 waits for a worker. "
        "To watch it: ripieno runs watch run-1\n"
    ) in waits.err
    assert "To start one: ripieno work" in waits.err
    for command in (("journal", "export"), ("resume",), ("chat", "--resume")):
        assert "its run run-1 waits for a worker" in call(*command, "conversation-1").err
    later = call("journal", "show", "conversation-2").err
    assert "its run run-2 waits for its time. To watch it: ripieno runs watch run-2\n" in later
    call("runs", "cancel", "run-2")
    over = call("journal", "show", "conversation-2").err
    assert ("its run run-2 has not begun (cancelled). To delete it: ripieno journal delete conversation-2\n") in over
    assert "There is no conversation named 'nowhere'" in call("journal", "show", "nowhere").err
    assert call("journal", "show", "known").code == exit_codes.GOOD


def test_of_a_conversation_that_a_worker_conducts_its_deletion_names_the_run(user: User, call: Call) -> None:
    with Journal(user.state / NAME) as journal:
        journal.record([Record(stage="began", conversation="conversation-1", turn=0)])
        with PausedStore(journal.database).claimed("conversation-1"):
            plain = user.call("journal", "delete", "conversation-1", "--yes")
            submit(user.state / NAME, "run-1", "conversation-1")
            with contextlib.closing(sqlite3.connect(user.state / QUEUE)) as queue, queue:
                # As the engine writes it for the worker that takes it.
                queue.execute("UPDATE workflow_status SET status = 'PENDING', executor_id = 'worker-1'")
            refused = user.call("journal", "delete", "conversation-1", "--yes")
    refusal = "Another process conducts the conversation conversation-1. Wait until it ends."
    assert (plain.returncode, refusal in plain.stderr, "runs cancel" in plain.stderr) == (2, True, False)
    assert refused.returncode == exit_codes.INPUT
    commands = "To watch it: ripieno runs watch run-1    (to end it: ripieno runs cancel run-1)"
    assert f"{refusal} It is the run run-1. {commands}\n" in refused.stderr
    assert call("runs", "cancel", "run-1").code == exit_codes.GOOD
    assert call("journal", "delete", "conversation-1", "--yes").code == exit_codes.GOOD


@pytest.mark.parametrize("recorded", [False, True])
def test_a_run_that_a_worker_takes_while_its_deletion_asks_is_under_way(
    user: User, call: Call, monkeypatch: pytest.MonkeyPatch, *, recorded: bool
) -> None:
    with Journal(user.state / NAME) as journal:
        submit(user.state / NAME, "run-1", "conversation-1")

        def take(*_: str) -> None:
            with contextlib.closing(sqlite3.connect(user.state / QUEUE)) as queue, queue:
                # As the engine writes it for the worker that takes it.
                queue.execute("UPDATE workflow_status SET status = 'PENDING', executor_id = 'worker-1'")
            if recorded:
                journal.record([Record(stage="began", conversation="conversation-1", turn=0)])

        monkeypatch.setattr(deletion, "confirm_loss", take)
        with contextlib.ExitStack() as claim:
            if recorded:
                claim.enter_context(PausedStore(journal.database).claimed("conversation-1"))
            refused = call("journal", "delete", "conversation-1")
        assert (refused.code, refused.out) == (exit_codes.INPUT, "")
        assert "the conversation conversation-1. " in refused.err
        assert "(to end it: ripieno runs cancel run-1)" in refused.err
        with contextlib.closing(dispatcher_beside(user.state / NAME)) as dispatcher:
            assert [one.state for one in dispatcher.listed()] == ["running"]


def test_a_run_that_begins_and_ends_while_its_deletion_asks_is_deleted_from_the_journal(
    user: User, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Journal(user.state / NAME) as journal:
        submit(user.state / NAME, "run-1", "conversation-1")
        began = Record(stage="began", conversation="conversation-1", turn=0)
        monkeypatch.setattr(deletion, "confirm_loss", lambda *_: journal.record([began]))
        assert call("journal", "delete", "conversation-1").out == "Deleted: conversation-1, 1 lines.\n"
        assert [line.stage for line in journal.lines() if line.body is not None] == ["deleted"]
