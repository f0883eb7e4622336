"""The pages about agents, client tools and answers as JSON, run against a scripted model; the picture of the demo."""

import contextlib
import html
import json
import pathlib
import runpy
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from tests.documentation.code_blocks import DOCUMENTATION, blocks, texts
from tests.support.command_line import PATIENCE, User

TALK = """
[score]
name = "talk"
continues = true
[[turns]]
text = "One two three four."
"""
PERSON = """
[score]
name = "person"
[[turns]]
text = '{{"name": "Ada", "age": 36}}'
"""
TITLE = """
[score]
name = "title"
[[turns]]
text = "I ask the page."
[[turns.calls]]
tool = "read_title"
label = "title"
[[turns]]
text = "The page says: {title}"
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
    program, table = texts("tutorials/structured-answers", "python", "toml")
    with scripted(user, PERSON, f"{table}[providers.house.capabilities]\njson_mode = true\n"):
        assert printed(user, program) == "36\n"


def test_client_tools(user: User) -> None:
    ensemble, program, commands = texts("tutorials/client-tools", "toml", "python", "console")
    place = user.configuration / "ensembles" / "browser-page.toml"
    place.parent.mkdir(parents=True, exist_ok=True)
    with scripted(user, TITLE):
        place.write_text(ensemble)
        assert printed(user, program) == "The page says: The result of read_title with {}\n"
        ask, listed, result, resume = (shlex.split(line)[2:] for line in commands.splitlines())
        assert user.call(*ask).returncode == 10
        (found,) = json.loads(user.call(*listed, "--format", "json").stdout)
        known = {"3f9a": found["conversation"], "call_1": found["waiting"][0]["call"]}
        for command in (result, resume):
            done = user.call(*(known.get(word, word) for word in command))
            assert done.returncode == 0, done.stderr
        assert done.stdout == "The page says: Ripieno\n"


def test_a_score_in_a_file_is_the_model_of_a_program(user: User) -> None:
    *_, program, expected, score, model, _ = (block.text for block in blocks("tutorials/embed"))
    (user.workspace / "count.toml").write_text(score)
    start, _, rest = program.partition("model = model_of(")
    assert printed(user, f"{start}{model}{rest.partition(chr(10))[2]}") == expected
    # The name of the command line is explained in these terms.
    assert "model_of(Score.read('count.toml'))" in printed(user, ASKED)


@pytest.fixture(scope="module")
def recording() -> dict[str, Any]:
    return runpy.run_path(str(DOCUMENTATION / "pictures" / "record.py"))


def test_the_picture_of_the_demo_shows_what_it_prints(recording: dict[str, Any]) -> None:
    picture: pathlib.Path = recording["PICTURE"]
    drawn = html.unescape(picture.read_text(encoding="utf-8")).replace("\xa0", " ")
    assert "http://" not in drawn.replace("http://www.w3.org", "").replace("http://127.0.0.1", "")
    lines: list[str] = recording["lines_of_the_demo"]()
    assert len(lines) > 20
    assert [line for line in lines if line[:60] not in drawn] == []
