"""Events of a run, the same for every provider.

Deltas are for display only; sealed events are complete. A turn is::

    TurnBegan
      ( TextDelta* | ReasoningDelta* )  ContentSealed
      InvocationBegan  ArgumentsDelta*  InvocationSealed      any number, in the model's order of sealing
    TurnEnded

Conducting adds the events of executing the calls. All are frozen; ``mapping()`` is the form for wires.
"""

import dataclasses
from collections.abc import AsyncGenerator, Iterable
from typing import TypeAlias

from frozendict import frozendict

from ripieno.canisters.canisters import AssistantCanister, Canister, InvocationCanister, InvocationKind, ResultCanister
from ripieno.canisters.contents import Content
from ripieno.canisters.controls import Finish
from ripieno.canisters.conversation import NO_USAGE, Usage
from ripieno.canisters.faults import Effect
from ripieno.canisters.serialization import describe, register


class EventBase:
    """The base of every event, also of those that a server adds."""

    __slots__ = ()

    def mapping(self) -> dict[str, object]:
        """The form for wires, class name and all fields: ``{"type": "TextDelta", "text": "…"}``."""
        return {"type": type(self).__name__, **describe(self)}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TurnBegan(EventBase):
    """A model begins to answer. ``turn`` counts from 1."""

    model: str = ""
    turn: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class TextDelta(EventBase):
    """The next part of the model's text."""

    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class ReasoningDelta(EventBase):
    """The next part of the model's reasoning, as far as its provider shows it."""

    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class ContentSealed(EventBase):
    """A content of the assistant is complete."""

    content: Content


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InvocationBegan(EventBase):
    """The model begins a call. ``index`` distinguishes the calls of a turn.

    ``kind`` and ``opaque`` are those of the sealed invocation, as far as they are known yet.
    """

    index: int
    identifier: str
    name: str
    kind: InvocationKind = "function"
    opaque: frozendict[str, object] = frozendict()  # noqa: RUF009


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentsDelta(EventBase):
    """The next part of a call's arguments, as text."""

    index: int
    text: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InvocationSealed(EventBase):
    """A call is complete."""

    index: int
    invocation: InvocationCanister


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded(EventBase):
    """The model's answer is complete. ``reason`` is the provider's own stop reason."""

    finish: Finish
    usage: Usage = NO_USAGE
    reason: str | None = None
    turn: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmationRequested(EventBase):
    """The confirmer is asked whether a call may run. The event is only a notification.

    ``request`` is ``ConfirmationRequest.mapping()``: all that a person needs to decide, with the possible answers.
    """

    invocation: InvocationCanister
    tool: str
    effect: Effect
    reason: str
    request: frozendict[str, object] = frozendict()  # noqa: RUF009


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionBegan(EventBase):
    """A call starts. ``early`` is whether the model still streams."""

    invocation: InvocationCanister
    tool: str
    early: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionProgress(EventBase):
    """The progress of a call, as its tool reports it. ``total`` is None if unknown."""

    invocation_id: str
    tool: str
    done: float
    total: float | None = None
    message: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ResultReady(EventBase):
    """A call has its one result. ``discarded``: its stream failed, so the model never sees it.

    ``seal`` lets the server that ran the call recognize the result when a client sends it back; empty elsewhere.
    """

    invocation: InvocationCanister
    result: ResultCanister
    tool: str
    early: bool = False
    discarded: bool = False
    seal: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Alert(EventBase):
    """A notice for the application, not for the model."""

    message: str
    tool: str | None = None
    details: frozendict[str, object] = frozendict()  # noqa: RUF009


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConductEnded(EventBase):
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
