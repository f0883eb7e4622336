"""``History``, the settings of a run's history, and the strategies that they name."""

import dataclasses
from collections.abc import Callable, Mapping, MutableMapping

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

    def cutting(self, tokens: int | None, model: Model, tokenizer: ConversationTokenizer) -> list[HistoryStrategy]:
        """The strategies that cut, for a budget. Errors: ``InputError`` for an invalid budget."""
        if self.strategy is None:
            names: tuple[StrategyName, ...] = () if tokens is None else ("drop-oldest",)
        elif isinstance(self.strategy, tuple):
            names = self.strategy
        else:
            return [self.strategy]
        return [
            MAKERS[name](StrategyRequest(name=name, history=self, tokens=tokens, model=model, tokenizer=tokenizer))
            for name in names
        ]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StrategyRequest:
    """The parameters of a strategy: the settings, and the model and the budget of a run."""

    name: StrategyName
    history: History
    tokens: int | None
    model: Model
    tokenizer: ConversationTokenizer

    @property
    def budget(self) -> int:
        """The tokens that may be shown. Errors: ``InputError`` if neither the settings nor the model say."""
        if self.tokens is None:
            raise InputError(
                f"strategy = {self.name!r} needs a budget for {self.model.identity}: set tokens under [history], or "
                "context in the capabilities of its provider."
            )
        return self.tokens


def _sliding_window(request: StrategyRequest) -> HistoryStrategy:
    history = request.history
    if history.exchanges is not None:
        return sliding_window(exchanges=history.exchanges, keep=history.keep)
    return sliding_window(tokens=request.budget, keep=history.keep, tokenizer=request.tokenizer)


def _summarize(request: StrategyRequest) -> HistoryStrategy:
    history = request.history
    model = history.model or request.model
    return summarize(model, request.budget, keep=history.keep, tokenizer=request.tokenizer, cache=history.cache)


#: The makers of the strategies that ``[history]`` can name. A new one is a line here and a name in descriptors.history.
MAKERS: Mapping[StrategyName, Callable[[StrategyRequest], HistoryStrategy]] = {
    "drop-oldest": lambda request: drop_oldest(request.budget, keep=request.history.keep, tokenizer=request.tokenizer),
    "sliding-window": _sliding_window,
    "summarize": _summarize,
}


def plain(strategy: HistoryStrategy) -> HistoryStrategy:
    """The same strategy without summaries: equal cuts, but no built-in strategy asks a model."""
    if isinstance(strategy, Chain):
        return chain(*map(plain, strategy.strategies))
    if isinstance(strategy, Summarizing):
        return Tokens(budget=strategy.budget, tokenizer=strategy.tokenizer)
    return strategy
