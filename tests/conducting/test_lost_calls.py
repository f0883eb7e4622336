"""A call that had started, and of whose end nothing is recorded, is not repeated, whatever copy of it is conducted."""

import pathlib
from collections.abc import Sequence
from typing import Any

import pytest

from ripieno.canisters import Conversation, ResultCanister
from ripieno.canisters.controls import Rules
from ripieno.canisters.serialization import deserialize_conversation, serialize
from ripieno.conducting import conduct
from ripieno.conducting.resume import resumable
from ripieno.ensembles import Context
from ripieno.execution import Execution
from ripieno.storage.journal import Journal
from ripieno.storage.records import Record
from tests.support.scripted_models import ensemble, invoke, invokes, says, scripted, tool

RULES = Rules(approve=("mine.*",))


class Cut:
    """A recorder that gets nothing from the first end of a call on, as if the program had been killed in it."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.is_cut = False

    def record(self, records: Sequence[Record]) -> None:
        self.is_cut = self.is_cut or any(one.stage == "finished" for one in records)
        if self.is_cut:
            raise OSError(5, "gone")
        self.journal.record(records)


@pytest.mark.parametrize("copy", ["of the journal", "of the client", "resumable"])
async def test_a_call_of_unknown_outcome_is_not_repeated(tmp_path: pathlib.Path, copy: str) -> None:
    ran: list[str] = []

    async def pay(context: Context, arguments: dict[str, Any]) -> str:
        ran.append(context.invocation)
        return "paid"

    tools = [ensemble(tool("pay", pay, effect="write"))]
    before = Conversation(identifier="c").say("Pay twice.")
    with Journal(tmp_path / "journal") as journal:
        execution = Execution(recorder=Cut(journal), rules=RULES)
        await conduct(scripted(invokes(invoke("pay", "a"), invoke("pay", "b")), says()), before, ensembles=tools,
                      execution=execution, owner="ada")  # fmt: skip
        restored = journal.restore("c", owner="ada").conversation
        conversation = {
            "of the journal": restored,
            "of the client": deserialize_conversation(serialize(restored)),
            "resumable": resumable(journal, "c", owner="ada").conversation,
        }[copy]
        # What had not started runs now.
        started = {state.identifier for state in journal.restore("c", owner="ada").states if state.stage == "started"}
        assert started == {"a"}
        ran.clear()
        execution = Execution(recorder=journal, rules=RULES)
        ended = await conduct(scripted(says()), conversation, ensembles=tools, execution=execution, owner="ada")
        results = {one.invocation_id: one for one in ended.canisters if isinstance(one, ResultCanister)}
        assert results["a"].error is not None
        assert (results["a"].error.category, results["b"].text) == ("outcome_unknown", "paid")
        assert ran == ["b"]
        assert journal.restore("c", owner="ada").conversation.canisters == ended.canisters
