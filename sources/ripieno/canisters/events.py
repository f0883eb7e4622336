"""Events of a run, the same for every provider.

Deltas are for display only; sealed events are complete. A turn is::

    TurnBegan
      ( TextDelta* | ReasoningDelta* )  ContentSealed
      InvocationBegan  ArgumentsDelta*  InvocationSealed      any number, in the model's order of sealing
    TurnEnded

Conducting adds the events of executing the calls. All are frozen; ``mapping()`` is the form for wires.
"""

from collections.abc import AsyncGenerator, Iterable
from typing import TypeAlias

from frozendict import frozendict

from ripieno.canisters.canisters import AssistantCanister, Canister, InvocationCanister, InvocationKind, ResultCanister
from ripieno.canisters.contents import Content
from ripieno.canisters.controls import Finish
from ripieno.canisters.conversation import NO_USAGE, Usage
from ripieno.canisters.faults import Effect
from ripieno.canisters.serialization import describe, register
from ripieno.values import Value


class EventBase(Value):
    """The base of every event, also of those that a server adds."""

    def mapping(self) -> dict[str, object]:
        """The form for wires, class name and all fields: ``{"type": "TextDelta", "text": "…"}``."""
        return {"type": type(self).__name__, **describe(self)}


class TurnBegan(EventBase, kw_only=True):
    """A model begins to answer. ``turn`` counts from 1."""

    model: str = ""
    turn: int = 0


class TextDelta(EventBase):
    """The next part of the model's text."""

    text: str


class ReasoningDelta(EventBase):
    """The next part of the model's reasoning, as far as its provider shows it."""

    text: str


class ContentSealed(EventBase):
    """A content of the assistant is complete."""

    content: Content


class InvocationBegan(EventBase, kw_only=True):
    """The model begins a call. ``index`` distinguishes the calls of a turn.

    ``kind`` and ``opaque`` are those of the sealed invocation, as far as they are known yet.
    """

    index: int
    identifier: str
    name: str
    kind: InvocationKind = "function"
    opaque: frozendict[str, object] = frozendict()


class ArgumentsDelta(EventBase, kw_only=True):
    """The next part of a call's arguments, as text."""

    index: int
    text: str


class InvocationSealed(EventBase, kw_only=True):
    """A call is complete."""

    index: int
    invocation: InvocationCanister


class TurnEnded(EventBase, kw_only=True):
    """The model's answer is complete. ``reason`` is the provider's own stop reason."""

    finish: Finish
    usage: Usage = NO_USAGE
    reason: str | None = None
    turn: int = 0


class ConfirmationRequested(EventBase, kw_only=True):
    """The confirmer is asked whether a call may run. The event is only a notification.

    ``request`` is ``ConfirmationRequest.mapping()``: all that a person needs to decide, with the possible answers.
    """

    invocation: InvocationCanister
    tool: str
    effect: Effect
    reason: str
    request: frozendict[str, object] = frozendict()


class ExecutionBegan(EventBase, kw_only=True):
    """A call starts. ``early`` is whether the model still streams."""

    invocation: InvocationCanister
    tool: str
    early: bool = False


class ExecutionProgress(EventBase, kw_only=True):
    """The progress of a call, as its tool reports it. ``total`` is None if unknown."""

    invocation_id: str
    tool: str
    done: float
    total: float | None = None
    message: str = ""


class ResultReady(EventBase, kw_only=True):
    """A call has its one result. ``discarded``: its stream failed, so the model never sees it.

    ``seal`` lets the server that ran the call recognize the result when a client sends it back; empty elsewhere.
    """

    invocation: InvocationCanister
    result: ResultCanister
    tool: str
    early: bool = False
    discarded: bool = False
    seal: str = ""


class Alert(EventBase, kw_only=True):
    """A notice for the application, not for the model."""

    message: str
    tool: str | None = None
    details: frozendict[str, object] = frozendict()


class ConductEnded(EventBase, kw_only=True):
    """A run has ended. ``calls`` counts the calls that were started."""

    finish: Finish
    turns: int
    calls: int
    usage: Usage = NO_USAGE


ModelEvent: TypeAlias = (
    TurnBegan
    | TextDelta
    | ReasoningDelta
    | ContentSealed
    | InvocationBegan
    | ArgumentsDelta
    | InvocationSealed
    | TurnEnded
    | Alert
)
Event: TypeAlias = ModelEvent | ConfirmationRequested | ExecutionBegan | ExecutionProgress | ResultReady | ConductEnded


#: The names under which events are stored.
register(
    {
        TurnBegan: "turn began",
        TextDelta: "text delta",
        ReasoningDelta: "reasoning delta",
        ContentSealed: "content sealed",
        InvocationBegan: "invocation began",
        ArgumentsDelta: "arguments delta",
        InvocationSealed: "invocation sealed",
        TurnEnded: "turn ended",
        ConfirmationRequested: "confirmation requested",
        ExecutionBegan: "execution began",
        ExecutionProgress: "execution progress",
        ResultReady: "result ready",
        Alert: "alert",
        ConductEnded: "conduct ended",
    }
)

#: Events in batches, as they arrive.
Batches: TypeAlias = AsyncGenerator[Iterable[Event], None]


def merged(before: object, event: object) -> Event | None:
    """One event for two of them that follow each other, if who displays them sees no difference."""
    joined: Event | None = None
    match before, event:
        case TextDelta(text=first), TextDelta(text=second):
            joined = TextDelta(first + second)
        case ReasoningDelta(text=first), ReasoningDelta(text=second):
            joined = ReasoningDelta(first + second)
        case ArgumentsDelta(index=one, text=first), ArgumentsDelta(index=other, text=second) if one == other:
            joined = ArgumentsDelta(index=one, text=first + second)
        case ExecutionProgress(invocation_id=one), ExecutionProgress(invocation_id=other) if one == other:
            joined = event
        case _:
            pass
    return joined


def collect(events: Iterable[Event]) -> tuple[Canister, ...]:
    """The canisters of one assistant message, from its sealed events, in the model's order.

    The first is always an assistant canister; it is empty if the assistant only makes calls.
    """
    canisters: list[Canister] = []
    contents: list[Content] = []
    for event in events:
        if isinstance(event, ContentSealed):
            contents.append(event.content)
        elif isinstance(event, InvocationSealed):
            if contents or not canisters:
                canisters.append(AssistantCanister(content=tuple(contents)))
                contents.clear()
            canisters.append(event.invocation)
    if contents or not canisters:
        canisters.append(AssistantCanister(content=tuple(contents)))
    return tuple(canisters)


def play(canisters: Iterable[Canister], *, finish: Finish, usage: Usage = NO_USAGE, model: str = "") -> Iterable[Event]:
    """The events of a complete assistant message: the inverse of ``collect``."""
    yield TurnBegan(model=model)
    index = 0
    for canister in canisters:
        if isinstance(canister, AssistantCanister):
            for content in canister.content:
                yield ContentSealed(content)
        elif isinstance(canister, InvocationCanister):
            yield InvocationSealed(index=index, invocation=canister)
            index += 1
    yield TurnEnded(finish=finish, usage=usage)
