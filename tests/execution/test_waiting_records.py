"""Records of calls that only read: few commits, nothing that waits long, and nothing after the call that changes."""

import asyncio
from collections.abc import Sequence
from typing import Any

from ripieno.canisters.controls import Rules
from ripieno.conducting import conduct
from ripieno.ensembles import Context
from ripieno.execution import Execution
from ripieno.storage.records import Record
from tests.support.scripted_models import ensemble, invoke, invokes, says, scripted, tool

ALL = Rules(approve=("mine.*",))


class Committing:
    """A recorder that keeps each commit, and wakes who waits for a stage."""

    def __init__(self) -> None:
        self.commits: list[Sequence[Record]] = []
        self._waited: list[tuple[str, asyncio.Event]] = []

    def record(self, records: Sequence[Record]) -> None:
        self.commits.append(records)
        for stage, event in self._waited:
            if any(one.stage == stage for one in records):
                event.set()

    async def until(self, stage: str) -> None:
        event = asyncio.Event()
        self._waited.append((stage, event))
        await event.wait()

    @property
    def stages(self) -> list[str]:
        return [one.stage for commit in self.commits for one in commit]


async def look(context: Context, arguments: dict[str, Any]) -> str:
    return "seen"


async def test_a_turn_of_short_calls_is_two_commits() -> None:
    recorder = Committing()
    turns = [invokes(*(invoke("look", f"{turn}.{number}", at=turn) for number in range(4))) for turn in range(2)]
    execution = Execution(recorder=recorder)
    await conduct(
        scripted(*turns, says("Done.")), "Look.", ensembles=(ensemble(tool("look", look)),), execution=execution
    )
    # The beginning, an answer and its results twice, the last answer, the end.
    assert len(recorder.commits) == 1 + 2 * 2 + 2
    assert recorder.stages.count("started") == recorder.stages.count("finished") == 8
    results = [one.result for commit in recorder.commits for one in commit if one.stage == "finished"]
    assert all(one is not None and one.text == "seen" for one in results)


async def test_what_takes_long_is_recorded_while_it_runs() -> None:
    recorder = Committing()

    async def patient(context: Context, arguments: dict[str, Any]) -> str:
        await recorder.until("started")
        return "seen"

    execution = Execution(recorder=recorder)
    result = await execution.execute(invoke("look"), ensembles=[ensemble(tool("look", patient))])
    assert result.text == "seen"
    assert [[one.stage for one in commit] for commit in recorder.commits] == [["started"], ["finished"]]


async def test_before_a_call_that_changes_something_all_is_recorded() -> None:
    recorder, before = Committing(), list[str]()

    async def act(context: Context, arguments: dict[str, Any]) -> str:
        before.extend(recorder.stages)
        return "done"

    tools = ensemble(tool("look", look), tool("act", act, effect="write"))
    calls = [invokes(invoke("look", "a")), invokes(invoke("act", "b")), says("Done.")]
    execution = Execution(recorder=recorder, rules=ALL)
    await conduct(scripted(*calls), "Go.", ensembles=(tools,), execution=execution)
    assert [stage for stage in before if stage in ("started", "finished")] == ["started", "finished", "started"]


async def test_a_call_alone_is_recorded_when_it_returns_and_in_one_commit() -> None:
    recorder = Committing()
    execution = Execution(recorder=recorder)
    await execution.execute(invoke("look"), ensembles=[ensemble(tool("look", look))])
    assert [[one.stage for one in commit] for commit in recorder.commits] == [["started", "finished"]]


async def test_a_call_that_is_cancelled_is_recorded() -> None:
    recorder, began = Committing(), asyncio.Event()

    async def endless(context: Context, arguments: dict[str, Any]) -> str:
        began.set()
        await asyncio.Event().wait()
        return "never"

    execution = Execution(recorder=recorder)
    task = asyncio.create_task(execution.execute(invoke("look"), ensembles=[ensemble(tool("look", endless))]))
    await began.wait()
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()
    assert recorder.stages == ["started", "finished"]
