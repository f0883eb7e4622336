"""The success criteria of seed 003: agents with real tools, real consent and a real journal."""

import json
import sys
from typing import Any

import pytest

from ripieno.approvals import Approve, Deny
from ripieno.assembly import assemble
from ripieno.canisters import Conversation, InvocationCanister
from ripieno.jsonvalues import thaw
from ripieno.models import Model
from ripieno.storage.journal import Journal
from ripieno.testing import call, turn
from ripieno.testing.wires import model_of
from tests.support.command_line import User
from tests.support.scripted_models import Person, results_of

AGENTS: dict[str, Any] = {
    "documentation": {"instructions": "You document this project.", "tools": ["io.list_directory", "io.write_file"]},
    "coding": {"instructions": "You write code.", "tools": ["io.write_file", "testing.run_tests"]},
}
README = "# House\n\nIt stands.\n"
CODE = "def double(number):\n    return 2 * number\n"
TESTS = """\
import unittest

from double import double


class Doubling(unittest.TestCase):
    def test_it_doubles(self):
        self.assertEqual(double(4), 8)
"""


@pytest.fixture
def settings() -> dict[str, Any]:
    return {
        "ensembles": {"enabled": ["io", "testing"]},
        "agents": AGENTS,
        "sandbox": {"readable": [sys.prefix, sys.base_prefix]},
    }


def check_journal(journal: Journal, conversation: Conversation) -> None:
    """Checks that the journal has every call with arguments and result, and is complete."""
    results = {one.invocation_id: one for one in results_of(conversation.canisters)}
    states = {state.identifier: state for state in journal.state_of(conversation.identifier)}
    calls = [one for one in conversation.canisters if isinstance(one, InvocationCanister)]
    assert calls
    assert set(states) == {one.identifier for one in calls}
    for one in calls:
        state = states[one.identifier]
        assert state.status == "finished"
        assert state.invocation is not None
        assert state.invocation.name == one.name
        assert thaw(state.invocation.arguments) == thaw(one.arguments)
        assert state.result == results[one.identifier]
    assert journal.verify() is None
    assert journal.restore(conversation.identifier).conversation.canisters == conversation.canisters


async def conducted(
    user: User, settings: dict[str, Any], person: Person, score: Model, what: str, *, agent: str
) -> Conversation:
    """A conversation with an agent of these settings, with all its calls in the journal."""
    with Journal(user.places.state / "journal.sqlite3") as journal:
        async with assemble(
            settings, workspace=user.workspace, places=user.places, confirmer=person, recorder=journal
        ) as assembly:
            conversation = await assembly.conduct(what, model=score, agent=agent)
        check_journal(journal, conversation)
    return conversation


async def test_a_documentation_agent_writes_a_readme_after_approval(user: User, settings: dict[str, Any]) -> None:
    person = Person(Approve())
    score = model_of(
        [
            turn("I look.", calls=[call("list_directory", path=".")]),
            turn("I write.", calls=[call("write_file", path="README.md", content=README)]),
            turn("It is written."),
        ]
    )
    conversation = await conducted(user, settings, person, score, "Document it.", agent="documentation")
    with Journal(user.places.state / "journal.sqlite3") as journal:
        answers = [line.record for line in journal.lines(conversation.identifier, stage="answered")]
    assert [None if one is None else (one.tool, one.details["answer"]) for one in answers] == [
        ("io.write_file", "approve")
    ]
    assert (user.workspace / "README.md").read_text() == README
    assert conversation.text == "It is written."
    (request,) = person.requests
    # They saw all of it: the call, and what it would change.
    shown = request.shown.whole(200)
    assert "+It stands." in shown
    assert request.shown.digest in shown
    assert "README.md" in shown


async def test_a_coding_agent_writes_source_and_runs_tests(user: User, settings: dict[str, Any]) -> None:
    person = Person(*[Approve()] * 3)
    score = model_of(
        [
            turn(
                "I write both.",
                calls=[
                    call("write_file", path="double.py", content=CODE),
                    call("write_file", path="test_double.py", content=TESTS),
                ],
            ),
            turn("I run the tests.", calls=[call("run_tests")]),
            turn("They pass."),
        ]
    )
    conversation = await conducted(user, settings, person, score, "Write it.", agent="coding")
    results = results_of(conversation.canisters)
    assert [one.error for one in results] == [None, None, None], results
    assert (user.workspace / "double.py").read_text() == CODE
    assert json.loads(results[-1].text)["passed"] == 1
    assert {request.tool for request in person.requests} == {"io.write_file", "testing.run_tests"}


async def test_a_denial_is_read_by_the_model(user: User, settings: dict[str, Any]) -> None:
    person = Person(Deny("Write it into docs/ instead."))
    score = model_of(
        [
            turn("I write.", calls=[call("write_file", "refusal", path="README.md", content=README)]),
            turn("I was told: {refusal}"),
        ]
    )
    conversation = await conducted(user, settings, person, score, "Document it.", agent="documentation")
    assert "Write it into docs/ instead." in conversation.text
    assert list(user.workspace.iterdir()) == []
    assert len(person.requests) == 1
