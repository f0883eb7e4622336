"""Asking again after a fault that may pass: how long to wait, and never after anything was handed on."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.canisters import TextualContent
from ripieno.canisters.events import Alert, Batches, ContentSealed, Event, TextDelta, TurnBegan, TurnEnded
from ripieno.descriptors import RetryPolicy
from ripieno.descriptors.policies import LONGEST_ASKED
from ripieno.exceptions import ProviderRefusal, ProviderUnreachable, WireInvalidity
from ripieno.models.retries import persist
from tests.support.virtual_time import VirtualLoop

ANSWER = [TurnBegan(), TextDelta("Yes."), ContentSealed(TextualContent(text="Yes.")), TurnEnded(finish="stop")]
Step = Event | BaseException


def lost(**fields: Any) -> ProviderUnreachable:
    return ProviderUnreachable("house", "The line is dead.", **fields)


def in_virtual_time(main: Coroutine[Any, Any, float]) -> float:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


class Scripts:
    """Attempts that go as they are told, one after the other."""

    def __init__(self, *scripts: Sequence[Step]) -> None:
        self.scripts = scripts
        self.asked = 0
        self.closed = 0

    async def __call__(self) -> AsyncGenerator[Iterable[Event], None]:
        script = self.scripts[self.asked]
        self.asked += 1
        try:
            for step in script:
                if isinstance(step, BaseException):
                    raise step
                yield (step,)
        finally:
            self.closed += 1


async def collected(batches: Batches, into: list[Event]) -> float:
    began = asyncio.get_running_loop().time()
    async for batch in batches:
        into.extend(batch)
    return asyncio.get_running_loop().time() - began


def test_the_back_off_is_that_of_the_seed() -> None:
    waits = [RetryPolicy(max_retries=10).pause(failed, None, 1.0) for failed in range(1, 10)]
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]


@given(st.integers(1, 10**6), st.floats(0, 1), st.floats(0, 1))
def test_chance_only_shortens_it_and_never_below_its_share(failed: int, jitter: float, chance: float) -> None:
    retry = RetryPolicy(max_retries=10**6, jitter=jitter)
    whole, some = (retry.pause(failed, None, one) for one in (1.0, chance))
    assert whole is not None
    assert some is not None
    assert max(whole * (1 - jitter), retry.initial_backoff) <= some <= whole <= retry.max_backoff


@pytest.mark.parametrize(
    ("after", "seconds"),
    [(0.03, 0.03), (7.0, 7.0), (LONGEST_ASKED, LONGEST_ASKED), (LONGEST_ASKED + 1, None), (0.0, 0.1), (None, 0.1)],
)
def test_what_the_server_asks_for_goes_first(after: float | None, seconds: float | None) -> None:
    assert RetryPolicy(max_retries=1).pause(1, after, 1.0) == seconds


@pytest.mark.parametrize(
    "error",
    [lost(retryable=False), ProviderRefusal("h", "no"), WireInvalidity("h", "what?"), ValueError("a bug")],
)
def test_what_will_not_pass_is_not_asked_again(error: Exception) -> None:
    scripts = Scripts([error], ANSWER)
    with pytest.raises(type(error)):
        in_virtual_time(collected(persist(scripts, RetryPolicy(max_retries=9), "house/m"), []))
    assert scripts.asked == 1


def test_an_answer_comes_in_the_end_and_every_failure_is_told() -> None:
    scripts = Scripts([lost()], [TurnBegan(), lost()], ANSWER)
    events: list[Event] = []
    took = in_virtual_time(collected(persist(scripts, RetryPolicy(max_retries=2, jitter=0.25), "house/m"), events))
    assert 0.3 * (1 - 0.25) <= took <= 0.3
    first, second, *answer = events
    assert isinstance(first, Alert)
    assert isinstance(second, Alert)
    assert first.message.startswith("house/m will be retried in 0.")
    assert first.message.endswith("s (1 of 2): The line is dead.")
    assert second.details["attempt"] == 2
    # A turn begins once, and by its model's name.
    assert answer == [TurnBegan(model="house/m"), *ANSWER[1:]]
    assert (scripts.asked, scripts.closed) == (3, 3)


def test_the_last_failure_is_the_error() -> None:
    last = lost()
    scripts = Scripts([lost()], [lost()], [last], ANSWER)
    events: list[Event] = []
    with pytest.raises(ProviderUnreachable) as caught:
        in_virtual_time(collected(persist(scripts, RetryPolicy(max_retries=2), "house/m"), events))
    assert caught.value is last
    assert [type(event) for event in events] == [Alert, Alert]
    assert scripts.asked == 3


@pytest.mark.parametrize("said", [ANSWER[:2], [ANSWER[2]], [TextDelta("")]])
def test_nothing_is_asked_again_after_anything_was_said(said: Sequence[Event]) -> None:
    scripts = Scripts([*said, lost()], ANSWER)
    events: list[Event] = []
    with pytest.raises(ProviderUnreachable):
        in_virtual_time(collected(persist(scripts, RetryPolicy(max_retries=2), "house/m"), events))
    assert len(events) == len(said)
    assert scripts.asked == 1


def test_what_was_said_in_the_same_breath_as_the_failure_is_said() -> None:
    def breath() -> Iterable[Event]:
        yield TextDelta("Ye")
        raise lost()

    async def attempt() -> AsyncGenerator[Iterable[Event], None]:
        yield breath()

    events: list[Event] = []
    with pytest.raises(ProviderUnreachable):
        in_virtual_time(collected(persist(attempt, RetryPolicy(max_retries=2), "house/m"), events))
    assert events == [TextDelta("Ye")]


async def test_cancellation_ends_the_wait_at_once() -> None:
    waiting = asyncio.Event()
    scripts = Scripts([ProviderRefusal("house", "Slow down.", retryable=True, after=LONGEST_ASKED)], ANSWER)

    async def listen() -> None:
        async for batch in persist(scripts, RetryPolicy(max_retries=1), "house/m"):
            assert [type(event) for event in batch] == [Alert]
            waiting.set()

    task = asyncio.create_task(listen())
    await waiting.wait()
    await asyncio.sleep(0)
    task.cancel()
    async with asyncio.timeout(5):
        with pytest.raises(asyncio.CancelledError):
            await task
    assert scripts.asked == 1
