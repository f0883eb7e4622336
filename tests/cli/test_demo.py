"""``ripieno demo`` and ``ripieno rehearse``."""

import os
import pathlib
import shlex
import signal
import socket
import sys

import anthropic
import google.genai
import openai
import pytest

from ripieno.cli.common import exit_codes
from ripieno.cli.common.scores import FOLDER
from ripieno.testing.scores import Score
from tests.support.command_line import PATIENCE, ROOT, User

SCORE = '[score]\nname = "mine"\n[[turns]]\ntext = "Hello from the score."\n'


def test_the_demo_uses_one_wire_or_all_and_quotes_the_real_file(user: User, tmp_path: pathlib.Path) -> None:
    # What the user has configured, broken or not, is not played.
    user.configure('[ensembles]\nenabled = ["nothing"]\n[confirmation]\ndeny = ["*"]\n')
    rooms = tmp_path / "rooms"
    rooms.mkdir()
    done = user.run("demo", "--protocol", "all", TMPDIR=str(rooms))
    assert (done.returncode, done.stderr) == (0, "")
    assert "over each other wire" not in done.stdout
    lines = done.stdout.splitlines()
    assert "scripted" in lines[0]
    # A server that is not there is named, and the rest goes on.
    assert "not started: attic. There is no program 'no-such-server' in any folder of PATH.\n" in done.stdout
    wires = [line[4:].partition(", at http://127.0.0.1:")[0] for line in lines if line.startswith("=== ")]
    assert {"anthropic", "gemini", "openai-chat", "openai-responses"} <= set(wires)
    assert done.stdout.count("6 tools of 3 ensembles (io, clock, count)") == 1
    assert done.stdout.count("> clock.tell_time ") == len(wires)
    assert done.stdout.count("> count.count_lines ") == len(wires)
    assert done.stdout.count("> io.write_file ") == len(wires)
    assert done.stdout.count("--- 6 turns, 7 calls, 1 failed, ") == len(wires)
    early = [line for line in lines if "Calls started before" in line]
    assert len(early) == len(wires)
    assert all(
        "io.read_file, clock.tell_time, count.count_lines" in line and "write_file" not in line for line in early
    )
    end = done.stdout.partition("\nThe workspace at the end:\n")[2]
    assert "  notes/summary.md:\n    README.rst at 20" in end
    assert "\n    Ripieno\n    =======\n" in end
    assert 'ripieno ask -m anthropic/MODEL "What is in this folder?"   # needs ANTHROPIC_API_KEY' in end
    assert lines[-1] == f"{len(wires)} of {len(wires)} conversations ended as the score 'demo' expects."
    # Nothing stays behind, in the workspace neither.
    assert list(rooms.iterdir()) == []
    assert list(user.workspace.iterdir()) == []


def test_the_demo_knows_its_wires(user: User) -> None:
    (user.workspace / "hello.toml").write_text(SCORE)
    done = user.call("demo", "--score", "hello.toml")
    assert "\n=== openai-chat, at " in done.stdout
    # The servers of the bundled demo have no part in another score.
    assert "\nConnected 3 tools of 1 ensembles (io) in " in done.stdout
    assert "not started" not in done.stdout
    assert done.stdout.endswith(
        "The same conversation over each other wire (anthropic, gemini, openai-responses, prompted):\n"
        "  ripieno demo --score hello.toml --protocol all\n\n"
        "1 of 1 conversations ended as the score 'mine' expects.\n"
    )
    absent = user.call("demo", "--protocol", "openai-response")
    assert absent.returncode == exit_codes.INPUT
    assert "Did you mean 'openai-responses'?" in absent.stderr
    (user.workspace / "some.toml").write_text("")
    configured = user.call("demo", "--config", "some.toml")
    assert configured.returncode == exit_codes.INPUT
    assert "leave out --config" in configured.stderr


MINE = """
[score]
name = "mine"
prompt = "What is in a.txt?"
[setup.files]
"a.txt" = "one\\n"
[[setup.programs]]
argv = ["sh", "-c", "echo two >> b.txt"]
[expect]
answer = "{read}"
results.read = ["one", "RESULT"]
files."a.txt" = ["{read.line:1}", "FILE"]
files."b.txt" = "two"
files."c.txt" = "three"
[[expect.programs]]
argv = ["cat", "b.txt"]
output = "two"
[[expect.programs]]
argv = ["sh", "-c", "echo said >&2; exit 3"]
exit_code = 4
output = "OUTPUT"
[[turns]]
text = "I look."
[[turns.calls]]
label = "read"
tool = "read_file"
arguments = { path = "a.txt" }
[[turns]]
text = "It says {read}"
"""


def test_a_score_of_a_users_own_is_compared_with_what_it_expects(user: User) -> None:
    file = user.workspace / "mine.toml"
    file.write_text(MINE)
    done = user.call("demo", "--score", str(file), "--protocol", "anthropic")
    assert done.returncode == exit_codes.REFUSED
    failing = "$ sh -c 'echo said >&2; exit 3'"
    assert done.stderr.splitlines() == [
        f"Unexpected: {fault}"
        for fault in (
            "The result 'read' does not contain 'RESULT'.",
            "a.txt does not contain 'FILE'.",
            "c.txt cannot be read: No such file or directory.",
            f"{failing} ended with exit code 3, not 4.",
            f"{failing} wrote '', not 'OUTPUT'.",
        )
    ]
    end = done.stdout.partition("The workspace at the end:\n")[2]
    assert f"  b.txt:\n    two\n  $ cat b.txt: exit code 0\n    two\n  {failing}: exit code 3\n    said\n" in end
    assert end.endswith("0 of 1 conversations ended as the score 'mine' expects.\n")
    for wrong in ('"RESULT"', '"FILE"', 'files."c.txt" = "three"', 'output = "OUTPUT"'):
        file.write_text(file.read_text().replace(wrong, '"one"' if wrong[0] == '"' else ""))
    file.write_text(file.read_text().replace("exit_code = 4", "exit_code = 3"))
    done = user.call("demo", "--score", str(file), "--protocol", "anthropic")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_score_names_its_own_folders_of_ensembles(user: User, greeting: str) -> None:
    folder = user.workspace / "scores"
    user.ensemble("greeting", greeting, folder=folder / "tools")
    calls = 'calls = [{ tool = "say_hello", arguments = { name = "Ada" }, label = "hello" }]'
    table = '[setup.configuration.ensembles]\npaths = ["tools"]\ninclude = ["greeting"]\n'
    expect = '[expect]\nresults.hello = "hello -- Ada"\n'
    file = folder / "mine.toml"
    file.write_text(f'[score]\nname = "mine"\n{table}{expect}[[turns]]\n{calls}\n[[turns]]\ntext = "Done."\n')
    # The folder is beside the score, wherever the command runs.
    done = user.call("demo", "--score", "scores/mine.toml")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "\nConnected 4 tools of 2 ensembles (io, greeting) in " in done.stdout
    assert done.stdout.count("\n=== ") == 1
    for wrong, words in (
        ('paths = "tools"', "paths must be"),
        ("paths = [5]", "paths"),
        ('paths = ["no"]', "scores/no"),
    ):
        file.write_text(file.read_text().replace('paths = ["tools"]', wrong))
        refused = user.call("demo", "--score", "scores/mine.toml")
        assert (refused.returncode, words in refused.stderr) == (exit_codes.INPUT, True), refused.stderr
        file.write_text(file.read_text().replace(wrong, 'paths = ["tools"]'))


def test_the_demo_can_be_interrupted(user: User, tmp_path: pathlib.Path) -> None:
    rooms = tmp_path / "rooms"
    rooms.mkdir()
    with user.start("demo", TMPDIR=str(rooms)) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("--- turn 2"):
                break
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(PATIENCE) == exit_codes.SIGNAL + signal.SIGINT
    assert list(rooms.iterdir()) == []


def test_a_rehearsal_names_the_tools_that_no_ensemble_has(user: User) -> None:
    calls = '[[turns.calls]]\ntool = "read_file"\n[[turns.calls]]\ntool = "post_letter"\n'
    (user.workspace / "mine.toml").write_text(SCORE.replace("[[turns]]", f"[[turns]]\n{calls}[[turns]]"))
    with user.start("rehearse", "./mine.toml") as process:
        assert process.stdout is not None
        lines: list[str] = []
        while not lines or "post_letter" not in lines[-1]:
            lines.append(process.stdout.readline())
            assert lines[-1], lines
    assert lines[-1] == "It calls tools that no enabled ensemble has: post_letter. See: ripieno ensembles\n"
    assert lines[-2].split()[:2] == ["io", "read_file"]


def test_the_environment_that_a_rehearsal_prints_is_enough(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    (user.workspace / "mine.toml").write_text(SCORE)
    with user.start("rehearse", "./mine.toml") as process:
        assert process.stdout is not None
        text = ""
        while "base_url = " not in text:
            text += process.stdout.readline()
        for line in text.splitlines():
            if line.startswith("  export "):
                for variable in line.removeprefix("  export ").split():
                    monkeypatch.setenv(*variable.split("=", 1))
        with openai.OpenAI(max_retries=0) as chat:
            completion = chat.chat.completions.create(model="any", messages=[{"role": "user", "content": "Hello"}])
            assert completion.choices[0].message.content == "Hello from the score."
        with anthropic.Anthropic(max_retries=0) as messages:
            message = messages.messages.create(
                model="any", max_tokens=99, messages=[{"role": "user", "content": "Hello"}]
            )
            assert message.content[0].type == "text"
        gemini = google.genai.Client()
        assert gemini.models.generate_content(model="any", contents="Hello").text == "Hello from the score."
        gemini.close()
        # The table that it prints is a configuration.
        user.configure(text[text.index("  [providers.rehearsed]") :])
        asked = user.call("ask", "-m", "rehearsed/mine", "Hello")
        assert asked.returncode == 0, asked.stderr
        assert asked.stdout == "Hello from the score.\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_a_rehearsal_says_what_it_wants_and_warns_of_what_it_does_not_get(user: User) -> None:
    with user.start("rehearse", "demo") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        text = ""
        while "expects this prompt" not in text:
            text += process.stdout.readline()
        folder = ROOT / "sources" / "ripieno" / "data" / "demo" / "ensembles"
        rows = [line.split() for line in text.splitlines() if line.endswith(".toml")]
        assert [row[0] for row in rows] == ["io", "clock", "count"]
        assert [row[-2:] for row in rows[1:]] == [
            ["clock__tell_time", str(folder / "clock.toml")],
            ["count_lines", str(folder / "count.toml")],
        ]
        question = Score.read(FOLDER / "demo.toml").prompt
        assert f"Then: ripieno ask -m rehearsed/demo {shlex.quote(question)}\n" in text
        # Somebody who asks something else, with other tools, is answered and told of.
        configuration = text[text.index("  [providers.rehearsed]") : text.index("Then: ")]
        user.configure(configuration.partition("  [ensembles]")[0])
        other = user.call("ask", "-m", "rehearsed/demo", "Hello")
        assert (other.returncode, "I look around first." in other.stdout) == (0, True)
        warnings = [process.stderr.readline() for _ in range(2)]
        assert "does not offer clock__tell_time, count_lines, which the score 'demo' calls" in warnings[0]
        assert "asked 'Hello'; the score" in warnings[1]
        assert question in warnings[1]
        # Whoever does as it says is not warned of, and hears it to its end.
        user.configure(configuration)
        (user.workspace / "README.rst").write_text("A title\n")
        path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        asked = user.call("ask", "-m", "rehearsed/demo", question, PATH=path)
        assert asked.returncode == 0, asked.stderr
        assert 'README.rst begins with "A title"' in asked.stdout
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        assert process.stderr.read() == ""


def test_a_port_can_be_chosen_and_may_be_taken(user: User) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = user.call("rehearse", "demo", "--port", str(port))
        assert done.returncode == exit_codes.INPUT
        assert f"port {port}" in done.stderr
    # The server can bind the port too, as long as this socket does not listen.
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        with user.rehearse("demo", port=port) as urls:
            assert urls["anthropic"] == f"http://127.0.0.1:{port}"
