"""An optional server that cannot start: whoever asks for something else is told of it, and served."""

import pathlib

import pytest
import tomli_w

from ripieno.cli.common import exit_codes
from ripieno.models.protocols.anthropic import PROTOCOL
from ripieno.testing.scores import Score
from tests.cli.conversations.test_ask import serving
from tests.support.command_line import ROOT, User

DEAD = """
[ensemble]
name = "dead"
required = {required}
[connection]
origin = "mcp"
command = ["no-such-program"]
"""


@pytest.fixture
def configuration(user: User, tmp_path: pathlib.Path) -> pathlib.Path:
    """A file for --config that plays a folder of ensembles with a dead server in it, beside those of the demo."""
    folder = tmp_path / "servers"
    folder.mkdir()
    (folder / "dead.toml").write_text(DEAD.format(required="false"))
    demo = ROOT / "sources" / "ripieno" / "data" / "demo" / "ensembles"
    tables = {"ensembles": {"paths": [str(demo), str(folder)], "enabled": ["io", "count", "dead"]}}
    file = tmp_path / "with-dead.toml"
    file.write_text(tomli_w.dumps(tables))
    return file


def test_the_demo_names_a_server_that_is_not_there_and_plays_to_its_end(user: User) -> None:
    done = user.call("demo")
    assert done.returncode == 0, done.stderr
    assert "not started: attic. There is no program 'no-such-server' in any folder of PATH.\n" in done.stdout
    assert done.stdout.endswith("5 of 5 conversations ended as the score 'demo' expects.\n")


def test_the_demo_takes_no_configuration(user: User, configuration: pathlib.Path) -> None:
    done = user.call("demo", "--config", str(configuration))
    assert done.returncode == exit_codes.INPUT
    assert "leave out --config" in done.stderr


def test_a_call_of_another_ensemble_and_a_list_of_all(user: User, configuration: pathlib.Path) -> None:
    (user.workspace / "a.txt").write_text("one\n")
    done = user.call("invoke", "--config", str(configuration), "count.count_lines", "file=a.txt")
    assert (done.returncode, done.stderr) == (0, "")
    listed = user.call("tools", "--config", str(configuration))
    assert listed.returncode == 0, listed.stderr
    assert "read_file" in listed.stdout
    assert "count_lines" in listed.stdout
    # What the user sees, whole: which ensemble, why, and what to do.
    said = listed.stderr
    assert said.startswith("! Ensemble 'dead' is left out: the MCP server could not be started: ")
    assert "There is no program 'no-such-program' in any folder of PATH" in said
    assert "Install it" in said


def test_a_model_answers_without_it(user: User, configuration: pathlib.Path) -> None:
    (user.workspace / "mine.toml").write_text('[score]\nname = "mine"\n[[turns]]\ntext = "Hello from the score."\n')
    with serving(Score.read(user.workspace / "mine.toml"), PROTOCOL) as url:
        provider = f'\n[providers.rehearsed]\nprotocol = "anthropic"\nbase_url = "{url}"\n'
        configuration.write_text(configuration.read_text() + provider)
        asked = user.call("ask", "--config", str(configuration), "-m", "rehearsed/mine", "Hello")
    assert (asked.returncode, asked.stdout) == (0, "Hello from the score.\n"), asked.stderr
    assert "'dead' is left out" in asked.stderr


def test_a_required_one_ends_the_start(user: User, configuration: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "servers" / "dead.toml").write_text(DEAD.format(required="true"))
    listed = user.run("tools", "--config", str(configuration))
    assert (listed.returncode, listed.stdout) == (exit_codes.INPUT, "")
    assert "'dead'" in listed.stderr
    assert "'no-such-program'" in listed.stderr
