"""Deadlines and cancellations of calls, and tools that ignore them."""

import asyncio
import contextlib
import gc
import sys
import threading
from typing import Any

import pytest

from ripieno.ensembles import owner
from ripieno.exceptions import TimeoutFault
from ripieno.execution.call import Call, settle
from tests.support.scripted_models import Blocking, Listening, fault_of, settle_down
from tests.support.single_calls import begin, category, result_of
from tests.support.virtual_time import VirtualLoop


async def test_the_deadline_cancels_a_tool_that_heeds_it() -> None:
    blocking, listening = Blocking(), Listening()
    call = begin(blocking, listening=listening, timeout=0.01)
    await settle((call,))
    fault = fault_of(call.result.result())
    assert (fault.category, fault.message) == ("timeout", "The call timed out after 0.01 s.")
    assert fault.details == {"timeout_seconds": 0.01}
    assert "smaller steps" in str(fault.suggestion)
    assert (blocking.running, blocking.cancellations) == (0, 1)
    assert (call.bug, listening.alerts) == (None, [])


async def test_what_may_have_acted_says_so_when_it_is_stopped() -> None:
    for effect in ("write", "destructive"):
        fault = fault_of(await result_of(Blocking(), timeout=0.01, effect=effect))
        assert fault.category == "timeout"
        assert "check before repeating" in str(fault.suggestion)


async def test_cancelling_is_a_result_too() -> None:
    blocking = Blocking()
    call = begin(blocking)
    await blocking.began.wait()
    call.cancel()
    call.cancel()
    await settle((call,))
    assert category(call.result.result()) == "cancelled"
    assert blocking.cancellations == 1
    call.cancel()


async def test_a_call_that_was_cancelled_before_its_first_step_never_runs() -> None:
    blocking = Blocking()
    call = begin(blocking)
    call.cancel()
    assert call.result.done()
    await settle_down()
    assert category(call.result.result()) == "cancelled"
    assert not blocking.began.is_set()


@pytest.mark.parametrize("effect", ["read", "write"])
async def test_a_tool_that_swallows_its_cancellation_is_left_behind(
    effect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, "GRACE", 0.02)
    blocking, listening = Blocking(stubborn=True), Listening()
    call = begin(blocking, listening=listening, effect=effect)
    await blocking.began.wait()
    call.cancel()
    await settle((call,))
    result = call.result.result()
    assert category(result) == ("cancelled" if effect == "read" else "outcome_unknown")
    assert listening.messages == ["The tool did not stop within 0.02 s after it was cancelled. It was abandoned."]
    assert blocking.running == 1
    gc.collect()
    blocking.go.set()
    await settle_down()
    assert blocking.running == 0
    assert call.result.result() is result
    assert (call.bug, len(listening.alerts)) == (None, 1)


async def test_a_bug_that_comes_after_the_result_is_no_bug_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "GRACE", 0.01)
    listening, go = Listening(), asyncio.Event()

    async def look(context: Any, arguments: Any) -> object:
        while not go.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await go.wait()
        raise ValueError("late")

    call = begin(look, listening=listening, timeout=0.01)
    await settle((call,))
    go.set()
    await settle_down()
    assert category(call.result.result()) == "timeout"
    assert call.bug is None
    assert len(listening.alerts) == 1


@pytest.mark.parametrize("ending", ["timeout", "cancelled"])
def test_the_grace_is_two_seconds(ending: str) -> None:
    async def wait() -> float:
        blocking = Blocking(stubborn=True)
        call = begin(blocking, timeout=5)
        await blocking.began.wait()
        if ending == "cancelled":
            call.cancel()
        began = asyncio.get_running_loop().time()
        await settle((call,))
        assert category(call.result.result()) == ending
        blocking.go.set()
        return asyncio.get_running_loop().time() - began

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(wait()) == pytest.approx(7 if ending == "timeout" else 2)


async def test_an_error_that_answers_a_cancellation_is_no_bug() -> None:
    began = asyncio.Event()

    async def look(context: Any, arguments: Any) -> object:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ConnectionError("interrupted") from None

    call = begin(look)
    await began.wait()
    call.cancel()
    await settle((call,))
    assert category(call.result.result()) == "cancelled"
    assert call.bug is None


async def test_a_fault_or_a_value_that_answers_a_cancellation_is_kept() -> None:
    for answer in ("value", "fault"):
        began = asyncio.Event()

        async def look(context: Any, arguments: Any, began: asyncio.Event = began, answer: str = answer) -> object:
            began.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            if answer == "fault":
                raise TimeoutFault("Half of it is done.")
            return "half"

        call = begin(look, timeout=0.01)
        await settle((call,))
        assert call.result.result().text == ("half" if answer == "value" else "Error: Half of it is done.")


async def test_a_function_that_hangs_in_its_thread_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "GRACE", 0.02)
    go, listening = threading.Event(), Listening()

    def look(context: Any, arguments: Any) -> object:
        go.wait(30)
        return "late"

    call = begin(look, listening=listening, timeout=0.02)
    await settle((call,))
    assert category(call.result.result()) == "timeout"
    assert len(listening.alerts) == 1
    # The task that waited for the thread is let go, or it would keep the loop from ending.
    await settle_down()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    go.set()


async def test_a_function_that_ends_within_the_grace_has_its_result() -> None:
    go, began = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def look(context: Any, arguments: Any) -> object:
        loop.call_soon_threadsafe(began.set)
        go.wait(30)
        return "in time"

    call = begin(look, effect="write")
    await began.wait()
    call.cancel()
    go.set()
    await settle((call,))
    assert call.result.result().text == "in time"


def test_a_hung_thread_does_not_keep_the_program_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "GRACE", 0.02)
    go = threading.Event()

    def look(context: Any, arguments: Any) -> object:
        go.wait()
        return "late"

    async def leave() -> None:
        call = begin(look, timeout=0.02)
        await settle((call,))

    asyncio.run(leave())
    go.set()


async def test_the_time_that_is_left_bounds_the_deadline() -> None:
    fault = fault_of(await result_of(Blocking(), timeout=30, seconds=0.01))
    assert fault.message == "The call timed out after 0.01 s."


async def test_whoever_waits_may_be_cancelled_again_and_again() -> None:
    stubborn = [Blocking(stubborn=False) for _ in range(3)]
    begun = [begin(one) for one in stubborn]
    task = asyncio.create_task(settle(begun))
    for one in stubborn:
        await one.began.wait()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [category(call.result.result()) for call in begun] == ["cancelled"] * 3
    assert [one.running for one in stubborn] == [0, 0, 0]


def test_a_loop_that_is_closed_over_a_call_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    unraised: list[Any] = []
    hook, sys.unraisablehook = sys.unraisablehook, unraised.append
    try:
        loop = asyncio.new_event_loop()

        async def start() -> None:
            blocking = Blocking()
            held = begin(blocking)
            await blocking.began.wait()
            kept.append(held)

        kept: list[Call] = []
        loop.run_until_complete(start())
        task = kept[0]._task
        loop.close()
        task.get_coro().close()  # type: ignore[union-attr]
        kept.clear()
        gc.collect()
    finally:
        sys.unraisablehook = hook
    assert unraised == []
