"""One turn of a model as the answer to a request, without tools that run here.

The client's restrictions are enforced whatever the model calls: allowed tools, a forced tool, no calls, or a single
call. Watchers observe the request as a run of one turn without calls.
"""

import asyncio
import contextlib
import dataclasses
import logging
import uuid
from collections.abc import Iterable, Sequence
from typing import TypeVar

from ripieno.canisters import Controls
from ripieno.canisters.controls import Finish
from ripieno.canisters.conversation import NO_USAGE
from ripieno.canisters.events import (
    ArgumentsDelta,
    Batches,
    ConductEnded,
    ContentSealed,
    Event,
    InvocationBegan,
    InvocationSealed,
    TurnBegan,
    TurnEnded,
)
from ripieno.conducting import Watcher
from ripieno.conducting.driver import notify
from ripieno.descriptors.names import spelled
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import ProviderRefusal
from ripieno.models import Model
from ripieno.models.protocol import Asked


async def observed(batches: Batches, watchers: Sequence[Watcher], model: str) -> Batches:
    """The same events, after watchers have seen them. ``model`` is ``provider/model``.

    Watchers see the model's own name, and calls that the client does not get.
    """
    identifier = uuid.uuid4().hex
    observers = [watch(identifier, model) for watch in watchers]
    finish: Finish = "error"
    turns, usage = 0, NO_USAGE
    try:
        async with contextlib.aclosing(batches):
            async for batch in batches:
                events = list(batch)
                for event in events:
                    if isinstance(event, TurnBegan):
                        turns = 1
                        event = dataclasses.replace(event, turn=1)  # noqa: PLW2901
                    elif isinstance(event, TurnEnded):
                        finish, usage = event.finish, event.usage
                        event = dataclasses.replace(event, turn=1)  # noqa: PLW2901
                    notify(observers, event)
                yield events
    except (asyncio.CancelledError, GeneratorExit):
        if finish == "error":
            finish = "cancelled"
        raise
    finally:
        notify(observers, ConductEnded(finish=finish, turns=turns, calls=0, usage=usage))


_logger = logging.getLogger(__name__)
_Called = TypeVar("_Called", InvocationBegan, ArgumentsDelta, InvocationSealed)


async def translate(model: Model, asked: Asked, offer: Offer, watchers: Sequence[Watcher] = ()) -> Batches:
    """The events of one turn, in batches. Errors: ``ProviderFailure``, ``InputError``."""
    controls = asked.controls
    batches = model.batches(asked.canisters, ensembles=offer, controls=controls, deltas=controls.stream)
    if watchers:
        batches = observed(batches, watchers, model.identity)
    sieve = Sieve.of(controls, model, tools=bool(asked.tools))
    async with contextlib.aclosing(batches):
        begun = False
        async for batch in batches:
            events: Iterable[Event] = batch
            if not begun:
                # The client has its own name of the model.
                name = asked.model
                events = [dataclasses.replace(one, model=name) if isinstance(one, TurnBegan) else one for one in batch]
                begun = any(isinstance(event, TurnBegan) for event in events)
            yield events if sieve is None else sieve.sift(events)


class Sieve:
    """Filters calls that the client does not allow; they are logged."""

    def __init__(self, allowed: tuple[str, ...] | None, model: str, *, single: bool) -> None:
        self._allowed = allowed
        self._single = single
        self._model = model
        #: The index for the client of each allowed call, by its index; the other calls; and whether there was content.
        self._kept: dict[int, int] = {}
        self._dropped: set[int] = set()
        self._has_content = False

    @classmethod
    def of(cls, controls: Controls, model: Model, *, tools: bool) -> "Sieve | None":
        """The sieve for a request, or None if it restricts nothing. ``tools``: whether it has any."""
        allowed = controls.callable_names()
        single = controls.parallel is False
        if allowed is None and not (single and tools):
            return None
        return cls(allowed, model.identity, single=single)

    def sift(self, events: Iterable[Event]) -> list[Event]:
        """The allowed events. Errors: ``ProviderRefusal`` if the answer has nothing else."""
        return [kept for event in events if (kept := self._filter(event)) is not None]

    def _filter(self, event: Event) -> Event | None:
        if isinstance(event, InvocationBegan):
            return self._numbered(event) if self._admits(event.index, event.name) else None
        if isinstance(event, InvocationSealed):
            return self._numbered(event) if self._admits(event.index, event.invocation.name) else None
        if isinstance(event, ArgumentsDelta):
            return self._numbered(event) if event.index in self._kept else None
        if isinstance(event, ContentSealed):
            self._has_content = True
        elif isinstance(event, TurnEnded) and self._dropped and not self._kept:
            if not self._has_content:
                raise ProviderRefusal(self._model, "The model only called tools that this request does not allow.")
            return dataclasses.replace(event, finish="stop") if event.finish == "invocations" else event
        return event

    def _numbered(self, event: _Called) -> _Called:
        """The event with an index without gaps: a client may use it as a place."""
        index = self._kept[event.index]
        return event if index == event.index else dataclasses.replace(event, index=index)

    def _admits(self, index: int, name: str) -> bool:
        if index in self._kept or index in self._dropped:
            return index in self._kept
        fits = self._allowed is None or name in self._allowed
        if fits and not (self._single and self._kept):
            self._kept[index] = len(self._kept)
            return True
        self._dropped.add(index)
        _logger.warning("%s called %s, which this request does not allow: call omitted.", self._model, spelled(name))
        return False
