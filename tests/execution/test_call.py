"""One call has one result, in time, whatever its tool does."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ripieno.canisters import ResultCanister
from ripieno.canisters.faults import Change
from ripieno.ensembles import Outcome
from ripieno.exceptions import ExecutionFault, TimeoutFault, ToolFault
from ripieno.execution.call import settle
from tests.support.scripted_models import Listening, fault_of
from tests.support.single_calls import begin, category, result_of


async def returns(value: object) -> Any:
    async def look(context: Any, arguments: Any) -> object:
        return value

    return await result_of(look)


async def test_a_good_result_says_how_it_ran() -> None:
    result = await returns("seen")
    assert (result.invocation_id, result.text, result.error) == ("look", "seen", None)
    assert (result.report.attempts, result.report.total_bytes, result.report.exit_code) == (1, 4, None)
    assert 0 < result.report.duration_ms < 5000


async def test_an_outcome_says_more() -> None:
    change = Change.of("FileCreated", path="x")
    result = await returns(
        Outcome(content={"a": 1}, exit_code=3, changes=(change,), stderr_truncated=True, total_bytes=70000)
    )
    report = result.report
    assert result.text == '{"a":1}'
    assert (report.exit_code, report.changes, report.total_bytes) == (3, (change,), 70000)
    assert (report.stdout_truncated, report.stderr_truncated) == (False, True)


async def test_the_output_is_bounded() -> None:
    async def look(context: Any, arguments: Any) -> str:
        return "x" * 100_000

    result = await result_of(look, output=1000)
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


def raising(error: Callable[[], BaseException]) -> Any:
    async def look(context: Any, arguments: Any) -> object:
        raise error()

    return look


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


async def test_a_long_fault_is_bounded() -> None:
    result = await result_of(raising(lambda: ExecutionFault("m" * 10**6, details={"all": "d" * 10**6})), output=1000)
    assert len(result.text) < 1200
    assert len(str(result.response_mapping())) < 2500


@pytest.mark.parametrize("value", [object(), Outcome(content="a", changes=None)])  # type: ignore[arg-type]
async def test_nonsense_is_one_result_and_a_bug(value: object) -> None:
    assert fault_of(await returns(value)).code == "tool_failure"


async def test_a_result_that_does_not_fit_its_schema_is_told_and_kept() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    async def run(value: object) -> ResultCanister:
        async def look(context: Any, arguments: Any) -> object:
            return value

        return await result_of(look, results=schema)

    assert (await run({"n": 1})).error is None
    assert (await run(Outcome(content={"n": 1}))).error is None
    assert (await run("only text")).error is None
    result = await run({"n": "one"})
    assert fault_of(result).code == "result_invalid"
    assert "n" in fault_of(result).message
    assert result.text.endswith('{"n":"one"}')
    assert (await run([1])).error is not None
