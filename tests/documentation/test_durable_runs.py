"""The page of runs that survive: its score, its commands and its program, with a real worker."""

import pathlib
import shlex
import signal
import tomllib

from tests.documentation.code_blocks import blocks
from tests.support.command_line import PATIENCE, User, wait_for

PAGE = "tutorials/durable-runs"


def commands(text: str) -> list[list[str]]:
    return [shlex.split(line.removeprefix("$ ")) for line in text.splitlines()]


def _output(user: User, program: pathlib.Path) -> str:
    with user.python(str(program)) as running:
        out, err = running.communicate(timeout=PATIENCE)
    assert running.returncode == 0, err
    return out.strip()


def test_the_page(user: User) -> None:
    given = blocks(PAGE)
    assert [one.kind for one in given] == [
        "console",
        "toml",
        "console",
        "console",
        "console",
        "toml",
        "toml",
        "toml",
        "python",
    ]
    install, score, begin, answer, later, settings, rates, chats, program = (one.text for one in given)
    assert commands(install) == [["pip", "install", "ripieno[durable]"]]
    (user.workspace / "notes.toml").write_text(score)
    work, submit = commands(begin)
    assert work == ["ripieno", "work"]
    with user.start("work") as process:
        wait_for(process, "takes submitted runs")
        assert user.run(*submit[1:]).returncode == 10
        show, approve, watch = (one[1:] for one in commands(answer))
        assert "note.txt" in user.run(*show).stdout
        assert user.run(*approve).returncode == 0
        assert user.run(*watch).stdout.strip() == "It is written."
        assert (user.workspace / "note.txt").read_text() == "Hello."
        # The date of the page passes some day.
        shown = [user.run(*one[1:]) for one in commands(later.replace("2027-01-31", "2099-01-31"))]
        assert [one.returncode for one in shown] == [0] * 7, shown
        assert shown[3].stdout.count("scheduled") == 2
        assert "Summarise the new issues." in shown[4].stdout
        assert "Ended: morning" in shown[5].stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    assert tomllib.loads(chats) == {"durable": {"servers": True}}
    user.configure(rates)
    assert user.call("check").returncode == 0
    assert tomllib.loads(settings)["durable"] == {"host": "build-1", "slots": 8}
    user.configure(settings)
    assert user.call("check", JOURNAL_URL="postgresql://localhost/ripieno").returncode == 0
    (user.configuration / "config.toml").unlink()
    user_program = user.workspace / "program.py"
    for options, name, finish in (((), "note-1", "open"), (("--approve", "io.write_file"), "note-2", "stop")):
        user_program.write_text(program.replace("note-1", name))
        with user.start("work", *options) as process:
            wait_for(process, "takes submitted runs")
            # The second time, the submission is known: its events and its conversation are shown again.
            shown = [_output(user, user_program) for _ in range(2)]
            assert shown[0].endswith(finish)
            assert shown[0].count("I look around.") == 1
            assert ("It is written." in shown[0]) == (finish == "stop")
            assert shown[1] == shown[0]
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
