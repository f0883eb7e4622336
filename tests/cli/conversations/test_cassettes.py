"""``--record``, ``--replay`` and ``--fork``: what was shown is shown again, with no network and no program."""

import dataclasses
import os
import pathlib
import shutil
import subprocess

import pytest

from ripieno.cli.common import exit_codes
from ripieno.models.protocols.openai_chat import PROTOCOL
from ripieno.testing.scores import Score
from tests.cli.conversations.test_ask import serving
from tests.support.command_line import PATIENCE, User

CONFIGURATION = """
[model]
default = "house/reading"
[providers.house]
protocol = "openai-chat"
base_url = "{url}"
retries = 0
"""
READING = """
[score]
name = "reading"
continues = true
[[turns]]
text = "I look."
calls = [{ tool = "read_file", arguments = { path = "a.txt" }, label = "a" }]
[[turns]]
text = "It says {a.line:1}."
[[turns]]
text = "You are welcome."
"""
WRITING = """
[score]
name = "writing"
[[turns]]
calls = [{ tool = "write_file", arguments = { path = "a.txt", content = "one" } }]
[[turns]]
text = "Written."
"""
#: Refuses every socket but those of the event loop itself.
ALONE = """
import socket, sys
def refuse(*_, **__):
    raise OSError("the network was touched")
socket.socket.connect = socket.socket.bind = socket.getaddrinfo = refuse
sys.argv[0] = "ripieno"
from ripieno.cli import main
sys.exit(main(sys.argv[1:]))
"""


def empty(user: User) -> pathlib.Path:
    """A folder with nothing in it."""
    nothing = user.workspace.parent / "nothing"
    nothing.mkdir(exist_ok=True)
    return nothing


def bare(user: User, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a program with nothing in PATH, and with no key."""
    nothing = empty(user)
    elsewhere = dataclasses.replace(user, workspace=nothing)
    with elsewhere.python(*arguments, PATH=str(nothing), HOME=str(nothing)) as process:
        out, err = process.communicate(timeout=PATIENCE)
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[User, pathlib.Path, str]:
    """A demo that was recorded, and what it showed."""
    folder = tmp_path_factory.mktemp("recorded")
    user = User.living(folder)
    file = folder / "demo.jsonl"
    done = user.call("demo", "--protocol", "openai-chat", "--record", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    return user, file, done.stdout


def test_a_recorded_demo_opens_no_socket(recorded: tuple[User, pathlib.Path, str]) -> None:
    user, file, shown = recorded
    done = bare(user, "-c", ALONE, "demo", "--replay", str(file))
    assert (done.returncode, done.stderr, done.stdout) == (0, "", shown)


def test_a_demo_is_forked(recorded: tuple[User, pathlib.Path, str]) -> None:
    user, file, shown = recorded
    done = user.call("demo", "--replay", str(file), "--fork", "1", "--protocol", "anthropic")
    assert done.returncode == 0, done.stderr
    assert "> io.write_file" in done.stdout
    assert done.stdout != shown


@pytest.fixture
def reading(user: User) -> pathlib.Path:
    (user.workspace / "a.txt").write_text("the first line\nthe second\n")
    score = user.workspace.parent / "reading.toml"
    score.write_text(READING)
    return score


def test_ask(user: User, reading: pathlib.Path) -> None:
    with serving(Score.read(reading), PROTOCOL) as url:
        user.configure(CONFIGURATION.format(url=url))
        live = user.call("ask", "--record", "talk.jsonl", "What is in it?")
        assert (live.returncode, live.stdout) == (0, "I look.\nIt says the first line.\n")
        file = user.workspace / "talk.jsonl"
        assert "the first line" in file.read_text()
        taken = user.call("ask", "--record", "talk.jsonl", "What is in it?")
        assert taken.returncode == exit_codes.INPUT
        assert "move it away" in taken.stderr
        # What was recorded stands, and what comes after it is live.
        (user.workspace / "a.txt").write_text("another line\n")
        fork = user.call("ask", "--replay", "talk.jsonl", "--fork", "1")
        assert (fork.returncode, fork.stdout) == (0, "I look.\nIt says the first line.\n"), fork.stderr
        fresh = user.call("ask", "--replay", "talk.jsonl", "--fork", "0")
        assert (fresh.returncode, fresh.stdout) == (0, "I look.\nIt says another line.\n"), fresh.stderr
    # Neither the model, nor the configuration, nor the file is needed any more.
    shutil.rmtree(user.configuration)
    (user.workspace / "a.txt").unlink()
    for words in ((), ("What is in it?",)):
        again = bare(user, "-m", "ripieno", "ask", "--replay", str(file), *words)
        assert (again.returncode, again.stdout) == (0, live.stdout), again.stderr
    other = bare(user, "-m", "ripieno", "ask", "--replay", str(file), "What was in it?")
    assert other.returncode == exit_codes.INPUT
    assert "step 1: messages" in other.stderr


def test_a_replay_of_an_autonomous_run_shows_no_question(user: User) -> None:
    score = user.workspace.parent / "writing.toml"
    score.write_text(WRITING)
    live = user.call("ask", "--record", "talk.jsonl", "--autonomous", "-m", f"score:{score}", "Write.")
    assert live.returncode == 0, live.stderr
    again = user.call("ask", "--replay", "talk.jsonl")
    assert (again.returncode, again.stdout, again.stderr) == (0, live.stdout, live.stderr)
    assert "> io.write_file" in again.stderr
    assert "wants to run" not in again.stderr


HERE = """
[score]
name = "here"
[[turns]]
calls = [{ tool = "here", arguments = {}, label = "t" }]
[[turns]]
text = "It is {t.line:1}."
"""
WORKING_FOLDER = """
[ensemble]
name = "folder"
[[invokers]]
name = "here"
description = "Names the folder."
effect = "read"
invocable = { origin = "command", argv = ["pwd"] }
"""


def test_the_folder_is_no_secret(user: User) -> None:
    user.configure('[ensembles]\nenabled = ["folder"]\n')
    user.ensemble("folder", WORKING_FOLDER)
    (user.workspace / "here.toml").write_text(HERE)
    folder = str(user.workspace)
    arguments = ("ask", "--tools", "folder.*", "-m", "score:./here.toml", "Where are you?")
    live = user.call(*arguments, "--record", "talk.jsonl", PWD=folder, OLDPWD=folder)
    assert (live.returncode, live.stdout) == (0, f"It is {folder}.\n"), live.stderr
    again = user.call("ask", "--replay", "talk.jsonl", PWD=folder)
    assert (again.returncode, again.stdout) == (0, live.stdout), again.stderr
    assert "[hidden]" not in (user.workspace / "talk.jsonl").read_text()


def test_chat(user: User, reading: pathlib.Path) -> None:
    with serving(Score.read(reading), PROTOCOL) as url:
        user.configure(CONFIGURATION.format(url=url))
        live = user.call("chat", "--record", "talk.jsonl", text="What is in it?\nThank you.\n")
        assert live.returncode == 0, live.stderr
        assert live.stdout.splitlines()[-1] == "You are welcome."
        fork = user.call("chat", "--replay", "talk.jsonl", "--fork", "2", text="Thanks a lot.\n")
        assert fork.returncode == 0, fork.stderr
        assert fork.stdout == live.stdout
    again = bare(user, "-m", "ripieno", "chat", "--replay", str(user.workspace / "talk.jsonl"))
    assert (again.returncode, again.stdout) == (0, live.stdout), again.stderr
    assert "you: Thank you." in again.stderr


def test_what_cannot_be_asked_for_is_refused(user: User) -> None:
    for arguments in (
        ("ask", "--record", "a", "--replay", "b", "Hi."),
        ("ask", "--fork", "1", "Hi."),
        ("chat", "--speed", "1"),
        ("ask",),
        ("ask", "--replay", "missing.jsonl"),
        ("demo", "--replay", os.devnull),
    ):
        done = user.call(*arguments)
        assert (done.returncode, done.stdout) == (exit_codes.INPUT, ""), (arguments, done.stderr)
        assert "Bug" not in done.stderr


def test_a_changed_cassette_names_what_differs(user: User) -> None:
    (user.workspace / "a.txt").write_text(f"{'long ' * 60}first\nsecond\n")
    (user.workspace / "read.toml").write_text(READING.replace("continues = true\n", ""))
    done = user.call("ask", "-m", "score:./read.toml", "--record", "talk.jsonl", "What is in it?")
    assert done.returncode == 0, done.stderr
    file = user.workspace / "talk.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    # Only the result: the next request is another one, in one place.
    changed = [line.replace("first", "other") if '"kind":"result"' in line.replace(" ", "") else line for line in lines]
    assert changed != lines
    file.write_text("".join(changed))
    replayed = user.call("ask", "--replay", "talk.jsonl")
    assert replayed.returncode == exit_codes.INPUT
    told = replayed.stderr.partition("step 2: ")[2]
    recorded, _, now = told.partition(", now ")
    assert ("first" in recorded, "other" in now) == (True, True), told
    # The prompt, everywhere: each request is what it says, and not what was recorded.
    file.write_text("".join(lines).replace("What is in it?", "What was in it?"))
    replayed = user.call("ask", "--replay", "talk.jsonl")
    assert (replayed.returncode, "was changed after it was recorded" in replayed.stderr) == (exit_codes.INPUT, True)
    assert user.call("ask", "--replay", "talk.jsonl", "--lenient").returncode == 0
