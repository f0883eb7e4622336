"""Cancelled runs: by a break, an error, a cancellation, or the end of the loop."""

import asyncio
import gc
import threading
import weakref
from typing import Any

import pytest

from ripieno.canisters import UserCanister
from ripieno.canisters.events import InvocationSealed, TextDelta, TurnBegan, TurnEnded
from ripieno.conducting import Run, conduct
from ripieno.ensembles import owner
from ripieno.execution import Execution
from tests.support.runs import collected, running
from tests.support.scripted_models import (
    Blocking,
    Recording,
    ensemble,
    fates,
    invoke,
    invokes,
    says,
    scripted,
    settle_down,
    tool,
)

# Leaving.


async def ended(blocking: Blocking) -> None:
    """Waits until a cancelled tool has ended."""
    await blocking.ended.wait()
    await settle_down()


@pytest.mark.parametrize("kept", [True, False])
async def test_breaking_out_cancels_every_running_tool(kept: bool) -> None:
    blocking, other = Blocking(), Blocking()
    model = scripted(invokes(invoke("look"), invoke("find")), says())
    found = [ensemble(tool("look", blocking), tool("find", other))]
    held: list[Run] = []

    def begin() -> Run:
        run = conduct(model, "Go.", ensembles=found)
        if kept:
            held.append(run)
        return run

    async for event in begin():
        if isinstance(event, TurnEnded):
            await blocking.began.wait()
            await other.began.wait()
            break
    await ended(blocking)
    await ended(other)
    assert (blocking.cancellations, other.cancellations) == (1, 1)
    for run in held:
        conversation = await run
        assert conversation.finish == "cancelled"
        assert fates(conversation.canisters) == [("look", "!cancelled"), ("find", "!cancelled")]
    await settle_down()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("iterated", [True, False])
async def test_a_cancelled_listener_waits_for_the_results(iterated: bool) -> None:
    blocking = Blocking()
    run = conduct(scripted(invokes(invoke("look")), says()), "Go.", ensembles=[ensemble(tool("look", blocking))])
    task = asyncio.create_task(collected(run)) if iterated else await running(run, blocking)
    await blocking.began.wait()
    await settle_down()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (blocking.running, blocking.cancellations) == (0, 1)
    assert run.conversation.finish == "cancelled"
    assert fates(run.conversation.canisters) == [("look", "!cancelled")]


async def test_a_time_limit_around_the_block_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "GRACE", 0.1)
    blocking = Blocking(stubborn=True)
    model = scripted(invokes(invoke("look")), says())

    async def leave() -> None:
        async with asyncio.timeout(0.05), conduct(model, "Go.", ensembles=[ensemble(tool("look", blocking))]):
            await blocking.began.wait()
            await settle_down()

    with pytest.raises(TimeoutError):
        await leave()
    blocking.go.set()
    await settle_down()


async def test_leaving_before_it_begins_asks_nothing() -> None:
    model = scripted(says())
    entered, cancelled, dropped = runs = [conduct(model, "Go.") for _ in range(3)]
    async with entered:
        pass
    cancelled.cancel()
    aiter(dropped)
    assert [(await run).finish for run in runs] == ["cancelled"] * 3
    assert model.asked == []


async def test_an_iterator_that_another_thread_drops_cancels_the_run() -> None:
    blocking = Blocking()
    run = conduct(scripted(invokes(invoke("look")), says()), "Go.", ensembles=[ensemble(tool("look", blocking))])
    holder: list[Any] = [aiter(run)]
    await anext(holder[0])
    await blocking.began.wait()
    thread = threading.Thread(target=holder.clear)
    thread.start()
    thread.join()
    await ended(blocking)
    assert (await run).finish == "cancelled"


async def test_cancelling_while_the_model_speaks_keeps_nothing_of_the_turn() -> None:
    began, blocking = asyncio.Event(), Blocking()

    async def hang() -> None:
        began.set()
        await asyncio.Event().wait()

    recording = Recording()
    model = scripted([TurnBegan(), TextDelta("I "), InvocationSealed(index=0, invocation=invoke("look")), hang])
    run = conduct(model, "Go.", ensembles=[ensemble(tool("look", blocking))], execution=Execution(recorder=recording))
    task = await running(run, blocking)
    await began.wait()
    run.cancel()
    conversation = await task
    assert conversation.canisters == (UserCanister.of("Go."),)
    assert conversation.finish == "cancelled"
    assert [stage for stage, tool in recording.stages if tool] == ["started", "finished", "discarded"]
    assert blocking.running == 0
    assert model.closed == [0]


async def test_a_model_that_swallows_its_cancellation_is_stopped_after_its_answer() -> None:
    began = asyncio.Event()

    async def stubborn() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    model = scripted([TurnBegan(), stubborn, *invokes(invoke("look"))[1:]])
    run = conduct(model, "Go.", ensembles=[ensemble(tool("look"))])
    task = asyncio.create_task(collected(run))
    await began.wait()
    run.cancel()
    await task
    assert len(model.asked) == 1
    assert run.conversation.finish == "cancelled"


async def test_a_run_is_collected_when_it_is_over() -> None:
    run = conduct(scripted(says()), "Go.")
    await collected(run)
    await settle_down()
    reference = weakref.ref(run)
    del run
    gc.collect()
    assert reference() is None


# The end of the loop.


def test_a_run_that_nobody_waits_for_ends_with_its_loop() -> None:
    blocking: list[Blocking] = []
    kept: list[Run] = []

    async def leave() -> None:
        blocking.append(Blocking())
        kept.append(
            conduct(scripted(invokes(invoke("look")), says()), "Go.", ensembles=[ensemble(tool("look", blocking[0]))])
        )
        await kept[0].__aenter__()
        await blocking[0].began.wait()

    asyncio.run(leave())
    assert blocking[0].running == 0
    assert fates(kept[0].conversation.canisters) == [("look", "!cancelled")]
