"""Merges a run's events into one response.

::

    TurnBegan
      items of the first turn      results of those of its calls that ran here, in the order of the calls
      items of the next turn       and so on
    TurnEnded                      with the total usage, and why the run ended

If the client cannot be shown what ran here, it gets only texts and its own calls.
"""

import collections
import dataclasses
from collections.abc import Callable, Collection, Iterable, Sequence

from ripieno.canisters import AudioContent, Controls, InvocationCanister, OpaqueContent, ResultCanister, TextualContent
from ripieno.canisters.controls import Finish
from ripieno.canisters.conversation import Usage
from ripieno.canisters.events import (
    Alert,
    ArgumentsDelta,
    ContentSealed,
    Event,
    InvocationBegan,
    InvocationSealed,
    ReasoningDelta,
    ResultReady,
    TextDelta,
    TurnBegan,
    TurnEnded,
)
from ripieno.canisters.faults import Fault
from ripieno.descriptors.names import spelled
from ripieno.execution.budget import REPEATED
from ripieno.models.reasoning import is_for_people
from ripieno.servers.gateway.pass_through import warn_of_unreadable

#: Events that may follow reasoning.
_ITEMS = (TextDelta, ContentSealed, InvocationBegan, InvocationSealed)
#: Separates texts of different turns if nothing else does.
_BREAK = "\n\n"
_LOST = Fault(category="limit", message="The call has no result: the run reached its limit.", recoverable=False)


class ResponseMerger:
    """Takes the events of consecutive runs, and returns those of one response.

    ``model`` is the client's name of the model, ``theirs`` the names of its own tools; ``sign`` signs a result.
    """

    def __init__(
        self,
        *,
        model: str,
        theirs: frozenset[str],
        controls: Controls,
        sign: Callable[[InvocationCanister, ResultCanister], str],
        shows: bool,
    ) -> None:
        self._model = model
        self._theirs = theirs
        #: The names that may be called: those of a forced choice, until a turn of the run has used it up.
        self._allowed = controls.callable_names()
        self._later_allowed = controls.relaxed().callable_names()
        self._single = controls.parallel is False
        self._sign = sign
        self._shows = shows
        self._begun = False
        self._ended: TurnEnded | None = None
        #: The limit that refused a call, if clients have a word of its own for it.
        self._limit: str | None = None
        #: The number of shown calls; the places of this turn's calls, by their index in it.
        self._shown = 0
        self._places: dict[int, int] = {}
        #: The number of sealed calls in this turn, and whether the model has ended it.
        self._sealed = 0
        self._turn_ended = False
        #: Whether this turn has a call or a content.
        self._answered = False
        #: Calls of ours that still need a result in the response, in order; and results that came early.
        self._waiting: collections.deque[InvocationCanister] = collections.deque()
        self._ready: dict[str, ResultReady] = {}
        #: Whether this turn has a text; whether an earlier one had; whether this text was separated from it.
        self._has_text = self._had_text = self._separated = False
        #: Opaque content that precedes its result; and whether that result, so far, is a hidden call.
        self._held: list[Event] = []
        self._led_to_hidden = False

    def merge(self, event: Event) -> Sequence[Event]:
        """The events of the response for one event of a run."""
        events = self._merge(event)
        if not self._held or not any(isinstance(one, _ITEMS) for one in events):
            return events
        held, self._held = self._held, []
        return (*held, *events)

    def _merge(self, event: Event) -> Sequence[Event]:
        events: Sequence[Event] = ()
        match event:
            case TextDelta():
                events = self._add_text(event)
            case ArgumentsDelta():
                events = self._add_arguments(event)
            case ReasoningDelta() | Alert():
                events = (event,)
            case ContentSealed():
                events = self._seal_content(event)
            case InvocationBegan():
                events = self._begin_call(event)
            case InvocationSealed():
                events = self._seal_call(event)
            case ResultReady():
                events = self._take(event)
            case TurnBegan():
                events = self._begin(event)
            case TurnEnded():
                events = self._end_turn(event)
            case _:
                pass
        return events

    def deny(self, results: Iterable[ResultCanister]) -> Sequence[Event]:
        """The events for results of our calls that do not come from the run."""
        events: list[Event] = []
        calls = {call.identifier: call for call in self._waiting}
        for result in results:
            call = calls[result.invocation_id]
            events += self._take(ResultReady(invocation=call, result=result, tool=call.name))
        return events

    def expect(self, calls: Iterable[InvocationCanister]) -> Sequence[Event]:
        """The first events if the client knows these calls of ours, but not their results."""
        events = self._begin(TurnBegan())
        self._turn_ended = True
        self._waiting.extend(calls)
        return events

    def suspend(self, identifiers: Collection[str]) -> Sequence[Event]:
        """The results of the other calls, if these calls of ours continue to wait."""
        self._waiting = collections.deque(one for one in self._waiting if one.identifier not in identifiers)
        self._turn_ended = True
        return self._results()

    def repeat(self, calls: Iterable[InvocationCanister]) -> Sequence[Event]:
        """The events that show known calls again."""
        events: list[Event] = []
        for call in calls:
            events.append(InvocationSealed(index=self._shown, invocation=call))
            self._shown += 1
        return events

    def end(self, finish: Finish, usage: Usage, reason: str | None = None) -> Sequence[Event]:
        """The last events. Calls of ours without a result get a fault as result."""
        events: list[Event] = [] if self._begun else [*self._begin(TurnBegan())]
        self._turn_ended = True
        lost = [call.identifier for call in self._waiting if call.identifier not in self._ready]
        events += [*self._results(), *self.deny([ResultCanister(invocation_id=one, error=_LOST) for one in lost])]
        last = self._ended
        if reason is None and last is not None and last.finish == finish:
            reason = last.reason
        elif reason is None and finish == "limit":
            reason = self._limit
        return [*events, TurnEnded(finish=finish, usage=usage, reason=reason, turn=1)]

    def _begin(self, _: TurnBegan) -> Sequence[Event]:
        self._places.clear()
        self._held.clear()
        self._sealed = 0
        self._turn_ended = self._answered = False
        self._had_text = self._had_text or self._has_text
        self._has_text = False
        if self._begun:
            return ()
        self._begun = True
        return (TurnBegan(model=self._model, turn=1),)

    def _end_turn(self, event: TurnEnded) -> Sequence[Event]:
        self._ended = event
        self._turn_ended = True
        if event.finish == "invocations" and self._answered:
            self._allowed = self._later_allowed
        # Providers refuse reasoning without its result.
        held, self._held = () if self._led_to_hidden else self._held, []
        return (*held, *self._results())

    def _add_text(self, event: TextDelta) -> Sequence[Event]:
        if not event.text or not self._separates():
            return (event,)
        self._separated = True
        return (TextDelta(_BREAK + event.text),)

    def _seal_content(self, event: ContentSealed) -> Sequence[Event]:
        content = event.content
        if is_for_people(content):
            return ()  # The client has its deltas.
        self._answered = True
        if isinstance(content, OpaqueContent):
            self._held.append(event)
            self._led_to_hidden = False
            return ()
        if not isinstance(content, TextualContent) or not content.text:
            return (event,)
        separated, self._separated = self._separates() or self._separated, False
        return (ContentSealed(dataclasses.replace(content, text=_BREAK + content.text)),) if separated else (event,)

    def _separates(self) -> bool:
        """Whether to separate this text from that of an earlier turn."""
        first, self._has_text = not self._has_text, True
        return first and self._had_text and not self._shows

    def _begin_call(self, event: InvocationBegan) -> Sequence[Event]:
        # If only one call is allowed, it is known when it is complete.
        if not self._is_shown(event.name) or (self._single and event.name in self._theirs):
            return ()
        return (dataclasses.replace(event, index=self._place(event.index)),)

    def _add_arguments(self, event: ArgumentsDelta) -> Sequence[Event]:
        place = self._places.get(event.index)
        return () if place is None else (dataclasses.replace(event, index=place),)

    def _seal_call(self, event: InvocationSealed) -> Sequence[Event]:
        invocation = event.invocation
        self._answered = True
        self._sealed += 1
        theirs = invocation.name in self._theirs
        if not theirs:
            self._waiting.append(invocation)
        if not self._is_shown(invocation.name) or (theirs and self._single and self._sealed > 1):
            self._led_to_hidden = True
            return ()
        if theirs:
            warn_of_unreadable(invocation, spelled(self._model))
        return (InvocationSealed(index=self._place(event.index), invocation=invocation),)

    def _place(self, index: int) -> int:
        """The place of a call among all shown calls, without gaps: clients rely on it."""
        place = self._places.get(index)
        if place is None:
            place = self._places[index] = self._shown
            self._shown += 1
        return place

    def _is_shown(self, name: str) -> bool:
        """Whether calls of this name are shown: the client's own, as far as allowed, and ours."""
        if name in self._theirs:
            return self._allowed is None or name in self._allowed
        return self._shows

    def _take(self, event: ResultReady) -> Sequence[Event]:
        # Discarded calls are not part of the answer, and refusals of a client's own calls are not our results.
        if not event.discarded and event.invocation.name not in self._theirs:
            self._ready[event.invocation.identifier] = event
        if event.result.error is not None and event.result.error.code == REPEATED:
            self._limit = REPEATED
        return self._results()

    def _results(self) -> Sequence[Event]:
        """The results of an ended turn that can be shown now, in the order of its calls."""
        events: list[Event] = []
        while self._turn_ended and self._waiting and self._waiting[0].identifier in self._ready:
            call = self._waiting.popleft()
            event = self._ready.pop(call.identifier)
            result = carried(event.result)
            if self._shows:
                events.append(dataclasses.replace(event, invocation=call, result=result, seal=self._sign(call, result)))
        return events


def carried(result: ResultCanister) -> ResultCanister:
    """The result in a form that clients can return: sounds are named, and opaque content is omitted."""
    if not any(isinstance(content, AudioContent | OpaqueContent) for content in result.content):
        return result
    kept = (content for content in result.content if not isinstance(content, OpaqueContent))
    sound = TextualContent(text="[sound left out]")
    return dataclasses.replace(
        result, content=tuple(sound if isinstance(content, AudioContent) else content for content in kept)
    )
