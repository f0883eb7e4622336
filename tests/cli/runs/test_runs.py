"""``ripieno submit``, ``work`` and ``runs`` as a user types them: commands of the tutorial, workers as processes."""

import datetime
import json
import re
import signal
import socket
import time
import types
import urllib.request
import zoneinfo
from collections.abc import Generator
from typing import Any

import pytest

from ripieno.approvals import Approve
from ripieno.assembly.submissions import dispatcher_beside
from ripieno.cli.common.main import Interrupted
from ripieno.cli.runs.watch import going_on
from ripieno.conducting.paused import PausedStore
from ripieno.exceptions import InputError
from ripieno.storage.databases.contract import Disconnected
from ripieno.storage.journal import NAME, Journal
from ripieno.storage.records import Record
from tests.support.command_line import PATIENCE, User, wait_for

SCORE = """
[score]
name = "notes"
description = "Looks around, and writes a note."
prompt = "Keep a note."

[[turns]]
text = "I look around."
calls = [{ tool = "list_directory", arguments = { path = "." } }]

[[turns]]
text = "I write."
calls = [{ tool = "write_file", arguments = { path = "note.txt", content = "Hello." } }]

[[turns]]
text = "It is written."
"""
SHORT = '[score]\nname = "short"\ndescription = "Answers."\nprompt = "Hello?"\n[[turns]]\ntext = "Hello."\n'


@pytest.fixture
def score(user: User) -> str:
    file = user.workspace / "notes.toml"
    file.write_text(SCORE)
    (user.workspace / "short.toml").write_text(SHORT)
    return f"score:{file}"


@pytest.fixture
def worker(user: User) -> Generator[None, None, None]:
    """A worker, while the test runs."""
    with user.start("work", "--grace", "0") as process:
        wait_for(process, "takes submitted runs")
        yield
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
        assert "The worker has ended." in err


def test_metrics_of_a_worker(user: User, score: str) -> None:
    with user.start("work", "--grace", "0", "--metrics", "0") as process:
        url = wait_for(process, r"Metrics: (http://127\.0\.0\.1:\d+/metrics)")
        wait_for(process, "takes submitted runs")
        assert user.run("submit", "--watch", "-m", "score:./short.toml", "Hello?").returncode == 0
        user.run("submit", "--anywhere", "--at", "2100-01-01", "-m", "score:./short.toml", "Hello?")
        with urllib.request.urlopen(url[1], timeout=PATIENCE) as answer:
            lines = answer.read().decode().splitlines()
        taken = user.call("work", "--metrics", url[1].split(":")[2].partition("/")[0])
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    assert {
        'ripieno_worker_stretch_seconds_count{finish="stop"} 1.0',
        "ripieno_worker_takeovers_total 0.0",
        'ripieno_queue_submissions{state="queued"} 0.0',
        'ripieno_queue_submissions{state="scheduled"} 1.0',
        "ripieno_queue_workers 1.0",
    } <= set(lines)
    assert (taken.returncode, "Name another port." in taken.stderr) == (2, True), taken.stderr
    for wrong in ("no", "1:2:3:x", "70000"):
        refused = user.call("work", "--metrics", wrong)
        assert (refused.returncode, f"and not {wrong!r}" in refused.stderr) == (2, True), refused.stderr


def test_a_submitted_run_waits_for_a_worker_for_a_person_and_ends(user: User, score: str) -> None:
    submitted = user.run("submit", "-m", score, "Keep a note.")
    assert submitted.returncode == 0
    host = socket.gethostname()
    assert f"No worker of the host {host} is alive. To start one there: ripieno work --host {host}" in submitted.stderr
    watch = re.search(r"To watch it: ripieno (runs watch \w+)", submitted.stderr)
    assert watch is not None
    assert "queued" in user.call("runs", "list").stdout
    with user.start("work", "--grace", "0") as process:
        wait_for(process, "takes submitted runs")
        seen = user.run(*watch[1].split())
        assert seen.returncode == 10
        assert "I look around." in seen.stdout
        assert "It waits for a person." in seen.stderr
        assert not (user.workspace / "note.txt").exists()
        commands = re.findall(r": +ripieno (approvals \w+ \w+)", seen.stderr)
        show, approve, deny = (one.split() for one in commands)
        assert deny == ["approvals", "deny", approve[-1]]
        assert "note.txt" in user.call(*show).stdout
        answered = user.run(*approve)
        following = re.search(r"A worker continues it. To watch it: ripieno (runs watch \w+)", answered.stdout)
        assert following is not None
        ended = user.run(*following[1].split())
        assert (ended.returncode, ended.stdout.strip()) == (0, "It is written.")
        assert (user.workspace / "note.txt").read_text() == "Hello."
        listed = user.call("runs", "list").stdout
        assert "answered" in listed
        assert "ended" in listed
        assert "worker" not in user.call("runs", "workers", "--format", "json").stdout
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    assert "No worker is alive" in user.call("runs", "workers").stdout
    assert "none altered" in user.call("journal", "verify").stdout


@pytest.mark.usefixtures("worker")
def test_watching_from_the_submission_and_once_more_later(user: User) -> None:
    model = f"score:{user.workspace / 'short.toml'}"
    (user.workspace / "short.toml").write_text(SHORT)
    watched = user.run("submit", "--watch", "-m", model, "--id", "the one", "Hello?")
    assert (watched.returncode, watched.stdout) == (0, "Hello.\n")
    assert "To watch it" not in watched.stderr
    assert user.run("runs", "watch").stdout == "Hello.\n"
    assert user.run("runs", "watch", "the").stdout == "Hello.\n"
    again = user.run("submit", "-m", model, "--id", "the one", "Hello?")
    assert "Known already, nothing is submitted: the one (ended)" in again.stderr
    (listed,) = json.loads(user.call("runs", "list", "--format", "json").stdout)
    assert (listed["run"], listed["state"], listed["finish"]) == ("the one", "ended", "stop")
    assert listed["workspace"] == str(user.workspace)
    more = user.run("submit", "--watch", "-m", model, "--conversation", listed["conversation"], "And again?")
    assert more.stdout == "Hello.\n"
    assert user.call("journal", "list").stdout.count(listed["conversation"][:12]) == 1
    # Nothing of a deleted conversation stays in the queue.
    user.call("journal", "delete", listed["conversation"], "--yes")
    assert user.call("runs", "list").stdout == "No run was submitted.\n"


@pytest.mark.usefixtures("worker")
def test_a_known_run_is_watched_beyond_its_answer(user: User, score: str) -> None:
    submit = ("submit", "--watch", "--id", "note-2", "-m", score, "Keep a note.")
    assert user.run(*submit).returncode == 10
    again = user.run(*submit)
    assert (again.returncode, "I look around." in again.stdout) == (10, True)
    assert "Known already, nothing is submitted: note-2 (waiting)" in again.stderr
    cancelled = user.call("runs", "cancel", "note-2").stderr
    assert "Nothing runs: it waits for a person." in cancelled
    assert "ripieno approvals deny" in cancelled
    answered = user.run("approvals", "approve")
    following = re.search(r"ripieno runs watch (\w+)", answered.stdout)
    assert following is not None
    for words in (("runs", "watch", "note-2"), submit):
        seen = user.run(*words)
        assert (seen.returncode, seen.stdout.splitlines()[-1]) == (0, "It is written.")
        assert seen.stdout.count("I look around.") == 1
        assert "waits for" not in seen.stderr
        assert f"It was answered. The run {following[1]} continues it." in seen.stderr
    assert "Known already, nothing is submitted: note-2 (answered)" in seen.stderr
    assert "It has ended already: answered." in user.call("runs", "cancel", "note-2").stderr
    for state, found in (("answered", ["note-2"]), ("waiting", [])):
        listed = json.loads(user.call("runs", "list", "--state", state, "--format", "json").stdout)
        assert [(one["run"], one["state"]) for one in listed] == [(name, state) for name in found]


@pytest.mark.usefixtures("worker")
def test_a_message_to_a_conversation_that_waits_says_that_it_declines_the_question(user: User, score: str) -> None:
    first = user.run("submit", "--watch", "-m", score, "Keep a note.")
    (show,) = re.findall(r"To see the call: +ripieno (approvals show (\w+))", first.stderr)
    more = ("submit", "-m", score, "--conversation", show[1])
    yearly = user.run(*more, "--cron", "0 0 1 1 *", "--name", "yearly", "Go on.")
    said = user.run(*more, "--id", "more", "Go on.")
    for one in (yearly, said):
        assert "! A question of this conversation waits for an answer. The message declines it" in one.stderr
        assert f"To answer the question: ripieno {show[0]}\n" in one.stderr
    assert "To cancel the message:  ripieno runs cancel more\n" in said.stderr
    for again in (user.run(*more, "--id", "more", "Go on."), user.run("submit", "-m", score, "Keep a note.")):
        assert "declines" not in again.stderr


@pytest.mark.usefixtures("worker")
def test_what_is_approved_always_is_listed_and_taken_back(user: User, score: str) -> None:
    assert user.call("approvals", "allowed").stdout == "Nothing is allowed without a question.\n"
    submit = ("submit", "--watch", "-m", score)
    assert user.run(*submit, "--id", "one", "Keep a note.").returncode == 10
    conversation = json.loads(user.call("runs", "list", "--format", "json").stdout)[0]["conversation"]
    more = (*submit, "--conversation", conversation, "Keep a note.")
    approved = user.run("approvals", "approve", "--always")
    assert "Allowed: Later calls of io.write_file with any arguments." in approved.stdout
    assert "for seven days or until you take it back" in approved.stdout
    assert user.run("runs", "watch", "one").returncode == 0
    assert user.run(*more).returncode == 0
    (listed,) = json.loads(user.call("approvals", "allowed", "--format", "json").stdout)
    assert (listed["conversation"], listed["tool"], listed["arguments"]) == (conversation, "io.write_file", None)
    identifier = listed["identifier"][:8]
    assert f"{identifier}  {conversation[:8]}" in user.call("approvals", "allowed").stdout
    assert user.call("approvals", "allowed", "nowhere").stdout == "Nothing is allowed without a question.\n"
    ended = user.call("approvals", "allowed", "--end", identifier)
    assert ended.stdout == "Taken back: io.write_file with any arguments\n"
    again = user.call("approvals", "allowed", "--end", identifier)
    assert (again.returncode, "ripieno approvals allowed" in again.stderr) == (2, True), again.stderr
    assert user.run(*more).returncode == 10
    assert user.call("approvals", "approve", "--exact").returncode == 2
    assert "exactly these arguments" in user.run("approvals", "approve", "--always", "--exact").stdout


@pytest.mark.usefixtures("worker")
def test_an_answer_that_was_not_submitted_waits_until_it_is(user: User, score: str) -> None:
    user.run("submit", "--watch", "--id", "note", "-m", score, "Keep a note.")
    # As a command does that is killed in between.
    with Journal(user.state / "journal.sqlite3") as journal:
        store = PausedStore(journal.database)
        (paused,) = store.all()
        store.answer(paused.identifier, {one.invocation: Approve() for one in paused.unanswered})
    watched = user.run("runs", "watch", "note")
    (approve,) = re.findall(r"To approve it: +ripieno (.+)", watched.stderr)
    assert "A worker continues it." in user.run(*approve.split()).stdout
    assert user.run("runs", "watch", "note").stdout.splitlines()[-1] == "It is written."


def finishes(user: User) -> set[str | None]:
    return {one["finish"] for one in json.loads(user.call("runs", "list", "--format", "json").stdout)}


@pytest.mark.parametrize("answer", [("resume", "--autonomous"), ("approvals", "approve")], ids="-".join)
def test_a_run_that_goes_on_at_a_terminal_was_answered(user: User, score: str, answer: tuple[str, ...]) -> None:
    with user.start("work", "--grace", "0") as process:
        wait_for(process, "takes submitted runs")
        user.run("submit", "--watch", "--id", "note", "-m", score, "Keep a note.")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    assert user.run(*answer).returncode == 0
    if answer[0] == "approvals":
        # The approval of a call of a worker is valid here, too.
        resumed = user.run("resume")
        assert (resumed.returncode, "no longer valid" in resumed.stderr) == (0, False), resumed.stderr
        assert (user.workspace / "note.txt").read_text() == "Hello."
        # No worker has looked yet.
        for options, found in (
            ((), ["answered", "answered"]),
            (("--state", "answered"), ["answered"] * 2),
            (("--state", "queued"), []),
        ):
            listed = json.loads(user.call("runs", "list", *options, "--format", "json").stdout)
            assert [one["state"] for one in listed] == found
        watched = user.run("runs", "watch")
        assert (watched.returncode, "continued in another program" in watched.stderr) == (0, True), watched.stderr
        # The next worker finds nothing to do, and asks the model nothing.
        with user.start("work") as process:
            wait_for(process, "takes submitted runs")
            watched = user.run("runs", "watch")
            assert (watched.returncode, watched.stdout) == (0, "It is written.\n")
            # Who watches knows it from the journal, maybe before the worker has looked at the run.
            until = time.monotonic() + PATIENCE
            while (ends := finishes(user)) != {"open", "stop"}:
                assert time.monotonic() < until, ends
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
        assert finishes(user) == {"open", "stop"}
        return
    watched = user.run("runs", "watch", "note")
    assert (watched.returncode, "waits for" in watched.stderr) == (0, False)
    (show,) = re.findall(r"To see all of it: ripieno (.+)", watched.stderr)
    assert "It is written." in user.run(*show.split()).stdout


def test_the_cancellation_of_an_answered_run_names_the_one_that_continues_it(user: User, score: str) -> None:
    with user.start("work") as process:
        wait_for(process, "takes submitted runs")
        user.run("submit", "--watch", "--id", "note", "-m", score, "Keep a note.")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    user.run("approvals", "approve")
    over = user.call("runs", "cancel", "note").stderr
    (name,) = re.findall(r"The run (\w+) continues its conversation\. To cancel that: ripieno runs cancel \1\n", over)
    assert "Its calls wait again." in user.call("runs", "cancel", name).stderr
    assert "Nothing runs: it waits for a person." in user.call("runs", "cancel", "note").stderr
    empty = user.call("runs", "cancel", "")
    assert (empty.returncode, "RUN is empty." in empty.stderr) == (2, True)


def test_runs_that_were_not_submitted_are_none(user: User) -> None:
    listed = user.call("runs", "list")
    assert (listed.returncode, listed.stdout) == (0, "No run was submitted.\n")
    assert json.loads(user.call("runs", "list", "--format", "json").stdout) == []
    assert not user.state.exists()


def test_runs_are_listed_by_what_tells_them_apart(user: User, score: str) -> None:
    for name in ("each-20261129T024900", "each-20261129T025000", "other-long-name"):
        assert user.call("submit", "-m", score, "--id", name, "Hello?").returncode == 0
    rows = user.call("runs", "list").stdout.splitlines()[1:]
    names = ["other-long-name", "each-20261129T025000", "each-20261129T024900"]
    assert [row.split()[0] for row in rows] == names
    # A name that holds only among those that are shown would be that of another run.
    rows = user.call("runs", "list", "--limit", "2").stdout.splitlines()[1:]
    assert [row.split()[0] for row in rows] == names[:2]
    # What a message names is never the beginning that the runs of a schedule share.
    again = user.call("submit", "-m", score, "--id", "each-20261129T024900", "Hello?").stderr
    assert "To watch it: ripieno runs watch each-20261129T024900\n" in again
    # It is enough for the other commands.
    assert "Cancelled: each-20261129T024900" in user.call("runs", "cancel", "each-20261129T024").stderr


@pytest.mark.parametrize("line", ["slot = 3", 'host = "my host"'])
def test_a_configuration_with_errors_takes_no_submission(user: User, score: str, line: str) -> None:
    (user.workspace / "mine.toml").write_text(f"[durable]\n{line}\n")
    refused = user.call("submit", "--config", "mine.toml", "-m", score, "Hello?")
    assert (refused.returncode, "mine.toml:2: error: " in refused.stderr) == (2, True), refused.stderr
    assert not (user.state / "dispatch.sqlite3").exists()


@pytest.mark.parametrize("host", ["", "a b"])
def test_a_worker_checks_its_host_as_the_configuration_does(user: User, host: str) -> None:
    refused = user.call("work", "--host", host)
    assert (refused.returncode, "--host must be a name" in refused.stderr) == (2, True), refused.stderr


def test_a_time_that_has_passed_is_refused_but_for_a_known_submission(user: User, score: str) -> None:
    submit = ("submit", "-m", score, "--id", "report", "--at")
    for when, zone in (("2020-01-31T08:00", "UTC"), ("2020-01-31T08:00+05:30", "Asia/Kolkata")):
        before = datetime.datetime.now(zoneinfo.ZoneInfo(zone))
        refused = user.run(*submit, when, "Write.", TZ="UTC")
        after = datetime.datetime.now(zoneinfo.ZoneInfo(zone))
        message = re.search(r"The time (.+) has passed: it is (.+) now\. Name a later one", refused.stderr)
        assert message is not None, refused.stderr
        given, now = map(datetime.datetime.fromisoformat, message.groups())
        assert (refused.returncode, given) == (2, datetime.datetime.fromisoformat(when).replace(tzinfo=before.tzinfo))
        assert before.replace(second=0, microsecond=0) <= now <= after
        assert now.utcoffset() == before.utcoffset()
    assert "No run was submitted." in user.call("runs", "list").stdout
    assert user.call(*submit, "+1h", "Write.").returncode == 0
    again = user.call(*submit, "2020-01-31T08:00", "Write.")
    assert (again.returncode, "Known already, nothing is submitted: report (scheduled)" in again.stderr) == (0, True)


def test_what_waits_for_its_time_is_cancelled(user: User, score: str) -> None:
    late = user.run("submit", "-m", score, "--at", "+2h", "--id", "late", "Keep a note.")
    assert "not before" in late.stderr
    (due,) = [one["starts"] for one in json.loads(user.call("runs", "list", "--format", "json").stdout)]
    headers, row = user.call("runs", "list").stdout.splitlines()
    assert re.split("  +", headers)[3] == "DUE (UTC)"
    assert re.split("  +", row)[3] == f"{datetime.datetime.fromisoformat(due):%Y-%m-%d %H:%M:%S}"
    assert re.split("  +", row)[1] == "scheduled"
    assert re.split("  +", row)[5] == f"for {socket.gethostname()}"
    assert "Cancelled: late" in user.call("runs", "cancel", "late").stderr
    assert "It has ended already: cancelled." in user.call("runs", "cancel", "late").stderr
    assert "cancelled" in user.call("runs", "list", "--state", "cancelled").stdout


def test_the_prompt_of_a_run_that_never_began_is_deleted(user: User, score: str) -> None:
    for name, text in (("late", "Buy seventeen cabbages."), ("other", "Buy a pear.")):
        user.run("submit", "-m", score, "--at", "+1h", "--id", name, text)
    user.call("runs", "cancel", "late")
    other, late = json.loads(user.call("runs", "list", "--format", "json").stdout)
    kept = [user.state / f"{name}{end}" for name in ("dispatch.sqlite3", "journal.sqlite3") for end in ("", "-wal")]
    assert any(b"cabbages" in file.read_bytes() for file in kept if file.exists())
    asked = user.call("journal", "delete", late["conversation"][:8])
    assert (asked.returncode, "has not begun; it is in the queue only" in asked.stderr) == (2, True), asked.stderr
    deleted = user.call("journal", "delete", late["conversation"][:8], "--yes")
    assert deleted.stdout == f"Deleted from the queue: {late['conversation']}, which had not begun.\n"
    assert not any(b"cabbages" in file.read_bytes() for file in kept if file.exists())
    (left,) = json.loads(user.call("runs", "list", "--format", "json").stdout)
    assert left["conversation"] == other["conversation"]
    refused = user.call("journal", "delete", late["conversation"], "--yes")
    assert (refused.returncode, "There is no conversation named" in refused.stderr) == (2, True)
    assert user.call("journal", "delete", left["conversation"], "--owner", "bob", "--yes").returncode == 2


def test_a_run_beyond_the_rate_begins_later_and_says_so(user: User, score: str) -> None:
    user.configure("[durable]\nowner_rate = { runs = 1, seconds = 3600 }\n")
    first, second = (user.run("submit", "-m", score, "--id", name, "Keep a note.") for name in ("one", "two"))
    assert "a rate under [durable]" not in first.stderr
    assert "Submitted: two. It begins at " in second.stderr
    assert "a rate under [durable] is reached\n" in second.stderr
    two, one = json.loads(user.call("runs", "list", "--format", "json").stdout)
    assert (one["state"], two["state"]) == ("queued", "scheduled")
    waits = datetime.datetime.fromisoformat(two["starts"]) - datetime.datetime.fromisoformat(one["submitted"])
    assert datetime.timedelta(minutes=59) < waits < datetime.timedelta(minutes=61)
    # Another owner has a rate of their own.
    assert "is reached" not in user.run("submit", "-m", score, "--owner", "bob", "Keep a note.").stderr


def test_scripted_models_have_a_rate(user: User, score: str) -> None:
    user.configure("[durable]\nprovider_rates = { score = { runs = 1, seconds = 3600 } }\n")
    first, second = (user.run("submit", "-m", score, "Keep a note.").stderr for _ in range(2))
    assert ["is reached" in one for one in (first, second)] == [False, True]


def test_schedules_are_listed_and_ended(user: User, score: str) -> None:
    given = ("--cron", "0 8 * * *", "--name", "morning")
    made = user.run("submit", "-m", score, *given, "Summarise the new issues.")
    assert "Scheduled: morning (0 8 * * *, UTC)" in made.stderr
    (schedule,) = json.loads(user.call("runs", "schedules", "--format", "json").stdout)
    coming = datetime.datetime.fromisoformat(schedule["next"])
    assert datetime.timedelta() < coming - datetime.datetime.now(datetime.UTC) < datetime.timedelta(days=1)
    assert (coming.hour, coming.minute, schedule["prompt"]) == (8, 0, "Summarise the new issues.")
    headers, row = user.call("runs", "schedules").stdout.splitlines()
    assert re.split("  +", headers) == ["NAME", "CRON (UTC)", "NEXT (UTC)", "PROMPT"]
    assert re.split("  +", row) == ["morning", "0 8 * * *", f"{coming:%Y-%m-%d} 08:00:00", "Summarise the new issues."]
    assert "Replaced" not in made.stderr
    again = user.run("submit", "-m", score, "--cron", "30 9 * * 1", "--name", "morning", "Summarise the week.")
    assert "Replaced: morning (0 8 * * *, UTC), which was: Summarise the new issues." in again.stderr
    assert "Scheduled: morning (30 9 * * 1, UTC)" in again.stderr
    assert "Ended: morning" in user.call("runs", "schedules", "--end", "morning").stderr
    refused = user.call("runs", "schedules", "--end", "morning")
    assert refused.returncode == 2
    assert "no schedule named 'morning'" in refused.stderr
    assert user.call("runs", "schedules").stdout == "There is no schedule.\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-m", "nowhere/m", "Hello?"), "no provider named 'nowhere'"),
        (("--agent", "x", "Hello?"), "no agent named 'x'"),
        (("Hello?",), "No model is named."),
        (("-m", "SCORE", " "), "The prompt is empty."),
        (("-m", "SCORE", "--at", "soon", "x"), "'soon' is not a time. Write one such as 2027-01-31T08:00"),
        (("-m", "SCORE", "--cron", "0 8 * * *", "x"), "Give --cron and --name together."),
        (
            ("-m", "SCORE", "--cron", "0 8 * *", "--name", "n", "x"),
            "The schedule 'n' is not valid: '0 8 * *' has 4 fields. A schedule has five fields: minute, hour, day of "
            "the month, month and day of the week. Each day at 8:00: '0 8 * * *'.",
        ),
        (("-m", "SCORE", "--tools", "io.*", "--tools", "oi.*", "x"), "There is no ensemble named 'oi'."),
        (
            ("-m", "SCORE", "--tools", "io.reed_file", "x"),
            "There is no tool named 'io.reed_file'. Did you mean 'io.read_file'",
        ),
        (("-m", "SCORE", "--cron", "0 25 * * *", "--name", "n", "x"), "is not valid: '25' is no hour."),
        (("-m", "SCORE", "--cron", "0 8 31 2 *", "--name", "n", "x"), "No day is one of '0 8 31 2 *'."),
        (("-m", "SCORE", "--cron", "0 8 * * *", "--name", "n", "--watch", "x"), "--cron goes with neither"),
    ],
)
def test_what_cannot_run_is_refused_before_it_is_queued(
    user: User, score: str, arguments: tuple[str, ...], message: str
) -> None:
    refused = user.call("submit", *(score if one == "SCORE" else one for one in arguments))
    assert refused.returncode == 2
    assert message in refused.stderr
    assert "DBOS" not in refused.stderr


def test_the_beginning_of_a_conversation_continues_it_and_an_unknown_one_is_refused(user: User, score: str) -> None:
    def conversations() -> list[tuple[str, str]]:
        listed = json.loads(user.call("runs", "list", "--format", "json").stdout)
        return [(one["conversation"], one["owner"]) for one in listed]

    assert user.call("submit", "-m", score, "--owner", "ada", "Keep a note.").returncode == 0
    ((first, owner),) = conversations()
    # No worker has taken it: only the queue has it.
    assert user.call("submit", "-m", score, "--conversation", first[:8], "And another.").returncode == 0
    assert user.call("ask", "-m", f"score:{user.workspace / 'short.toml'}", "Hello?").returncode == 0
    (recorded,) = json.loads(user.call("journal", "list", "--format", "json").stdout)
    name = recorded["identifier"]
    assert user.call("submit", "-m", score, "--conversation", name[:12], "And again?").returncode == 0
    assert conversations() == [(name, ""), (first, owner), (first, "ada")]
    assert owner == "ada"
    for given, message in (
        (("nosuchid",), "There is no conversation named 'nosuchid'. List them: ripieno journal list"),
        ((first[:8], "--owner", "eve"), f"The conversation {first} is of ada. Leave out: --owner eve"),
        ((name[:8], "--owner", "eve"), f"The conversation {name} has no owner. Leave out: --owner eve"),
    ):
        refused = user.call("submit", "-m", score, "--conversation", *given, "x")
        assert (refused.returncode, message in refused.stderr) == (2, True), refused.stderr
    assert len(conversations()) == 3
    # A conversation of two owners, as programs name them.
    with Journal(user.state / "journal.sqlite3") as journal:
        journal.record([Record(stage="began", conversation="main", turn=0, owner=one) for one in ("ada", "eve")])
    refused = user.call("submit", "-m", score, "--conversation", "main", "x")
    assert (refused.returncode, "Several conversations begin with 'main'" in refused.stderr) == (2, True)
    assert user.call("submit", "-m", score, "--conversation", "main", "--owner", "eve", "x").returncode == 0
    assert conversations()[0] == ("main", "eve")


def test_a_further_message_runs_with_what_and_where_the_last_one_did(user: User, score: str) -> None:
    assert user.call("submit", "-m", score, "--anywhere", "--tools", "io.*", "Keep a note.").returncode == 0
    name = json.loads(user.call("runs", "list", "--format", "json").stdout)[0]["conversation"]
    assert user.call("submit", "--conversation", name[:8], "And another.").returncode == 0
    first, second = json.loads(user.call("runs", "list", "--format", "json").stdout)
    assert {key: first[key] for key in ("conversation", "model", "host")} == {
        key: second[key] for key in ("conversation", "model", "host")
    }
    refused = user.call("submit", "--conversation", name, "--workspace", str(user.workspace), "Here, please.")
    assert refused.returncode == 2
    assert "A run of this conversation has not ended, and is for any worker; this one is for the host" in refused.stderr
    assert len(json.loads(user.call("runs", "list", "--format", "json").stdout)) == 2


def test_a_secret_of_the_configuration_is_not_queued(user: User, score: str) -> None:
    user.configure(
        '[providers.house]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:1"\napi_key = "{env:HOUSE_KEY}"\n'
    )
    refused = user.run("submit", "-m", score, "Use swordfish-1234 for it.", HOUSE_KEY="swordfish-1234")
    assert refused.returncode == 2
    assert "The message has the value of a variable" in refused.stderr
    state = b"".join(file.read_bytes() for file in user.state.rglob("*") if file.is_file())
    assert b"swordfish-1234" not in state


def test_without_anything_submitted_the_lists_say_how_to_begin(user: User) -> None:
    listed = user.call("runs", "list")
    assert (listed.returncode, listed.stdout) == (0, "No run was submitted.\n")
    refused = user.call("runs", "watch")
    assert refused.returncode == 2
    assert 'Nothing was submitted yet. To submit a run: ripieno submit "PROMPT"' in refused.stderr
    workers = user.call("runs", "workers")
    assert (workers.returncode, workers.stdout) == (0, "No worker is alive. To start one: ripieno work\n")
    schedules = user.call("runs", "schedules")
    assert (schedules.returncode, schedules.stdout) == (0, "There is no schedule.\n")
    assert "no schedule named 'morning'" in user.call("runs", "schedules", "--end", "morning").stderr
    assert user.call("runs", "workers", "--format", "json").stdout == "[]\n"
    assert list(user.state.glob("*.sqlite3")) == [], "looking creates nothing"
    dispatcher = dispatcher_beside(user.state / NAME)
    assert not dispatcher.listed(limit=1)
    dispatcher.close()
    empty = user.call("runs", "watch")
    assert (empty.returncode, empty.stderr) == (2, refused.stderr)


def test_an_unknown_run_and_an_ambiguous_beginning_are_named(user: User, score: str) -> None:
    for name in ("same-1", "same-2"):
        user.run("submit", "-m", score, "--at", "+1h", "--id", name, "x")
    assert "Several runs match: same-2, same-1." in user.call("runs", "cancel", "same").stderr
    assert "no run named 'other'. To list them: ripieno runs list" in user.call("runs", "watch", "other").stderr
    assert "Did you mean 'same-1'" in user.call("runs", "watch", "smae-1").stderr


def test_a_key_that_is_missing_here_is_a_warning_of_the_submission(user: User, score: str) -> None:
    user.configure('[model]\ndefault = "openai/m"\n[agents.clerk]\nmodel = "anthropic/m"\n')
    for options, model in (((), "openai/m"), (("--agent", "clerk"), "anthropic/m")):
        variable = f"{model.partition('/')[0].upper()}_API_KEY"
        warning = f"! The provider of {model} needs the variable {variable}"
        submitted = user.call("submit", "--at", "+1h", *options, "Hello?")
        assert (submitted.returncode, warning in submitted.stderr) == (0, True)
        submitted = user.call("submit", "--at", "+1h", *options, "Hello?", **{variable: "sk-1"})
        assert (submitted.returncode, "!" in submitted.stderr) == (0, False)
    assert "!" not in user.call("submit", "--at", "+1h", "-m", score, "Hello?").stderr


def test_a_failed_run_says_why(user: User) -> None:
    # The worker lacks the key of the first model, and nothing answers for the second one.
    user.configure(
        '[providers.closed]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:1/v1"\n'
        '[providers.house]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:1/v1"\napi_key = "{env:HOUSE_KEY}"\n'
    )
    with user.start("work") as process:
        wait_for(process, "takes submitted runs")
        for model in ("closed/m", "house/m"):
            failed = user.run("submit", "--watch", "-m", model, "Hello?", HOUSE_KEY="x")
            assert failed.returncode == 1
            assert "It failed:" in failed.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    # The cause comes first, not the path of the file that it is in.
    _, house, closed = user.call("runs", "list").stdout.splitlines()
    assert "provider 'house': api_key needs the variable HOUSE_KEY" in house
    assert "Nothing answers at" in closed


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Interrupted(signal.SIGINT)])
def test_a_watch_that_is_interrupted_says_that_the_run_goes_on(
    error: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    watched: Any = types.SimpleNamespace(identifier="mine")
    with pytest.raises(type(error)), going_on(watched):
        raise error
    assert capsys.readouterr().err == "The run goes on. To watch it again: ripieno runs watch mine\n"


def test_a_watch_whose_database_goes_away_says_how_to_go_on() -> None:
    watched: Any = types.SimpleNamespace(identifier="mine")
    with pytest.raises(InputError) as caught, going_on(watched):
        raise Disconnected("The journal cannot be read.")
    assert str(caught.value) == (
        "The journal cannot be read.\nOnly the watching has ended. To watch it again: ripieno runs watch mine"
    )


ALERTING = """
def warn(context, arguments):
    raise KeyError("mind the gap")
"""
WARNS = """
[ensemble]
name = "gaps"
description = "Warns."
module = "./gaps.py"
[[invokers]]
name = "warn"
description = "Warns."
effect = "read"
"""
WARNING = """
[score]
name = "warning"
[[turns]]
calls = [{ tool = "warn", arguments = {} }]
[[turns]]
text = "Done."
"""


def test_each_line_of_the_log_of_a_worker_is_json_also_the_alert_of_a_tool(user: User) -> None:
    user.configure('[ensembles]\nenabled = ["gaps"]\n')
    (user.ensemble("gaps", WARNS).parent / "gaps.py").write_text(ALERTING)
    (user.workspace / "warning.toml").write_text(WARNING)
    with user.start("work", "--grace", "0", "--log-format", "json") as process:
        wait_for(process, "takes submitted runs")
        assert user.run("submit", "--watch", "-m", "score:./warning.toml", "Go.").returncode == 1
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
    lines = [json.loads(line) for line in err.splitlines()]
    (alert,) = (one for one in lines if one["logger"] == "ripieno.cli" and "mind the gap" in one["message"])
    assert (alert["level"], alert["message"].startswith("gaps.warn: ")) == ("warning", True)
