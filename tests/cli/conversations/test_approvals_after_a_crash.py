"""``ripieno approvals`` after the program that went on with approved calls was killed: what became of them is said."""

import json
import signal
import tomllib
from collections.abc import Iterator

import pytest

from ripieno.cli.common import exit_codes
from ripieno.models.protocols.openai_chat import PROTOCOL
from ripieno.testing.scores import Score
from tests.cli.conversations.test_ask import serving
from tests.support.command_line import User
from tests.support.users import Call

SCORE = """
[score]
name = "three"
[[turns]]
calls = [
    { tool = "note", label = "first" },
    { tool = "die", label = "second" },
    { tool = "ask", label = "third" },
]
[[turns]]
text = "Done."
"""
ENSEMBLE = """
[ensemble]
name = "notes"
[[invokers]]
name = "note"
description = "Notes something."
effect = "write"
invocable = { origin = "python", function = "./notes.py:note" }
[[invokers]]
name = "die"
description = "Ends the program at once."
effect = "write"
invocable = { origin = "python", function = "./notes.py:die" }
[[invokers]]
name = "ask"
description = "Is run by the client."
effect = "read"
invocable = { origin = "client" }
"""
FUNCTIONS = """
import os
import signal

def note(context, arguments):
    return "noted"

def die(context, arguments):
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def served(user: User) -> Iterator[None]:
    """The model of this user calls a tool, one that kills the program, and one of the client."""
    file = user.ensemble("notes", ENSEMBLE)
    (file.parent / "notes.py").write_text(FUNCTIONS)
    with serving(Score.of(tomllib.loads(SCORE)), PROTOCOL) as url:
        user.configure(
            '[model]\ndefault = "house/small"\n[ensembles]\nenabled = ["notes"]\n'
            '[confirmation]\napprove = ["notes.die"]\n'
            f'[providers.house]\nprotocol = "openai-chat"\nbase_url = "{url}"\n'
        )
        yield


def states(call: Call) -> list[str]:
    (conversation,) = json.loads(call("approvals", "list", "--format", "json").out)
    return [one["state"] for one in conversation["waiting"]]


def test_what_has_run_and_what_had_started_is_said(user: User, call: Call) -> None:
    assert call("ask", "--defer", "Go.").code == exit_codes.WAITING
    assert call("approvals", "approve").code == exit_codes.GOOD
    assert states(call) == ["approved", "waits for another call", "waits for a result"]
    (waiting,) = json.loads(call("approvals", "list", "--format", "json").out)
    first, second, third = (one["call"] for one in waiting["waiting"])
    assert call("approvals", "result", "", third, "Yes.").code == exit_codes.GOOD
    assert states(call)[2] == "has its result"
    assert user.run("resume").returncode == -signal.SIGKILL
    expected = ["has run", "started, its end is not recorded", "has its result"]
    assert states(call) == expected
    for shown in (call("approvals", "list").out, call("approvals", "show").out):
        assert all(state in shown for state in expected)
        assert f"Begun in {waiting['conversation'][:8]}: {first}, {second}" in shown
        assert f"Continue with: ripieno resume {waiting['conversation'][:8]}" in shown
    # Nothing is left to answer, and an approval that was used cannot be taken back.
    assert "waits for an answer. Continue with: ripieno resume" in call("approvals", "approve").err
    assert "was used already" in call("approvals", "revoke", "", first).err
    resumed = call("resume")
    assert (resumed.code, call("approvals", "list").out) == (
        exit_codes.GOOD,
        "No conversation waits for an answer.\n",
    ), resumed.err
