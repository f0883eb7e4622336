"""One turn of a model as the answer to a request, without tools that run here.

The client's restrictions are enforced whatever the model calls: allowed tools, a forced tool, no calls, or a single
call. Watchers observe the request as a run of one turn without calls.
"""

import asyncio
import contextlib
import dataclasses
import logging
import uuid
from collections.abc import Collection, Iterable, Sequence
from typing import TypeVar

from ripieno.canisters import Controls, InvocationCanister
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
from ripieno.conducting.channel import notify
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
    sieve = Sieve.of(controls, model, offer)
    async with contextlib.aclosing(batches):
        begun = False
        async for batch in batches:
            events: Iterable[Event] = batch
            if not begun:
                # The client has its own name of the model.
                name = asked.model
                events = [dataclasses.replace(one, model=name) if isinstance(one, TurnBegan) else one for one in batch]
                begun = any(isinstance(event, TurnBegan) for event in events)
            yield sieve.sift(events)


def warn_of_unreadable(invocation: InvocationCanister, model: str) -> None:
    """Logs that a client gets the arguments of its tool as they came, since they cannot be read."""
    if invocation.fault is not None and invocation.fault.code == "arguments_unreadable":
        name = spelled(invocation.name)
        _logger.warning("%s called %s with invalid JSON as arguments: passed to the client unchanged.", model, name)


class Sieve:
    """Filters calls of tools that the client does not declare or allow, or that have no name; they are logged."""

    def __init__(self, declared: Collection[str], allowed: tuple[str, ...] | None, model: str, *, single: bool) -> None:
        self._declared = declared
        self._allowed = allowed
        self._single = single
        self._model = model
        #: The index for the client of each allowed call, by its index; the other calls; and whether there was content.
        self._kept: dict[int, int] = {}
        self._dropped: set[int] = set()
        self._nameless = False
        #: The word for what the last omitted call lacks.
        self._lacks = "allow"
        self._has_content = False

    @classmethod
    def of(cls, controls: Controls, model: Model, offer: Offer) -> "Sieve":
        """The sieve for a request with these tools."""
        return cls(offer.names, controls.callable_names(), model.identity, single=controls.parallel is False)

    def sift(self, events: Iterable[Event]) -> list[Event]:
        """The allowed events. Errors: ``ProviderRefusal`` if the answer has nothing else."""
        kept: list[Event] = []
        for event in events:
            passed = self._judge(event)
            if passed is not None:
                kept.append(passed)
        return kept

    def _judge(self, event: Event) -> Event | None:
        """The event as the client gets it, or None."""
        passed: Event | None = event
        match event:
            case InvocationBegan():
                passed = self._judge_beginning(event)
            case InvocationSealed():
                passed = self._judge_call(event)
            case ArgumentsDelta():
                passed = self._judge_arguments(event)
            case ContentSealed():
                passed = self._note_content(event)
            case TurnEnded():
                passed = self._judge_end(event)
            case _:
                pass
        return passed

    def _judge_beginning(self, event: InvocationBegan) -> Event | None:
        return self._numbered(event) if self._admits(event.index, event.name) else None

    def _judge_call(self, event: InvocationSealed) -> Event | None:
        if not self._admits(event.index, event.invocation.name):
            return None
        warn_of_unreadable(event.invocation, self._model)
        return self._numbered(event)

    def _judge_arguments(self, event: ArgumentsDelta) -> Event | None:
        return self._numbered(event) if event.index in self._kept else None

    def _note_content(self, event: ContentSealed) -> Event:
        self._has_content = True
        return event

    def _judge_end(self, event: TurnEnded) -> Event:
        if not self._dropped or self._kept:
            return event
        if not self._has_content:
            why = "The model made a call without a name."
            if not self._nameless:
                why = f"The model only called tools that this request does not {self._lacks}."
            raise ProviderRefusal(self._model, why)
        return dataclasses.replace(event, finish="stop") if event.finish == "invocations" else event

    def _numbered(self, event: _Called) -> _Called:
        """The event with an index without gaps: a client may use it as a place."""
        index = self._kept[event.index]
        return event if index == event.index else dataclasses.replace(event, index=index)

    def _admits(self, index: int, name: str) -> bool:
        if index in self._kept or index in self._dropped:
            return index in self._kept
        if not name:
            self._nameless = True
            self._dropped.add(index)
            _logger.warning("%s made a call without a name: call omitted.", self._model)
            return False
        declared = name in self._declared
        if declared and (self._allowed is None or name in self._allowed) and not (self._single and self._kept):
            self._kept[index] = len(self._kept)
            return True
        self._dropped.add(index)
        self._lacks = "allow" if declared else "declare"
        why = f"which this request does not {self._lacks}: call omitted."
        _logger.warning("%s called %s, %s", self._model, spelled(name), why)
        return False
