"""Examples of history strategies: the remaining part, requests for summaries, and invalid budgets."""

import asyncio
from collections.abc import Sequence
from typing import Any, get_args

import pytest

from ripieno.canisters import AssistantCanister, Canister, InvocationCanister, SupervisorCanister, UserCanister
from ripieno.canisters.contents import text_of
from ripieno.canisters.conversation import Usage
from ripieno.canisters.serialization import deserialize_canister, serialize
from ripieno.conducting.history import LEFT_OUT, drop_oldest, is_marker, sliding_window, summarize
from ripieno.conducting.history.view import MAKERS
from ripieno.descriptors.history import StrategyName
from ripieno.exceptions import InputError, ProviderFailure, ProviderUnreachable
from ripieno.models.tokens import EstimatingTokenizer
from tests.support.scripted_models import Scripted, says, scripted

BRIEF = SupervisorCanister.of("Be brief.")


def words(canisters: Sequence[Canister]) -> list[str]:
    return [one.name if isinstance(one, InvocationCanister) else text_of(one.content)[:12] for one in canisters]


def spoken(number: int, first: int = 0) -> list[Canister]:
    """So many exchanges of words: 50 tokens each, 4 of them around each message."""
    said: list[Canister] = []
    for turn in range(first, first + number):
        said += [UserCanister.of(f"question {turn:3}".ljust(84)), AssistantCanister.of(f"answer {turn:3}".ljust(84))]
    return said


async def test_the_oldest_exchanges_go_and_supervisors_stay() -> None:
    shown = await drop_oldest(300).show([BRIEF, *spoken(6), UserCanister.of("And now?")])
    assert words(shown.canisters) == [
        "Be brief.",
        LEFT_OUT[:12],
        "question   4",
        "answer   4  ",
        *words(spoken(1, 5)),
        "And now?",
    ]
    assert (shown.left_out, shown.cuts, shown.excess) == (8, 1, 0)


async def test_what_is_too_large_is_shown_and_said() -> None:
    large = UserCanister.of("x" * 4000)
    shown = await drop_oldest(300).show([*spoken(2), large])
    assert words(shown.canisters) == [LEFT_OUT[:12], "x" * 12]
    assert 700 < shown.excess < 800
    assert not (await drop_oldest(300).show(spoken(2))).excess


@pytest.mark.parametrize(
    "make",
    [
        lambda: drop_oldest(0),
        lambda: drop_oldest(100, keep=1),
        lambda: drop_oldest(100, keep=-0.1),
        sliding_window,
        lambda: sliding_window(exchanges=1, tokens=1),
        lambda: sliding_window(tokens=0),
        lambda: sliding_window(exchanges=0),
        lambda: summarize(scripted(says()), 100),
        lambda: summarize(scripted(says()), 100, summary=100),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(make: Any) -> None:
    with pytest.raises(InputError):
        make()


# Summaries.


def talker(*texts: str) -> Scripted:
    return scripted(*[says(text, usage=Usage(input_tokens=7, output_tokens=3)) for text in texts])


async def test_a_summary_stands_for_what_is_left_out_and_says_so() -> None:
    model = talker("They greeted.")
    shown = await summarize(model, 400).show([BRIEF, *spoken(9)])
    assert shown.canisters[0] is BRIEF
    summary = shown.canisters[1]
    assert isinstance(summary, UserCanister)
    assert text_of(summary.content).startswith(
        "(Earlier parts of this conversation were left out here. A model's summary"
    )
    assert text_of(summary.content).endswith("They greeted.")
    assert shown.usage == Usage(input_tokens=7, output_tokens=3)
    ((asked, offer, _),) = model.asked
    assert not offer.invokers
    material = text_of(asked[1].content) if isinstance(asked[1], UserCanister) else ""
    assert "question   0" in material
    assert "Be brief." not in material
    assert f"question {len(spoken(9)) // 2 - 1:3}" not in material


async def test_a_model_is_asked_once_for_the_same_and_builds_on_what_it_said() -> None:
    model = talker("first summary", "second summary", "third summary")
    strategy, memory, asked = summarize(model, 400), dict[object, Any](), list[int]()
    everything = spoken(20)
    for end in range(1, 41, 2):
        shown = await strategy.show(everything[:end], memory=memory)
        assert shown.cuts == len(model.asked)
        assert bool(shown.usage.total_tokens) == (len(model.asked) not in {0, *asked})
        asked.append(len(model.asked))
    assert len(model.asked) > 2
    for number, (canisters, _, _) in enumerate(model.asked[1:]):
        material = canisters[1]
        assert isinstance(material, UserCanister)
        assert ("first", "second", "third")[number % 3] + " summary" in text_of(material.content)
        assert "question   0" not in text_of(material.content)
    before = len(model.asked)
    await strategy.show(everything)
    assert len(model.asked) == before


async def test_another_process_shows_the_same_from_the_same_cache() -> None:
    cache: dict[str, str] = {}
    everything = spoken(20)
    first = await summarize(talker("one", "two", "three"), 400, cache=cache).show(everything)
    stored = [deserialize_canister(serialize(one)) for one in everything]
    other = talker("another")
    second = await summarize(other, 400, cache=cache).show(stored)
    assert second.canisters == first.canisters
    assert other.asked == []


async def test_two_at_once_ask_once() -> None:
    gate, entered = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        entered.set()
        await gate.wait()

    model = scripted([wait, *says("once")])
    strategy = summarize(model, 400)
    shows = [asyncio.create_task(strategy.show(spoken(9))) for _ in range(3)]
    await entered.wait()
    gate.set()
    shown = await asyncio.gather(*shows)
    assert len(model.asked) == 1
    assert len({one.canisters for one in shown}) == 1
    assert sum(bool(one.cuts) for one in shown) == 3


async def test_a_failure_is_raised_and_kept_by_nobody() -> None:
    model = scripted([ProviderUnreachable("house", "It is gone.")], says("back"))
    strategy = summarize(model, 400)
    with pytest.raises(ProviderFailure, match="It is gone"):
        await strategy.show(spoken(9))
    shown = await strategy.show(spoken(9))
    assert "back" in str(shown.canisters[0])


async def test_a_summary_of_nothing_only_says_that_something_is_missing() -> None:
    shown = await summarize(talker("  "), 400).show(spoken(9))
    assert is_marker(shown.canisters[0])


@pytest.mark.parametrize("room", [50, 51, 64, 100])
async def test_a_summary_that_is_too_long_is_cut_to_its_room(room: int) -> None:
    shown = await summarize(talker("A long story. " * 200), 400, summary=room).show(spoken(9))
    assert room - 1 <= EstimatingTokenizer().count(shown.canisters[:1]).tokens <= room
    assert text_of(shown.canisters[0].content).endswith(" […]")  # type: ignore[union-attr]


def test_each_name_of_a_strategy_has_a_maker() -> None:
    assert MAKERS.keys() == set(get_args(StrategyName))
