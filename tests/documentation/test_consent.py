"""The page about consent: its rules are read, its programs are run, and its commands typed."""

import contextlib
import io
import pathlib
import shlex
from collections.abc import Callable

from ripieno.models.protocols.openai_chat import PROTOCOL
from ripieno.testing.scores import Score
from tests.cli.conversations.test_ask import serving
from tests.documentation.code_blocks import texts
from tests.documentation.test_first_pages import merged
from tests.support.command_line import User
from tests.support.users import Done

KINDS = ("toml", "console", "", "", "", "", "console")
SCORE = """
[score]
name = "readme"
prompt = "Write a README."
[[turns]]
[[turns.calls]]
label = "written"
tool = "write_file"
arguments = { path = "README.md", content = "# House\\n" }
[[turns]]
text = "It says: {written}"
"""


def test_the_rules_are_rules(user: User, call: Callable[..., Done]) -> None:
    rules, *_ = texts("tutorials/consent", *KINDS)
    user.configure(rules)
    assert merged(user, rules).configuration.confirmation.deny == ("io.*(path=secrets/**)", "execution.bash")
    done = call("doctor", "--policy")
    assert done.code == 0, done.err
    (written,) = [line for line in done.out.splitlines() if line.startswith("io.write_file ")]
    assert "depends" in written


def test_the_programs_say_what_the_page_says() -> None:
    _, _, asking, asked, pausing, paused, _ = texts("tutorials/consent", *KINDS)
    names: dict[str, object] = {}
    for program, said in ((asking, asked), (pausing, paused)):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(program, "page", "exec"), names)
        assert out.getvalue() == said


def test_the_commands_go_from_one_to_the_next(user: User, call: Callable[..., Done], tmp_path: pathlib.Path) -> None:
    *_, commands = texts("tutorials/consent", *KINDS)
    (tmp_path / "readme.toml").write_text(SCORE)
    with serving(Score.read(tmp_path / "readme.toml"), PROTOCOL) as url:
        user.configure(
            f'[providers.house]\nprotocol = "openai-chat"\nbase_url = "{url}"\n[model]\ndefault = "house/small"\n'
        )
        said: list[str] = []
        for line in commands.splitlines():
            done = call(*shlex.split(line.removeprefix("$ ripieno ")))
            said.append(done.out)
            # The first run ends without an answer: a call waits.
            assert done.code == (1 if "ask" in line else 0), done.err
    assert "# House" in said[2]
    assert (user.workspace / "README.md").read_text() == "# House\n"
    assert said[-1].strip().startswith("It says: Wrote 8 bytes")
