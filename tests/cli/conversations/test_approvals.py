"""``ripieno approvals`` and ``ripieno resume``: calls that wait, answered and gone on with from other processes."""

import json
import pathlib
import shlex
import tomllib
from collections.abc import Iterator

import pytest

from ripieno.assembly.configuration import load_configuration
from ripieno.assembly.protection import withheld
from ripieno.cli.common import exit_codes
from ripieno.models.protocols.openai_chat import PROTOCOL
from ripieno.storage.journal import Journal
from ripieno.storage.places import Places
from ripieno.testing.scores import Score
from tests.cli.conversations.test_ask import serving
from tests.support.command_line import User
from tests.support.users import Call

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


@pytest.fixture(autouse=True)
def served(user: User) -> Iterator[None]:
    """The model of this user writes two files."""
    with serving(Score.of(tomllib.loads(SCORE)), PROTOCOL) as url:
        user.configure(
            f'[model]\ndefault = "house/small"\n[providers.house]\nprotocol = "openai-chat"\nbase_url = "{url}"\n'
        )
        yield


def rule(user: User, text: str) -> None:
    """Adds to the configuration."""
    file = user.configuration / "config.toml"
    file.write_text(f"{file.read_text()}\n{text}")


def waiting(call: Call) -> list[dict[str, str]]:
    (conversation,) = json.loads(call("approvals", "list", "--format", "json").out)
    found: list[dict[str, str]] = conversation["waiting"]
    return found


def test_one_call_is_approved_and_one_denied(user: User, call: Call) -> None:
    begun = call("ask", "--defer", "Write two files.")
    assert begun.code == exit_codes.WAITING == 10
    assert "ripieno approvals show" in begun.err
    first, second = waiting(call)
    assert (first["state"], second["state"]) == ("waits for you", "waits for you")
    shown = call("approvals", "show")
    assert shown.out.count("io.write_file wants to run.") == 2
    assert shown.out.count("\nDescription: ") == 2
    assert '{"content":"one"' in shown.out
    approved = call("approvals", "approve", "", first["call"])
    assert approved.code == exit_codes.GOOD, approved.err
    assert "Calls left to answer: 1" in approved.out
    denied = call("approvals", "deny", "--advice", "One is enough.")
    assert "Denied: io.write_file" in denied.out
    again = call("approvals", "approve")
    assert again.code == exit_codes.INPUT
    assert "waits for an answer" in again.err
    assert list(user.workspace.iterdir()) == []
    ended = call("resume")
    assert ended.code == exit_codes.GOOD, ended.err
    assert "One is enough." in ended.out
    assert [path.name for path in user.workspace.iterdir()] == ["first.txt"]
    assert call("approvals", "list").out == "No conversation waits for an answer.\n"
    once_more = call("resume")
    assert once_more.code == exit_codes.INPUT
    assert "waits or was interrupted" in once_more.err


THREE = """
[score]
name = "three"
[[turns]]
calls = [{ tool = "write_file", arguments = { path = "first.txt", content = "1" } }]
[[turns]]
calls = [{ tool = "write_file", arguments = { path = "second.txt", content = "2" } }]
[[turns]]
text = "Both."
"""


def test_always_counts_in_the_program_that_continues(user: User, call: Call) -> None:
    (user.workspace / "three.toml").write_text(THREE)
    assert call("ask", "--defer", "-m", "score:./three.toml", "Write.").code == exit_codes.WAITING
    approved = call("approvals", "approve", "--always")
    assert "in this conversation only, until the program that continues it (ripieno resume) ends." in approved.out
    ended = call("resume")
    assert (ended.code, (user.workspace / "second.txt").read_text()) == (exit_codes.GOOD, "2"), ended.err


def test_an_approval_is_taken_back_until_it_is_used(user: User, call: Call) -> None:
    call("ask", "--defer", "Write two files.")
    nothing = call("approvals", "revoke")
    assert (nothing.code, "No call of" in nothing.err) == (exit_codes.INPUT, True)
    first, second = (one["call"] for one in waiting(call))
    call("approvals", "approve")
    unknown = call("approvals", "revoke", "", "other")
    assert (unknown.code, "'other'" in unknown.err) == (exit_codes.INPUT, True)
    revoked = call("approvals", "revoke", "", second)
    assert revoked.code == exit_codes.GOOD, revoked.err
    assert f"Taken back: io.write_file ({second})" in revoked.out
    assert [one["state"] for one in waiting(call)] == ["approved", "waits for you"]
    # What is left runs with its approval; the other call asks again.
    ended = call("resume", "--defer")
    assert ended.code == exit_codes.WAITING, ended.err
    assert [path.name for path in user.workspace.iterdir()] == ["first.txt"]
    (left,) = (one for one in waiting(call) if one["state"] == "waits for you")
    assert left["call"] == second
    assert first not in {one["call"] for one in waiting(call)}


def test_a_resumed_conversation_works_in_its_own_folder(user: User, call: Call, tmp_path: pathlib.Path) -> None:
    call("ask", "--defer", "Write two files.")
    call("approvals", "approve")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    refused = call("resume", "--workspace", str(elsewhere))
    assert refused.code == exit_codes.INPUT
    # The printed command is for the current folder.
    assert "In other folders:\n  ripieno resume " in refused.err
    assert call("resume").code == exit_codes.GOOD
    assert sorted(path.name for path in user.workspace.iterdir()) == ["first.txt", "second.txt"]
    assert list(elsewhere.iterdir()) == []


def test_a_list_names_the_folder_where_a_call_waits(
    user: User, call: Call, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("ask", "--defer", "Write two files.")
    folder = str(user.workspace)
    assert "FOLDER" not in call("approvals", "list").out
    shown = call("approvals", "show").out
    assert folder not in shown
    assert "\nChanges are shown as they were at " in shown
    monkeypatch.chdir(tmp_path)
    listed = call("approvals", "list").out.splitlines()
    assert "  FOLDER  " in listed[0]
    assert all(folder in line for line in listed[1:])
    assert f" in {folder}. It began with: Write" in call("approvals", "show", listed[1].split()[0]).out


def test_a_rule_that_came_later_holds(user: User, call: Call) -> None:
    call("ask", "--defer", "Write two files.")
    call("approvals", "approve")
    rule(user, '[confirmation]\ndeny = ["io.write_file(path=second*)"]\n')
    ended = call("resume", "--defer")
    assert not (user.workspace / "second.txt").exists()
    # The rules are other ones: what was approved under the old ones is asked about again.
    assert not (user.workspace / "first.txt").exists()
    assert ended.code == exit_codes.WAITING
    assert [one["state"] for one in waiting(call)] == ["waits for you"]


def test_nobody_is_asked_when_it_is_autonomous_and_rules_still_hold(user: User, call: Call) -> None:
    rule(user, '[confirmation]\ndeny = ["io.write_file(path=second*)"]\n')
    done = call("ask", "--autonomous", "Write two files.")
    assert done.code == exit_codes.GOOD, done.err
    assert [path.name for path in user.workspace.iterdir()] == ["first.txt"]
    both = call("ask", "--autonomous", "--defer", "Write two files.")
    assert (both.code, "Give either" in both.err) == (exit_codes.INPUT, True)


def test_without_a_journal_what_waits_is_gone_on_with(user: User, call: Call) -> None:
    rule(user, "[journal]\nenabled = false\n")
    call("ask", "--defer", "Write two files.")
    call("approvals", "approve")
    assert call("resume").code == exit_codes.GOOD
    assert sorted(path.name for path in user.workspace.iterdir()) == ["first.txt", "second.txt"]
    with Journal(user.state / "journal.sqlite3") as journal:
        assert [*journal.lines()] == []
    nothing = call("resume")
    assert (nothing.code, "To start one: ripieno ask" in nothing.err) == (exit_codes.INPUT, True)


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


def test_a_link_is_judged_as_what_it_leads_to(user: User, call: Call) -> None:
    """Deny and approve look at the file, whatever the way to it is called."""
    rule(user, '[confirmation]\napprove = ["io.write_file(path=docs/**)"]\ndeny = ["io.*(path=secrets/**)"]\n')
    for folder in ("secrets", "docs", "other"):
        (user.workspace / folder).mkdir()
    (user.workspace / "secrets" / "a.txt").write_text("topsecret")
    (user.workspace / "lnk").symlink_to("secrets")
    (user.workspace / "here").symlink_to(".")
    (user.workspace / "docs" / "out").symlink_to("../secrets")
    (user.workspace / "docs" / "aside").symlink_to("../other")
    for path in ("secrets/a.txt", "lnk/a.txt", "here/secrets/a.txt", "docs/out/a.txt"):
        done = call("invoke", "io.read_file", f"path={path}")
        assert (done.code, "topsecret" in done.out) == (exit_codes.REFUSED, False), path
    for path in ("docs/out/evil.txt", "docs/aside/unasked.txt"):
        done = call("invoke", "io.write_file", f"path={path}", "content=hi")
        assert done.code == exit_codes.REFUSED, path
    assert call("invoke", "io.write_file", "path=docs/good.txt", "content=hi").code == exit_codes.GOOD
    assert [one.name for one in (user.workspace / "secrets").iterdir()] == ["a.txt"]
    assert list((user.workspace / "other").iterdir()) == []


def test_an_approval_of_another_change_does_not_count(user: User, call: Call) -> None:
    call("ask", "--defer", "Write two files.")
    assert "/dev/null" in call("approvals", "show").out
    call("approvals", "approve")
    (user.workspace / "first.txt").write_text("precious")
    resumed = call("resume")
    assert (user.workspace / "first.txt").read_text() == "precious"
    assert "is no longer valid" in resumed.err
    assert (user.workspace / "second.txt").read_text() == "two"
    # Nobody is at the terminal: the one that is asked about again goes on waiting.
    assert [one["state"] for one in waiting(call)] == ["waits for you"]


def test_the_printed_commands_work_in_another_folder(
    user: User, call: Call, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = (user.configuration / "config.toml").rename(tmp_path / "a file.toml")
    workspace = tmp_path / "a workspace"
    workspace.mkdir()
    begun = call("ask", "--defer", "--config", str(named), "--workspace", str(workspace), "Write two files.")
    (printed,) = [line for line in begun.err.splitlines() if line.startswith("To continue:")]
    monkeypatch.chdir(tmp_path)
    elsewhere = call("approvals", "approve")
    assert "more" not in elsewhere.err
    (line,) = [one for one in elsewhere.err.splitlines() if one.startswith("  ripieno approvals approve ")]
    assert elsewhere.code == exit_codes.INPUT
    approved = call(*shlex.split(line)[1:]).out
    assert approved.endswith(f"Continue with:{printed.removeprefix('To continue:').replace('    ', ' ')}\n")
    refused = call("approvals", "deny", "--workspace", str(workspace))
    assert (refused.code, approved.splitlines()[-1] in refused.err) == (exit_codes.INPUT, True)
    command = shlex.split(approved.rpartition("Continue with: ")[2])
    assert call(*command[1:]).code == 0
    assert sorted(one.name for one in workspace.iterdir()) == ["first.txt", "second.txt"]
    ended = call(*command[1:])
    assert f"ripieno chat --resume {command[2]} --config '{named}' --workspace '{workspace}'" in ended.err


def test_of_many_conversations_elsewhere_three_are_named_and_the_others_counted(
    call: Call, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        call("ask", "--defer", "Write two files.")
    monkeypatch.chdir(tmp_path)
    lines = call("approvals", "approve").err.splitlines()
    assert sum(one.startswith("  ripieno approvals approve ") for one in lines) == 3
    assert lines[-1] == "  and 2 more: ripieno approvals list"


@pytest.mark.parametrize(
    ("command", "place", "answer"),
    [
        (("approvals", "show"), 2, "It began with: Write two files."),
        (("approvals", "approve"), 2, "Approved: io.write_file"),
        (("approvals", "approve", "", "call_1_1"), 2, "Approved: io.write_file"),
        (("approvals", "deny", "--advice", "Not now."), 2, "Denied: io.write_file"),
        (("approvals", "revoke"), 2, "is approved. See: "),
        (("resume",), 1, "Waiting: io.write_file"),
    ],
)
def test_one_of_several_that_wait_is_named(
    user: User, call: Call, command: tuple[str, ...], place: int, answer: str
) -> None:
    """Without a name, a command does nothing, and prints itself with each name."""
    for _ in range(2):
        assert call("ask", "--defer", "Write two files.").code == exit_codes.WAITING
    before = call("approvals", "list", "--format", "json").out
    identifiers = [one["conversation"][:8] for one in json.loads(before)]
    refused = call(*command)
    assert (refused.code, "2 conversations of " in refused.err) == (exit_codes.INPUT, True)
    assert call("approvals", "list", "--format", "json").out == before
    lines = [shlex.split(one) for one in refused.err.splitlines() if one.startswith("  ripieno ")]
    given = [one for one in command[place:] if one]
    assert lines == [["ripieno", *command[:place], one, *given] for one in reversed(identifiers)]
    done = call(*lines[0][1:])
    assert answer in done.out + done.err
