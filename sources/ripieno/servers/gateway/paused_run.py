"""A run whose calls may wait for a person, told as one answer: it begins, or goes on where it was left."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

from frozendict import frozendict

from ripieno.approvals import Given
from ripieno.canisters import (
    AssistantCanister,
    Canister,
    Conversation,
    InvocationCanister,
    ResultCanister,
    TextualContent,
)
from ripieno.canisters.controls import Finish
from ripieno.canisters.conversation import NO_USAGE, Usage, Waiting
from ripieno.canisters.events import (
    Batches,
    ContentSealed,
    Event,
    InvocationBegan,
    InvocationSealed,
    ResultReady,
    TextDelta,
    TurnBegan,
    TurnEnded,
)
from ripieno.canisters.faults import Fault
from ripieno.conducting import Run
from ripieno.conducting.paused import Paused
from ripieno.exceptions import InputError
from ripieno.servers.gateway.history_checks import described
from ripieno.servers.gateway.one_answer import Telling
from ripieno.servers.gateway.paused_store import Deferral, ResumeToken, of_caller

Opaque = frozendict[str, object]

WAITING = "waiting_for_approval"
_WAITS = Fault(category="denied", code=WAITING, message="The call waits for a person.")
#: Finishes behind which nothing is left to conduct.
_DONE: Sequence[Finish] = ("stop", "terminal", "length", "filter", "limit")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one request brings to a run. ``begin`` conducts a conversation with the answers to calls that waited.

    ``ours`` and ``theirs`` are names of tools, ``tools`` patterns of ours; ``deny`` gives results to calls that nobody
    can wait for, and ``finish_of`` says how an answer ends whose run has ended so. ``wire`` is the answer's,
    where it shows our calls: their items have identifiers of their own there.
    """

    begin: Callable[[Conversation, Mapping[str, Given]], Run]
    canisters: tuple[Canister, ...]
    ours: frozenset[str]
    theirs: frozenset[str]
    tools: Sequence[str]
    model: str
    caller: str
    wire: str | None
    hear: Callable[[Event], None] | None
    deny: Callable[[Conversation], Sequence[ResultCanister]]
    finish_of: Callable[[Conversation], Finish]


class PausedRun:
    """Plays one request. ``claim`` is what it goes on with, if it does."""

    def __init__(self, deferral: Deferral, telling: Telling, part: Part, claim: ResumeToken | None) -> None:
        self._deferral = deferral
        self._telling = telling
        self._part = part
        self._claim = claim
        self._held = _Held(part.theirs)
        #: How far it is, and what is kept of it.
        self._conversation = Conversation(canisters=part.canisters)
        self._paused: Paused | None = None

    async def play(self) -> Batches:
        """The events of the answer. Errors: those of runs; ``Conflict``, ``InputError``."""
        claim, deferral = self._claim, self._deferral
        with contextlib.ExitStack() as stack:
            told: Sequence[Event] = ()
            if claim is not None:
                paused = deferral.load(claim)
                if not _must_wait(paused, claim):
                    stack.enter_context(deferral.claimed(claim))
                    # Whoever had it meanwhile may have changed it.
                    paused = deferral.load(claim)
                if _must_wait(paused, claim):
                    yield [*self._retell(paused.conversation, claim), *self._wait(paused)]
                    return
                if not _has_ended(paused.conversation):
                    self._check(paused.conversation)
                    paused = deferral.begin(paused, claim)
                self._paused, self._conversation = paused, paused.conversation
                told = self._retell(paused.conversation, claim)
            async with contextlib.aclosing(self._answer(told)) as batches:
                async for batch in batches:
                    yield batch

    async def _answer(self, first: Sequence[Event]) -> Batches:
        """What is told ``first``, and the rest. What is kept stays kept until all that came of it was told."""
        before = self._conversation.usage
        waits = False
        try:
            if first:
                yield first
            if not _has_ended(self._conversation):
                async with contextlib.aclosing(self._conduct()) as batches:
                    async for batch in batches:
                        yield batch
            conversation, part = self._conversation, self._part
            used = _between(before, conversation.usage)
            waits = bool(_waiting(conversation)) and not self._must_deny()
            if waits:
                self._paused = self._deferral.keep(conversation, part.model, part.tools, part.caller)
                yield self._wait(self._paused, used)
            else:
                yield self._end(used)
        except BaseException:
            self._save(self._conversation)
            raise
        if self._paused is not None and not waits:
            self._deferral.forget(self._paused)

    async def _conduct(self) -> Batches:
        """The run itself."""
        answers: Mapping[str, Given] = frozendict[str, Given]() if self._paused is None else self._paused.answers
        run = self._part.begin(self._conversation, answers)
        try:
            async with run:
                async for event in run:
                    if self._part.hear is not None:
                        self._part.hear(event)
                    if isinstance(event, TurnBegan):
                        self._save(run.conversation)
                    told = self._tell(event)
                    if told:
                        yield told
        finally:
            self._conversation = run.conversation
        if self._paused is not None:
            # What was answered has been heard.
            self._paused = dataclasses.replace(self._paused, answers=frozendict[str, Given]())

    def _save(self, conversation: Conversation) -> None:
        """Keeps how far it is, where anything is kept of it."""
        if self._paused is not None:
            self._paused = dataclasses.replace(self._paused, conversation=conversation)
            self._deferral.save(self._paused)

    def _check(self, conversation: Conversation) -> None:
        """Errors: ``InputError`` for a call that waits, of a tool that this request has not."""
        for call in conversation.open:
            if call.name not in self._part.ours | self._part.theirs:
                raise unoffered(call)

    def _must_deny(self) -> bool:
        """Whether its client could not come back to what waits, beside calls of its own."""
        return self._part.wire is None and bool(of_caller(self._conversation))

    # What is told.

    def _tell(self, event: Event) -> Sequence[Event]:
        # What the turn before it had held back has no call that waits.
        before = self._held.release({}) if isinstance(event, TurnBegan) else ()
        return [*before, *self._held.take(self._telling.tell(event))]

    def _retell(self, conversation: Conversation, claim: ResumeToken) -> Sequence[Event]:
        """What the client lacks of what is kept."""
        known, lacking = conversation.canisters[: claim.told], conversation.canisters[claim.told :]
        pending: dict[str, InvocationCanister] = {}
        for canister in known:
            if isinstance(canister, InvocationCanister):
                pending[canister.identifier] = canister
            elif isinstance(canister, ResultCanister):
                pending.pop(canister.invocation_id, None)
        told = [*self._telling.expect(one for one in pending.values() if one.name not in self._part.theirs)]
        for event in _events_of(lacking, pending):
            told += self._tell(event)
        return told

    def _wait(self, paused: Paused, usage: Usage = NO_USAGE) -> Sequence[Event]:
        """The end of an answer some of whose calls wait."""
        conversation, part = paused.conversation, self._part
        waiting = _waiting(conversation)
        calls = [one for one in conversation.open if one.identifier in waiting]
        told = [*self._held.take(self._telling.leave(waiting))]
        if part.wire is None:
            told += [*self._held.release({}), *self._say(paused, waiting)]
            return [*told, *self._telling.end("stop", usage)]
        claims = {one.identifier: _opaque(part.wire, self._deferral.sign(one, paused)) for one in calls}
        held = self._held.release(claims)
        heard = {one.invocation.identifier for one in held if isinstance(one, InvocationSealed)}
        again = self._telling.repeat(one for one in calls if one.identifier not in heard)
        return [*told, *held, *_marked(again, claims), *self._telling.end("limit", usage, WAITING)]

    def _say(self, paused: Paused, waiting: Mapping[str, Waiting]) -> Sequence[Event]:
        """What waits, in words, for clients that have no other."""
        named = ", ".join(f"{one.tool} ({identifier})" for identifier, one in waiting.items())
        text = (
            f"This waits for a person's approval: {named}, in the conversation {paused.identifier}. Whoever runs this "
            f"server looks at it with: ripieno approvals show {paused.short}"
        )
        events = (TurnBegan(), TextDelta(text), ContentSealed(TextualContent(text=text)))
        return [one for event in events for one in self._telling.tell(event)]

    def _end(self, usage: Usage) -> Sequence[Event]:
        """The end of an answer none of whose calls wait here."""
        conversation = self._conversation
        denied = self._part.deny(conversation)
        told = [*self._held.take(self._telling.deny(denied))]
        if denied:
            conversation = conversation.say(denied)
        told += self._held.release({})
        return [*told, *self._telling.end(self._part.finish_of(conversation), usage)]


def unoffered(call: InvocationCanister) -> InputError:
    """Why a request without the tool of a waiting call is refused."""
    return InputError(
        f"The call {described(call.name, call.identifier)} waits, and this request has no tool of that name: send the "
        "tools again that were sent with it."
    )


class _Held:
    """Holds back what a turn says from its first call of ours on, until it is known which of its calls wait."""

    def __init__(self, theirs: frozenset[str]) -> None:
        self._theirs = theirs
        self._events: list[Event] = []

    def take(self, events: Sequence[Event]) -> Sequence[Event]:
        """What of this is told now."""
        for place, event in enumerate(events):
            if self._events or self._is_ours(event):
                self._events += events[place:]
                return events[:place]
        return events

    def release(self, claims: Mapping[str, Opaque]) -> Sequence[Event]:
        """All that was held back, in which calls have these claims."""
        events, self._events = self._events, []
        return _marked(events, claims) if claims else events

    def _is_ours(self, event: Event) -> bool:
        if isinstance(event, InvocationSealed):
            return event.invocation.name not in self._theirs
        return isinstance(event, InvocationBegan) and event.name not in self._theirs


def _marked(events: Iterable[Event], claims: Mapping[str, Opaque]) -> Sequence[Event]:
    """The same, in which calls with claims are told as calls that wait, whose items have these for identifiers."""
    return [_mark(event, claims) for event in events]


def _mark(event: Event, claims: Mapping[str, Opaque]) -> Event:
    if isinstance(event, InvocationBegan) and event.identifier in claims:
        return dataclasses.replace(event, opaque=claims[event.identifier])
    if isinstance(event, InvocationSealed) and event.invocation.identifier in claims:
        call = dataclasses.replace(event.invocation, opaque=claims[event.invocation.identifier], fault=_WAITS)
        return dataclasses.replace(event, invocation=call)
    return event


def _opaque(wire: str, identifier: str) -> Opaque:
    return Opaque({wire: Opaque({"id": identifier})})


def _waiting(conversation: Conversation) -> Mapping[str, Waiting]:
    """The calls of ours that wait, by their identifiers."""
    return {one.invocation: one for one in conversation.waiting if one.why != "caller"}


def _has_ended(conversation: Conversation) -> bool:
    """Whether nothing is left to conduct: its end was not told."""
    return conversation.finish in _DONE or (conversation.finish == "open" and not _waiting(conversation))


def _must_wait(paused: Paused, claim: ResumeToken) -> bool:
    """Whether somebody has to answer first: a person, or a client that has not been told of its call."""
    conversation = paused.conversation
    callers = of_caller(conversation) if _waiting(conversation) else frozenset[str]()
    untold = conversation.canisters[claim.told :]
    unknown = any(isinstance(one, InvocationCanister) and one.identifier in callers for one in untold)
    return bool(paused.unanswered) or unknown


def _between(before: Usage, after: Usage) -> Usage:
    fields = dataclasses.asdict(before)
    return Usage(**{name: getattr(after, name) - value for name, value in fields.items()})


def _events_of(canisters: Sequence[Canister], calls: Mapping[str, InvocationCanister]) -> Iterable[Event]:
    """What was said and came of it, as the run told it. ``calls`` are those before it that have no result there."""
    known = dict(calls)
    speaking, index = False, 0
    for canister in canisters:
        if isinstance(canister, AssistantCanister | InvocationCanister) and not speaking:
            speaking, index = True, 0
            yield TurnBegan()
        if isinstance(canister, AssistantCanister):
            yield from map(ContentSealed, canister.content)
        elif isinstance(canister, InvocationCanister):
            known[canister.identifier] = canister
            yield InvocationSealed(index=index, invocation=canister)
            index += 1
        elif isinstance(canister, ResultCanister):
            if speaking:
                speaking = False
                yield TurnEnded(finish="invocations")
            call = known[canister.invocation_id]
            yield ResultReady(invocation=call, result=canister, tool=call.name)
    if speaking:
        yield TurnEnded(finish="stop")
