"""Runs whose model is shown a part of the conversation: its requests, the alerts, and the tokens."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from ripieno.canisters import (
    Canister,
    Controls,
    Conversation,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from ripieno.canisters.contents import text_of
from ripieno.canisters.controls import Limits
from ripieno.canisters.conversation import Usage
from ripieno.canisters.events import Alert
from ripieno.conducting import conduct
from ripieno.conducting.history import History, HistoryView, Shown, drop_oldest, is_marker, sliding_window
from ripieno.descriptors import HistoryDescriptor
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import InputError, ProviderUnreachable
from ripieno.models import Model
from ripieno.models.fallback import FallbackModel
from ripieno.models.protocol import Identifiers
from ripieno.models.tokens import EstimatingTokenizer
from tests.support.scripted_models import Scripted, ensemble, invoke, invokes, says, scripted, tool

FAR = Limits(turns=1000, calls=1000)
LINES = "line of a file\n" * 40


async def read(context: Any, arguments: dict[str, Any]) -> str:
    return LINES


READER = ensemble(tool("read", read, schema={"type": "object", "properties": {"path": {}}}))


def works(turns: int, **arguments: Any) -> Scripted:
    """A model that reads so many times, and then is done."""
    usage = Usage(input_tokens=100, output_tokens=10)
    calls = [
        invokes(invoke("read", f"c{number}", **({"path": str(number)} | arguments)), usage=usage)
        for number in range(turns)
    ]
    return scripted(*calls, says(usage=usage))


def capable(model: Scripted, **capabilities: Any) -> Scripted:
    """The same model with these capabilities."""
    provider = dataclasses.replace(model.provider, capabilities=lambda _: capabilities)
    return dataclasses.replace(model, provider=provider)


def size(canisters: Sequence[Canister]) -> int:
    return sum(EstimatingTokenizer().count((one,)).tokens for one in canisters)


async def run(model: Model, history: Any, **settings: Any) -> tuple[Conversation, list[Alert]]:
    """The conversation, and the alerts of its run."""
    begun = conduct(
        model, "Read everything.", ensembles=[READER], supervisor="Be brief.", history=history, limits=FAR, **settings
    )
    alerts = [event async for event in begun if isinstance(event, Alert)]
    return await begun, alerts


HISTORIES = {
    "drop-oldest": History(strategy=("drop-oldest",), tokens=2000),
    "sliding-window": History(strategy=("sliding-window",), exchanges=10),
    "window of tokens": History(strategy=("sliding-window",), tokens=2000),
    "summarize": History(
        strategy=("summarize",), tokens=2000, model=scripted(says("They read.", usage=Usage(input_tokens=5)))
    ),
    "several": History(strategy=("sliding-window", "drop-oldest"), exchanges=12, tokens=2000),
    "a strategy": drop_oldest(2000),
}


@pytest.mark.parametrize("kind", HISTORIES)
async def test_a_model_is_shown_what_fits_and_the_conversation_keeps_everything(kind: str) -> None:
    model = works(60)
    conversation, alerts = await run(model, HISTORIES[kind])
    assert conversation.finish == "stop"
    # A supervisor, the task, the last answer, and an answer, its call and the result in each turn before.
    assert len(conversation.canisters) == 3 + 60 * 3
    assert not any(map(is_marker, conversation.canisters))
    changes, before = 0, tuple[Canister, ...]()
    for canisters, _, _ in model.asked:
        assert size(canisters) <= 2100 or kind == "sliding-window"
        assert len(canisters) <= 2 + 1 + 12 * 3 or "window" not in kind
        assert isinstance(canisters[0], SupervisorCanister)
        assert isinstance(canisters[1], UserCanister)
        assert text_of(canisters[1].content) == "Read everything."
        changes += canisters[: len(before)] != before
        before = canisters
    cuts = [one for one in alerts if "no longer shown" in one.message]
    assert len(cuts) == changes > 1
    lost = [int(str(one.details["left_out"])) for one in cuts]
    assert lost == sorted(set(lost))
    assert conversation.usage.output_tokens == 61 * 10
    summaries = changes if kind == "summarize" else 0
    assert conversation.usage.input_tokens == 61 * 100 + summaries * 5


async def test_nothing_is_cut_where_nobody_knows_a_budget() -> None:
    model = works(60)
    conversation, alerts = await run(model, None)
    assert model.asked[-1][0] == conversation.canisters[:-1]
    assert alerts == []


async def test_what_is_known_of_a_context_is_heeded() -> None:
    model = capable(works(60), context=3000, output_tokens=500)
    conversation, alerts = await run(model, None)
    tools = EstimatingTokenizer().count((), model.asked[0][1]).tokens
    assert all(size(asked) + tools + 500 <= 3000 for asked, _, _ in model.asked)
    assert max(size(asked) for asked, _, _ in model.asked) > 2000
    assert any("no longer shown" in one.message for one in alerts)
    # Its own answer may be longer, and another model that may have to answer may have less room.
    model = capable(works(60), context=3000, output_tokens=500)
    await run(model, None, controls=Controls(output_tokens=1500))
    assert all(size(asked) <= 1500 for asked, _, _ in model.asked)
    small, large = capable(works(60), context=2000, output_tokens=500), capable(works(60), context=90_000)
    chained = FallbackModel.of([large, small])
    await run(chained, None)
    assert all(size(asked) <= 1500 for asked, _, _ in large.asked)
    # Whoever wants everything gets everything.
    model = capable(works(60), context=3000)
    conversation, _ = await run(model, History(strategy=()))
    assert model.asked[-1][0] == conversation.canisters[:-1]


def test_a_strategy_without_a_budget_is_refused_before_anything_happens() -> None:
    for name in ("drop-oldest", "summarize", "sliding-window"):
        with pytest.raises(InputError, match="set tokens under \\[history\\], or context"):
            conduct(works(1), "Go.", history=History(strategy=(name,)))
    conduct(works(1), "Go.", history=History(strategy=("sliding-window",), exchanges=3))
    with pytest.raises(InputError, match="summary needs more"):
        conduct(works(1), "Go.", history=History(strategy=("summarize",), tokens=100))


@pytest.mark.parametrize(
    ("strategy", "match"),
    [
        ("none", r"the text 'none': write strategy=\(\)"),
        ("summarize", r"the text 'summarize': write strategy=\(\"summarize\",\)"),
        (("drop_oldest",), "There is no history strategy named 'drop_oldest'. Did you mean 'drop-oldest'"),
    ],
)
def test_a_strategy_that_does_not_exist_is_refused_by_name(strategy: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        History(strategy=strategy)
    with pytest.raises(InputError, match=match):
        conduct(works(1), "Go.", history=strategy)


async def test_a_summarizer_that_fails_ends_no_run() -> None:
    gone = ProviderUnreachable("house", "It is gone.")
    summarizer = scripted([gone], [gone], *([says("They read.")] * 40))
    model = works(60)
    conversation, alerts = await run(model, History(strategy=("summarize",), tokens=2000, model=summarizer))
    assert conversation.finish == "stop"
    lost = [one.message for one in alerts if "without a summary" in one.message]
    assert len(lost) == 2
    assert "It is gone" in lost[0]
    assert all(size(asked) <= 2000 for asked, _, _ in model.asked)
    # It is not asked again before something more is left out, so that the beginning stays as it was.
    changes = sum(
        later[: len(earlier)] != earlier
        for (earlier, _, _), (later, _, _) in zip(model.asked, model.asked[1:], strict=False)
    )
    assert changes == sum("no longer shown" in one.message for one in alerts)
    assert is_marker(model.asked[20][0][2])
    assert "They read." in str(model.asked[-1][0][2])


async def test_a_strategy_of_somebody_elses_may_fail_as_well() -> None:
    class Failing:
        async def show(self, canisters: Sequence[Canister], **options: Any) -> Shown:
            raise ProviderUnreachable("house", "It is gone.")

    model = works(2)
    conversation, alerts = await run(model, Failing())
    assert conversation.finish == "stop"
    assert model.asked[-1][0] == conversation.canisters[:-1]
    assert "It is gone" in alerts[0].message


async def test_a_summary_counts_in_the_budget_of_the_run() -> None:
    dear = scripted(says("They read.", usage=Usage(input_tokens=50_000)))
    model = works(60)
    begun = conduct(
        model,
        "Go.",
        ensembles=[READER],
        history=History(strategy=("summarize",), tokens=2000, model=dear),
        limits=Limits(turns=1000, calls=1000, tokens=45_000),
    )
    conversation = await begun
    assert conversation.finish == "limit"
    assert len(dear.asked) == 1


async def test_stale_results_are_notes_unless_they_are_wanted() -> None:
    policy: dict[str, Any] = {"schema": {"type": "object", "properties": {"path": {}}}, "supersedes": ("read:{path}",)}
    mine = ensemble(tool("read", read, **policy))

    async def last(history: Any) -> list[str]:
        model = works(6, path="a")
        alerts: list[str] = []
        begun = conduct(model, "Go.", ensembles=[mine], history=history, limits=Limits(repeats=99))
        async for event in begun:
            if isinstance(event, Alert):
                alerts.append(event.message)
        await begun
        assert len(alerts) == (1 if history is None else 0)
        return [one.text for one in model.asked[-1][0] if isinstance(one, ResultCanister)]

    texts = await last(None)
    assert texts[:5] == ["(Left out: stale since a later call of read.)"] * 5
    assert texts[5] == LINES
    assert await last(History(supersession=False)) == [LINES] * 6


async def test_an_ensemble_has_its_own_budget() -> None:
    mine = ensemble(tool("read", read, schema={"type": "object", "properties": {"path": {}}}), tokens=1000)
    model = works(30)
    begun = conduct(model, "Go.", ensembles=[mine], limits=FAR)
    conversation = await begun
    assert all(one.text == LINES for one in conversation.canisters if isinstance(one, ResultCanister))
    for canisters, _, _ in model.asked:
        whole = [one for one in canisters if isinstance(one, ResultCanister) and one.text == LINES]
        assert size(whole) <= 1000
        assert not whole or canisters[-1] is whole[-1]


async def test_how_full_the_context_is_is_told_of_what_is_shown() -> None:
    begun = conduct(works(60), "Go.", ensembles=[READER], history=drop_oldest(2000), limits=FAR)
    fullest = 0
    async for _ in begun:
        fullest = max(fullest, begun.context.tokens)
    everything = size((await begun).canisters)
    assert fullest < 3000 < everything


async def test_no_identifier_is_given_again_when_its_call_is_not_shown() -> None:
    model = works(60)
    memory: dict[object, Any] = {}
    conversation = await conduct(model, "Go.", ensembles=[READER], limits=FAR)
    showing = HistoryView(drop_oldest(1000), model=model, controls=Controls(), memory=memory, alert=lambda _: None)
    shown = await showing.show(conversation.canisters, offer=Offer(()))
    assert all(one.identifier != "c0" for one in shown.canisters if isinstance(one, InvocationCanister))
    settled = Identifiers(shown.canisters, memory)
    assert settled.unique("c0") != "c0"
    assert settled.unique("new") == "new"


def test_a_descriptor_says_the_same() -> None:
    descriptor = HistoryDescriptor(strategy=("sliding-window", "drop-oldest"), exchanges=5, tokens=900, keep=0.2)
    history = History.of(descriptor)
    made = history.cutting(900, works(1), EstimatingTokenizer())
    assert made == [
        sliding_window(exchanges=5, keep=0.2),
        drop_oldest(900, keep=0.2, tokenizer=made[1].tokenizer),  # type: ignore[attr-defined]
    ]
    assert not History.of(HistoryDescriptor(strategy=())).cutting(900, works(1), EstimatingTokenizer())
