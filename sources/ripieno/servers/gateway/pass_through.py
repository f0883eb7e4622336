"""One turn of a model as the answer to a request: nothing runs here, nothing is kept.

What a client forbids is enforced, whatever the model says: calls of tools that are not allowed, any call where there
may be none, a second one where there may be one.

Watchers of runs, told of requests that are only translated: as of a run of one turn in which nothing is called.
"""

import asyncio
import contextlib
import dataclasses
import logging
import uuid
from collections.abc import Callable, Iterable, Sequence
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
from ripieno.descriptors.names import spelled
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import ProviderRefusal
from ripieno.models import Model
from ripieno.models.protocol import Asked


async def reported(batches: Batches, watchers: Sequence[Watcher], model: str) -> Batches:
    """The same events, of which watchers are told first, and of the end after them. ``model`` is ``provider/model``.

    Watchers see what the model said: its own name, and calls that the client does not get.
    """
    identifier = uuid.uuid4().hex
    watching = [watch(identifier, model) for watch in watchers]
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
                    _tell(watching, event)
                yield events
    except (asyncio.CancelledError, GeneratorExit):
        if finish == "error":
            finish = "cancelled"
        raise
    finally:
        _tell(watching, ConductEnded(finish=finish, turns=turns, calls=0, usage=usage))


def _tell(watching: Iterable[Callable[[Event], None]], event: Event) -> None:
    for watch in watching:
        try:
            watch(event)
        except Exception as error:
            context = {"message": "A watcher of a request failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)


_logger = logging.getLogger(__name__)
_Called = TypeVar("_Called", InvocationBegan, ArgumentsDelta, InvocationSealed)


async def translate(model: Model, asked: Asked, offer: Offer, watchers: Sequence[Watcher] = ()) -> Batches:
    """The events of one turn, as many at a time as came together. Errors: ``ProviderFailure``, ``InputError``.

    ``watchers`` are told of it as of a run.
    """
    controls = asked.controls
    batches = model.batches(asked.canisters, ensembles=offer, controls=controls, deltas=controls.stream)
    if watchers:
        batches = reported(batches, watchers, model.identity)
    sieve = Sieve.of(controls, model, tools=bool(asked.tools))
    async with contextlib.aclosing(batches):
        begun = False
        async for batch in batches:
            events: Iterable[Event] = batch
            if not begun:
                events = renamed(list(batch), asked.model)
                begun = any(isinstance(event, TurnBegan) for event in events)
            yield events if sieve is None else sieve.sift(events)


def renamed(events: Sequence[Event], name: str) -> Sequence[Event]:
    """The same events, in which the model has the name under which a client knows it."""
    return [TurnBegan(model=name, turn=one.turn) if isinstance(one, TurnBegan) else one for one in events]


class Sieve:
    """Lets through what a client allows. Whatever else the model calls is logged, and never told."""

    def __init__(self, allowed: tuple[str, ...] | None, model: str, *, single: bool) -> None:
        self._allowed = allowed
        self._single = single
        self._model = model
        #: The calls that are let through, by their index, and the index that each has for the client; those that are
        #: not; and whether anything was said.
        self._kept: dict[int, int] = {}
        self._dropped: set[int] = set()
        self._said = False

    @classmethod
    def of(cls, controls: Controls, model: Model, *, tools: bool) -> "Sieve | None":
        """The sieve for a request; None for one that forbids nothing. ``tools``: whether it has any."""
        allowed = controls.allowed_tools
        if controls.tool_choice == "none":
            allowed = ()
        single = controls.parallel is False
        if allowed is None and not (single and tools):
            return None
        return cls(allowed, model.identity, single=single)

    def sift(self, events: Iterable[Event]) -> list[Event]:
        """What of these events is let through. Errors: ``ProviderRefusal`` where nothing is left of an answer."""
        return [told for event in events if (told := self._told(event)) is not None]

    def _told(self, event: Event) -> Event | None:
        if isinstance(event, InvocationBegan):
            return self._numbered(event) if self._admits(event.index, event.name) else None
        if isinstance(event, InvocationSealed):
            return self._numbered(event) if self._admits(event.index, event.invocation.name) else None
        if isinstance(event, ArgumentsDelta):
            return self._numbered(event) if event.index in self._kept else None
        if isinstance(event, ContentSealed):
            self._said = True
        elif isinstance(event, TurnEnded) and self._dropped and not self._kept:
            if not self._said:
                words = "The model called what this request does not allow, and said nothing."
                raise ProviderRefusal(self._model, words)
            return dataclasses.replace(event, finish="stop") if event.finish == "invocations" else event
        return event

    def _numbered(self, event: _Called) -> _Called:
        """Without gaps: a client may take an index for a place."""
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
        _logger.warning("%s called %s, which this request does not allow: left out.", self._model, spelled(name))
        return False
