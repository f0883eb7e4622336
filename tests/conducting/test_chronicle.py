"""The records of a run, also where some could not be written at first."""

import pathlib
from collections.abc import Sequence

import pytest

from ripieno.canisters import Conversation
from ripieno.conducting import conduct
from ripieno.execution import Execution
from ripieno.storage.journal import Journal
from ripieno.storage.records import Record
from tests.support.scripted_models import ensemble, invoke, invokes, says, scripted, tool


class FullAtFirst:
    """A journal whose disk is full for its first commits."""

    def __init__(self, journal: Journal, commits: int) -> None:
        self.journal = journal
        self.commits = commits

    def record(self, records: Sequence[Record]) -> None:
        if self.commits:
            self.commits -= 1
            raise OSError(28, "No space left on device")
        self.journal.record(records)


@pytest.mark.parametrize("commits", range(4))
async def test_what_could_not_be_written_follows_with_the_number_of_its_turn(
    tmp_path: pathlib.Path, commits: int
) -> None:
    tools = [ensemble(tool("look"))]
    answers = (invokes(invoke("look", "a")), invokes(invoke("look", "b")), says())
    conversation = Conversation(identifier="c").say("Go.")
    with Journal(tmp_path / "journal") as journal:
        execution = Execution(recorder=FullAtFirst(journal, commits))
        conversation = await conduct(scripted(*answers), conversation, ensembles=tools, execution=execution)
        assert journal.restore("c").conversation.canisters == conversation.canisters
        records = [line.record for line in journal.lines("c") if line.record is not None and line.stage == "said"]
        # The prompt, two answers of a text and a call each, and the last one; the pipeline records the results.
        assert sorted((one.details["place"], one.turn) for one in records) == [
            (0, 0), (1, 1), (2, 1), (4, 2), (5, 2), (7, 3)
        ]  # fmt: skip
