"""Chains of models: who is asked, in which order, and what the listener is told."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Any

import pytest

from ripieno.canisters import Canister, UserCanister
from ripieno.canisters.events import Alert, Event, TextDelta, TurnBegan
from ripieno.exceptions import InputError, ProviderFailure, ProviderRefusal, ProviderUnreachable, WireInvalidity
from ripieno.models import Model
from ripieno.models.fallback import FallbackModel
from tests.support.scripted_models import Scripted, Step, says, scripted


def gone() -> ProviderUnreachable:
    return ProviderUnreachable("score", "Nothing answers.")


def chain(*scripts: list[Step]) -> tuple[Model, list[Scripted]]:
    models = [scripted(script) for script in scripts]
    return FallbackModel.of(models), models


async def events_of(model: Model) -> list[Event]:
    return [event async for event in model.stream([UserCanister.of("Hi.")])]


def test_a_chain_of_one_is_that_one() -> None:
    model = scripted(says())
    assert FallbackModel.of([model]) is model


@pytest.mark.parametrize(
    "error",
    [
        gone(),
        ProviderUnreachable("p", "left alone", retryable=False),
        ProviderUnreachable("p", "slow", category="timeout", retryable=False),
        ProviderRefusal("p", "busy", status=429, category="quota", retryable=True),
        ProviderRefusal("p", "paid up", status=402, category="quota"),
        ProviderRefusal("p", "broken", status=500, category="network", retryable=True),
        WireInvalidity("p", "a page of a proxy"),
    ],
    ids=str,
)
async def test_where_another_may_do_the_next_is_asked(error: ProviderFailure) -> None:
    model, (first, second) = chain([error], says("Here."))
    alert, *rest = await events_of(model)
    assert isinstance(alert, Alert)
    assert alert.message == f"score/scripted is asked instead of score/scripted: {error.reason}"
    assert alert.details["category"] == error.category
    assert rest[1] == TextDelta("Here.")
    assert [len(one.asked) for one in (first, second)] == [1, 1]
    assert first.asked == second.asked


@pytest.mark.parametrize(
    "error",
    [
        *(ProviderRefusal("p", "no", status=status, category="validation") for status in (400, 413, 422)),
        *(ProviderRefusal("p", "no", status=status, category="permission") for status in (401, 403)),
        ProviderRefusal("p", "no", status=404, category="resource"),
        InputError("This model does not support temperature."),
        ValueError("a bug"),
    ],
    ids=str,
)
async def test_where_the_request_is_at_fault_nobody_else_is_asked(error: Exception) -> None:
    model, (_, second) = chain([error], says())
    with pytest.raises(type(error)):
        await events_of(model)
    assert second.asked == []


async def test_nobody_else_is_asked_once_something_was_said() -> None:
    model, (_, second) = chain([TurnBegan(), TextDelta("Well"), gone()], says())
    with pytest.raises(ProviderUnreachable):
        await events_of(model)
    assert second.asked == []


async def test_the_error_is_that_of_the_last_one() -> None:
    last = ProviderRefusal("p", "no key", hint="Is it right?", status=401, category="permission")
    slow = ProviderUnreachable("p", f"It is slow: {'<p>' * 500}", category="timeout")
    model, models = chain([gone()], [slow], [last], says())
    with pytest.raises(ProviderRefusal) as caught:
        await events_of(model)
    assert caught.value is last
    # And it tells of the others, briefly.
    first, second, third = str(last).split("\n")
    assert first == "Provider 'p': no key. Is it right?"
    assert second == "  tried before: score/scripted: Nothing answers."
    assert third.startswith("  tried before: score/scripted: It is slow:")
    assert len(third) < 220
    assert len(last.before) == 2
    assert [len(one.asked) for one in models] == [1, 1, 1, 0]


async def test_what_the_next_one_cannot_be_sent_is_told() -> None:
    class Deaf(Scripted):
        def left_out(self, canisters: Iterable[Canister]) -> Mapping[str, int]:
            return {"AudioContent": 2}

    second = Deaf(provider=scripted(says()).provider, name="deaf", turns=(tuple(says()),))
    events = await events_of(FallbackModel.of([scripted([gone()]), second]))
    assert [event.message for event in events if isinstance(event, Alert)] == [
        "score/deaf is asked instead of score/scripted: Nothing answers.",
        "2 of AudioContent cannot be sent to score/deaf: left out.",
    ]


async def test_each_has_a_memory_of_its_own() -> None:
    seen: list[dict[object, Any] | None] = []

    class Remembering(Scripted):
        async def batches(self, canisters: Any, **settings: Any) -> AsyncGenerator[Iterable[Event], None]:
            seen.append(settings["memory"])
            async for batch in super().batches(canisters, **settings):
                yield batch

    models = [
        Remembering(provider=scripted(says()).provider, name="one", turns=(tuple(script),))
        for script in ([gone()], says())
    ]
    memory: dict[object, Any] = {}
    for _ in range(2):
        async for _ in FallbackModel.of(models).batches([UserCanister.of("Hi.")], memory=memory):
            pass
    first, second, *again = seen
    assert first is not second
    assert again[0] is first
    assert again[1] is second


async def test_whoever_leaves_leaves_the_model_that_is_asked() -> None:
    hanging = asyncio.Event()
    model, (_, second) = chain([gone()], [TurnBegan(), TextDelta("H"), hanging.wait])
    stream = model.stream([UserCanister.of("Hi.")])
    async for event in stream:
        if isinstance(event, TextDelta):
            break
    await stream.aclose()
    assert second.closed == [0]
