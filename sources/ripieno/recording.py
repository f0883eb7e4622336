"""What is written down of calls, and who writes it."""

import dataclasses
from collections.abc import Sequence
from typing import Literal, Protocol

from ripieno.canisters import InvocationCanister, ResultCanister


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One line of what happened to a call. ``stage`` tells which."""

    stage: Literal["started", "finished", "refused", "discarded"]
    conversation: str
    turn: int
    tool: str
    invocation: InvocationCanister
    result: ResultCanister | None = None


class Recorder(Protocol):
    """Keeps records. What is durable when ``record`` returns is durable before the call is dispatched."""

    def record(self, records: Sequence[Record]) -> None:
        """Keeps these, in this order."""
        ...
