"""A chain of models: where the first cannot be had, the next is asked the same."""

import contextlib
import dataclasses
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from frozendict import frozendict

from ripieno.canisters import Canister, Controls
from ripieno.canisters.events import Alert, Batches
from ripieno.ensembles import Ensemble
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import ProviderFailure
from ripieno.models.model import Model
from ripieno.models.protocol import RESERVED
from ripieno.models.retries import says_something

#: Characters of what each model failed with, in the error of the last one.
_SHOWN = 160


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FallbackModel(Model):
    """A model with models behind it. To whoever asks it, it is the first of them.

    Every turn begins with the first one again: what keeps an endpoint that is down from being asked is its breaker.
    The next is asked only before the one before it has said anything, and only where another model may do: not for a
    request that is refused for what it is, or for who asks.
    """

    models: tuple[Model, ...]

    @classmethod
    def of(cls, models: Sequence[Model]) -> Model:
        """The chain of these, of which there is at least one; a single one stays what it is."""
        first, *models = models
        return cls(provider=first.provider, name=first.name, models=(first, *models)) if models else first

    def open(self) -> None:
        """Makes all of them ready. Errors: ``ProviderFailure``."""
        for model in self.models:
            model.open()

    async def batches(
        self,
        canisters: Sequence[Canister],
        *,
        ensembles: Sequence[Ensemble] | Offer = (),
        controls: Controls | None = None,
        memory: dict[object, Any] | None = None,
        deltas: bool = True,
    ) -> Batches:
        """The events of one turn, of the first model that gives any; an ``Alert`` says why another one was passed over.

        Errors: ``ProviderFailure``, of the last one that was asked; ``before`` tells of the others.
        """
        before: list[str] = []
        offer = ensembles if isinstance(ensembles, Offer) else Offer.of(ensembles)
        for place, model in enumerate(self.models):
            # What one wire remembers of a conversation is nothing to another.
            kept: dict[object, Any] = {} if memory is None else memory.setdefault((FallbackModel, place), {})
            if memory is not None and RESERVED in memory:
                kept[RESERVED] = memory[RESERVED]
            if place:
                for kind, count in model.left_out(canisters).items():
                    yield (Alert(message=f"{count} of {kind} cannot be sent to {model.identity}: left out."),)
            begun = False
            try:
                batches = model.batches(canisters, ensembles=offer, controls=controls, memory=kept, deltas=deltas)
                async with contextlib.aclosing(batches):
                    async for batch in batches:
                        events = batch if begun else list(batch)
                        begun = begun or any(map(says_something, events))
                        yield events
                return
            except ProviderFailure as error:
                if begun or not error.elsewhere or place + 1 == len(self.models):
                    error.before = tuple(before)
                    raise
                before.append(f"{model.identity}: {textwrap.shorten(error.reason, _SHOWN, placeholder=' …')}")
                alert = _passed_over(model, error, self.models[place + 1])
            yield (alert,)

    def left_out(self, canisters: Iterable[Canister]) -> Mapping[str, int]:
        """How many contents of which kind would not be sent to the first one."""
        return self.models[0].left_out(canisters)


def _passed_over(model: Model, error: ProviderFailure, following: Model) -> Alert:
    return Alert(
        message=f"{following.identity} is asked instead of {model.identity}: {error.reason}",
        details=frozendict({"category": error.category, "instead_of": model.identity, "model": following.identity}),
    )
