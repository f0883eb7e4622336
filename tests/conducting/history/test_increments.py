"""Incremental processing gives the same result as processing everything."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from frozendict import frozendict
from hypothesis import given
from hypothesis import strategies as st

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    InvocationCanister,
    OpaqueContent,
    ResultCanister,
    SupervisorCanister,
    TextualContent,
    UserCanister,
)
from ripieno.conducting.history import (
    LEFT_OUT,
    HistoryStrategy,
    Superseding,
    Supersession,
    chain,
    drop_oldest,
    sliding_window,
    summarize,
)
from ripieno.conducting.history.cutting import Exchanges
from ripieno.jsonvalues import freeze
from ripieno.models.tokens import EstimatingTokenizer
from tests.conducting.history.reference_cuts import asks, cuts, exchanges
from tests.conducting.history.test_strategies_laws import MANY, flat, laws, long_conversation, show, sizes, turns
from tests.models.test_repair import histories
from tests.support.scripted_models import says, scripted

LARGE = TextualContent(text="x" * 900)
FILES = Supersession.of({"read": ["read:{path}"], "write": ["read:{path}"]})
ROOM = Supersession(
    keys=FILES.keys, ensembles=frozendict({"read": "files", "write": "files"}), budgets=frozendict({"files": 400})
)
NOTES = Superseding(supersession=FILES)
STRATEGIES: Mapping[str, HistoryStrategy] = {
    "drop-oldest": drop_oldest(300),
    "window of exchanges": sliding_window(exchanges=5),
    "window of tokens": sliding_window(tokens=250),
    "superseding": NOTES,
    "with a budget": Superseding(supersession=ROOM),
    "chain": chain(NOTES, drop_oldest(300)),
    "long chain": chain(Superseding(supersession=ROOM), sliding_window(exchanges=8), drop_oldest(300)),
    "drops, then notes": chain(drop_oldest(400), NOTES, sliding_window(exchanges=4)),
}
kinds = st.sampled_from(sorted(STRATEGIES))


def read(number: int, content: Any = LARGE, **arguments: Any) -> list[Canister]:
    """A call of ``read`` and its result."""
    return [
        AssistantCanister(),
        InvocationCanister(identifier=f"c{number}", name="read", arguments=freeze({"path": "a", **arguments})),
        ResultCanister(invocation_id=f"c{number}", content=(content,)),
    ]


@st.composite
def sessions(draw: st.DrawFn, *, sound: bool = False) -> list[Canister]:
    """Calls that make results stale, and words between them; unless ``sound``, some results come late or never."""
    said: list[Canister] = [SupervisorCanister.of("Be brief."), UserCanister.of("Begin.")]
    late: list[Canister] = []
    for number in range(draw(st.integers(1, 25))):
        if draw(st.integers(0, 4)) == 0:
            said.append(UserCanister.of(f"And {number}." + " please" * draw(st.sampled_from([0, 40]))))
        said.append(AssistantCanister.of(f"Turn {number}."))
        results: list[Canister] = []
        for one in range(draw(st.integers(0, 2))):
            identifier = f"c{number}_{one}" if sound or draw(st.integers(0, 9)) else "c"
            name, path = draw(st.sampled_from(["read", "read", "write"])), draw(st.sampled_from("ab"))
            said.append(InvocationCanister(identifier=identifier, name=name, arguments=freeze({"path": path})))
            text = TextualContent(text="x" * draw(st.sampled_from([0, 90, 700])))
            results.append(ResultCanister(invocation_id=identifier, content=(text,)))
        fate = 20 if sound else draw(st.integers(0, 20))
        if fate == 0:
            late += results
        elif fate != 1:
            said += results
        if late and fate == 2:
            said.append(late.pop())
    return said


@laws
@given(kind=kinds, canisters=sessions() | histories(), other=st.booleans(), data=st.data())
def test_going_on_is_the_same_as_beginning_anew(
    kind: str, canisters: list[Canister], other: bool, data: st.DataObject
) -> None:
    """Also for conversations that are broken, and where another one comes between."""
    strategy, memory = STRATEGIES[kind], dict[object, Any]()
    for end in sorted(data.draw(st.sets(st.integers(0, len(canisters)), max_size=30)) | {len(canisters)}):
        for begin in ([], [UserCanister.of("Something else.")])[: 1 + other]:
            asked: list[Canister] = [*begin, *canisters[:end]]
            assert show(strategy, asked, memory=memory) == show(strategy, asked)


@given(canisters=st.one_of(sessions(), histories(), turns().map(flat)), data=st.data())
def test_exchanges_that_are_found_one_by_one_are_those_of_the_whole(
    canisters: list[Canister], data: st.DataObject
) -> None:
    whole = Exchanges(canisters)
    assert all(whole.add(one) for one in canisters)
    assert whole.begins == exchanges(canisters)
    known = data.draw(st.integers(0, len(canisters)))
    growing = Exchanges(canisters[:known])
    for end, canister in enumerate(canisters, 1):
        if not growing.add(canister):
            # What was found before has turned out to be wrong.
            assert end > known
            assert exchanges(canisters[:end])[: len(growing.begins)] != growing.begins
            return
    assert growing.begins == exchanges(canisters)


@given(parts=turns(), tokens=st.integers(1, 900), keep=st.sampled_from([0.0, 0.3, 0.5, 0.9]), window=st.booleans())
def test_cuts_fall_where_they_would_if_everything_was_looked_at_each_time(
    parts: list[list[Canister]], tokens: int, keep: float, window: bool
) -> None:
    canisters = flat(parts)
    amount = max(1, tokens // 60) if window else tokens
    strategy = sliding_window(exchanges=amount, keep=keep) if window else drop_oldest(tokens, keep=keep)
    begins = set(exchanges(canisters))
    expected = cuts(
        canisters,
        amount=amount,
        keep=keep,
        marker=0 if window else sizes([UserCanister.of(LEFT_OUT)]),
        shown=(lambda one: int(one in begins)) if window else (lambda one: sizes([canisters[one]])),
        staying=(lambda one: 0) if window else (lambda one: sizes([canisters[one]])),
    )
    shown = show(strategy, canisters)
    assert shown.cuts == len(expected)
    if expected:
        assert shown.canisters[-(len(canisters) - expected[-1]) :] == tuple(canisters[expected[-1] :])


@given(canisters=sessions(sound=True), tokens=st.integers(40, 900))
def test_a_cut_stays_whatever_becomes_stale_later(canisters: list[Canister], tokens: int) -> None:
    strategy, memory = chain(NOTES, drop_oldest(tokens)), dict[object, Any]()
    before = None
    for end in asks(canisters):
        shown = show(strategy, canisters[:end], memory=memory)
        if before is not None:
            assert shown.left_out >= before.left_out
            if shown.cuts == before.cuts:
                assert shown.canisters[: len(before.canisters)] == before.canisters
        before = shown


@given(canisters=sessions(sound=True), limit=st.integers(20, 900))
def test_results_of_an_ensemble_have_the_room_that_they_have(canisters: list[Canister], limit: int) -> None:
    declared = Supersession(ensembles=frozendict({"read": "files"}), budgets=frozendict({"files": limit}))
    shown = show(Superseding(supersession=declared), canisters).canisters
    assert len(shown) == len(canisters)
    calls = {one.identifier: one.name for one in canisters if isinstance(one, InvocationCanister)}
    sent = max((end for end in asks(canisters)[:-1]), default=0)
    taken = 0
    for position, (old, new) in enumerate(zip(canisters, shown, strict=True)):
        if old is not new:
            assert isinstance(new, ResultCanister)
            assert calls[new.invocation_id] == "read"
            assert "too many tokens" in new.text
            assert sizes([new]) < sizes([old])
        # What was not read yet stays, whatever it takes; notes, and what is shorter than one, do not count.
        elif isinstance(old, ResultCanister) and calls.get(old.invocation_id) == "read" and position < sent:
            taken += sizes([old]) if sizes([old]) > 40 else 0
    assert taken <= limit


async def test_room_is_made_seldom_and_for_what_comes() -> None:
    declared = Supersession(ensembles=frozendict({"read": "files"}), budgets=frozendict({"files": 2000}))
    strategy, memory = Superseding(supersession=declared, keep=0.25), dict[object, Any]()
    canisters: list[Canister] = [UserCanister.of("Begin.")]
    numbers: list[int] = []
    for number in range(60):
        canisters += read(number, TextualContent(text="line of a file\n" * 26), path=str(number))
        shown = await strategy.show(canisters, memory=memory)
        numbers.append(shown.shortened)
    assert numbers[:19] == [0] * 19
    made = [later - earlier for earlier, later in itertools.pairwise(numbers) if later > earlier]
    assert len(made) <= 4
    assert min(made) >= 14


async def test_what_a_provider_wants_back_is_no_note_and_other_lines_are_no_stale_ones() -> None:
    def noted(*calls: list[Canister]) -> list[int]:
        canisters = [UserCanister.of("Begin."), *flat(calls)]
        shown = show(Superseding(supersession=FILES, weight=0), canisters).canisters
        return [place // 3 for place, one in enumerate(shown) if one is not canisters[place]]

    first, second = {"start_line": 1}, {"start_line": 50}
    assert noted(read(1, **first), read(2, **second)) == []
    assert noted(read(1, **first), read(2, **second), read(3, **first)) == [1]
    assert noted(read(1, **first), read(2, **second), read(3)) == [1, 2]
    assert noted(read(1), read(2, **first)) == []
    assert noted(read(1), read(2, start_line=None)) == [1]


@pytest.mark.parametrize("kind", ["drop-oldest", "sliding-window", "window of tokens", "summarize", "everything"])
def test_a_late_turn_costs_what_an_early_one_does(kind: str) -> None:
    """The steps of a turn are counted, not timed: how many canisters are looked at."""
    looked = 0

    class Counting(EstimatingTokenizer):
        def count(self, canisters: Sequence[Canister], offer: Any = None) -> Any:
            nonlocal looked
            looked += len(canisters)
            return super().count(canisters, offer)

    tokenizer = Counting()
    strategy: HistoryStrategy = {
        "drop-oldest": lambda: drop_oldest(8000, tokenizer=tokenizer),
        "sliding-window": lambda: sliding_window(exchanges=60),
        "window of tokens": lambda: sliding_window(tokens=8000, tokenizer=tokenizer),
        "summarize": lambda: summarize(scripted(says("Files.")), 8000, tokenizer=tokenizer),
        "everything": lambda: chain(
            Superseding(supersession=ROOM, tokenizer=tokenizer), drop_oldest(8000, tokenizer=tokenizer)
        ),
    }[kind]()
    memory: dict[object, Any] = {}
    canisters: tuple[Canister, ...] = ()
    for number, part in enumerate(long_conversation(MANY)):
        if number % 2:
            show(strategy, canisters, memory=memory)
        canisters += tuple(part)
    # Each canister once, and what is made in place of some.
    assert looked <= 1.5 * len(canisters)


def test_a_sealed_content_is_no_note() -> None:
    sealed = OpaqueContent(protocol="p", kind="k", data=freeze({"text": "x" * 4000}))
    canisters = [UserCanister.of("Begin."), *flat([read(number, sealed) for number in range(9)])]
    assert show(Superseding(supersession=ROOM), canisters).canisters == tuple(canisters)


def test_stale_results_are_not_counted_in_the_budget_of_their_ensemble() -> None:
    canisters = [UserCanister.of("Begin."), *flat([read(number, path=path) for number, path in enumerate("aabcd")])]
    shown = show(Superseding(supersession=ROOM, weight=0), canisters)
    texts = [one.text for one in shown.canisters if isinstance(one, ResultCanister)]
    assert ["stale" in text for text in texts] == [True, False, False, False, False]
    assert ["too many tokens" in text for text in texts] == [False, True, True, True, False]
    assert shown.shortened == 4
