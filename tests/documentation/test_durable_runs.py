"""The page of runs that survive: its score, its commands and its program, with a real worker."""

import shlex
import signal
import tomllib

from tests.documentation.code_blocks import blocks
from tests.support.command_line import PATIENCE, User, wait_for

PAGE = "tutorials/durable-runs"


def commands(text: str) -> list[list[str]]:
    return [shlex.split(line.removeprefix("$ ")) for line in text.splitlines()]


def test_the_page(user: User) -> None:
    given = blocks(PAGE)
    assert [one.kind for one in given] == ["console", "toml", "console", "console", "console", "toml", "toml", "python"]
    install, score, begin, answer, later, settings, chats, program = (one.text for one in given)
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
        for one in commands(later):
            # The page's messages have no model: that of the configuration is used.
            extra = () if one[1] == "runs" else ("-m", "score:notes.toml")
            late = "2099-01-31T08:00"
            words = [late if word == "2027-01-31T08:00" else word for word in one[1:]]
            assert user.run(*words, *extra).returncode == 0, one
        states = user.call("runs", "list").stdout
        assert states.count("scheduled") == 2
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    assert tomllib.loads(chats) == {"durable": {"servers": True}}
    assert tomllib.loads(settings)["durable"] == {"host": "build-1", "slots": 8}
    user.configure(settings)
    assert user.call("check", JOURNAL_URL="postgresql://localhost/ripieno").returncode == 0
    (user.configuration / "config.toml").unlink()
    user_program = user.workspace / "program.py"
    user_program.write_text(program.replace("anthropic/claude-sonnet-4-5", f"score:{user.workspace / 'notes.toml'}"))
    with user.start("work", "--approve", "io.write_file") as process:
        wait_for(process, "takes submitted runs")
        with user.python(str(user_program)) as running:
            out, err = running.communicate(timeout=PATIENCE)
        assert "It is written." in out, err
        assert out.strip().endswith("stop")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
