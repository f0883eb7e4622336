"""A chain of models: if one fails before it answers, the next gets the same request."""

import contextlib
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

#: Characters shown of each earlier model's failure.
_SHOWN = 160


class FallbackModel(Model, kw_only=True):
    """A chain of models that identifies itself as its first model.

    Every turn starts with the first model; its breaker keeps an endpoint that is down from being asked. The next model
    is asked only if the one before it has sent nothing and its error may not occur elsewhere. A request that is
    refused for its form or its key is not sent to another model.
    """

    models: tuple[Model, ...]

    @classmethod
    def of(cls, models: Sequence[Model]) -> Model:
        """A chain of at least one model; a single model is returned unchanged."""
        first, *models = models
        return cls(provider=first.provider, name=first.name, models=(first, *models)) if models else first

    def open(self) -> None:
        """Prepares all models. Errors: ``ProviderFailure``."""
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
        """The events of one turn, from the first model that answers. An ``Alert`` reports each model that failed.

        Errors: ``ProviderFailure`` of the last model; ``before`` lists the earlier failures.
        """
        before: list[str] = []
        offer = ensembles if isinstance(ensembles, Offer) else Offer.of(ensembles)
        for place, model in enumerate(self.models):
            # Each wire has a memory of its own.
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
                following = self.models[place + 1].identity
                alert = Alert(
                    message=f"{following} is asked instead of {model.identity}: {error.reason}",
                    details=frozendict(category=error.category, instead_of=model.identity, model=following),
                )
            yield (alert,)

    def left_out(self, canisters: Iterable[Canister]) -> Mapping[str, int]:
        """Counts, by kind, the contents that the first model cannot receive."""
        return self.models[0].left_out(canisters)
