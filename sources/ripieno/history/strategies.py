"""Strategies that need nobody: dropping the oldest, a window, and one after the other."""

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

from ripieno.canisters import Canister, UserCanister
from ripieno.exceptions import InputError
from ripieno.history.cutting import Budget, Weights, always_stays, counts, plan
from ripieno.history.exchanges import exchanges
from ripieno.history.shown import LEFT_OUT, HistoryStrategy, Shown
from ripieno.tokens import ConversationTokenizer, EstimatingTokenizer

#: Which part of its budget a cut leaves, where nothing else is said.
KEEP = 0.5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Cutting:
    """A budget in tokens. ``everything``: what always stays is a part of it."""

    budget: Budget
    tokenizer: ConversationTokenizer
    everything: bool

    async def show(
        self, canisters: Sequence[Canister], *, open: Collection[str] = (), memory: dict[object, Any] | None = None
    ) -> Shown:
        """As ``HistoryStrategy`` says."""
        kept: dict[object, Any] = {} if memory is None else memory
        weights = counts(canisters, self.tokenizer, kept)
        if not self.everything:
            weights = [
                0 if always_stays(canister) else weight for canister, weight in zip(canisters, weights, strict=True)
            ]
        planned = plan(canisters, self.budget, Weights(shown=weights, staying=weights), open)
        return planned.shown(canisters, kept)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """A budget in exchanges."""

    budget: Budget

    async def show(
        self, canisters: Sequence[Canister], *, open: Collection[str] = (), memory: dict[object, Any] | None = None
    ) -> Shown:
        """As ``HistoryStrategy`` says."""
        weights = [0] * len(canisters)
        for position in exchanges(canisters):
            weights[position] = 1
        planned = plan(canisters, self.budget, Weights(shown=weights, staying=[0] * len(weights)), open)
        return planned.shown(canisters, {} if memory is None else memory)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Chain:
    strategies: tuple[HistoryStrategy, ...]

    async def show(
        self, canisters: Sequence[Canister], *, open: Collection[str] = (), memory: dict[object, Any] | None = None
    ) -> Shown:
        """As ``HistoryStrategy`` says."""
        shown = Shown(canisters=tuple(canisters))
        for strategy in self.strategies:
            further = await strategy.show(shown.canisters, open=open, memory=memory)
            shown = Shown(
                canisters=further.canisters,
                left_out=shown.left_out + further.left_out,
                cuts=shown.cuts + further.cuts,
                excess=max(shown.excess, further.excess),
                usage=shown.usage + further.usage,
            )
        return shown


def drop_oldest(tokens: int, *, keep: float = KEEP, tokenizer: ConversationTokenizer | None = None) -> HistoryStrategy:
    """Shows at most so many tokens, and leaves the oldest exchanges out. What always stays is counted, tools are not.

    A cut leaves ``keep`` of what is free. Errors: ``InputError`` for a budget that makes no sense.
    """
    return _tokens(tokens, keep, tokenizer, everything=True)


def sliding_window(
    *,
    exchanges: int | None = None,
    tokens: int | None = None,
    keep: float = KEEP,
    tokenizer: ConversationTokenizer | None = None,
) -> HistoryStrategy:
    """Shows at most the last so many exchanges, or exchanges of so many tokens. What always stays is not counted.

    After a cut, ``keep`` of them are left, so that the window moves seldom. Errors: ``InputError`` when not exactly one
    of the two is given, or makes no sense.
    """
    if (exchanges is None) == (tokens is None):
        raise InputError("A window has a number of exchanges or a number of tokens: give exactly one of them.")
    if exchanges is not None:
        return _Window(budget=Budget(amount=exchanges, keep=keep))
    return _tokens(tokens or 0, keep, tokenizer, everything=False)


def chain(*strategies: HistoryStrategy) -> HistoryStrategy:
    """One strategy after the other, each over what the one before it shows.

    ``excess`` is the largest of theirs: what shortens contents goes before what cuts.
    """
    return _Chain(strategies=strategies)


def _tokens(tokens: int, keep: float, tokenizer: ConversationTokenizer | None, *, everything: bool) -> HistoryStrategy:
    counting = tokenizer or EstimatingTokenizer()
    said = counting.count((UserCanister.of(LEFT_OUT),)).tokens
    return _Cutting(budget=Budget(amount=tokens, keep=keep, marker=said), tokenizer=counting, everything=everything)
