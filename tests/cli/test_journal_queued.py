"""Journal commands about conversations whose runs are in the queue: what they say, and the next command."""

import contextlib
import datetime
import pathlib
import sqlite3

import pytest

from ripieno.assembly.submissions import NAME as QUEUE
from ripieno.assembly.submissions import dispatcher_beside
from ripieno.cli.common import exit_codes
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
