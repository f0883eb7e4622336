"""``ripieno approvals`` and ``ripieno resume``: calls that wait, answered and gone on with from other processes."""

import json
import pathlib
from collections.abc import Callable, Iterator

import pytest

from ripieno.assembly.configuration import Places, load_configuration
from ripieno.assembly.protection import withheld
from ripieno.cli.common import exit_codes
from ripieno.models.protocols.openai_chat import PROTOCOL
from ripieno.testing.scores import Score
from tests.cli.conversations.test_ask import serving
from tests.support.command_line import User
from tests.support.users import Done

SCORE = """
[score]
name = "two"
prompt = "Write two files."
[[turns]]
text = "I write."
calls = [
    { tool = "write_file", arguments = { path = "first.txt", content = "one" }, label = "first" },
    { tool = "write_file", arguments = { path = "second.txt", content = "two" }, label = "second" },
]
[[turns]]
text = "{first} {second}"
"""


class Writer:
    """A user whose model writes two files, and whose commands run in this process."""

    def __init__(self, user: User, call: Callable[..., Done]) -> None:
        self.configuration, self.state, self.workspace = user.configuration, user.state, user.workspace
        self.run = call

    def rule(self, text: str) -> None:
        """Adds to the configuration."""
        file = self.configuration / "config.toml"
        file.write_text(f"{file.read_text()}\n{text}")


@pytest.fixture
def writer(user: User, call: Callable[..., Done], tmp_path: pathlib.Path) -> Iterator[Writer]:
    (tmp_path / "two.toml").write_text(SCORE)
    with serving(Score.read(tmp_path / "two.toml"), PROTOCOL) as url:
        user.configure(
            f'[model]\ndefault = "house/small"\n[providers.house]\nprotocol = "openai-chat"\nbase_url = "{url}"\n'
        )
        yield Writer(user, call)


def waiting(user: Writer) -> list[dict[str, str]]:
    (conversation,) = json.loads(user.run("approvals", "list", "--format", "json").out)
    found: list[dict[str, str]] = conversation["waiting"]
    return found


def test_one_call_is_approved_and_one_denied(writer: Writer) -> None:
    begun = writer.run("ask", "--defer", "Write two files.")
    assert begun.code == exit_codes.REFUSED
    assert "ripieno approvals show" in begun.err
    first, second = waiting(writer)
    assert (first["state"], second["state"]) == ("waits for you", "waits for you")
    shown = writer.run("approvals", "show")
    assert shown.out.count("io.write_file wants to run.") == 2
    assert '{"content":"one"' in shown.out
    approved = writer.run("approvals", "approve", "", first["call"])
    assert approved.code == exit_codes.GOOD, approved.err
    assert "Calls left to answer: 1" in approved.out
    denied = writer.run("approvals", "deny", "--advice", "One is enough.")
    assert "Denied: io.write_file" in denied.out
    again = writer.run("approvals", "approve")
    assert again.code == exit_codes.INPUT
    assert "waits for an answer" in again.err
    assert list(writer.workspace.iterdir()) == []
    ended = writer.run("resume")
    assert ended.code == exit_codes.GOOD, ended.err
    assert "One is enough." in ended.out
    assert [path.name for path in writer.workspace.iterdir()] == ["first.txt"]
    assert writer.run("approvals", "list").out == "No conversation waits for an answer.\n"
    once_more = writer.run("resume")
    assert once_more.code == exit_codes.INPUT
    assert "has ended" in once_more.err


def test_a_resumed_conversation_works_in_its_own_folder(writer: Writer, tmp_path: pathlib.Path) -> None:
    writer.run("ask", "--defer", "Write two files.")
    writer.run("approvals", "approve")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    refused = writer.run("resume", "--workspace", str(elsewhere))
    assert refused.code == exit_codes.INPUT
    assert f"--workspace {writer.workspace}" in refused.err
    assert writer.run("resume").code == exit_codes.GOOD
    assert sorted(path.name for path in writer.workspace.iterdir()) == ["first.txt", "second.txt"]
    assert list(elsewhere.iterdir()) == []


def test_a_rule_that_came_later_holds(writer: Writer) -> None:
    writer.run("ask", "--defer", "Write two files.")
    writer.run("approvals", "approve")
    writer.rule('[confirmation]\ndeny = ["io.write_file(path=second*)"]\n')
    ended = writer.run("resume", "--defer")
    assert not (writer.workspace / "second.txt").exists()
    # The rules are other ones: what was approved under the old ones is asked about again.
    assert not (writer.workspace / "first.txt").exists()
    assert ended.code == exit_codes.REFUSED
    assert [one["state"] for one in waiting(writer)] == ["waits for you"]


def test_nobody_is_asked_when_it_is_autonomous_and_rules_still_hold(writer: Writer) -> None:
    writer.rule('[confirmation]\ndeny = ["io.write_file(path=second*)"]\n')
    done = writer.run("ask", "--autonomous", "Write two files.")
    assert done.code == exit_codes.GOOD, done.err
    assert [path.name for path in writer.workspace.iterdir()] == ["first.txt"]
    both = writer.run("ask", "--autonomous", "--defer", "Write two files.")
    assert (both.code, "Give either" in both.err) == (exit_codes.INPUT, True)


def test_without_a_journal_what_waits_is_gone_on_with(writer: Writer) -> None:
    writer.rule("[journal]\nenabled = false\n")
    writer.run("ask", "--defer", "Write two files.")
    writer.run("approvals", "approve")
    assert writer.run("resume").code == exit_codes.GOOD
    assert sorted(path.name for path in writer.workspace.iterdir()) == ["first.txt", "second.txt"]
    assert not (writer.state / "journal.sqlite3").exists()
    nothing = writer.run("resume")
    assert (nothing.code, nothing.err) == (exit_codes.INPUT, "Error: No conversation is paused.\n")


def test_secrets_are_those_of_names_and_of_use(user: User) -> None:
    user.configure(
        '[providers.house]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:9"\napi_key = "{env:HOUSE_CODE}"\n'
    )
    user.ensemble(
        "greeting",
        '[ensemble]\nname = "greeting"\n[[invokers]]\nname = "hello"\ndescription = "Says hello."\n'
        '[invokers.invocable]\norigin = "command"\nargv = ["env"]\nenvironment = { GREETED = "{env:GREETED}" }\n'
        '[invokers.arguments]\ntype = "object"\n',
    )
    environment = {
        "HOUSE_CODE": "of the house",
        "GREETED": "in a descriptor",
        "SOME_API_KEY": "by its name",
        "HOME": "/home/somebody",
        "EDITOR": "/usr/bin/editor",
    }
    loaded = load_configuration(
        {"ensembles": {"enabled": ["greeting"]}}, places=Places(configuration=user.configuration, state=user.state)
    )
    assert loaded.failures == ()
    assert withheld(loaded, environment) == {"of the house", "in a descriptor", "by its name"}


def test_a_link_is_judged_as_what_it_leads_to(writer: Writer) -> None:
    """Deny and approve look at the file, whatever the way to it is called."""
    writer.rule('[confirmation]\napprove = ["io.write_file(path=docs/**)"]\ndeny = ["io.*(path=secrets/**)"]\n')
    for folder in ("secrets", "docs", "other"):
        (writer.workspace / folder).mkdir()
    (writer.workspace / "secrets" / "a.txt").write_text("topsecret")
    (writer.workspace / "lnk").symlink_to("secrets")
    (writer.workspace / "here").symlink_to(".")
    (writer.workspace / "docs" / "out").symlink_to("../secrets")
    (writer.workspace / "docs" / "aside").symlink_to("../other")
    for path in ("secrets/a.txt", "lnk/a.txt", "here/secrets/a.txt", "docs/out/a.txt"):
        done = writer.run("invoke", "io.read_file", f"path={path}")
        assert (done.code, "topsecret" in done.out) == (exit_codes.REFUSED, False), path
    for path in ("docs/out/evil.txt", "docs/aside/unasked.txt"):
        done = writer.run("invoke", "io.write_file", f"path={path}", "content=hi")
        assert done.code == exit_codes.REFUSED, path
    assert writer.run("invoke", "io.write_file", "path=docs/good.txt", "content=hi").code == exit_codes.GOOD
    assert [one.name for one in (writer.workspace / "secrets").iterdir()] == ["a.txt"]
    assert list((writer.workspace / "other").iterdir()) == []


def test_an_approval_of_another_change_does_not_count(writer: Writer) -> None:
    writer.run("ask", "--defer", "Write two files.")
    assert "/dev/null" in writer.run("approvals", "show").out
    writer.run("approvals", "approve")
    (writer.workspace / "first.txt").write_text("precious")
    resumed = writer.run("resume")
    assert (writer.workspace / "first.txt").read_text() == "precious"
    assert "is no longer valid" in resumed.err
    assert (writer.workspace / "second.txt").read_text() == "two"
    # Nobody is at the terminal: the one that is asked about again goes on waiting.
    assert [one["state"] for one in waiting(writer)] == ["waits for you"]
