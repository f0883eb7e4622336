"""The ensembles ``reasoning`` and ``control``: each tool is called for real, and in conversations of a score."""

import pathlib
from collections.abc import Mapping
from typing import Any

from ripieno.approvals import Approve, Deny, Edit
from ripieno.assembly import Assembly, assemble
from ripieno.canisters import ResultCanister
from ripieno.testing import call, turn
from ripieno.testing.wires import model_of
from tests.support.command_line import User
from tests.support.scripted_models import Person
from tests.toolset.bundled_tools import execute

SETTINGS: Mapping[str, Any] = {
    "ensembles": {"enabled": ["reasoning", "control", "file_read", "file_write"]},
    "confirmation": {"approve": ["file_write.*"]},
}


def playing(user: User, person: Person | None = None, **settings: Any) -> Assembly:
    """An assembly of the two, and of tools for files."""
    return assemble({**SETTINGS, **settings}, workspace=user.workspace, places=user.places, confirmer=person)


async def test_submitting_ends_the_run_with_the_answer(user: User) -> None:
    model = model_of(
        [
            turn("I think.", calls=[call("think", "thought", thought="It is 42.")]),
            turn("Done.", calls=[call("submit", "end", answer="42", confidence=0.9)]),
            turn("This is never said."),
        ]
    )
    async with playing(user) as assembly:
        conversation = await assembly.conduct("What is it?", model=model)
        result = await execute(assembly, "submit")
        assert result.text == "Submitted."
        too_sure = await execute(assembly, "submit", confidence=1.5)
        assert too_sure.error is not None
    assert conversation.finish == "terminal"
    assert conversation.submission is not None
    assert (conversation.submission.name, dict(conversation.submission.arguments)) == (
        "submit",
        {"answer": "42", "confidence": 0.9},
    )
    results = [one.text for one in conversation.canisters if isinstance(one, ResultCanister)]
    assert results == ["Recorded.", "Submitted, with a confidence of 0.9."]


async def test_a_person_is_asked(user: User) -> None:
    person = Person(
        *(Edit(arguments={"answer": answer}) for answer in ("The second.", "no", "maybe")),
        *(Deny(advice="Busy."), Approve()),
    )
    async with playing(user, person) as assembly:
        result = await execute(assembly, "ask_user", question="Which one?")
        assert (result.error, result.text) == (None, "The second.")
        result = await execute(assembly, "ask_user", question="Shall I?", options=["yes", "no"])
        assert result.text == "no"
        # What was not offered is no answer, nor is a no or a mere yes.
        for options in ({"options": ["yes", "no"]}, {}, {}):
            result = await execute(assembly, "ask_user", question="And now?", **options)
            assert (result.error, result.text.partition(".")[0]) == (None, "There is no answer")
    first, second, *_ = (request.question for request in person.requests)
    assert first is not None
    assert second is not None
    assert first.text == "Which one?"
    assert second.schema["properties"]["answer"]["enum"] == ("yes", "no")


async def test_nobody_can_be_asked(user: User) -> None:
    async with playing(user) as assembly:
        result = await execute(assembly, "ask_user", question="May I?")
    assert result.error is None
    assert result.text.startswith("There is no answer. Decide yourself")


async def test_a_checkpoint_is_a_place_to_go_back_to(user: User) -> None:
    async with playing(user) as assembly:
        journal = assembly.surroundings.journal
        assert journal is not None
        await execute(assembly, "write_file", path="a.txt", content="1")
        result = await execute(assembly, "checkpoint", label="before the change")
        assert result.error is None
        assert "'before the change' is entry 2" in result.text
        assert result.text.endswith("the user runs: ripieno undo --to 'before the change'")
        await execute(assembly, "write_file", path="a.txt", content="2")
        assert [entry.label for entry in journal.entries()] == ["", "before the change", ""]
        blank = await execute(assembly, "checkpoint", label=" ")
        assert blank.error is not None
    assert (pathlib.Path(user.workspace) / "a.txt").read_text() == "2"
