"""The strategy that replaces results by short notes. Nothing is left out by it, and no call is without its result."""

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

from ripieno.canisters import Canister
from ripieno.exceptions import InputError
from ripieno.history.counting import counting
from ripieno.history.following import follow
from ripieno.history.shortening import Shortener
from ripieno.history.shown import KEEP, Shown
from ripieno.history.supersession import Supersession
from ripieno.models.tokens import ConversationTokenizer, EstimatingTokenizer


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Superseding:
    """Notes stand for stale results, and for the oldest of those whose ensemble has a budget.

    It is weighed whenever the model is asked, so that what was shown before stays as it was; a result is stale when a
    call of the same key has succeeded after it. ``weight`` is what a token costs that must be read anew, against one
    that is saved. ``excess`` is 0: it knows no budget of the whole.
    Errors: ``InputError`` for a weight below 0.
    """

    supersession: Supersession
    weight: float = 1.0
    keep: float = KEEP
    tokenizer: ConversationTokenizer = dataclasses.field(default_factory=EstimatingTokenizer)

    def __post_init__(self) -> None:
        if self.weight < 0:
            raise InputError(f"A weight is 0 or more, not {self.weight}.")

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
        """The notes, for whoever cuts what is shown with them."""

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
