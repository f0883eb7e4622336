"""``ripieno resume`` without an identifier: the latest conversation of this folder that can go on, or others."""

import pathlib
import re
import shlex
import signal
import sys

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


def test_a_fork_is_of_the_folder_of_its_conversation(
    user: User, call: Call, scores: pathlib.Path, elsewhere: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("ask", "--tools", "io.*", "-m", f"score:{scores}/ends.toml", "Write the notes.")
    fork = call("journal", "fork", "--at", "1").out.strip()
    monkeypatch.chdir(elsewhere)
    refused = call("resume", "-m", f"score:{scores}/writes.toml")
    assert refused.code == exit_codes.INPUT
    assert f"No conversation of {elsewhere} waits or was interrupted." in refused.err
    assert f"ripieno resume {fork[:8]} --workspace" in refused.err
    monkeypatch.chdir(user.workspace)
    # A fork of a fork is of the same folder.
    call("journal", "fork", fork)
    assert call("resume", fork, "-m", f"score:{scores}/writes.toml", "--autonomous").code == 0
    assert (user.workspace / "a.txt").read_text() == "one"
    monkeypatch.chdir(elsewhere)
    assert call("resume").code == exit_codes.INPUT


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


def test_the_conversation_that_no_one_named_is_said(user: User, call: Call, scores: pathlib.Path) -> None:
    """One that waits, and one that was interrupted."""
    call("ask", "--defer", "-m", f"score:{scores}/writes.toml", "Write the notes.")
    call("approvals", "approve")
    waited = call("resume")
    assert waited.code == 0
    identifier = call("journal", "list").out.splitlines()[1].split()[0]
    assert re.match(rf"Continuing {identifier[:8]}, of [0-9-]+ [0-9:]+ UTC: Write the notes\.\n", waited.err)
    fork = call("journal", "fork", identifier, "--at", "1").out.strip()
    interrupted = call("resume", "--autonomous")
    assert interrupted.code == 0
    assert re.match(rf"Continuing {fork[:8]}, of [0-9-]+ [0-9:]+ UTC: Write the notes\.\n", interrupted.err)
    # A name that was given is not repeated.
    again = call("journal", "fork", identifier, "--at", "1").out.strip()
    assert "Continuing" not in call("resume", again, "--autonomous").err


def test_only_what_can_go_on_is_completed(user: User, call: Call, scores: pathlib.Path) -> None:
    call("ask", "-m", f"score:{scores}/ends.toml", "Hello.")
    assert complete(user, "ripieno resume ") == []
    call("ask", "--defer", "-m", f"score:{scores}/writes.toml", "Write.")
    (waiting,) = complete(user, "ripieno resume ")
    assert complete(user, "ripieno approvals show ") == [waiting]


EDIT = ("e\n", "The arguments, as JSON (empty: unchanged): ", '"content": "one"')
AGAIN = ('\x15{"path": "a.txt", "content": "two"}\n', "there is no always.", "Allow it?")


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([], id="choice"),
        pytest.param([("no, because", "because")], id="advice"),
        pytest.param([EDIT], id="edited arguments"),
        pytest.param([EDIT, ('\x15{"path"', '{"path"')], id="edited arguments, begun"),
        pytest.param([EDIT, AGAIN], id="choice after other arguments"),
    ],
)
@pytest.mark.parametrize("command", ["ask", "resume"])
def test_an_interrupted_question_is_asked_again(
    user: User, scores: pathlib.Path, lines: list[tuple[str, ...]], command: str
) -> None:
    """Ctrl-C at any line of an approval ends the command at once: nothing is decided, and a sentence says so."""
    begin = ("ask", "-m", f"score:{scores}/writes.toml", "Write.")
    if command == "resume":
        assert user.call(*begin[:1], "--defer", *begin[1:]).returncode == exit_codes.WAITING
    with Screen(user, *(begin if command == "ask" else ["resume"])) as screen:
        screen.wait_for("Allow it?")
        for typed, *shown in lines:
            screen.type(typed)
            for text in shown:
                screen.wait_for(text)
        screen.type("\x03")
        screen.wait_for("Waiting: io.write_file (call_1_1): it needs the approval of a person.")
        screen.wait_for("To continue:    ripieno resume ")
        assert (screen.end(), screen.echoes) == (exit_codes.SIGNAL + 2, True)
        assert "Traceback" not in screen.text
    with Screen(user, "resume") as screen:
        screen.wait_for("Allow it?")
        screen.type("y\n")
        assert screen.end() == 0
    assert (user.workspace / "a.txt").read_text() == "one"


def test_a_call_that_is_asked_about_elsewhere_is_answered_there(user: User, call: Call, scores: pathlib.Path) -> None:
    with Screen(user, "ask", "-m", f"score:{scores}/writes.toml", "Write.") as screen:
        screen.wait_for("Allow it?")
        identifier = call("journal", "list").out.splitlines()[1].split()[0]
        for command in ("approve", "deny", "show"):
            done = call("approvals", command, identifier)
            assert done.code == exit_codes.INPUT
            assert re.search(
                rf"Another process conducts .* {identifier}.*If it asks about a call, answer there", done.err
            )
        screen.type("y\n")
        assert screen.end() == 0
    # Now it waits nowhere.
    late = call("approvals", "approve", identifier)
    assert f"{identifier[:8]}" in late.err
    assert "does not wait for an answer now. To see it: ripieno journal show " in late.err


BOTH = WRITES.replace(
    'label = "written" }]',
    'label = "written" }, { tool = "write_file", arguments = { path = "b.txt", content = "two" } }]',
)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([], id="choice"),
        pytest.param([("no, because", "because")], id="advice"),
        pytest.param([EDIT], id="edited arguments"),
        pytest.param([EDIT, AGAIN, ("e\n", "JSON")], id="edited arguments, again"),
    ],
)
@pytest.mark.parametrize("score", [WRITES, BOTH], ids=["one call", "two calls"])
def test_a_question_whose_terminal_is_closed_is_asked_again(
    user: User, scores: pathlib.Path, lines: list[tuple[str, ...]], score: str
) -> None:
    """A closed window decides nothing, at whichever line: the calls wait."""
    (scores / "writes.toml").write_text(score)
    calls = score.count("write_file")
    with Screen(user, "ask", "-m", f"score:{scores}/writes.toml", "Write.") as screen:
        screen.wait_for("Allow it?")
        for typed, *shown in lines:
            screen.type(typed)
            for text in shown:
                screen.wait_for(text)
        assert screen.close() == exit_codes.SIGNAL + signal.SIGHUP
    assert user.call("approvals", "list").stdout.count("io.write_file") == calls
    assert "denied" not in user.call("journal", "show").stdout
    with Screen(user, "resume") as screen:
        for _ in range(calls):
            screen.wait_for("Allow it?")
            screen.type("y\n")
        assert screen.end() == 0
    assert [(user.workspace / name).exists() for name in ("a.txt", "b.txt")] == [True, calls == 2]


@pytest.mark.parametrize("end", ["closed", "terminated"])
@pytest.mark.parametrize("lines", [[], [EDIT]], ids=["choice", "edited arguments"])
def test_a_question_of_a_chat_that_ends_is_asked_again(
    user: User, scores: pathlib.Path, lines: list[tuple[str, ...]], end: str
) -> None:
    (scores / "writes.toml").write_text(BOTH)
    with Screen(user, "chat", "-m", f"score:{scores}/writes.toml") as screen:
        screen.wait_for("you: ")
        screen.type("Write.\n")
        screen.wait_for("Allow it?")
        for typed, *shown in lines:
            screen.type(typed)
            for text in shown:
                screen.wait_for(text)
        if end == "terminated":
            screen.process.send_signal(signal.SIGTERM)
            screen.wait_for("To continue:    ripieno resume ")
            assert screen.end() == exit_codes.SIGNAL + signal.SIGTERM
        else:
            assert screen.close() == exit_codes.SIGNAL + signal.SIGHUP
    assert user.call("approvals", "list").stdout.count("io.write_file") == 2
    with Screen(user, "resume") as screen:
        for _ in range(2):
            screen.wait_for("Allow it?")
            screen.type("y\n")
        assert screen.end() == 0
    assert [(user.workspace / name).exists() for name in ("a.txt", "b.txt")] == [True, True]


def test_a_result_waits_until_the_open_question_is_answered(user: User, scores: pathlib.Path) -> None:
    (scores / "writes.toml").write_text(BOTH)
    with Screen(user, "ask", "-m", f"score:{scores}/writes.toml", "Write.") as screen:
        screen.wait_for("or advice for the model] ")
        screen.type("y\n")
        screen.wait_for("or advice for the model] ")
        while "Wrote 3 bytes to a.txt" not in user.call("journal", "show").stdout:
            assert screen.process.poll() is None
        screen.type("y\n")
        # The typed answer comes first, and both results after it.
        for text in ("y\r\n", "< io.write_file", "< io.write_file"):
            screen.wait_for(text)
        assert screen.end() == 0


def test_pasted_lines_and_other_letters_decide_nothing(user: User, scores: pathlib.Path) -> None:
    with Screen(user, "ask", "-m", f"score:{scores}/writes.toml", "Write.") as screen:
        for typed, shown in (
            ("line one\nline two\nn", "Several lines are no answer. Nothing is decided; type one line."),
            ("y\ny\n", "Several lines are no answer."),
            ("d\n", "d is no key here.\r\ny    run this call\r\n"),
        ):
            screen.wait_for("or advice for the model] ")
            screen.type(typed)
            screen.wait_for(shown)
        screen.wait_for("or advice for the model] ")
        assert not (user.workspace / "a.txt").exists()
        screen.type("y\n")
        assert screen.end() == 0
    assert (user.workspace / "a.txt").read_text() == "one"


def test_nothing_is_announced_if_no_one_is_asked(user: User, scores: pathlib.Path) -> None:
    with Screen(user, "ask", "--autonomous", "-m", f"score:{scores}/writes.toml", "Write.") as screen:
        assert screen.end() == 0
    piped = user.call("ask", "--autonomous", "-m", f"score:{scores}/writes.toml", "Write.")
    for text in (screen.text, piped.stderr):
        assert "> io.write_file" in text
        assert "wants to run" not in text


def test_a_terminated_command_ends_the_line_that_is_edited(user: User, scores: pathlib.Path) -> None:
    with Screen(user, "ask", "-m", f"score:{scores}/writes.toml", "Write.") as screen:
        screen.wait_for("Allow it?")
        screen.type(EDIT[0])
        screen.wait_for(EDIT[2])
        screen.process.send_signal(signal.SIGTERM)
        screen.wait_for("To continue:    ripieno resume ")
        assert (screen.end(), screen.echoes) == (exit_codes.SIGNAL + signal.SIGTERM, True)


EDITOR = """#!{python} -I
import json, os, select, signal, sys
# A handler alone would not run if the signal came just before the waiting for a line.
seen, signalled = os.pipe()
os.set_blocking(signalled, False)
signal.set_wakeup_fd(signalled)
signal.signal(signal.SIGINT, lambda *_: None)
os.write(1, b"Ready.")
while 0 not in select.select([0, seen], [], [])[0]:
    os.read(seen, 1)
    os.write(1, b"A key of mine.")
line = sys.stdin.readline().strip()
open(sys.argv[1], "w").write(json.dumps({{"path": "a.txt", "content": line}}))
"""


@pytest.mark.parametrize("command", ["ask", "chat"])
def test_ctrl_c_in_an_editor_is_a_key_of_it(user: User, scores: pathlib.Path, command: str) -> None:
    editor = scores / "editor"
    editor.write_text(EDITOR.format(python=sys.executable))
    editor.chmod(0o755)
    prompt = ["Write."] if command == "ask" else []
    with Screen(user, command, "-m", f"score:{scores}/writes.toml", *prompt, VISUAL=str(editor)) as screen:
        if command == "chat":
            screen.wait_for("you: ")
            screen.type("Write.\n")
        screen.wait_for("Allow it?")
        screen.type("e\n")
        screen.wait_for("Ready.")
        for _ in range(2):
            screen.type("\x03")
            screen.wait_for("A key of mine.")
        screen.type("two\n")
        screen.wait_for("there is no always.")
        screen.wait_for("Allow it?")
        screen.type("a\n")
        screen.wait_for("there is no always.")
        screen.wait_for("Allow it?")
        screen.type("y\n")
        if command == "chat":
            screen.wait_for("you: ")
            screen.type("/exit\n")
        assert screen.end() == 0
    assert (user.workspace / "a.txt").read_text() == "two"


def test_an_editor_that_fails_decides_nothing(user: User, scores: pathlib.Path) -> None:
    for editor, why in (("false", "The editor failed: false ended with exit code 1."), ("/none", "The editor failed:")):
        with Screen(user, "ask", "-m", f"score:{scores}/writes.toml", "Write.", EDITOR=editor) as screen:
            screen.wait_for("Allow it?")
            screen.type("e\n")
            screen.wait_for(why)
            screen.wait_for("Allow it?")
            screen.type("n\n")
            assert screen.end() == 0
    assert not (user.workspace / "a.txt").exists()


def test_a_chat_goes_on_after_ctrl_c_at_edited_arguments(user: User, scores: pathlib.Path) -> None:
    with Screen(user, "chat", "-m", f"score:{scores}/writes.toml") as screen:
        screen.wait_for("you: ")
        screen.type("Write.\n")
        screen.wait_for("Allow it?")
        screen.type(EDIT[0])
        screen.wait_for(EDIT[2])
        screen.type("\x03")
        screen.wait_for("(stopped)")
        screen.wait_for("you: ")
        screen.type("/tools\n")
        screen.wait_for("io.read_file (read): ")
        screen.wait_for("you: ")
        screen.type("\x04")
        assert screen.end() == 0
    assert not (user.workspace / "a.txt").exists()


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
