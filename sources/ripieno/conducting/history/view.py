"""``History``, the settings of a run's history; and their application, turn after turn, with alerts."""

import math
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from typing import Any

import msgspec
from frozendict import frozendict

from ripieno.canisters import Canister, Controls, InvocationCanister
from ripieno.canisters.events import Alert
from ripieno.conducting.history.increments import requests
from ripieno.conducting.history.shown import KEEP, HistoryStrategy, Shown
from ripieno.conducting.history.strategies import Chain, Superseding, Tokens, chain, drop_oldest, sliding_window
from ripieno.conducting.history.summary import Summarizing, summarize
from ripieno.conducting.history.supersession import Supersession
from ripieno.descriptors import HistoryDescriptor
from ripieno.descriptors.history import StrategyName
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import InputError, NameAbsence, ProviderFailure
from ripieno.models import Model
from ripieno.models.fallback import FallbackModel
from ripieno.models.protocol import RESERVED
from ripieno.models.tokens import ConversationTokenizer, EstimatingTokenizer
from ripieno.values import Value, uncompared, unprinted

#: Tokens reserved for an answer if no limit is set; at most a quarter of the context.
_ANSWER = 8192
#: Steps of the context in which the tools are counted, so that one tool more or less causes no new cut.
_STEPS = 32
_NOTHING = Supersession()


@uncompared("cache")
@unprinted("cache")
class History(Value, kw_only=True):
    """The settings of the part of a conversation that the model of a run is shown.

    ``strategy`` is a strategy, or names as in ``[history]``; no name shows everything; None drops the oldest if the
    model's context is known. ``tokens`` is the budget of strategies that have one; None is the rest of the context
    after the answer and the tools. ``model`` summarizes; None is the run's own. ``cache`` keeps the summaries: pass the
    same object for several runs over a conversation, so that each summary is requested once. Errors: ``InputError``
    for a strategy that does not exist.
    """

    strategy: HistoryStrategy | tuple[StrategyName, ...] | None = None
    tokens: int | None = None
    exchanges: int | None = None
    keep: float = KEEP
    model: Model | None = None
    supersession: bool = True
    cache: MutableMapping[str, str] = msgspec.field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        named: object = self.strategy
        if isinstance(named, str):
            written = "()" if named == "none" else f'("{named}",)'
            raise InputError(f"A history has strategies, not the text {named!r}: write strategy={written}.")
        for name in named if isinstance(named, tuple) else ():
            if name not in MAKERS:
                raise NameAbsence("history strategy", str(name), MAKERS)

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


class StrategyRequest(Value, kw_only=True):
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


class HistoryView:
    """The shown part of one run's conversation. ``memory`` belongs to the run; ``alert`` sends alerts.

    Errors: ``InputError`` for a strategy whose budget is unknown or invalid.
    """

    def __init__(
        self,
        history: History | HistoryStrategy | None,
        *,
        model: Model,
        controls: Controls,
        memory: dict[object, Any],
        alert: Callable[[Alert], None],
    ) -> None:
        self._history = history if isinstance(history, History) else History(strategy=history)
        self._model = model
        self._memory, self._alert = memory, alert
        self._tokenizer = EstimatingTokenizer(model.sends)
        self._free = _free(model, controls)
        self._kept: dict[object, Any] = {}
        self._offer: Offer | None = None
        #: Offers whose declarations are not read yet, their tools that declare ``supersedes``, and whether one of their
        #: ensembles has a budget.
        self._unread: list[Offer] = []
        self._superseding: set[str] = set()
        self._bounded = False
        #: The number of canisters searched for calls of these tools, and of calls found.
        self._searched = self._found = 0
        self._supersession = _NOTHING
        self._budget: int | None = None
        self._strategy: HistoryStrategy | None = None
        self._plain: HistoryStrategy | None = None
        self._reserved: set[str] = set()
        self._canisters: tuple[Canister, ...] = ()
        self._shown = Shown(canisters=())
        #: The number of canisters left out when the model of a strategy failed.
        self._failed: int | None = None
        self._alerted: set[str] = set()
        #: The number of canisters left out at the last alert about it.
        self._most: int | None = None
        self._build(self._tokens(0))

    async def show(self, canisters: tuple[Canister, ...], *, open: Collection[str] = (), offer: Offer) -> Shown:
        """The shown part of a conversation now, with these tools."""
        if offer is not self._offer:
            self._note(offer)
        if self._strategy is None and not self._may_change(canisters):
            return Shown(canisters=canisters)
        for unread in self._unread:
            self._adopt(unread)
        self._unread.clear()
        if self._strategy is None:
            shown = Shown(canisters=canisters)
        else:
            if self._most is None:
                # An earlier run alerted about its own cuts.
                earlier = (end for end in requests(canisters) if end < len(canisters))
                self._most = (await self._show_plain(canisters[: max(earlier, default=0)], ())).left_out
            shown = await self._show(self._strategy, canisters, open)
            self._reserve(canisters)
            self._report(shown, len(canisters))
        self._canisters, self._shown = canisters, shown
        return shown

    def latest(self, canisters: tuple[Canister, ...]) -> tuple[Canister, ...]:
        """The part that was shown last, and the canisters since: the part to show if nothing more is cut."""
        done = len(self._canisters)
        if canisters[:done] != self._canisters:
            return canisters
        return (*self._shown.canisters, *canisters[done:]) if self._strategy is not None else canisters

    async def _show(self, strategy: HistoryStrategy, canisters: tuple[Canister, ...], open: Collection[str]) -> Shown:
        if self._failed is not None:
            # Until more is left out, the shown part only grows at its end.
            shown = await self._show_plain(canisters, open)
            if shown.left_out == self._failed:
                return shown
        try:
            shown = await strategy.show(canisters, open=open, memory=self._kept)
        except ProviderFailure as error:
            self._alert(Alert(message=f"The oldest parts are left out without a summary: {error}"))
            shown = await self._show_plain(canisters, open)
            self._failed = shown.left_out
        else:
            self._failed = None
        return shown

    async def _show_plain(self, canisters: tuple[Canister, ...], open: Collection[str]) -> Shown:
        try:
            if self._plain is not None:
                return await self._plain.show(canisters, open=open, memory=self._kept)
        except ProviderFailure:
            pass  # A third-party strategy has no version without a model.
        return Shown(canisters=canisters)

    def _note(self, offer: Offer) -> None:
        self._offer = offer
        self._unread.append(offer)
        if self._history.supersession:
            self._superseding.update(one.exposed for one in offer.everything if one.policy.supersedes)
        self._bounded = self._bounded or any(one.ensemble.tokens is not None for one in offer.everything)
        self._searched = self._found = 0

    def _may_change(self, canisters: tuple[Canister, ...]) -> bool:
        """Whether results may be shortened: some have a budget, or there are two calls that may supersede results."""
        if self._superseding:
            added = canisters[self._searched :]
            self._found += sum(isinstance(one, InvocationCanister) and one.name in self._superseding for one in added)
            self._searched = len(canisters)
        return self._bounded or self._found > 1

    def _adopt(self, offer: Offer) -> None:
        try:
            declared = Supersession.of_offer(offer, stale=self._history.supersession)
        except InputError as error:
            self._alert_once("supersedes", f"No result counts as stale: {error}")
            declared = Supersession.of_offer(offer, stale=False)
        joined = self._supersession.joined(declared)
        counted = self._history.tokens is None and self._free is not None
        budget = self._tokens(self._tokenizer.count((), offer).tokens if counted else 0)
        if (joined, budget) != (self._supersession, self._budget):
            self._supersession = joined
            self._build(budget)

    def _tokens(self, tools: int) -> int | None:
        """The tokens of canisters that may be shown beside those of tools; None if unknown."""
        if self._history.tokens is not None or self._free is None:
            return self._history.tokens
        step = max(1, self._free // _STEPS)
        return max(step, self._free - math.ceil(tools / step) * step)

    def _build(self, budget: int | None) -> None:
        self._budget = budget
        cutting = self._history.cutting(budget, self._model, self._tokenizer)
        everything = list(cutting)
        if self._supersession:
            noted = Superseding(supersession=self._supersession, keep=self._history.keep, tokenizer=self._tokenizer)
            everything.insert(0, noted)
        self._strategy = chain(*everything) if everything else None
        self._plain = None if self._strategy is None else plain(self._strategy)

    def _reserve(self, canisters: Sequence[Canister]) -> None:
        """Reserves the identifiers of all calls, so that no later call gets that of an omitted one."""
        known = len(self._canisters) if tuple(canisters[: len(self._canisters)]) == self._canisters else 0
        self._reserved.update(one.identifier for one in canisters[known:] if isinstance(one, InvocationCanister))
        self._memory[RESERVED] = self._reserved

    def _report(self, shown: Shown, total: int) -> None:
        model = self._model.identity
        if shown.left_out > (self._most or 0):
            self._most = shown.left_out
            self._alert(
                Alert(
                    message=f"The oldest {shown.left_out} of {total} parts of the conversation are no longer shown to "
                    f"{model}.",
                    details=frozendict({"left_out": shown.left_out, "canisters": total, "cuts": shown.cuts}),
                )
            )
        if shown.shortened:
            self._alert_once(
                "shortened",
                f"To save tokens, earlier results that are outdated or over a limit are sent to {model} as short "
                "notes. The conversation keeps them whole.",
            )
        if shown.excess:
            self._alert_once(
                "excess", f"{model} is shown about {shown.excess} more than its history allows: the rest cannot be cut."
            )

    def _alert_once(self, key: str, message: str) -> None:
        if key not in self._alerted:
            self._alerted.add(key)
            self._alert(Alert(message=message))


def _free(model: Model, controls: Controls) -> int | None:
    """The tokens of a model's context without its answer; of a fallback chain, the smallest. None if unknown."""
    known: list[int] = []
    for one in model.models if isinstance(model, FallbackModel) else (model,):
        capabilities = one.provider.capabilities(one.name)
        context = capabilities.get("context")
        if context is not None:
            answer = controls.output_tokens or capabilities.get("output_tokens") or min(_ANSWER, context // 4)
            known.append(max(1, context - answer))
    return min(known, default=None)
