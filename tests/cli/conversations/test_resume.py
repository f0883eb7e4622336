"""``ripieno resume`` without an identifier: the latest conversation of this folder that can go on, or others."""

import pathlib
import shlex

import pytest

from ripieno.cli.common import exit_codes
from tests.cli.test_completion import complete
from tests.support.command_line import Screen, User
from tests.support.users import Call

ENDS = '[score]\nname = "ends"\n[[turns]]\ntext = "Hello."\n'
WRITES = """
[score]
name = "writes"
[[turns]]
calls = [{ tool = "write_file", arguments = { path = "a.txt", content = "one" }, label = "written" }]
[[turns]]
text = "{written}"
"""


@pytest.fixture
def scores(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "ends.toml").write_text(ENDS)
    (tmp_path / "writes.toml").write_text(WRITES)
    return tmp_path


@pytest.fixture
def elsewhere(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "another folder"
    folder.mkdir()
    return folder


def test_an_ended_conversation_is_not_the_default(
    user: User, call: Call, scores: pathlib.Path, elsewhere: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call("ask", "--defer", "-m", f"score:{scores}/writes.toml", "Write.").code == exit_codes.WAITING
    call("approvals", "approve")
    assert call("ask", "-m", f"score:{scores}/ends.toml", "Hello.").code == 0
    # From another folder, the command that is printed continues it.
    monkeypatch.chdir(elsewhere)
    refused = call("resume")
    assert refused.code == exit_codes.INPUT
    (line,) = [one for one in refused.err.splitlines() if one.startswith("  ripieno resume ")]
    monkeypatch.chdir(user.workspace)
    assert call("ask", "-m", f"score:{scores}/ends.toml", "Hello.").code == 0
    monkeypatch.chdir(elsewhere)
    done = call(*shlex.split(line)[1:])
    assert done.code == 0, done.err
    assert (user.workspace / "a.txt").read_text() == "one"
    nothing = call("resume")
    assert (nothing.code, "To start one: ripieno ask" in nothing.err) == (exit_codes.INPUT, True)


def test_the_advice_for_an_ended_conversation_works_from_another_folder(
    user: User, call: Call, scores: pathlib.Path, elsewhere: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call("ask", "-m", f"score:{scores}/ends.toml", "Hello.").code == 0
    identifier = call("journal", "list").out.splitlines()[1].split()[0]
    monkeypatch.chdir(elsewhere)
    refused = call("resume", identifier)
    assert "has ended" in refused.err
    advice = shlex.split(refused.err.partition("To add a message: ")[2])
    assert advice[-2:] == ["--workspace", str(user.workspace)]
    assert user.call(*advice[1:], text="/exit\n").returncode == 0


def test_only_what_can_go_on_is_completed(user: User, call: Call, scores: pathlib.Path) -> None:
    call("ask", "-m", f"score:{scores}/ends.toml", "Hello.")
    assert complete(user, "ripieno resume ") == []
    call("ask", "--defer", "-m", f"score:{scores}/writes.toml", "Write.")
    (waiting,) = complete(user, "ripieno resume ")
    assert complete(user, "ripieno approvals show ") == [waiting]


def test_an_interrupted_question_is_asked_again(user: User, scores: pathlib.Path) -> None:
    with Screen(user, "ask", "-m", f"score:{scores}/writes.toml", "Write.") as screen:
        screen.wait_for("Allow it?")
        screen.type("\x03")
        screen.wait_for("To continue:")
        assert screen.end() == exit_codes.WAITING
    with Screen(user, "resume") as screen:
        screen.wait_for("Allow it?")
        screen.type("y\n")
        assert screen.end() == 0
    assert (user.workspace / "a.txt").read_text() == "one"


def test_an_interrupted_run_prints_the_command_that_continues_it(user: User, scores: pathlib.Path) -> None:
    user.configure('[ensembles]\nenabled = ["slow"]\n')
    user.ensemble("slow", SLOW)
    (scores / "slow.toml").write_text('[score]\nname = "slow"\n[[turns]]\ncalls = [{ tool = "sleep" }]\n')
    with Screen(user, "ask", "-m", f"score:{scores}/slow.toml", "Sleep.") as screen:
        screen.wait_for("> slow.sleep")
        screen.type("\x03")
        screen.wait_for("To continue: ripieno resume ")
        assert screen.end() == exit_codes.SIGNAL + 2


SLOW = """
[ensemble]
name = "slow"
[[invokers]]
name = "sleep"
description = "Sleeps."
effect = "read"
invocable = { origin = "command", argv = ["sleep", "60"] }
"""
