"""Records of a conversation and its calls, and the protocol of their recorders."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from frozendict import frozendict
from msgspec.structs import force_setattr

from ripieno.canisters import Canister, InvocationCanister, ResultCanister
from ripieno.jsonvalues import freeze
from ripieno.values import Value

#: A run ``began`` or ``ended``; a canister was ``said``; a model's answer was complete, with its usage (``turned``); a
#: person was ``asked`` whether a call may run, and ``answered``; a person took back what *always* had allowed
#: (``revoked``), or gave the conversation a title (``titled``); an answer was ``cut`` off, with what the model had
#: written, which is no message; the rest are the outcomes of a call.
Stage = Literal[
    "began",
    "said",
    "turned",
    "asked",
    "answered",
    "revoked",
    "started",
    "finished",
    "refused",
    "discarded",
    "ended",
    "titled",
    "cut",
]


class Record(Value, kw_only=True):
    """One recorded event. Fields that its ``stage`` does not use are empty.

    ``turn`` counts the model's answers; a call has the turn of the answer that requested it. ``tool`` is an invoker's
    identity. ``owner`` is the user or the server's client for whom the run or the call is made; empty where there is
    only one user. ``canister`` is a message. ``details`` are JSON and are frozen here.

    Errors: ``JsonInvalidity`` otherwise.
    """

    stage: Stage
    conversation: str
    turn: int
    tool: str = ""
    owner: str = ""
    invocation: InvocationCanister | None = None
    result: ResultCanister | None = None
    canister: Canister | None = None
    details: Mapping[str, Any] = frozendict[str, Any]()

    def __post_init__(self) -> None:
        if self.details:
            force_setattr(self, "details", freeze(self.details))


def cut_record(
    owner: str, conversation: str, texts: Sequence[Mapping[str, Any]], *, interrupted: bool = False
) -> Record:
    """The record of the texts of an answer that was cut off. ``interrupted``: its server ended, no one stopped it."""
    details = {"texts": texts, **({"interrupted": True} if interrupted else {})}
    return Record(stage="cut", conversation=conversation, turn=0, owner=owner, details=details)


class Recorder(Protocol):
    """Keeps records. ``record`` returns before a call is dispatched; what is durable then survives a crash.

    A recorder whose attribute ``remote`` is true writes over a network. It is called in a thread, one batch after
    another, while the event loop goes on; a call waits until its start is kept.
    """

    def record(self, records: Sequence[Record]) -> None:
        """Keeps all of these in order, or none and raises."""
        ...
