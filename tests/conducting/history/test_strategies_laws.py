"""Laws of histories: the shown part fits or reports its excess, keeps pairs together, and changes rarely."""

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    DocumentCanister,
    InvocationCanister,
    OpaqueContent,
    ResultCanister,
    SupervisorCanister,
    TextualContent,
    UserCanister,
)
from ripieno.conducting.history import HistoryStrategy, Shown, chain, drop_oldest, is_marker, sliding_window, summarize
from ripieno.conducting.history.cutting import always_stays
from ripieno.jsonvalues import freeze
from ripieno.models.tokens import EstimatingTokenizer
from tests.counts import ATTACK
from tests.models.test_repair import TARGETS, histories, sent, speaks
from tests.support.scripted_models import says, scripted
from tests.support.wire_rules import CHECKERS

ESTIMATE = EstimatingTokenizer()
Strategies = Mapping[str, Callable[[int, float], HistoryStrategy]]

STRATEGIES: Strategies = {
    "drop_oldest": lambda tokens, keep: drop_oldest(tokens, keep=keep),
    "window of tokens": lambda tokens, keep: sliding_window(tokens=tokens, keep=keep),
    "window of exchanges": lambda tokens, keep: sliding_window(exchanges=max(1, tokens // 50), keep=keep),
    "summarize": lambda tokens, keep: summarize(
        scripted(says("They spoke. " * 99)), tokens + 80, summary=70, keep=keep
    ),
    "chain": lambda tokens, keep: chain(
        sliding_window(exchanges=max(1, tokens // 20), keep=keep), drop_oldest(tokens, keep=keep)
    ),
}
kinds = st.sampled_from(sorted(STRATEGIES))
#: Each strategy gets its part of the examples.
laws = settings(max_examples=2000 * len(STRATEGIES) if ATTACK else 50)


def sizes(canisters: Sequence[Canister]) -> int:
    """The tokens of canisters as strategies count them: each by itself."""
    return sum(ESTIMATE.count((one,)).tokens for one in canisters)


def show(strategy: HistoryStrategy, canisters: Sequence[Canister], **options: Any) -> Shown:
    """The shown part, by a strategy that never waits: an event loop for each would take longer."""
    coroutine: Any = strategy.show(canisters, **options)
    try:
        coroutine.send(None)
    except StopIteration as done:
        shown: Shown = done.value
        return shown
    raise AssertionError("The strategy waits.")


@st.composite
def turns(draw: st.DrawFn) -> list[list[Canister]]:
    """A sound conversation, turn by turn: what came before an answer, and the answer with its results."""
    numbers = itertools.count()
    words = st.integers(0, 300).map(lambda length: "w" * length)
    made: list[list[Canister]] = []
    called = False
    for _ in range(draw(st.integers(1, 14))):
        turn: list[Canister] = []
        if not made or not called or draw(st.integers(0, 3)) == 0:
            turn += [SupervisorCanister.of(draw(words)) for _ in range(draw(st.integers(0, 6)) // 5)]
            if draw(st.integers(0, 5)) == 0:
                turn.append(DocumentCanister(content=(TextualContent(text="d" * 60),), identifier="d"))
            turn += [UserCanister.of(f"{next(numbers)} {draw(words)}") for _ in range(draw(st.integers(1, 2)))]
        calls = draw(st.integers(0, 3))
        answer: list[Canister] = [_said(draw(words), next(numbers), sealed=draw(st.booleans()))]
        results: list[Canister] = []
        for _ in range(calls):
            identifier = f"call_{next(numbers)}"
            answer.append(InvocationCanister(identifier=identifier, name="read", arguments=freeze({"path": "a"})))
            results.append(ResultCanister(invocation_id=identifier, content=(TextualContent(text=f"r {draw(words)}"),)))
            if draw(st.integers(0, 4)) == 0:
                answer.append(_said("and", next(numbers), sealed=False))
        made += [turn, [*answer, *results]]
        called = bool(calls)
    return made if draw(st.booleans()) else made[:-1]


def _said(text: str, number: int, *, sealed: bool) -> AssistantCanister:
    seal = OpaqueContent(protocol="anthropic", kind="thinking", data=freeze({"type": "thinking", "thinking": "t"}))
    return AssistantCanister(content=(*((seal,) if sealed else ()), TextualContent(text=f"{number} {text}")))


def flat(parts: Sequence[Sequence[Canister]]) -> list[Canister]:
    return [one for part in parts for one in part]


def budget_of(kind: str, tokens: int, keep: float) -> tuple[Callable[[Sequence[Canister]], int], int]:
    """The measure and the budget of a strategy: an independent implementation."""
    if kind == "window of tokens":
        return (lambda shown: sizes([one for one in shown if not always_stays(one)])), tokens
    if kind == "window of exchanges":
        return answers, max(1, tokens // 50)
    return sizes, tokens + 80 * (kind == "summarize")


def answers(shown: Sequence[Canister]) -> int:
    """How many exchanges there are: assistant messages, and what was said after the last one."""
    return sum(
        isinstance(one, AssistantCanister | InvocationCanister)
        and (not number or not isinstance(shown[number - 1], AssistantCanister | InvocationCanister))
        for number, one in enumerate(shown)
    ) + (bool(shown) and not isinstance(shown[-1], AssistantCanister | InvocationCanister | ResultCanister))


def assert_paired(shown: Sequence[Canister]) -> None:
    """Each call has its one result before the assistant or the user speaks again, in the order of the calls."""
    waiting: list[str] = []
    for number, one in enumerate(shown):
        if isinstance(one, ResultCanister):
            assert waiting
            assert waiting.pop(0) == one.invocation_id
        elif isinstance(one, InvocationCanister):
            waiting.append(one.identifier)
        else:
            assert not waiting or isinstance(one, AssistantCanister), number
    assert not waiting


def remaining(canisters: Sequence[Canister], shown: Sequence[Canister]) -> int:
    """How many canisters at the end of both are the same objects."""
    pairs = zip(reversed(canisters), reversed(shown), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] is pair[1], pairs))


@laws
@given(kind=kinds, parts=turns(), tokens=st.integers(1, 900), keep=st.sampled_from([0.0, 0.3, 0.5, 0.9]))
def test_what_is_shown_fits_or_says_that_it_does_not(
    kind: str, parts: list[list[Canister]], tokens: int, keep: float
) -> None:
    canisters = flat(parts)
    strategy = STRATEGIES[kind](tokens, keep)
    shown = show(strategy, canisters)
    measure, budget = budget_of(kind, tokens, keep)
    if shown.excess == 0:
        assert measure(shown.canisters) <= budget
        assert ESTIMATE.count(shown.canisters).tokens <= sizes(shown.canisters)
    else:
        # Nothing more could have gone: one exchange remains, or less would have been more.
        assert answers(shown.canisters) == 1 or shown.cuts == 0
    if measure(canisters) <= budget:
        assert shown.canisters == tuple(canisters)
    # Once more changes nothing.
    again = show(strategy, shown.canisters)
    assert again.canisters == shown.canisters
    assert again.left_out == again.cuts == 0
    assert bool(again.excess) == bool(shown.excess)


@laws
@given(kind=kinds, parts=turns(), tokens=st.integers(1, 900))
def test_a_suffix_is_kept_with_what_always_stays(kind: str, parts: list[list[Canister]], tokens: int) -> None:
    canisters = flat(parts)
    shown = show(STRATEGIES[kind](tokens, 0.5), canisters)
    assert_paired(shown.canisters)
    if not shown.cuts:
        assert shown.canisters == tuple(canisters)
        return
    suffix = remaining(canisters, shown.canisters)
    dropped, head = canisters[: len(canisters) - suffix], shown.canisters[: len(shown.canisters) - suffix]
    # What no cut may part is whole: after a cut an answer begins, or somebody speaks.
    assert not isinstance(canisters[len(dropped)], ResultCanister)
    assert not isinstance(dropped[-1], UserCanister)
    assert [one for one in head if always_stays(one)] == [one for one in dropped if always_stays(one)]
    others = [one for one in head if not always_stays(one)]
    assert [one for one in others if not isinstance(one, UserCanister)] == []
    # The last of them says that something is missing; before it stands what the rest still answers.
    assert "left out here" in str(others[-1])
    said = [one for one in dropped if isinstance(one, UserCanister)]
    if isinstance(canisters[len(dropped)], AssistantCanister | InvocationCanister):
        assert len(others) > 1
        assert others[:-1] == said[-len(others) + 1 :]
    else:
        assert len(others) == 1
    assert shown.left_out == len(dropped) - len(head) + 1


@laws
@given(kind=kinds, parts=turns(), tokens=st.integers(30, 900), keep=st.sampled_from([0.3, 0.5]))
def test_what_is_shown_grows_unless_it_is_cut(kind: str, parts: list[list[Canister]], tokens: int, keep: float) -> None:
    strategy, memory = STRATEGIES[kind](tokens, keep), dict[object, Any]()
    before, made = Shown(canisters=()), (0, 0)
    for end in range(1, len(parts) + 1, 2):  # Whenever the model is asked.
        canisters = flat(parts[:end])
        shown = show(strategy, canisters, memory=memory)
        # Within a chain, each begins anew where the one before it cuts.
        window = (
            show(sliding_window(exchanges=max(1, tokens // 20), keep=keep), canisters) if kind == "chain" else shown
        )
        if (window.cuts, shown.cuts) == made:
            assert shown.canisters[: len(before.canisters)] == before.canisters
        if kind != "chain":
            assert shown.cuts >= before.cuts
        # What was kept from before makes no difference.
        if kind != "summarize":
            assert show(STRATEGIES[kind](tokens, keep), canisters) == shown
        before, made = shown, (window.cuts, shown.cuts)


@given(canisters=histories(), tokens=st.integers(1, 600), kind=kinds)
def test_whatever_is_shown_is_taken_by_a_strict_server_of_any_wire(
    canisters: list[Canister], tokens: int, kind: str
) -> None:
    shown = show(STRATEGIES[kind](tokens, 0.5), canisters).canisters
    if not any(map(speaks, canisters)) or not any(map(speaks, shown)):
        return  # There is nothing to be sent.
    for target in TARGETS:
        assert CHECKERS[target.name](json.loads(sent(shown, target))) == [], target.name


@given(parts=turns(), tokens=st.integers(1, 400), kind=kinds, data=st.data())
def test_open_invocations_stay(parts: list[list[Canister]], tokens: int, kind: str, data: st.DataObject) -> None:
    canisters = flat(parts)
    calls = [one for one in canisters if isinstance(one, InvocationCanister)]
    if not calls:
        return
    waiting = data.draw(st.sampled_from(calls))
    kept = [
        one for one in canisters if not (isinstance(one, ResultCanister) and one.invocation_id == waiting.identifier)
    ]
    shown = show(STRATEGIES[kind](tokens, 0.0), kept, open={waiting.identifier})
    assert waiting in shown.canisters


CALLS = 4
#: Turns of a long conversation.
MANY = 400 if ATTACK else 200


def long_conversation(number: int) -> list[list[Canister]]:
    """So many turns, each with calls; the user speaks at every tenth."""
    parts: list[list[Canister]] = []
    for turn in range(number):
        asked: list[Canister] = [UserCanister.of(f"Now {turn}. " + "please " * 20)] if turn % 10 == 0 else []
        calls: list[Canister] = [
            InvocationCanister(identifier=f"c{turn}_{one}", name="read", arguments=freeze({"path": f"{turn}/{one}"}))
            for one in range(CALLS)
        ]
        results: list[Canister] = [
            ResultCanister(invocation_id=f"c{turn}_{one}", content=(TextualContent(text="line of a file\n" * 8),))
            for one in range(CALLS)
        ]
        parts += [asked, [AssistantCanister.of(f"I look, {turn}."), *calls, *results]]
    parts[0].insert(0, SupervisorCanister.of("Be brief. " * 20))
    return parts


@pytest.mark.parametrize("kind", STRATEGIES)
@pytest.mark.parametrize("keep", [0.3, 0.5, 0.7])
def test_cuts_of_a_long_conversation_are_rare(kind: str, keep: float) -> None:
    parts, budget = long_conversation(MANY), 8000
    strategy, memory = STRATEGIES[kind](budget, keep), dict[object, Any]()
    measure, most = budget_of(kind, budget, keep)
    before, changes, cuts = Shown(canisters=()), 0, 0
    for end in range(1, len(parts) + 1, 2 if ATTACK else 20):
        canisters = flat(parts[:end])
        shown = show(strategy, canisters, memory=memory)
        assert shown.excess == 0
        assert measure(shown.canisters) <= most
        changes += shown.canisters[: len(before.canisters)] != before.canisters
        # It is seen at each turn, whenever it was looked at.
        cuts = max(changes, shown.cuts)
        before = shown
    total, fixed = measure(flat(parts)), 200
    assert 0 < cuts <= total / ((most - (0 if kind == "window of exchanges" else fixed)) * (1 - keep)) + 1
    assert not any(is_marker(one) for one in before.canisters[3:])
    for target in TARGETS:
        assert CHECKERS[target.name](json.loads(sent(before.canisters, target))) == []
