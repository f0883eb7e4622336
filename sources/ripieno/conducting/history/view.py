"""What the model of one run is shown, turn after turn: the strategies at work, and whoever is told of it."""

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

from frozendict import frozendict

from ripieno.canisters import Canister, Controls, InvocationCanister
from ripieno.canisters.events import Alert
from ripieno.conducting.history.settings import History, plain
from ripieno.conducting.history.shown import HistoryStrategy, Shown, is_of_assistant
from ripieno.conducting.history.strategies import Superseding, chain
from ripieno.conducting.history.supersession import Supersession
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import InputError, ProviderFailure
from ripieno.models import Model
from ripieno.models.fallback import FallbackModel
from ripieno.models.protocol import RESERVED
from ripieno.models.tokens import ConversationTokenizer, EstimatingTokenizer

#: Tokens kept free for an answer, where nobody says how long it may be; at most a quarter of the context.
_ANSWER = 8192
#: Steps of the context in which the tools are counted: a tool more or less is no reason to cut anew.
_STEPS = 32
_NOTHING = Supersession()


class HistoryView:
    """What one run shows of its conversation. ``memory`` is the run's, ``alert`` tells whoever listens.

    Errors: ``InputError`` for a strategy whose budget nobody knows, or one that makes no sense.
    """

    def __init__(
        self,
        history: History | HistoryStrategy | None,
        *,
        model: Model,
        controls: Controls,
        memory: dict[object, Any],
        alert: Callable[[Alert], None],
        tokenizer: ConversationTokenizer | None = None,
    ) -> None:
        self._history = history if isinstance(history, History) else History(strategy=history)
        self._model = model
        self._memory, self._alert = memory, alert
        self._tokenizer = tokenizer or EstimatingTokenizer(model.sends)
        self._free = _free(model, controls)
        self._kept: dict[object, Any] = {}
        self._offer: Offer | None = None
        #: Offers whose declarations are not read yet, the tools in them that declare ``supersedes``, and whether an
        #: ensemble in them has a budget.
        self._unread: list[Offer] = []
        self._superseding: set[str] = set()
        self._bounded = False
        #: Canisters that were searched for calls of these tools, and the calls found.
        self._searched = self._found = 0
        self._supersession = _NOTHING
        self._budget: int | None = None
        self._strategy: HistoryStrategy | None = None
        self._plain: HistoryStrategy | None = None
        self._reserved: set[str] = set()
        self._whole: tuple[Canister, ...] = ()
        self._shown = Shown(canisters=())
        #: What was left out when a strategy's model had failed.
        self._failed: int | None = None
        self._told: set[str] = set()
        #: How much was left out when it was told last.
        self._most: int | None = None
        self._build(self._tokens(0))

    async def show(self, canisters: tuple[Canister, ...], *, open: Collection[str] = (), offer: Offer) -> Shown:
        """What is shown of a conversation now, beside these tools."""
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
                # What was cut in an earlier run was told then.
                self._most = (await self._without(canisters[: _last_request(canisters)], ())).left_out
            shown = await self._show(self._strategy, canisters, open)
            self._reserve(canisters)
            self._tell(shown, len(canisters))
        self._whole, self._shown = canisters, shown
        return shown

    def latest(self, canisters: tuple[Canister, ...]) -> tuple[Canister, ...]:
        """What would be shown of a conversation, as far as nothing more is cut: what was, and what has come since."""
        done = len(self._whole)
        if canisters[:done] != self._whole:
            return canisters
        return (*self._shown.canisters, *canisters[done:]) if self._strategy is not None else canisters

    async def _show(self, strategy: HistoryStrategy, canisters: tuple[Canister, ...], open: Collection[str]) -> Shown:
        if self._failed is not None:
            # Until something more is left out, it stays as it is: what is shown grows at its end.
            shown = await self._without(canisters, open)
            if shown.left_out == self._failed:
                return shown
        try:
            shown = await strategy.show(canisters, open=open, memory=self._kept)
        except ProviderFailure as error:
            self._alert(Alert(message=f"What is left out has no summary: {error} The oldest is left out without one."))
            shown = await self._without(canisters, open)
            self._failed = shown.left_out
        else:
            self._failed = None
        return shown

    async def _without(self, canisters: tuple[Canister, ...], open: Collection[str]) -> Shown:
        """What is shown where no model is there to ask."""
        try:
            if self._plain is not None:
                return await self._plain.show(canisters, open=open, memory=self._kept)
        except ProviderFailure:
            pass  # A strategy of somebody else's has nothing else to offer.
        return Shown(canisters=canisters)

    def _note(self, offer: Offer) -> None:
        self._offer = offer
        self._unread.append(offer)
        if self._history.supersession:
            self._superseding.update(one.exposed for one in offer.everything if one.policy.supersedes)
        self._bounded = self._bounded or any(one.ensemble.tokens is not None for one in offer.everything)
        self._searched = self._found = 0

    def _may_change(self, canisters: tuple[Canister, ...]) -> bool:
        """Whether anything may be shortened where nothing is cut: results with a budget, or one of two such calls."""
        if self._superseding:
            added = canisters[self._searched :]
            self._found += sum(isinstance(one, InvocationCanister) and one.name in self._superseding for one in added)
            self._searched = len(canisters)
        return self._bounded or self._found > 1

    def _adopt(self, offer: Offer) -> None:
        """Takes what the tools declare, and the room that they need."""
        try:
            declared = Supersession.of_offer(offer, stale=self._history.supersession)
        except InputError as error:
            self._once("supersedes", f"No result is taken for stale: {error}")
            declared = Supersession.of_offer(offer, stale=False)
        joined = self._supersession.joined(declared)
        budget = self._tokens(self._tokenizer.count((), offer).tokens if self._needs_count() else 0)
        if (joined, budget) != (self._supersession, self._budget):
            self._supersession = joined
            self._build(budget)

    def _needs_count(self) -> bool:
        return self._history.tokens is None and self._free is not None

    def _tokens(self, tools: int) -> int | None:
        """How many tokens of canisters may be shown beside so many of tools; None where nobody knows."""
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
        """No later call gets the identifier of one that is not shown."""
        known = len(self._whole) if tuple(canisters[: len(self._whole)]) == self._whole else 0
        self._reserved.update(one.identifier for one in canisters[known:] if isinstance(one, InvocationCanister))
        self._memory[RESERVED] = self._reserved

    def _tell(self, shown: Shown, whole: int) -> None:
        who = self._model.identity
        if shown.left_out > (self._most or 0):
            self._most = shown.left_out
            self._alert(
                Alert(
                    message=f"{shown.left_out} of {whole} parts of the conversation are not shown to {who} any more: "
                    "the oldest are left out.",
                    details=frozendict({"left_out": shown.left_out, "canisters": whole, "cuts": shown.cuts}),
                )
            )
        if shown.shortened:
            self._once("shortened", f"Notes stand for some results, of which {who} has newer ones or had enough.")
        if shown.excess:
            self._once(
                "excess",
                f"{who} is shown about {shown.excess} more than its history allows: what is left cannot be parted.",
            )

    def _once(self, what: str, message: str) -> None:
        if what not in self._told:
            self._told.add(what)
            self._alert(Alert(message=message))


def _last_request(canisters: Sequence[Canister]) -> int:
    """How many canisters the model had before it when it was asked last; 0 where it was not."""
    for position in range(len(canisters) - 1, 0, -1):
        if is_of_assistant(canisters[position]) and not is_of_assistant(canisters[position - 1]):
            return position
    return 0


def _free(model: Model, controls: Controls) -> int | None:
    """The tokens of a model's context that its answer leaves; of the smallest one, in a chain. None if nobody knows."""
    known: list[int] = []
    for one in model.models if isinstance(model, FallbackModel) else (model,):
        capabilities = one.provider.capabilities(one.name)
        context = capabilities.get("context")
        if context is not None:
            answer = controls.output_tokens or capabilities.get("output_tokens") or min(_ANSWER, context // 4)
            known.append(max(1, context - answer))
    return min(known, default=None)
