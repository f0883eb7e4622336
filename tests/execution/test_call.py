"""One call has one result, in time, whatever its tool does."""

import asyncio
import contextlib
import gc
import socket
import sys
import threading
import urllib.error
from collections.abc import Callable
from typing import Any

import pytest

from ripieno.canisters import ResultCanister
from ripieno.canisters.faults import SUGGESTIONS, Change
from ripieno.descriptors.policies import RetryPolicy
from ripieno.ensembles import Outcome, owner
from ripieno.exceptions import ExecutionFault, TimeoutFault, ToolFault
from ripieno.execution import Circumstances, Execution
from ripieno.execution.call import Call, settle
from tests.support.scripted_models import Blocking, Listening, ensemble, fault_of, invoke, settle_down, tool
from tests.support.single_calls import EVERYTHING, begin, category, launch, raising, result_of, returning
from tests.support.virtual_time import in_virtual_time


async def test_a_good_result_says_how_it_ran() -> None:
    result = await result_of(returning("seen"))
    assert (result.invocation_id, result.text, result.error) == ("look", "seen", None)
    assert (result.report.attempts, result.report.total_bytes, result.report.exit_code) == (1, 4, None)
    assert 0 < result.report.duration_ms < 5000


async def test_an_outcome_says_more() -> None:
    change = Change.of("FileCreated", path="x")
    outcome = Outcome(content={"a": 1}, exit_code=3, changes=(change,), stderr_truncated=True, total_bytes=70000)
    result = await result_of(returning(outcome))
    report = result.report
    assert result.text == '{"a":1}'
    assert (report.exit_code, report.changes, report.total_bytes) == (3, (change,), 70000)
    assert (report.stdout_truncated, report.stderr_truncated) == (False, True)


async def test_the_output_is_bounded() -> None:
    result = await result_of(returning("x" * 100_000), output=1000)
    assert len(result.text) < 1100
    assert (result.report.total_bytes, result.report.stdout_truncated) == (100_000, True)


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("cannot say")

    __repr__ = __str__


class Unready(ToolFault):
    def __init__(self) -> None:
        """Leaves out what its base does."""


class Undetailed(ExecutionFault):
    def __init__(self) -> None:
        super().__init__("m")
        self.details = {"a": Mute()}


@pytest.mark.parametrize("kind", ["async", "thread"])
@pytest.mark.parametrize(
    ("error", "name"),
    [
        (lambda: ValueError("secret path /x"), "ValueError"),
        (lambda: SystemExit(3), "SystemExit"),
        (KeyboardInterrupt, "KeyboardInterrupt"),
        (asyncio.CancelledError, "CancelledError"),
        (lambda: StopIteration(5), "RuntimeError"),
        (StopAsyncIteration, "StopAsyncIteration"),
        (lambda: BaseExceptionGroup("many", [SystemExit(1), KeyError("x")]), "BaseExceptionGroup"),
        (RecursionError, "RecursionError"),
        (MemoryError, "MemoryError"),
        (Mute, "Mute"),
        (Unready, "AttributeError"),
        (Undetailed, "ValueError"),
    ],
)
async def test_whatever_is_raised_is_one_result_and_a_bug(
    kind: str, error: Callable[[], BaseException], name: str
) -> None:
    def plain(context: Any, arguments: Any) -> object:
        raise error()

    listening = Listening()
    call = begin(raising(error) if kind == "async" else plain, listening=listening)
    await settle((call,))
    result = call.result.result()
    fault = fault_of(result)
    assert (fault.category, fault.code) == ("execution", "tool_failure")
    if name != "StopAsyncIteration":
        assert f"({name})" in fault.message
    assert "secret" not in result.text
    assert "Traceback" not in result.text
    assert call.bug is not None
    assert len(listening.messages) == 1
    assert listening.alerts[0].tool == "mine.look"


async def test_a_fault_is_for_the_model_and_no_bug() -> None:
    listening = Listening()
    call = begin(raising(lambda: TimeoutFault("No answer.", suggestion="Try later.")), listening=listening)
    await settle((call,))
    assert category(call.result.result()) == "timeout"
    assert call.result.result().text == "Error: No answer.\nTry later."
    assert (call.bug, listening.alerts) == (None, [])


@pytest.mark.parametrize("kind", ["async", "thread"])
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TimeoutError(), ("timeout", "An operation took too long.", None)),
        (TimeoutError(110, "Connection timed out"), ("timeout", "Connection timed out", "ETIMEDOUT")),
        (PermissionError(13, "Permission denied", "x"), ("permission", "Permission denied: 'x'", "EACCES")),
        (FileNotFoundError(2, "No such file", "a"), ("resource", "No such file: 'a'", "ENOENT")),
        (OSError(18, "Invalid link", "a", None, "b"), ("resource", "Invalid link: 'a' -> 'b'", "EXDEV")),
        (OSError(28, "No space left on device"), ("resource", "No space left on device", "ENOSPC")),
        (OSError("only a text"), ("resource", "only a text", None)),
        (ConnectionRefusedError(111, "Connection refused"), ("network", "Connection refused", "ECONNREFUSED")),
        (OSError(113, "No route to host"), ("network", "No route to host", "EHOSTUNREACH")),
        (socket.gaierror(-2, "Name or service not known"), ("network", "Name or service not known", None)),
        (urllib.error.URLError(ConnectionError("gone")), ("network", "<urlopen error gone>", None)),
    ],
    ids=repr,
)
async def test_errors_of_the_system_are_for_the_model(
    kind: str, error: OSError, expected: tuple[str, str, str | None]
) -> None:
    def plain(context: Any, arguments: Any) -> object:
        raise error

    listening = Listening()
    call = begin(raising(lambda: error) if kind == "async" else plain, listening=listening, effect="write")
    await settle((call,))
    fault = fault_of(call.result.result())
    assert (fault.category, fault.message, fault.details.get("errno")) == expected
    assert fault.details["exception"] == type(error).__name__
    half_done = fault.category in ("timeout", "network")  # A write may be.
    assert fault.suggestion == SUGGESTIONS["outcome_unknown" if half_done else fault.category]
    assert (call.bug, listening.alerts) == (None, [])


@in_virtual_time
async def test_an_error_of_the_system_is_retried_as_a_fault_of_its_category() -> None:
    errors = [ConnectionError("gone"), TimeoutError("slow")]

    async def look(context: Any, arguments: Any) -> str:
        if errors:
            raise errors.pop()
        return "seen"

    result = await result_of(look, effect="read", retry=RetryPolicy(max_retries=2))
    assert (result.text, result.report.retried) == ("seen", ("timeout", "network"))


async def test_a_long_fault_is_bounded() -> None:
    result = await result_of(raising(lambda: ExecutionFault("m" * 10**6, details={"all": "d" * 10**6})), output=1000)
    assert len(result.text) < 1200
    assert len(str(result.response_mapping())) < 2500


@pytest.mark.parametrize("value", [object(), Outcome(content="a", changes=None)])  # type: ignore[arg-type]
async def test_nonsense_is_one_result_and_a_bug(value: object) -> None:
    assert fault_of(await result_of(returning(value))).code == "tool_failure"


async def test_a_result_that_does_not_fit_its_schema_is_told_and_kept() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    async def run(value: object) -> ResultCanister:
        return await result_of(returning(value), results=schema)

    assert (await run({"n": 1})).error is None
    assert (await run(Outcome(content={"n": 1}))).error is None
    assert (await run("only text")).error is None
    result = await run({"n": "one"})
    assert fault_of(result).code == "result_invalid"
    assert "n" in fault_of(result).message
    assert result.text.endswith('{"n":"one"}')
    assert (await run([1])).error is not None


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


async def test_a_tool_that_asks_when_it_is_cancelled_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "GRACE", 0.02)
    listening, began, never = Listening(), asyncio.Event(), asyncio.Event()

    async def look(context: Any, arguments: Any) -> object:
        began.set()
        with contextlib.suppress(asyncio.CancelledError):
            await never.wait()
        return await context.inquire("May I stay?", {})

    async def inquire(text: str, schema: Any) -> Any:
        await never.wait()

    around = Circumstances(inquire=inquire)
    call = launch(
        Execution(rules=EVERYTHING, surroundings=listening.surroundings),
        ensemble(tool("look", look)),
        invoke("look"),
        around,
    )
    await began.wait()
    call.cancel()
    await settle((call,))
    assert category(call.result.result()) == "cancelled"
    assert listening.messages == ["The tool did not stop within 0.02 s after it was cancelled. It was abandoned."]


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
@in_virtual_time
async def test_the_grace_is_two_seconds(ending: str) -> None:
    blocking = Blocking(stubborn=True)
    call = begin(blocking, timeout=5)
    await blocking.began.wait()
    if ending == "cancelled":
        call.cancel()
    began = asyncio.get_running_loop().time()
    await settle((call,))
    assert category(call.result.result()) == ending
    blocking.go.set()
    assert asyncio.get_running_loop().time() - began == pytest.approx(7 if ending == "timeout" else 2)


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
        failed = f"Error: Half of it is done.\n{SUGGESTIONS['timeout']}"
        assert call.result.result().text == ("half" if answer == "value" else failed)


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
        # Otherwise asyncio would report the lost task, with tracebacks, whenever it is collected: in any later test.
        task._log_destroy_pending = False
        del task
        kept.clear()
        gc.collect()
    finally:
        sys.unraisablehook = hook
    assert unraised == []
