"""Retries: only where repeating is safe, a limited number, and never past the end of the run."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ripieno.canisters import ResultCanister
from ripieno.canisters.events import Event, ExecutionProgress
from ripieno.canisters.faults import Category, Effect, Fault
from ripieno.descriptors import Policy, RetryPolicy
from ripieno.descriptors.policies import PASSING
from ripieno.exceptions import NetworkFault, QuotaFault, TimeoutFault, ToolFault
from ripieno.execution import Circumstances, Execution
from ripieno.execution.call import Call, settle
from ripieno.execution.retries import Attempts
from tests.counts import count
from tests.support.scripted_models import Blocking, ensemble, fault_of, invoke, settle_down, tool
from tests.support.single_calls import EVERYTHING, launch
from tests.support.virtual_time import VirtualLoop


def virtually(coroutine: Coroutine[Any, Any, ResultCanister]) -> tuple[ResultCanister, Any]:
    """The result, and the seconds it took on a clock that jumps."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        began = runner.get_loop().time()
        return runner.run(coroutine), runner.get_loop().time() - began


def start(
    invocable: Any,
    *,
    seconds: float | None = None,
    chance: float = 1.0,
    notify: Callable[[Event], None] | None = None,
    **policy: Any,
) -> Call:
    """A call of a tool whose retries are the usual ones, just started."""
    definition = tool("look", invocable, **{"retry": RetryPolicy(), **policy})
    execution = Execution(rules=EVERYTHING)
    execution._chance = lambda: chance
    around = Circumstances(notify=notify)
    return launch(execution, ensemble(definition), invoke("look", path=["a"]), around, seconds=seconds)


async def result(invocable: Any, **settings: Any) -> ResultCanister:
    call = start(invocable, **settings)
    await settle((call,))
    return call.result.result()


class Failing:
    """A tool that raises these, one after the other, and then succeeds. It counts its attempts."""

    def __init__(self, *faults: BaseException | None) -> None:
        self._faults = list(faults)
        self.arguments: list[Any] = []

    async def __call__(self, context: Any, arguments: dict[str, Any]) -> str:
        self.arguments.append(arguments.copy())
        arguments["path"] = "spoiled"
        fault = self._faults.pop(0) if self._faults else None
        if fault is not None:
            raise fault
        return "seen"


def test_a_fault_that_passes_is_no_result() -> None:
    failing = Failing(NetworkFault("Lost."), QuotaFault("Slow.", code="http_status"))
    found, seconds = virtually(result(failing))
    assert (found.text, found.error) == ("seen", None)
    assert (found.report.attempts, found.report.retried) == (3, ("network", "quota/http_status"))
    assert seconds == pytest.approx(0.1 + 0.2)
    assert [one["path"] for one in failing.arguments] == [["a"]] * 3


def test_the_last_fault_is_the_result() -> None:
    failing = Failing(*(NetworkFault(f"Lost {number}.") for number in range(9)))
    found, seconds = virtually(result(failing))
    assert fault_of(found).message == "Lost 3."
    assert (found.report.attempts, found.report.retried) == (4, ("network",) * 3)
    assert seconds == pytest.approx(0.1 + 0.2 + 0.4)


def test_the_next_attempt_is_told() -> None:
    told: list[Event] = []
    virtually(result(Failing(NetworkFault("Lost."), TimeoutFault("Late.")), chance=0.5, notify=told.append))
    messages = [(one.done, one.message) for one in told if isinstance(one, ExecutionProgress)]
    assert messages == [(0.0, "attempt 2 of 4 in 0.1 s: network"), (0.0, "attempt 3 of 4 in 0.15 s: timeout")]


def test_a_tool_that_does_not_stop_is_not_tried_again() -> None:
    blocking = Blocking(stubborn=True)

    async def go() -> ResultCanister:
        found = await result(blocking, timeout=5)
        blocking.go.set()
        await settle_down()
        return found

    found, seconds = virtually(go())
    assert (fault_of(found).category, found.report.attempts, seconds) == ("timeout", 1, pytest.approx(7))


def test_the_other_side_says_when() -> None:
    asked = QuotaFault("Slow.", details={"retry_after": 7})
    found, seconds = virtually(result(Failing(asked)))
    assert (found.error, seconds) == (None, pytest.approx(7))
    found, seconds = virtually(result(Failing(QuotaFault("Slow.", details={"retry_after": 61}))))
    assert (fault_of(found).category, found.report.attempts, seconds) == ("quota", 1, 0)
    # Sooner than our own backoff, or nothing that can be read: ours counts.
    for value in (0, -1, True, "soon", None):
        found, seconds = virtually(result(Failing(QuotaFault("Slow.", details={"retry_after": value}))))
        assert (found.error, seconds) == (None, pytest.approx(0.1))


def test_no_attempt_begins_past_the_end_of_the_run() -> None:
    failing = Failing(QuotaFault("Slow.", details={"retry_after": 7}))
    found, seconds = virtually(result(failing, seconds=6.9))
    assert (fault_of(found).category, found.report.attempts, found.report.retried, seconds) == ("quota", 1, (), 0)
    found, seconds = virtually(result(Blocking(), timeout=5, seconds=12))
    assert (fault_of(found).category, found.report.attempts, seconds) == ("timeout", 3, pytest.approx(12))


@pytest.mark.parametrize("during", ["attempt", "pause"])
def test_a_cancelled_call_is_not_tried_again(during: str) -> None:
    failing = Failing(NetworkFault("Lost."))
    blocking = Blocking()

    async def look(context: Any, arguments: dict[str, Any]) -> object:
        await failing(context, arguments)
        return await blocking(context, arguments)

    async def go() -> ResultCanister:
        call = start(look)
        if during == "attempt":
            await blocking.began.wait()
        else:
            await settle_down()
        call.cancel()
        await settle((call,))
        return call.result.result()

    found, seconds = virtually(go())
    attempts = 2 if during == "attempt" else 1
    assert (fault_of(found).category, found.report.attempts) == ("cancelled", attempts)
    assert (len(failing.arguments), found.report.retried) == (attempts, ("network",))
    assert seconds < 0.11


def test_a_cancellation_in_the_grace_of_a_timeout_counts() -> None:
    """The attempt ran out of time, and before it had stopped somebody cancelled the call."""

    async def look(context: Any, arguments: dict[str, Any]) -> str:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(1)
        return "never"

    async def go() -> ResultCanister:
        call = start(look, timeout=5)
        await asyncio.sleep(5.5)
        call.cancel()
        await settle((call,))
        return call.result.result()

    found, seconds = virtually(go())
    assert (found.report.attempts, seconds) == (1, pytest.approx(6))


def test_a_bug_is_not_tried_again() -> None:
    failing = Failing(ValueError("a bug"))
    found, _ = virtually(result(failing, retry=RetryPolicy(categories=PASSING)))
    assert (fault_of(found).code, len(failing.arguments)) == ("tool_failure", 1)


FAULTS = {one.category: one for one in ToolFault.__subclasses__() if one.__module__ == ToolFault.__module__}
#: What a tool does: raises a fault of a category, hangs, or succeeds.
DEEDS = [*FAULTS, "hang", "good"]
RETRIES = st.builds(
    RetryPolicy,
    max_retries=st.integers(0, 6),
    initial_backoff=st.floats(0, 100),
    max_backoff=st.floats(0, 100),
    multiplier=st.floats(1, 100),
    categories=st.lists(st.sampled_from(PASSING), unique=True).map(tuple),
)


@settings(max_examples=count(2_000, 40), deadline=None)
@given(
    retry=RETRIES,
    effect=st.sampled_from(["none", "read", "write", "destructive"]),
    idempotent=st.booleans(),
    faults=st.lists(st.tuples(st.sampled_from(DEEDS), st.none() | st.floats(0, 100)), min_size=1, max_size=10),
    timeout=st.floats(0.5, 20),
    seconds=st.none() | st.floats(0.5, 60),
    chance=st.floats(0, 1),
)
def test_law(
    *,
    retry: RetryPolicy,
    effect: Effect,
    idempotent: bool,
    faults: list[tuple[Any, float | None]],
    timeout: float,
    seconds: float | None,
    chance: float,
) -> None:
    """At most the allowed attempts, one where repeating is not safe, and an end in time."""
    asked: list[str] = []

    async def look(context: Any, arguments: dict[str, Any]) -> str:
        name, after = faults[min(len(asked), len(faults) - 1)]
        asked.append(name)
        if name == "hang":
            await asyncio.sleep(10_000)
        if name == "good":
            return "seen"
        raise FAULTS[name]("No.", details={} if after is None else {"retry_after": after})

    found, took = virtually(
        result(look, retry=retry, effect=effect, idempotent=idempotent, timeout=timeout, seconds=seconds, chance=chance)
    )
    safe = effect in ("none", "read") or idempotent
    assert found.report.attempts == len(asked) <= (retry.max_retries + 1 if safe else 1)
    # One more where the run ended in a pause.
    assert len(found.report.retried) - len(asked) in (-1, 0)
    passing: set[str] = {*retry.categories, *(("hang",) if "timeout" in retry.categories else ())}
    assert all(one in passing for one in asked[:-1])
    assert "outcome_unknown" not in asked[:-1]
    if seconds is not None:
        assert took <= seconds + 0.001
    assert took <= len(asked) * timeout + len(found.report.retried) * 100 + 0.001


@given(retry=RETRIES, failed=st.lists(st.sampled_from(PASSING), max_size=10), chance=st.floats(0, 1))
def test_backoff_grows_within_its_bounds(retry: RetryPolicy, failed: list[Category], chance: float) -> None:
    attempts = Attempts(Policy(effect="read", retry=retry), lambda: chance)
    highest = retry.initial_backoff
    for category in failed:
        attempts.count += 1
        pause = attempts.again(Fault(category=category, message="No."), None)
        if pause is None:
            assert category not in retry.categories or attempts.count > retry.max_retries
            assert attempts.again(Fault(category="network", message="No."), None) is None
            break
        shortest, longest = (min(one, retry.max_backoff) for one in (retry.initial_backoff, highest))
        assert shortest - 1e-9 <= pause <= shortest + (longest - shortest) * chance + 1e-9
        highest = highest * retry.multiplier
