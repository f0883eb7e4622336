"""What is written down of a conversation and its calls, and who writes it."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from frozendict import frozendict

from ripieno.canisters import Canister, InvocationCanister, ResultCanister
from ripieno.jsonvalues import freeze

#: What a record tells: a conduct ``began`` or ``ended``; a canister was ``said``; the model's answer was complete, and
#: what it took (``turned``); somebody was ``asked`` whether a call may run, and ``answered``; and what became of it.
Stage = Literal["began", "said", "turned", "asked", "answered", "started", "finished", "refused", "discarded", "ended"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One line of what happened. ``stage`` tells which; what does not belong to it is left empty.

    ``turn`` counts the model's answers; all that concerns one call has the turn of the answer that asked for it.
    ``tool`` is an invoker's identity. ``canister`` is what was said. ``details`` are JSON, and are frozen here.
    Errors: ``JsonInvalidity`` when they are none.
    """

    stage: Stage
    conversation: str
    turn: int
    tool: str = ""
    invocation: InvocationCanister | None = None
    result: ResultCanister | None = None
    canister: Canister | None = None
    details: Mapping[str, Any] = frozendict[str, Any]()

    def __post_init__(self) -> None:
        if self.details:
            object.__setattr__(self, "details", freeze(self.details))


class Recorder(Protocol):
    """Keeps records. What is durable when ``record`` returns is durable before the call is dispatched."""

    def record(self, records: Sequence[Record]) -> None:
        """Keeps these, in this order: all of them, or none and an error."""
        ...
