"""The events of a whole run, with all its turns and all that ran here, told as those of one answer.

::

    TurnBegan
      items of the first turn      results of those of its calls that ran here, in the order of the calls
      items of the next turn       and so on
    TurnEnded                      with all that was used, and why the run ended

Where a client cannot be shown what ran here, only texts and its own calls are told.
"""

import collections
import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from ripieno.canisters import (
    AudioContent,
    Content,
    Controls,
    InvocationCanister,
    OpaqueContent,
    ResultCanister,
    TextualContent,
)
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

#: What reasoning may lead to.
_ITEMS = (TextDelta, ContentSealed, InvocationBegan, InvocationSealed)
#: What stands between texts of different turns where nothing else does.
_BREAK = "\n\n"
_LOST = Fault(
    category="limit",
    message="The call has no result: the run had reached its limit.",
    recoverable=False,
)


class Telling:
    """Takes the events of runs one after the other, and gives those of one answer.

    ``model`` is what the client calls the model, ``theirs`` the names of its own tools, ``sign`` signs a result.
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
        self._allowed = () if controls.tool_choice == "none" else controls.allowed_tools
        self._single = controls.parallel is False
        self._sign = sign
        self._shows = shows
        self._begun = False
        self._ended: TurnEnded | None = None
        #: How many calls are told; the places of those of this turn, by their index in it.
        self._told = 0
        self._places: dict[int, int] = {}
        #: How many calls of this turn are sealed, and whether the model has ended it.
        self._sealed = 0
        self._over = False
        #: Calls of ours that are told, in their order, whose results are not; and results that came before their turn.
        self._waiting: collections.deque[InvocationCanister] = collections.deque()
        self._ready: dict[str, ResultReady] = {}
        #: Whether a text was said in this turn; whether one in an earlier one; whether this text was parted from it.
        self._said = self._before = self._parted = False
        #: What a provider wants back before what it led to; and whether that was, so far, a call that is not told.
        self._held: list[Event] = []
        self._led = False
        self._tellers: Mapping[type, Callable[[Any], Sequence[Event]]] = {
            TurnBegan: self._begin,
            TextDelta: self._say,
            ReasoningDelta: _pass,
            ContentSealed: self._seal_content,
            InvocationBegan: self._begin_call,
            ArgumentsDelta: self._argue,
            InvocationSealed: self._seal_call,
            TurnEnded: self._end_turn,
            ResultReady: self._take,
            Alert: _pass,
        }

    def tell(self, event: Event) -> Sequence[Event]:
        """What is told when this happens."""
        teller = self._tellers.get(type(event))
        told = () if teller is None else teller(event)
        if not self._held or not any(isinstance(one, _ITEMS) for one in told):
            return told
        held, self._held = self._held, []
        return (*held, *told)

    def deny(self, results: Iterable[ResultCanister]) -> Sequence[Event]:
        """What is told of results that others than the run have given to calls of ours."""
        told: list[Event] = []
        calls = {call.identifier: call for call in self._waiting}
        for result in results:
            call = calls[result.invocation_id]
            told += self._take(ResultReady(invocation=call, result=result, tool=call.name))
        return told

    def expect(self, calls: Iterable[InvocationCanister]) -> Sequence[Event]:
        """What is told before anything else, where the client knows these calls of ours, and not their results."""
        told = self._begin(TurnBegan())
        self._over = True
        self._waiting.extend(calls)
        return told

    def leave(self, identifiers: Collection[str]) -> Sequence[Event]:
        """What is told when these calls of ours go on waiting: the results of the others."""
        self._waiting = collections.deque(one for one in self._waiting if one.identifier not in identifiers)
        self._over = True
        return self._results()

    def repeat(self, calls: Iterable[InvocationCanister]) -> Sequence[Event]:
        """Calls that the client knows, told once more."""
        told: list[Event] = []
        for call in calls:
            told.append(InvocationSealed(index=self._told, invocation=call))
            self._told += 1
        return told

    def end(self, finish: Finish, usage: Usage, reason: str | None = None) -> Sequence[Event]:
        """The last events. Calls of ours whose turn was lost have a result that says so."""
        told: list[Event] = [] if self._begun else [*self._begin(TurnBegan())]
        self._over = True
        lost = [call.identifier for call in self._waiting if call.identifier not in self._ready]
        told += [*self._results(), *self.deny([ResultCanister(invocation_id=one, error=_LOST) for one in lost])]
        last = self._ended
        if reason is None and last is not None and last.finish == finish:
            reason = last.reason
        return [*told, TurnEnded(finish=finish, usage=usage, reason=reason, turn=1)]

    # Turns.

    def _begin(self, _: TurnBegan) -> Sequence[Event]:
        self._places.clear()
        self._held.clear()
        self._sealed = 0
        self._over = False
        self._before = self._before or self._said
        self._said = False
        if self._begun:
            return ()
        self._begun = True
        return (TurnBegan(model=self._model, turn=1),)

    def _end_turn(self, event: TurnEnded) -> Sequence[Event]:
        self._ended = event
        self._over = True
        # Providers refuse reasoning without what it led to.
        held, self._held = () if self._led else self._held, []
        return (*held, *self._results())

    # What is said.

    def _say(self, event: TextDelta) -> Sequence[Event]:
        if not event.text or not self._parts():
            return (event,)
        self._parted = True
        return (TextDelta(_BREAK + event.text),)

    def _seal_content(self, event: ContentSealed) -> Sequence[Event]:
        content = event.content
        if isinstance(content, OpaqueContent):
            self._held.append(event)
            self._led = False
            return ()
        if not isinstance(content, TextualContent) or not content.text:
            return (event,)
        parted, self._parted = self._parts() or self._parted, False
        return (ContentSealed(dataclasses.replace(content, text=_BREAK + content.text)),) if parted else (event,)

    def _parts(self) -> bool:
        """Whether a text that is said now is parted from that of an earlier turn, with nothing shown between them."""
        first, self._said = not self._said, True
        return first and self._before and not self._shows

    # Calls.

    def _begin_call(self, event: InvocationBegan) -> Sequence[Event]:
        # Where one call alone is allowed, which that is stands fast when one is complete.
        if not self._is_told(event.name) or (self._single and event.name in self._theirs):
            return ()
        return (dataclasses.replace(event, index=self._place(event.index)),)

    def _argue(self, event: ArgumentsDelta) -> Sequence[Event]:
        place = self._places.get(event.index)
        return () if place is None else (dataclasses.replace(event, index=place),)

    def _seal_call(self, event: InvocationSealed) -> Sequence[Event]:
        invocation = event.invocation
        self._sealed += 1
        theirs = invocation.name in self._theirs
        if not theirs:
            self._waiting.append(invocation)
        if not self._is_told(invocation.name) or (theirs and self._single and self._sealed > 1):
            self._led = True
            return ()
        return (InvocationSealed(index=self._place(event.index), invocation=invocation),)

    def _place(self, index: int) -> int:
        """The place of a call of this turn among all that are told: clients count on it that none is left out."""
        place = self._places.get(index)
        if place is None:
            place = self._places[index] = self._told
            self._told += 1
        return place

    def _is_told(self, name: str) -> bool:
        """Whether the client is told of calls of this name: of its own, as far as it allows them."""
        if name in self._theirs:
            return self._allowed is None or name in self._allowed
        return self._shows

    # Results.

    def _take(self, event: ResultReady) -> Sequence[Event]:
        # What its stream lost was never an answer; and what a client's own call was refused with is no result of ours.
        if not event.discarded and event.invocation.name not in self._theirs:
            self._ready[event.invocation.identifier] = event
        return self._results()

    def _results(self) -> Sequence[Event]:
        """The results that may be told now: those of a turn that has ended, in the order of its calls."""
        told: list[Event] = []
        while self._over and self._waiting and self._waiting[0].identifier in self._ready:
            call = self._waiting.popleft()
            event = self._ready.pop(call.identifier)
            result = carried(event.result)
            if self._shows:
                told.append(dataclasses.replace(event, invocation=call, result=result, seal=self._sign(call, result)))
        return told


def _pass(event: Event) -> Sequence[Event]:
    return (event,)


def carried(result: ResultCanister) -> ResultCanister:
    """The result as clients can be given it, and can give it back: sounds are named, and what is opaque is left out."""
    if not any(isinstance(content, AudioContent | OpaqueContent) for content in result.content):
        return result
    kept = (content for content in result.content if not isinstance(content, OpaqueContent))
    return dataclasses.replace(result, content=tuple(map(_named, kept)))


def _named(content: Content) -> Content:
    return TextualContent(text="[sound left out]") if isinstance(content, AudioContent) else content
