"""Strategies without a model: dropping the oldest exchanges, a sliding window, short notes for results, and chains."""

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from ripieno.canisters import Canister, UserCanister
from ripieno.conducting.history.cutting import Budget, Cutter, Weigh, always_stays
from ripieno.conducting.history.increments import follow
from ripieno.conducting.history.shortening import Shortener
from ripieno.conducting.history.shown import KEEP, LEFT_OUT, HistoryStrategy, Shown, counting
from ripieno.conducting.history.supersession import Supersession
from ripieno.exceptions import InputError
from ripieno.models.tokens import ConversationTokenizer, EstimatingTokenizer
from ripieno.values import Value


class Superseding(Value, kw_only=True):
    """Replaces stale results, and the oldest results of an ensemble over its budget, by short notes.

    Costs are computed at each request of the model, so that earlier requests stay unchanged. A result is stale when a
    call of the same key has succeeded after it. ``weight`` is the cost of a token that must be read again, relative to
    one that is saved. ``excess`` is 0: there is no budget of the whole. Errors: ``InputError`` for a weight below 0.
    """

    supersession: Supersession
    weight: float = 1.0
    keep: float = KEEP
    tokenizer: ConversationTokenizer = msgspec.field(default_factory=EstimatingTokenizer)

    def __post_init__(self) -> None:
        if self.weight < 0:
            raise InputError(f"A weight must be 0 or more, not {self.weight}.")

    async def show(
        self,
        canisters: Sequence[Canister],
        *,
        open: Collection[str] = (),  # noqa: ARG002  they have no results
        memory: dict[object, Any] | None = None,
    ) -> Shown:
        """As ``HistoryStrategy`` says."""
        return self.shorten(tuple(canisters), {} if memory is None else memory).shown()

    def shorten(self, canisters: tuple[Canister, ...], memory: dict[object, Any]) -> Shortener:
        """The notes, for strategies that cut what is shown with them."""

        def make() -> Shortener:
            count = counting(self.tokenizer, memory)
            return Shortener(self.supersession, weight=self.weight, keep=self.keep, count=count, memory=memory)

        return follow(canisters, make, memory, self)


def supersede(
    canisters: Sequence[Canister],
    supersession: Supersession,
    *,
    weight: float = 1.0,
    tokenizer: ConversationTokenizer | None = None,
    memory: dict[object, Any] | None = None,
) -> Shown:
    """``Superseding`` as a function. Errors: ``InputError`` for a weight below 0."""
    strategy = Superseding(supersession=supersession, weight=weight, tokenizer=tokenizer or EstimatingTokenizer())
    return strategy.shorten(tuple(canisters), {} if memory is None else memory).shown()


class CuttingStrategy(Value, kw_only=True):
    """A strategy that cuts. Notes for results count from the request on for which they were made."""

    budget: Budget

    async def show(
        self, canisters: Sequence[Canister], *, open: Collection[str] = (), memory: dict[object, Any] | None = None
    ) -> Shown:
        """As ``HistoryStrategy`` says."""
        return await self.shorten(tuple(canisters), None, open=open, memory={} if memory is None else memory)

    async def shorten(
        self,
        canisters: tuple[Canister, ...],
        shortener: Shortener | None,
        *,
        open: Collection[str],
        memory: dict[object, Any],
    ) -> Shown:
        """As ``show``, with the notes of a shortener that has processed these canisters."""
        key = ("cuts", self)

        def make() -> Cutter:
            return Cutter(self.budget, self._weigh(memory), canisters, shortener, open)

        kept: Cutter | None = memory.get(key)
        if kept is not None and kept.shortener is not shortener:
            del memory[key]
        # Open invocations change where a conversation may be cut.
        cutter = follow(canisters, make) if open else follow(canisters, make, memory, key)
        return await self._show(cutter, memory)

    async def _show(self, cutter: Cutter, memory: dict[object, Any]) -> Shown:
        """The remaining part, with a text for the omitted one."""
        return cutter.shown(memory)

    def _weigh(self, memory: dict[object, Any]) -> Weigh:
        """The function that gives the part of the budget that a canister takes."""
        raise NotImplementedError


class Tokens(CuttingStrategy, kw_only=True):
    """A budget in tokens. ``everything``: it includes the canisters that always stay."""

    tokenizer: ConversationTokenizer
    everything: bool = True

    def _weigh(self, memory: dict[object, Any]) -> Weigh:
        count, everything = counting(self.tokenizer, memory), self.everything

        def weigh(canister: Canister, _: bool) -> tuple[int, int]:
            tokens = count(canister) if everything or not always_stays(canister) else 0
            return tokens, tokens

        return weigh


class _Window(CuttingStrategy):
    def _weigh(self, memory: dict[object, Any]) -> Weigh:  # noqa: ARG002  nothing is counted twice
        return lambda _, begins: (int(begins), 0)


class Chain(Value, kw_only=True):
    """Strategies that are applied one after the other."""

    strategies: tuple[HistoryStrategy, ...]

    async def show(
        self, canisters: Sequence[Canister], *, open: Collection[str] = (), memory: dict[object, Any] | None = None
    ) -> Shown:
        """As ``HistoryStrategy`` says."""
        kept: dict[object, Any] = {} if memory is None else memory
        whole = tuple(canisters)
        shown = Shown(canisters=whole)
        shortener: Shortener | None = None
        plain = True
        for place, strategy in enumerate(self.strategies):
            if not place and isinstance(strategy, Superseding):
                shortener = strategy.shorten(whole, kept)
                further = shortener.shown()
            elif plain and isinstance(strategy, CuttingStrategy):
                # While nothing is cut, a cutting strategy gets all canisters, and knows when each note was made.
                further = await strategy.shorten(whole, shortener, open=open, memory=kept)
                plain = not further.cuts
            else:
                further = await strategy.show(shown.canisters, open=open, memory=kept)
                plain = False
            shown = Shown(
                canisters=further.canisters,
                left_out=shown.left_out + further.left_out,
                cuts=shown.cuts + further.cuts,
                excess=max(shown.excess, further.excess),
                shortened=shown.shortened + further.shortened,
                usage=shown.usage + further.usage,
            )
        return shown


def drop_oldest(tokens: int, *, keep: float = KEEP, tokenizer: ConversationTokenizer | None = None) -> HistoryStrategy:
    """Omits the oldest exchanges beyond so many tokens. Canisters that always stay are counted, tools are not.

    A cut leaves the part ``keep`` of the free budget. Errors: ``InputError`` for an invalid budget.
    """
    return _tokens(tokens, keep, tokenizer, everything=True)


def sliding_window(
    *,
    exchanges: int | None = None,
    tokens: int | None = None,
    keep: float = KEEP,
    tokenizer: ConversationTokenizer | None = None,
) -> HistoryStrategy:
    """Shows at most the last exchanges, by number or by tokens. Canisters that always stay are not counted.

    A cut leaves the part ``keep`` of them, so that the window moves rarely. Errors: ``InputError`` unless exactly one
    of the two is given and valid.
    """
    if (exchanges is None) == (tokens is None):
        raise InputError("A sliding window needs either exchanges or tokens: give exactly one of them.")
    if exchanges is not None:
        return _Window(budget=Budget(amount=exchanges, keep=keep))
    return _tokens(tokens or 0, keep, tokenizer, everything=False)


def chain(*strategies: HistoryStrategy) -> HistoryStrategy:
    """Applies strategies one after the other, each to the result of the one before it.

    ``excess`` is the largest of theirs, so strategies that shorten contents must come before those that cut.
    """
    return Chain(strategies=strategies)


def _tokens(tokens: int, keep: float, tokenizer: ConversationTokenizer | None, *, everything: bool) -> HistoryStrategy:
    counting = tokenizer or EstimatingTokenizer()
    marker = counting.count((UserCanister.of(LEFT_OUT),)).tokens
    return Tokens(budget=Budget(amount=tokens, keep=keep, marker=marker), tokenizer=counting, everything=everything)
