"""Calls that a client runs, at the command line: their results are given there, or the calls are denied."""

import json
import shlex

import pytest

from ripieno.cli.common import exit_codes
from tests.support.command_line import User
from tests.support.users import Call

ENSEMBLE = """
[ensemble]
name = "browser-page"
description = "The page that the user sees"
[[invokers]]
name = "read_title"
description = "The title of the page."
effect = "read"
invocable = { origin = "client" }
[invokers.arguments]
type = "object"
"""
SCORE = """
[score]
name = "title"
continues = true
[[turns]]
calls = [{ tool = "read_title", label = "title" }]
[[turns]]
text = "It is {title}."
"""


@pytest.fixture(autouse=True)
def page(user: User) -> None:
    user.configure('[ensembles]\nenabled = ["browser-page"]\n')
    user.ensemble("browser-page", ENSEMBLE)
    (user.workspace / "title.toml").write_text(SCORE)


def printed(text: str, label: str) -> list[str]:
    """The words of the command that a line with this label prints, without the program."""
    (line,) = [one for one in text.splitlines() if one.startswith(f"{label}:")]
    return shlex.split(line.partition(":")[2].partition("    (or")[0])[1:]


def begin(call: Call) -> str:
    begun = call("ask", "-m", "score:./title.toml", "What is the title?")
    assert begun.code == exit_codes.WAITING, begun.err
    return begun.err


def test_the_printed_commands_go_on(call: Call) -> None:
    shown = begin(call)
    refused = call(*printed(shown, "To continue"))
    assert (refused.code, "conversation.decline_open" in refused.err) == (exit_codes.WAITING, False)
    assert printed(refused.err, "To answer it") == printed(shown, "To answer it")
    assert "browser-page.read_title {}" in call("approvals", "show").out
    command = [word if word != "TEXT" else "Ripieno" for word in printed(shown, "To answer it")]
    given = call(*command)
    assert given.code == 0, given.err
    again = call(*command)
    assert again.code == exit_codes.INPUT
    ended = call(*printed(given.out, "Continue with"))
    assert (ended.code, ended.out) == (0, "It is Ripieno.\n"), ended.err
    assert json.loads(call("approvals", "list", "--format", "json").out) == []


def test_a_call_is_denied(call: Call) -> None:
    shown = begin(call)
    approved = call("approvals", "approve")
    assert (approved.code, "approvals result" in approved.err) == (exit_codes.INPUT, True)
    denied = call("approvals", "deny", "--advice", "Ask the house.")
    assert denied.code == 0, denied.err
    ended = call(*printed(shown, "To continue"))
    assert (ended.code, "Ask the house." in ended.out) == (0, True), ended.err


def test_a_result_comes_from_a_pipe(user: User, call: Call) -> None:
    begin(call)
    (paused,) = json.loads(call("approvals", "list", "--format", "json").out)
    words = (paused["conversation"][:6], paused["waiting"][0]["call"])
    given = user.call("approvals", "result", *words, "-", text="a long title")
    assert given.returncode == 0, given.stderr
    assert call("resume").out == "It is a long title.\n"


def test_a_chat_goes_on_with_the_result_or_without_it(user: User, call: Call) -> None:
    begin(call)
    stays = user.call("chat", "--resume", "", text="/go\n")
    assert "ripieno approvals result" in stays.stderr
    assert "decline_open" not in stays.stderr
    assert "browser-page.read_title" in call("approvals", "list").out
    other = user.call("chat", "--resume", "", text="Never mind.\n")
    assert "Declined, because you say something else: read_title" in other.stderr
    assert call("approvals", "list").out == "No conversation waits for an answer.\n"
