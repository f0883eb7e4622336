"""Answers to calls of runs that workers conduct, while no worker has continued them."""

import json
import pathlib
import re
from collections.abc import Iterator

import pytest

from ripieno.approvals import Edit
from ripieno.canisters import Conversation, InvocationCanister
from ripieno.canisters.conversation import Waiting
from ripieno.cli.common import exit_codes
from ripieno.conducting.paused import Paused, PausedStore
from ripieno.storage.dispatch.leases import WorkerLeases
from ripieno.storage.journal import NAME, Journal
from ripieno.storage.records import Record
from tests.support.command_line import User
from tests.support.postgresql import address_with_queue
from tests.support.users import Call
from tests.support.workers import Site, submission

HOST = "a-host"
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
