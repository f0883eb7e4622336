"""``History``, the settings of a run's history, and the strategies that they name."""

import dataclasses
from collections.abc import MutableMapping

from ripieno.conducting.history.shown import KEEP, HistoryStrategy
from ripieno.conducting.history.strategies import Chain, Tokens, chain, drop_oldest, sliding_window
from ripieno.conducting.history.summary import Summarizing, summarize
from ripieno.descriptors import HistoryDescriptor
from ripieno.descriptors.history import StrategyName
from ripieno.exceptions import InputError
from ripieno.models import Model
from ripieno.models.tokens import ConversationTokenizer


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The settings of the part of a conversation that the model of a run is shown.

    ``strategy`` is a strategy, or names as in ``[history]``; no name shows everything; None drops the oldest if the
    model's context is known. ``tokens`` is the budget of strategies that have one; None is the rest of the context
    after the answer and the tools. ``model`` summarizes; None is the run's own. ``cache`` keeps the summaries: pass the
    same object for several runs over a conversation, so that each summary is requested once.
    """

    strategy: HistoryStrategy | tuple[StrategyName, ...] | None = None
    tokens: int | None = None
    exchanges: int | None = None
    keep: float = KEEP
    model: Model | None = None
    supersession: bool = True
    cache: MutableMapping[str, str] = dataclasses.field(default_factory=dict[str, str], compare=False, repr=False)

    @classmethod
    def of(cls, descriptor: HistoryDescriptor, model: Model | None = None) -> "History":
        """The settings of a descriptor, with the model that it names."""
        return cls(
            strategy=descriptor.strategy,
            tokens=descriptor.tokens,
            exchanges=descriptor.exchanges,
            keep=descriptor.keep,
            model=model,
            supersession=descriptor.supersession,
        )

    @property
    def names(self) -> tuple[StrategyName, ...]:
        """The names of the strategies, in the order of their application."""
        if self.strategy is None:
            return ("drop-oldest",)
        return self.strategy if isinstance(self.strategy, tuple) else ()

    def cutting(self, tokens: int | None, model: Model, tokenizer: ConversationTokenizer) -> list[HistoryStrategy]:
        """The strategies that cut, for a budget. Errors: ``InputError`` for an invalid budget."""
        if self.strategy is not None and not isinstance(self.strategy, tuple):
            return [self.strategy]
        if tokens is None and self.strategy is None:
            return []
        return [self._make(name, tokens, model, tokenizer) for name in self.names]

    def _make(
        self, name: StrategyName, tokens: int | None, model: Model, tokenizer: ConversationTokenizer
    ) -> HistoryStrategy:
        if name == "sliding-window" and self.exchanges is not None:
            return sliding_window(exchanges=self.exchanges, keep=self.keep)
        if tokens is None:
            raise InputError(
                f"strategy = {name!r} needs a budget for {model.identity}: set tokens under [history], or context in "
                "the capabilities of its provider."
            )
        if name == "sliding-window":
            return sliding_window(tokens=tokens, keep=self.keep, tokenizer=tokenizer)
        if name == "summarize":
            return summarize(self.model or model, tokens, keep=self.keep, tokenizer=tokenizer, cache=self.cache)
        return drop_oldest(tokens, keep=self.keep, tokenizer=tokenizer)


def plain(strategy: HistoryStrategy) -> HistoryStrategy:
    """The same strategy without summaries: equal cuts, but no built-in strategy asks a model."""
    if isinstance(strategy, Chain):
        return chain(*map(plain, strategy.strategies))
    if isinstance(strategy, Summarizing):
        return Tokens(budget=strategy.budget, tokenizer=strategy.tokenizer)
    return strategy
