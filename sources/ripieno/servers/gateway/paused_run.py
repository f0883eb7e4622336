"""A run with calls that may wait for a person, merged into one response. It starts, or continues."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

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
from ripieno.servers.gateway.one_answer import ResponseMerger
from ripieno.servers.gateway.paused_store import Deferral, Resumption, of_caller
from ripieno.servers.gateway.stored.requests import StoredRequest
from ripieno.servers.gateway.stored.requests import Waiting as WaitingPlace
from ripieno.servers.gateway.tools import Offering
from ripieno.values import Value

WAITING = "waiting_for_approval"
_WAITS = Fault(category="denied", code=WAITING, message="The call waits for a person.")
_UNANSWERED = Fault(
    category="denied",
    message="The call needs the approval of a person, for which it cannot wait here.",
    recoverable=False,
)
#: Finishes after which nothing is left to conduct.
_DONE: Sequence[Finish] = ("stop", "terminal", "length", "filter", "limit")


class RunRequest(Value, kw_only=True):
    """The part of a request that concerns a run. ``begin`` conducts a conversation with answers to waiting calls.

    ``wire`` is that of the answer if it shows our calls. ``stored`` is the part of the request in the store, if any.
    """

    begin: Callable[[Conversation, Mapping[str, Given]], Run]
    canisters: tuple[Canister, ...]
    offering: Offering
    model: str
    caller: str
    wire: str | None
    hear: Callable[[Event], None] | None
    stored: StoredRequest | None = None


def conversation_of(canisters: Sequence[Canister], stored: StoredRequest | None) -> Conversation:
    """The conversation of a request, under the identifier of its response, if that is stored."""
    if stored is None or not stored.identifier:
        return Conversation(canisters=tuple(canisters))
    return Conversation(identifier=stored.identifier, canisters=tuple(canisters))


class PausedRun:
    """Answers one request. ``claim`` is the conversation that it continues, if any."""

    def __init__(
        self, deferral: Deferral, merger: ResponseMerger, request: RunRequest, claim: Resumption | None
    ) -> None:
        self._deferral = deferral
        self._merger = merger
        self._request = request
        self._claim = claim
        self._held = _HeldEvents(request.offering.theirs)
        #: The current conversation, and its saved state.
        self._conversation = conversation_of(request.canisters, request.stored)
        self._paused: Paused | None = None

    @property
    def _returns(self) -> bool:
        """Whether the client can continue what waits: it sees the call, and its response is stored."""
        return self._request.wire is not None and self._request.stored is not None

    async def respond(self) -> Batches:
        """The events of the answer. Errors: those of runs; ``Conflict``, ``InputError``."""
        claim, deferral = self._claim, self._deferral
        async with contextlib.AsyncExitStack() as stack:
            events: Sequence[Event] = ()
            if claim is not None:
                paused = await deferral.run(deferral.load, claim)
                if not _must_wait(paused, claim):
                    await stack.enter_async_context(deferral.claimed(claim))
                    # Another request may have changed it meanwhile.
                    paused = await deferral.run(deferral.load, claim)
                if _must_wait(paused, claim):
                    yield [*self._repeat(paused.conversation, claim), *self._wait(paused)]
                    return
                if not _has_ended(paused.conversation):
                    self._check(paused.conversation)
                    paused = await deferral.run(deferral.begin, paused, claim)
                self._paused, self._conversation = paused, paused.conversation
                events = self._repeat(paused.conversation, claim)
            async with contextlib.aclosing(self._answer(events)) as batches:
                async for batch in batches:
                    yield batch

    async def _answer(self, first: Sequence[Event]) -> Batches:
        """The ``first`` events, and the rest. The saved state stays until all of it has been sent, or stored."""
        before = dataclasses.asdict(self._conversation.usage)
        waits = False
        try:
            if first:
                yield first
            if not _has_ended(self._conversation):
                async with contextlib.aclosing(self._conduct()) as batches:
                    async for batch in batches:
                        yield batch
            conversation, request = self._conversation, self._request
            used = Usage(**{name: getattr(conversation.usage, name) - value for name, value in before.items()})
            # Without items of our calls, a client cannot return to the waiting ones, besides calls of its own.
            must_deny = request.wire is None and bool(of_caller(conversation))
            waits = bool(_waiting(conversation)) and not must_deny
            if waits:
                keep = functools.partial(self._deferral.keep, by_client=self._returns)
                tools = request.offering.patterns
                self._paused = await self._deferral.run(keep, conversation, request.model, tools, request.caller)
                yield self._wait(self._paused, used)
            else:
                yield self._end(used)
        except BaseException:
            await self._save(self._conversation)
            raise
        if self._paused is not None and not waits:
            await self._deferral.run(self._deferral.forget, self._paused)

    async def _conduct(self) -> Batches:
        answers: Mapping[str, Given] = frozendict[str, Given]() if self._paused is None else self._paused.answers
        run = self._request.begin(self._conversation, answers)
        try:
            async with run:
                async for event in run:
                    if self._request.hear is not None:
                        self._request.hear(event)
                    if isinstance(event, TurnBegan):
                        await self._save(run.conversation)
                    events = self._merge(event)
                    if events:
                        yield events
        finally:
            self._conversation = run.conversation
        if self._paused is not None:
            # The answers have been used.
            self._paused = dataclasses.replace(self._paused, answers=frozendict[str, Given]())

    async def _save(self, conversation: Conversation) -> None:
        if self._paused is not None:
            self._paused = dataclasses.replace(self._paused, conversation=conversation)
            await self._deferral.run(self._deferral.save, self._paused)

    def _check(self, conversation: Conversation) -> None:
        """Errors: ``InputError`` for a waiting call of a tool that this request does not have."""
        offering = self._request.offering
        for call in conversation.open:
            if call.name not in offering.ours | offering.theirs:
                raise InputError(
                    f"The call {described(call.name, call.identifier)} waits, but this request has no tool of that "
                    "name. Send the same tools again."
                )

    def _merge(self, event: Event) -> Sequence[Event]:
        # The held events of the turn before have no waiting call.
        before = self._held.release() if isinstance(event, TurnBegan) else ()
        return [*before, *self._held.take(self._merger.merge(event))]

    def _repeat(self, conversation: Conversation, claim: Resumption) -> Sequence[Event]:
        """The events of the saved conversation that the client does not have."""
        known, lacking = conversation.canisters[: claim.shown], conversation.canisters[claim.shown :]
        pending: dict[str, InvocationCanister] = {}
        for canister in known:
            if isinstance(canister, InvocationCanister):
                pending[canister.identifier] = canister
            elif isinstance(canister, ResultCanister):
                pending.pop(canister.invocation_id, None)
        theirs = self._request.offering.theirs
        events = [*self._merger.expect(one for one in pending.values() if one.name not in theirs)]
        for event in _events_of(lacking, pending):
            events += self._merge(event)
        return events

    def _wait(self, paused: Paused, usage: Usage = NO_USAGE) -> Sequence[Event]:
        conversation, request = paused.conversation, self._request
        waiting = _waiting(conversation)
        calls = [one for one in conversation.open if one.identifier in waiting]
        events = [*self._held.take(self._merger.suspend(waiting))]
        if request.wire is None:
            events += [*self._held.release(), *self._describe(paused, waiting)]
            return [*events, *self._merger.end("stop", usage)]
        if request.stored is not None:
            # The next response claims it there.
            shown = len(conversation.canisters)
            request.stored.waiting = WaitingPlace(conversation=paused.identifier, shown=shown, calls=tuple(waiting))
        held = self._held.release(waiting)
        heard = {one.invocation.identifier for one in held if isinstance(one, InvocationSealed)}
        again = self._merger.repeat(one for one in calls if one.identifier not in heard)
        marked = [_mark(event, waiting) for event in again]
        return [*events, *held, *marked, *self._merger.end("limit", usage, WAITING)]

    def _describe(self, paused: Paused, waiting: Mapping[str, Waiting]) -> Sequence[Event]:
        """The waiting calls as text, for clients without another form for them."""
        named = ", ".join(f"{one.tool} ({identifier})" for identifier, one in waiting.items())
        text = (
            f"Waiting for a person's approval: {named}, in the conversation {paused.identifier}. "
            f"The operator of this server sees it with: ripieno approvals show {paused.short}"
        )
        events = (TurnBegan(), TextDelta(text), ContentSealed(TextualContent(text=text)))
        return [one for event in events for one in self._merger.merge(event)]

    def _end(self, usage: Usage) -> Sequence[Event]:
        conversation = self._conversation
        denied = denials(conversation)
        events = [*self._held.take(self._merger.deny(denied))]
        if denied:
            conversation = conversation.say(denied)
        events += self._held.release()
        return [*events, *self._merger.end(finish_of(conversation), usage)]


class _HeldEvents:
    """Holds back the events of a turn from its first call of ours on, until it is known which calls wait."""

    def __init__(self, theirs: frozenset[str]) -> None:
        self._theirs = theirs
        self._events: list[Event] = []

    def take(self, events: Sequence[Event]) -> Sequence[Event]:
        """The events that can be sent now."""
        for place, event in enumerate(events):
            if self._events or self._is_ours(event):
                self._events += events[place:]
                return events[:place]
        return events

    def release(self, waiting: Collection[str] = ()) -> Sequence[Event]:
        """The held events, with a mark in the calls that wait."""
        events, self._events = self._events, []
        return [_mark(event, waiting) for event in events] if waiting else events

    def _is_ours(self, event: Event) -> bool:
        if isinstance(event, InvocationSealed):
            return event.invocation.name not in self._theirs
        return isinstance(event, InvocationBegan) and event.name not in self._theirs


def _mark(event: Event, waiting: Collection[str]) -> Event:
    """The same event; a call that waits is incomplete."""
    if isinstance(event, InvocationSealed) and event.invocation.identifier in waiting:
        return dataclasses.replace(event, invocation=dataclasses.replace(event.invocation, fault=_WAITS))
    return event


def _waiting(conversation: Conversation) -> Mapping[str, Waiting]:
    return {one.invocation: one for one in conversation.waiting if one.why != "caller"}


def denials(conversation: Conversation) -> Sequence[ResultCanister]:
    """Results for the calls that would wait for a person, if they cannot."""
    return [ResultCanister(invocation_id=invocation, error=_UNANSWERED) for invocation in _waiting(conversation)]


def finish_of(conversation: Conversation) -> Finish:
    """The finish of the answer. A run that a tool has ended is a stop for clients."""
    if conversation.open:
        return "open"
    finish = conversation.finish or "error"
    return "stop" if finish == "terminal" else finish


def _has_ended(conversation: Conversation) -> bool:
    """Whether nothing is left to conduct, and only the end was not sent."""
    return conversation.finish in _DONE or (conversation.finish == "open" and not _waiting(conversation))


def _must_wait(paused: Paused, claim: Resumption) -> bool:
    """Whether an answer is missing: of a person, or of a client that has not received its call."""
    conversation = paused.conversation
    callers = of_caller(conversation) if _waiting(conversation) else frozenset[str]()
    untold = conversation.canisters[claim.shown :]
    unknown = any(isinstance(one, InvocationCanister) and one.identifier in callers for one in untold)
    return bool(paused.unanswered) or unknown


def _events_of(canisters: Sequence[Canister], calls: Mapping[str, InvocationCanister]) -> Iterable[Event]:
    """The events of these canisters, as in a run. ``calls`` are earlier ones without a result."""
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
