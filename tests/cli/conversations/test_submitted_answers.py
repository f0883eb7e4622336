"""Answers to calls of runs that workers conduct, while no worker has continued them."""

import asyncio
import contextlib
import json
import pathlib
import re
import sqlite3
from collections.abc import Iterator

import click
import pytest

from ripieno.approvals import Approve, Deny, Edit
from ripieno.assembly.submissions import NAME as QUEUE
from ripieno.assembly.submissions import SubmittedRun
from ripieno.canisters import Conversation, InvocationCanister
from ripieno.canisters.conversation import Waiting
from ripieno.cli.common import exit_codes
from ripieno.cli.conversations.answers import answer_calls, report
from ripieno.conducting.paused import Paused, PausedStore
from ripieno.exceptions import Conflict, InputError
from ripieno.storage.dispatch.contract import Submission
from ripieno.storage.dispatch.leases import WorkerLeases
from ripieno.storage.journal import NAME, Journal
from ripieno.storage.records import Record
from tests.support.command_line import User
from tests.support.postgresql import address_with_queue
from tests.support.users import Call
from tests.support.workers import Site, WorkerProcess, submission

HOST = "a-host"
#: Seconds after which a test counts as hung.
HANG = 60
BINDING = dict.fromkeys(("conversation", "invocation", "tool", "definition", "arguments", "rules"), "")


@pytest.fixture(params=["sqlite", "postgresql"])
def site(request: pytest.FixtureRequest, user: User, monkeypatch: pytest.MonkeyPatch) -> Site:
    """The user's journal with its queue, in each of the databases."""
    place: pathlib.Path | str = user.state / NAME
    if request.param == "postgresql":
        place = address_with_queue(request.getfixturevalue("postgresql_server"))
        monkeypatch.setenv("JOURNAL_URL", place)
        user.configure('[journal]\nurl = "{env:JOURNAL_URL}"\n')
    return Site(place=place, folder=user.workspace, host=HOST)


@pytest.fixture
def journal(site: Site) -> Iterator[Journal]:
    with site.journal() as journal:
        yield journal


def pause(journal: Journal, **whys: str) -> None:
    """Keeps a conversation of a worker whose calls wait for these reasons."""
    calls = tuple(InvocationCanister(identifier=name, name="write") for name in whys)
    waiting = tuple(
        Waiting(invocation=name, why=why, tool="mine.write", binding={**BINDING, "invocation": name})  # type: ignore[arg-type]
        for name, why in whys.items()
    )
    conversation = Conversation(identifier="conversation", canisters=calls, open=calls, waiting=waiting)
    PausedStore(journal.database).save(
        Paused(conversation=conversation, workspace="", model="m", submission=submission("conversation", HOST))
    )


def queued(call: Call) -> dict[str, str]:
    """The states of submissions, by their identifiers."""
    return {one["run"]: one["state"] for one in json.loads(call("runs", "list", "--format", "json").out)}


def states(call: Call) -> list[str]:
    (conversation,) = json.loads(call("approvals", "list", "--format", "json").out)
    return [one["state"] for one in conversation["waiting"]]


@pytest.mark.parametrize(("first", "other", "word"), [("approve", "deny", "approved"), ("deny", "approve", "denied")])
def test_another_answer_is_refused_and_the_same_one_changes_nothing(
    journal: Journal, call: Call, first: str, other: str, word: str
) -> None:
    pause(journal, a="approval")
    assert call("approvals", first, "conv").code == exit_codes.GOOD
    (run,) = queued(call)
    for named in ((), ("a",)):
        refused = call("approvals", other, "conv", *named)
        assert (refused.code, refused.out) == (exit_codes.INPUT, "")
        assert f"The call 'a' of conversation was answered already: {word}." in refused.err
        assert f"The run {run[:8]} continues it. To stop that run: ripieno runs cancel {run[:8]}" in refused.err
        again = call("approvals", first, "conv", *named)
        assert (again.code, f"ripieno runs watch {run[:8]}" in again.out) == (exit_codes.GOOD, True), again.err
    assert states(call) == [word]
    assert list(queued(call)) == [run]


def test_an_approval_that_is_repeated_with_always_says_that_it_allows_no_later_calls(
    journal: Journal, call: Call
) -> None:
    pause(journal, a="approval")
    assert call("approvals", "approve", "conv").code == exit_codes.GOOD
    for named in ((), ("a",)):
        again = call("approvals", "approve", "conv", *named, "--always")
        assert again.code == exit_codes.GOOD
        assert "! Approved before, without --always: a. Later calls are asked about again." in again.err
        assert "Allowed" not in again.out + again.err


def test_of_several_calls_each_keeps_its_answer(journal: Journal, call: Call) -> None:
    pause(journal, a="approval", b="approval")
    assert call("approvals", "approve", "conv", "a").code == exit_codes.GOOD
    refused = call("approvals", "deny", "conv", "a")
    assert (refused.code, "'a' of conversation was answered already: approved." in refused.err) == (2, True)
    assert "runs cancel" not in refused.err, "nothing continues it yet"
    assert call("approvals", "deny", "conv").code == exit_codes.GOOD
    assert states(call) == ["approved", "denied"]
    for answer, code in (("approve", 2), ("deny", 2)):
        assert call("approvals", answer, "conv").code == code
    assert call("approvals", "approve", "conv", "a").code == call("approvals", "deny", "conv", "b").code == 0


def test_a_result_and_an_edited_call_are_no_other_answer(journal: Journal, call: Call) -> None:
    pause(journal, a="approval", b="caller")
    PausedStore(journal.database).answer("conversation", {"a": Edit({"word": "x"})})
    assert states(call) == ["edited", "waits for a result"]
    assert call("approvals", "result", "conv", "b", "Done.").code == exit_codes.GOOD
    again = call("approvals", "result", "conv", "b", "Other.")
    assert (again.code, "'b' of conversation was answered already: has its result." in again.err) == (2, True)
    for answer in ("approve", "deny"):
        refused = call("approvals", answer, "conv")
        assert (refused.code, "'a' of conversation was answered already: edited." in refused.err) == (2, True)
    pause(journal, b="caller")
    call("approvals", "result", "conv", "b", "Done.")
    denied = call("approvals", "deny", "conv")
    assert (denied.code, "'b' of conversation was answered already: has its result." in denied.err) == (2, True)
    # It may not have been submitted.
    assert "A worker continues it." in call("approvals", "approve", "conv").out


def test_it_is_said_that_no_worker_takes_it(journal: Journal, call: Call) -> None:
    pause(journal, a="approval")
    lacking = f"No worker of the host {HOST} is alive. To start one there: ripieno work --host {HOST}\n"
    leases = WorkerLeases(journal.database)
    leases.renew("elsewhere", ["another host"])
    assert call("approvals", "approve", "conv").err == lacking
    leases.renew("here", ["another host", HOST])
    assert call("approvals", "approve", "conv").err == ""


def test_each_conversation_is_listed_by_as_much_as_tells_it_apart(journal: Journal, call: Call) -> None:
    # As those of a schedule.
    for name in ("each-20261129T024900", "each-20261129T025000", "other-and-longer"):
        conversation = Conversation(
            identifier=name,
            canisters=(made := InvocationCanister(identifier="a", name="write"),),
            open=(made,),
            waiting=(Waiting(invocation="a", why="approval", tool="mine.write", binding=BINDING),),
        )
        PausedStore(journal.database).save(Paused(conversation=conversation, workspace="", model="m"))
    _, *rows = call("approvals", "list").out.splitlines()
    assert [row.split()[0] for row in rows] == ["each-20261129T024", "each-20261129T025", "other-an"]


@pytest.mark.parametrize("second", ["approve", "deny"])
def test_when_the_run_is_cancelled_before_it_begins_the_call_waits_again(
    journal: Journal, call: Call, second: str
) -> None:
    pause(journal, a="approval")
    call("approvals", "approve", "conv")
    (run,) = queued(call)
    cancelled = call("runs", "cancel", run[:8])
    assert "Its calls wait again. To see them: ripieno approvals show conversation\n" in cancelled.err
    assert states(call) == ["waits for you"]
    assert call("approvals", second, "conv").code == exit_codes.GOOD
    after = queued(call)
    assert (after.pop(run), list(after.values())) == ("cancelled", ["queued"])


def test_an_answer_whose_run_has_ended_without_it_can_be_given_again(site: Site, journal: Journal, call: Call) -> None:
    pause(journal, a="approval", b="approval")
    call("approvals", "approve", "conv", "a")
    call("approvals", "deny", "conv", "b")
    (run,) = queued(call)
    with site.dispatcher() as dispatcher:
        # As a command does that is killed then.
        dispatcher.cancel(run)
    refused = call("approvals", "approve", "conv")
    assert (refused.code, "Its calls wait again. To see them: ripieno approvals show" in refused.err) == (2, True)
    assert states(call) == ["waits for you", "waits for you"], "no denial becomes an approval unseen"
    assert call("approvals", "deny", "conv").code == exit_codes.GOOD
    (second,) = (name for name, state in queued(call).items() if state == "queued")
    with site.dispatcher() as dispatcher:
        dispatcher.cancel(second)
    approved = call("approvals", "approve", "conv", "a")
    assert approved.code == exit_codes.GOOD, approved.err
    assert f"The run {second[:8]}, which was to continue it, has not begun." in approved.err
    assert states(call) == ["approved", "waits for you"]


def test_a_run_that_has_begun_and_was_cancelled_takes_no_answer(site: Site, journal: Journal, call: Call) -> None:
    pause(journal, a="approval")
    call("approvals", "approve", "conv")
    (run,) = queued(call)
    # Its worker is killed, and the run is cancelled before another one takes it.
    details = {"submitted": run}
    journal.record([Record(stage="began", conversation="conversation", turn=0, details=details)])
    assert "wait again" not in call("runs", "cancel", run).err
    for answer in ("approve", "deny"):
        refused = call("approvals", answer, "conv")
        assert refused.code == exit_codes.INPUT, refused.out
        assert "A worker continues it" not in refused.out
    assert f"The run {run[:8]}, which continued it, has ended (cancelled)." in call("approvals", "approve", "conv").err
    # Its calls may have run, so that they do not wait again.
    for words in (("list",), ("show", "conv")):
        said = call("approvals", *words).out
        assert re.search(rf"Not continued: convers\w+\. The run {run[:8]} has ended \(cancelled\)\n", said)
        assert re.search(r"Continue with: ripieno resume convers\w+.*\n\Z", said)


def test_a_run_that_ended_without_beginning_is_listed_with_the_next_command(
    site: Site, journal: Journal, call: Call
) -> None:
    pause(journal, a="approval")
    call("approvals", "approve", "conv")
    before = call("approvals", "list").out
    (run,) = queued(call)
    with site.dispatcher() as dispatcher:
        # As a command does that is killed then.
        dispatcher.cancel(run)
    after = call("approvals", "list").out
    ended, again = after.removeprefix(before).splitlines()
    assert re.fullmatch(rf"Not continued: convers\w+\. The run {run[:8]} has ended \(cancelled\)", ended)
    assert re.fullmatch(r"To answer again: ripieno approvals approve convers\w+    \(or: deny\)", again)
    assert states(call) == ["approved"], "a list changes nothing"


def test_an_answer_that_another_terminal_has_submitted_is_no_error(
    site: Site, journal: Journal, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    async def end_of(one: Submission) -> str:
        async with asyncio.timeout(HANG):
            return (await SubmittedRun(one, dispatcher, journal).ended()).state

    store, worker = PausedStore(journal.database), WorkerProcess(site, approved=False)
    with contextlib.ExitStack() as ending:
        ending.callback(worker.end)
        worker.wait_until_ready()
        dispatcher = ending.enter_context(site.dispatcher())
        dispatcher.submit(first := submission("conversation", HOST, model="house/ask"))
        assert asyncio.run(end_of(first)) == "waiting"
        # One terminal has answered, and has not submitted the run yet. The other one does, and its worker ends it.
        (asked,) = store.all()
        answered = store.answer("conversation", {one.invocation: Approve() for one in asked.unanswered})
        assert call("approvals", "approve", "conv").code == exit_codes.GOOD
        assert answered.next_submission is not None
        assert asyncio.run(end_of(answered.next_submission)) == "ended"
    name, (waiting,) = answered.next_submission.identifier[:8], answered.conversation.waiting
    with click.Context(click.Command("approve")):
        report(journal, answered, "Approved", [waiting])
    assert capsys.readouterr().out == (
        f"Approved: mine.append ({waiting.invocation})\n"
        f"A worker has continued it already. To see it: ripieno runs watch {name}\n"
    )
    watched = call("runs", "watch", name)
    assert (watched.code, watched.out) == (exit_codes.GOOD, "Done.\n"), watched.err
    assert len(site.words()) == 1
    assert "Done." in call("journal", "show", "conversation").out


def test_the_same_answer_of_two_terminals_at_once_is_one_answer(
    journal: Journal, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    pause(journal, a="approval", b="caller")
    (seen,) = PausedStore(journal.database).all()
    assert call("approvals", "approve", "conv").code == exit_codes.GOOD
    with click.Context(click.Command("approve")), pytest.raises(Conflict, match=r"'a' .* answered already: approved"):
        answer_calls(journal, seen, (), Approve())
    assert call("approvals", "result", "conv", "b", "Done.").code == exit_codes.GOOD
    (run,) = (name[:8] for name in queued(call))
    with click.Context(click.Command("approve")):
        answer_calls(journal, seen, ("a",), Approve())
        assert capsys.readouterr().out == f"A worker continues it. To watch it: ripieno runs watch {run}\n"
        with pytest.raises(Conflict, match=f"The run {run} continues it."):
            answer_calls(journal, seen, ("a",), Deny("No."))


def test_where_the_conversation_has_ended_since_a_cancelled_run_names_the_journal(
    site: Site, journal: Journal, call: Call
) -> None:
    pause(journal, a="approval")
    call("approvals", "approve", "conv")
    (run,) = queued(call)
    with site.dispatcher() as dispatcher:
        dispatcher.cancel(run)
    records = [
        Record(stage="began", conversation="conversation", turn=0, details={"submitted": run}),
        Record(stage="ended", conversation="conversation", turn=1, details={"finish": "stop"}),
    ]
    journal.record(records)
    refused = call("approvals", "approve", "conv")
    ended = f"The run {run[:8]}, which continued it, has ended (cancelled)."
    assert f"{ended} To see it: ripieno journal show conversation\n" in refused.err
    assert (refused.code, call("journal", "show", "conversation").code) == (exit_codes.INPUT, exit_codes.GOOD)


def test_of_a_conversation_that_a_worker_conducts_its_run_is_named(user: User, call: Call) -> None:
    with Journal(user.state / NAME) as journal:
        pause(journal, a="approval")
        call("approvals", "approve", "conv")
        (run,) = (name[:8] for name in queued(call))
        with contextlib.closing(sqlite3.connect(user.state / QUEUE)) as queue, queue:
            # As the engine writes it for the worker that takes it.
            queue.execute("UPDATE workflow_status SET status = 'PENDING', executor_id = 'worker-1'")
        store = PausedStore(journal.database)
        (paused,) = store.all()
        (invocation,) = paused.conversation.open
        began = Record(stage="began", conversation="conversation", turn=0)
        journal.record([began, Record(stage="started", conversation="conversation", turn=0, invocation=invocation)])
        watch = f"To watch it: ripieno runs watch {run}"
        for words in (("list",), ("show", "conv")):
            said = call("approvals", *words).out
            assert said.endswith(f"Begun in conversation: a. The run {run} continues it. {watch}\n")
        named = f"It is the run {run}. {watch}    (to end it: ripieno runs cancel {run})\n"
        conducted = "Another process conducts the conversation conversation."
        with store.claimed("conversation"):
            assert f"{conducted} Wait until it ends. {named}" in call("resume", "conv").err
            # It conducts a further message, and has not declined what waits yet.
            pause(journal, b="approval")
            for command in ("approve", "deny"):
                assert f"{conducted} Wait until it ends. {named}" in call("approvals", command, "conv").err
            store.forget("conversation")
            assert f"{conducted} {named}" in call("approvals", "approve", "conv").err


def test_of_a_conversation_that_does_not_wait_it_is_said_where_it_is(site: Site, journal: Journal, call: Call) -> None:
    journal.record([Record(stage="began", conversation="conversation", turn=0)])
    pause(journal, a="approval")
    store = PausedStore(journal.database)
    (seen,) = store.all()
    store.forget("conversation")
    with click.Context(click.Command("deny")), pytest.raises(InputError, match="does not wait for an answer now"):
        answer_calls(journal, seen, (), Deny("No."))
    for command in ("approve", "deny", "show", "revoke"):
        late = call("approvals", command, "conv")
        assert (late.code, late.out) == (exit_codes.INPUT, "")
        advice = "To see it: ripieno journal show conversation"
        assert f"The conversation conversation does not wait for an answer now. {advice}\n" in late.err
    with site.dispatcher() as dispatcher:
        dispatcher.submit(submission("later", HOST))
    assert "Nothing of later is recorded yet" in call("approvals", "approve", "later").err
    assert "There is no paused conversation named 'other'" in call("approvals", "approve", "other").err
