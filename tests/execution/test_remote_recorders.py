"""A recorder over a network: the event loop goes on, calls wait until their start is kept, and commits are shared."""

import asyncio
import pathlib
import threading
from collections.abc import Sequence

import pytest

from ripieno.approvals import Approve
from ripieno.canisters import Conversation
from ripieno.canisters.controls import Rules
from ripieno.conducting import conduct
from ripieno.ensembles import Context
from ripieno.execution import Execution
from ripieno.storage.journal import Journal
from ripieno.storage.records import Record
from tests.support.scripted_models import (
    Listening,
    Person,
    Recording,
    ensemble,
    fates,
    invoke,
    invokes,
    says,
    scripted,
    tool,
)


class Slow(Recording):
    """Keeps records when it is let; ``commits`` counts the calls of ``record``."""

    remote = True

    def __init__(self) -> None:
        super().__init__()
        self.let = threading.Event()
        self.entered = threading.Event()
        self.commits = 0

    def record(self, records: Sequence[Record]) -> None:
        self.entered.set()
        assert self.let.wait(60)
        self.commits += 1
        super().record(records)


async def test_a_call_begins_when_its_start_is_kept_and_the_loop_goes_on_meanwhile() -> None:
    ran: list[str] = []

    async def look(context: Context, arguments: dict[str, object]) -> str:
        ran.append("look")
        return "x"

    slow = Slow()
    call = asyncio.create_task(
        Execution(recorder=slow).execute(invoke("look"), ensembles=[ensemble(tool("look", look))])
    )
    # The loop goes on: otherwise this would hang.
    assert await asyncio.to_thread(slow.entered.wait, 60)
    assert ran == []
    slow.let.set()
    assert (await call).text == "x"
    assert [one.stage for one in slow.records] == ["started", "finished"]


async def test_a_call_that_is_cancelled_while_its_start_is_written_does_not_run() -> None:
    ran: list[str] = []
    slow = Slow()
    mine = ensemble(tool("look", lambda context, arguments: ran.append("look")))
    call = asyncio.create_task(Execution(recorder=slow).execute(invoke("look"), ensembles=[mine]))
    # The loop goes on: otherwise this would hang.
    assert await asyncio.to_thread(slow.entered.wait, 60)
    call.cancel()
    slow.let.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert ran == []


async def test_what_comes_while_it_writes_is_one_commit() -> None:
    slow = Slow()
    tools = ensemble(*(tool(f"look{number}") for number in range(20)))
    execution = Execution(recorder=slow)
    calls = [
        asyncio.create_task(execution.execute(invoke(f"look{number}", str(number)), ensembles=[tools]))
        for number in range(20)
    ]
    # The loop goes on: otherwise this would hang.
    assert await asyncio.to_thread(slow.entered.wait, 60)
    slow.let.set()
    await asyncio.gather(*calls)
    assert len(slow.records) == 40
    assert slow.commits <= 6


async def test_a_call_does_not_wait_for_what_others_record_after_it() -> None:
    class Counted(Slow):
        def __init__(self) -> None:
            super().__init__()
            self.let.set()
            self.permits = threading.Semaphore(0)

        def record(self, records: Sequence[Record]) -> None:
            self.entered.set()
            assert self.permits.acquire(timeout=60)
            super().record(records)

    began = asyncio.Event()
    counted = Counted()

    async def look(context: Context, arguments: dict[str, object]) -> str:
        began.set()
        return "x"

    execution, mine = Execution(recorder=counted), ensemble(tool("look", look), tool("later"))
    first = asyncio.create_task(execution.execute(invoke("look"), ensembles=[mine]))
    assert await asyncio.to_thread(counted.entered.wait, 60)
    second = asyncio.create_task(execution.execute(invoke("later", "2"), ensembles=[mine]))
    await asyncio.sleep(0)
    counted.permits.release()
    # The commit with the start of the second call is not let.
    async with asyncio.timeout(60):
        await began.wait()
    counted.permits.release(60)
    assert [(await one).error for one in (first, second)] == [None, None]
    assert len(counted.records) == 4


async def test_one_record_that_cannot_be_kept_loses_no_other() -> None:
    class Picky(Slow):
        def record(self, records: Sequence[Record]) -> None:
            if any(record.tool == "mine.bad" for record in records):
                assert self.let.wait(60)
                raise OSError(28, "No space left on device")
            super().record(records)

    picky, listening = Picky(), Listening()
    execution = Execution(recorder=picky, surroundings=listening.surroundings)
    mine = ensemble(tool("good"), tool("bad"))
    calls = [asyncio.create_task(execution.execute(invoke(name), ensembles=[mine])) for name in ("good", "bad", "good")]
    await asyncio.sleep(0)
    picky.let.set()
    good, bad, other = await asyncio.gather(*calls)
    assert (good.error, other.error) == (None, None)
    assert bad.error is not None
    assert bad.error.code == "not_recorded"
    assert {"No space left" in one for one in listening.messages} == {True}


async def test_a_whole_run_is_restored_as_it_was(place: pathlib.Path | str) -> None:
    mine = ensemble(tool("write", effect="write"), tool("look"))
    answers = [invokes(invoke("write", "w"), invoke("look", "l")), invokes(invoke("look", "m")), says("Done.")]
    conversation = Conversation(identifier="c").say("Go.")
    with Journal(place) as journal:
        for words in ("More.", ""):
            execution = Execution(recorder=journal, confirmer=Person(Approve()), rules=Rules(ask=("mine.write",)))
            conversation = await conduct(scripted(*answers), conversation, ensembles=[mine], execution=execution)
            restored = journal.restore("c")
            assert restored.conversation.canisters == conversation.canisters
            assert fates(restored.conversation.canisters) == fates(conversation.canisters)
            assert restored.ended
            conversation = conversation.say(words) if words else conversation
        assert journal.verify(journal.anchor()) is None
        stages = [line.stage for line in journal.lines()]
    assert stages.count("asked") == stages.count("answered") == 2
    assert stages[-1] == "ended"
