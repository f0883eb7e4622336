"""The pages about agents, client tools and answers as JSON, run against a scripted model; the picture of the demo."""

import contextlib
import html
import json
import pathlib
import re
import runpy
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from ripieno.canisters import ResultCanister
from ripieno.storage.journal import Journal
from tests.documentation.code_blocks import DOCUMENTATION, blocks, texts
from tests.support.command_line import PATIENCE, User

TALK = """
[score]
name = "talk"
continues = true
[[turns]]
text = "One two three four."
"""
ASKED = """
import asyncio, ripieno
from ripieno.exceptions import InputError
async def main():
    async with ripieno.assemble({}) as assembly:
        try:
            assembly.conduct("Add them.", model="score:count.toml")
        except InputError as error:
            print(error)
asyncio.run(main())
"""


@contextlib.contextmanager
def scripted(user: User, score: str, settings: str = "") -> Iterator[None]:
    """The user's default model plays a score while the block runs."""
    (user.workspace / "score.toml").write_text(score)
    with user.rehearse("./score.toml") as urls:
        provider = f'[providers.house]\nprotocol = "openai-chat"\nbase_url = "{urls["openai-chat"]}"\n'
        user.configure(f'{provider}[model]\ndefault = "house/scripted"\n{settings}')
        yield


def printed(user: User, program: str) -> str:
    (user.workspace / "program.py").write_text(program)
    with user.python("program.py") as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    return out


def refused(user: User, program: str) -> str:
    (user.workspace / "program.py").write_text(program)
    with user.python("program.py") as process:
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    return err


def test_agents(user: User) -> None:
    program, table, command, _ = texts("tutorials/agents", "python", "toml", "", "python")
    (user.workspace / "README.rst").write_text("A title\n")
    with scripted(user, TALK, table):
        assert printed(user, program) == "One two three four.\n"
        asked = user.call(*shlex.split(command)[1:])
        assert (asked.returncode, asked.stdout) == (0, "One two three four.\n")
    checked = user.call("check")
    assert checked.returncode == 0, checked.stderr


def test_structured_answers(user: User) -> None:
    kinds = ("python", "toml", "toml", "console", "toml", "toml")
    program, provider, score, rehearse, model, agent = texts("tutorials/structured-answers", *kinds)
    assert shlex.split(rehearse)[1:] == ["ripieno", "rehearse", "./person.toml", "--port", "8000"]
    (user.workspace / "person.toml").write_text(score)
    with user.rehearse("./person.toml") as urls:
        address = "http://127.0.0.1:8000/v1"
        assert address in provider
        user.configure(f"{provider.replace(address, urls['openai-chat'])}{model}{agent}")
        assert printed(user, program) == "36\n"
    user.configure(f"{provider.replace('json_mode = true', '')}{model}")
    assert "json_mode" in refused(user, program)


def test_client_tools(user: User) -> None:
    ensemble, score, program, commands = texts("tutorials/client-tools", "toml", "toml", "python", "console")
    user.ensemble("browser-page", ensemble)
    (user.workspace / "title.toml").write_text(score)
    assert printed(user, program) == "The page says: The result of read_title with {}\n"
    ask, listed, result, resume = (shlex.split(line)[2:] for line in commands.splitlines())
    assert user.call(*ask).returncode == 10
    (found,) = json.loads(user.call(*listed, "--format", "json").stdout)
    known = {"3f9a": found["conversation"], "call_1": found["waiting"][0]["call"]}
    for command in (result, resume):
        done = user.call(*(known.get(word, word) for word in command))
        assert done.returncode == 0, done.stderr
    assert done.stdout == "The page says: Ripieno\n"
    # The same with a model at an endpoint, the configured one.
    with scripted(user, score):
        assert printed(user, re.sub("MODEL = .*", "MODEL = None", program)).startswith("The page says:")


def test_a_score_in_a_file_is_the_model_of_a_program(user: User) -> None:
    *_, program, expected, score, model, _, _, _, _ = (block.text for block in blocks("tutorials/embed"))
    (user.workspace / "count.toml").write_text(score)
    start, _, rest = program.partition("model = model_of(")
    assert printed(user, f"{start}{model}{rest.partition(chr(10))[2]}") == expected
    # The name of the command line is explained in these terms.
    assert "model_of(Score.read('count.toml'))" in printed(user, ASKED)


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_program_asks_a_person(user: User, answer: str) -> None:
    program, score, rehearse, _ = (block.text for block in blocks("tutorials/embed")[-4:])
    assert rehearse == "$ ripieno rehearse ./note.toml --port 8000\n"
    with scripted(user, score):
        (user.workspace / "program.py").write_text(program)
        with user.python("program.py") as process:
            out, err = process.communicate(f"{answer}\n", timeout=PATIENCE)
    assert process.returncode == 0, err
    assert "io.write_file" in out
    assert out.endswith("It is written, or not.\n")
    assert (user.workspace / "note.txt").exists() == (answer == "y")


def test_a_server_of_ones_own(user: User) -> None:
    with scripted(user, blocks("tutorials/embed")[-3].text):
        events = [json.loads(line) for line in printed(user, blocks("tutorials/embed")[-1].text).splitlines()]
    ends = [event["finish"] for event in events if event["type"] == "ConductEnded"]
    assert ends == ["open", "stop"]
    assert "".join(event["text"] for event in events if event["type"] == "TextDelta") == "It is written, or not."
    assert not (user.workspace / "note.txt").exists()
    with Journal(user.workspace / "server.sqlite3") as journal:
        (found,) = journal.conversations(owner="ada")
        said = journal.restore(found.identifier, owner="ada").conversation.canisters
    (denied,) = (one for one in said if isinstance(one, ResultCanister))
    assert denied.error is not None
    assert denied.error.suggestion == "The user said something else."


@pytest.fixture(scope="module")
def recording() -> dict[str, Any]:
    return runpy.run_path(str(DOCUMENTATION / "pictures" / "record.py"))


def test_the_picture_of_the_demo_shows_what_it_prints(recording: dict[str, Any]) -> None:
    picture: pathlib.Path = recording["PICTURE"]
    drawn = html.unescape(picture.read_text(encoding="utf-8")).replace("\xa0", " ")
    assert "http://" not in drawn.replace("http://www.w3.org", "").replace("http://127.0.0.1", "")
    lines: list[str] = recording["lines_of_the_demo"]()
    assert len(lines) > 20
    # Whether the progress of a call is shown depends on its time.
    assert [line for line in lines if line[:60] not in drawn and not line.startswith(". ")] == []
