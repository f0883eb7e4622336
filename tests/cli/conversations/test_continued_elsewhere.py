"""Conversations of a chat at a terminal that other processes continue, conduct or delete between two of its lines."""

import pathlib
import re

import pytest

from ripieno.canisters import AssistantCanister, UserCanister
from ripieno.cli.common import exit_codes
from ripieno.storage.journal import Journal
from ripieno.storage.records import Record
from tests.support.command_line import Screen, User
from tests.support.postgresql import address_of_schema

SAYS = '[score]\nname = "says"\ncontinues = true\n' + "".join(f'[[turns]]\ntext = "Answer {n}."\n' for n in range(4))
WRITES = """
[score]
name = "writes"
continues = true
[[turns]]
text = "Answer 0."
[[turns]]
calls = [{ tool = "write_file", arguments = { path = "a.txt", content = "one" }, label = "written" }]
[[turns]]
text = "It is written."
"""


@pytest.fixture(params=["sqlite", "postgresql"], autouse=True)
def place(request: pytest.FixtureRequest, user: User, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path | str:
    """The user's journal, in each of the databases."""
    if request.param == "sqlite":
        return user.state / "journal.sqlite3"
    address = address_of_schema(request.getfixturevalue("postgresql_server"))
    monkeypatch.setenv("JOURNAL_URL", address)
    user.configure('[journal]\nurl = "{env:JOURNAL_URL}"\n')
    return address


@pytest.fixture(autouse=True)
def _scores(user: User) -> None:
    (user.workspace / "says.toml").write_text(SAYS)
    (user.workspace / "writes.toml").write_text(WRITES)


def chatting(user: User, *options: str) -> Screen:
    """A chat at a terminal, in which one line was answered."""
    screen = Screen(user, "chat", "-m", "score:./says.toml", *options)
    screen.wait_for("you: ")
    screen.type("One.\n")
    screen.wait_for("Answer 0.")
    screen.wait_for("you: ")
    return screen


def latest(user: User) -> str:
    """The beginning of the identifier of the conversation that was written last."""
    return user.call("journal", "list").stdout.splitlines()[1].split()[0]


def said(user: User, conversation: str) -> list[str]:
    """The messages, calls and results in the journal, each with its number, or - if it is no part any more."""
    shown = user.call("journal", "show", conversation).stdout.splitlines()
    return [one for one in shown if re.match(r"(\d+|-)  ", one)]


def test_a_line_continues_what_another_terminal_has_added(user: User) -> None:
    with chatting(user) as screen:
        added = user.run("chat", "--resume", (name := latest(user)), "-m", "score:./says.toml", text="Two.\n")
        assert "Answer 1." in added.stdout, added.stderr
        screen.type("Three.\n")
        screen.wait_for(f"Continued elsewhere: 2 new messages. To read it: ripieno journal show {name[:8]}")
        screen.wait_for("Answer 2.")
        screen.wait_for("you: ")
        # It is said once.
        screen.type("Four.\n")
        while len(said(user, name)) < 8:
            assert screen.process.poll() is None
        screen.type("/exit\n")
        assert screen.end() == 0
        assert ("Answer 3." in screen.text, "elsewhere" in screen.text) == (True, False)
    assert said(user, name) == [f"{n}  {'user' if n % 2 else 'assistant'}" for n in range(1, 9)]


def test_a_question_that_another_terminal_left_is_asked_before_the_line(user: User) -> None:
    with chatting(user) as screen:
        resumed = ("chat", "--resume", (name := latest(user)), "--defer", "-m", "score:./writes.toml")
        assert "The run waits for you." in user.run(*resumed, text="Write.\n").stderr
        screen.type("Two.\n")
        screen.wait_for("Continued elsewhere: 2 new messages, and these calls wait: write_file.")
        screen.wait_for("Allow it?")
        screen.type("y\n")
        screen.wait_for("Answer 2.")
        screen.wait_for("you: Two.")
        assert (user.workspace / "a.txt").read_text() == "one"
        screen.type("\n")
        screen.wait_for("Answer 3.")
        screen.wait_for("you: ")
        screen.type("/go\n")
        screen.wait_for("Nothing waits for an answer here.")
        screen.type("/exit\n")
        assert screen.end() == 0
    kinds = [one.split()[1] for one in said(user, name)]
    assert kinds == ["user", "assistant", "user", "assistant", "call", "result", "assistant", "user", "assistant"]
    assert not any(one.startswith("-") for one in said(user, name))


def test_a_line_waits_for_the_end_of_a_run_elsewhere(user: User) -> None:
    with chatting(user) as screen:
        resumed = ("chat", "--resume", (name := latest(user)), "-m", "score:./writes.toml")
        with Screen(user, *resumed) as other:
            other.wait_for("you: ")
            other.type("Write.\n")
            other.wait_for("Allow it?")
            screen.type("Two.\n")
            screen.wait_for("Another process conducts the conversation")
            screen.wait_for("you: Two.")
            refused = user.run(*resumed, text="Three.\n")
            assert (refused.returncode, "Another process conducts" in refused.stderr) == (exit_codes.INPUT, True)
            other.type("y\n")
            other.wait_for("It is written.")
            other.wait_for("you: ")
            other.type("/exit\n")
            assert other.end() == 0
        screen.type(" And more.\n")
        screen.wait_for("Continued elsewhere: 3 new messages.")
        screen.wait_for("Answer 3.")
        screen.wait_for("you: ")
        screen.type("/exit\n")
        assert screen.end() == 0
    assert "Two. And more." in user.call("journal", "show", name).stdout
    assert not any(one.startswith("-") for one in said(user, name))


def test_a_conversation_that_was_deleted_stays_deleted(user: User) -> None:
    with chatting(user) as screen:
        assert user.call("journal", "delete", (name := latest(user)), "--yes").returncode == 0
        for typed in ("Two.\n", "\n"):
            screen.type(typed)
            screen.wait_for("was deleted meanwhile. To begin a new one: /new")
            screen.wait_for("you: Two.")
        # Ctrl-U removes what is typed.
        screen.type("\x15/new\n")
        screen.wait_for("you: ")
        screen.type("Three.\n")
        screen.wait_for("Answer 0.")
        screen.wait_for("you: ")
        screen.type("/exit\n")
        assert screen.end() == 0
    assert said(user, name) == []
    assert said(user, latest(user)) == ["1  user", "2  assistant"]


def test_a_script_reads_which_line_was_not_sent(user: User) -> None:
    with user.start("chat", "-m", "score:./says.toml") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("One.\n")
        process.stdin.flush()
        assert process.stdout.readline() == "Answer 0.\n"
        while "ended: stop" not in user.call("journal", "show").stdout:
            assert process.poll() is None
        while user.call("journal", "delete", latest(user), "--yes").returncode:
            assert process.poll() is None
        _, told = process.communicate("Two.\n")
    assert re.search(r"was deleted meanwhile\. To begin a new one: /new\nNot sent: Two\.\n", told)


def test_a_conversation_that_another_process_conducts_is_not_deleted(user: User) -> None:
    for _ in range(2):
        user.call("ask", "-m", "score:./says.toml", "Hello.")
    ended = latest(user)
    with chatting(user, "--tools", "io.*") as screen:
        name = latest(user)
        screen.type("/exit\n")
        assert screen.end() == 0
    with Screen(user, "chat", "--resume", name, "-m", "score:./writes.toml") as screen:
        screen.wait_for("you: ")
        screen.type("Write.\n")
        screen.wait_for("Allow it?")
        before = said(user, name)
        refused = user.run("journal", "delete", ended, name, "--yes")
        assert refused.returncode == exit_codes.INPUT
        assert re.search(f"Another process conducts the conversation {name}.*Wait until it ends", refused.stderr)
        # Of those that are named, none.
        assert len(said(user, ended)) == 2
        old = user.run("journal", "delete", "--older-than", "0m", "--yes")
        assert (old.returncode, old.stdout.count("Deleted: ")) == (0, 2)
        assert re.search(f"Left out: Another process conducts the conversation {name}", old.stderr)
        assert (said(user, ended), said(user, name)) == ([], before)
        screen.type("y\n")
        screen.wait_for("It is written.")
        screen.wait_for("you: ")
        assert user.run("journal", "delete", name, name[:10], "--yes").stdout.count("Deleted: ") == 1
    assert said(user, name) == []


def test_a_line_in_a_conversation_of_an_owner_is_recorded_for_them(user: User, place: pathlib.Path | str) -> None:
    canisters = (UserCanister.of("One."), AssistantCanister.of("Answer 0."))
    said_before = [
        Record(stage="said", conversation="hers", turn=n, owner="ada", canister=one, details={"place": n})
        for n, one in enumerate(canisters)
    ]
    with Journal(place) as journal:
        journal.record(
            [
                Record(stage="began", conversation="hers", turn=0, owner="ada"),
                *said_before,
                Record(stage="ended", conversation="hers", turn=1, owner="ada", details={"finish": "stop"}),
            ]
        )
    done = user.run("chat", "--resume", "hers", "-m", "score:./says.toml", text="Two.\n")
    assert done.stdout == "Answer 1.\n", done.stderr
    with Journal(place) as journal:
        assert [(one.owner, one.turns) for one in journal.conversations()] == [("ada", 1)]
