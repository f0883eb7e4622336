"""A conversation: a frozen value with its canisters and its state."""

import dataclasses
import itertools
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec
from frozendict import frozendict
from msgspec.structs import force_setattr

from ripieno.canisters.canisters import AssistantCanister, Canister, InvocationCanister, ResultCanister, UserCanister
from ripieno.canisters.contents import freeze_fields, tuple_fields
from ripieno.canisters.controls import Finish
from ripieno.canisters.faults import Fault
from ripieno.exceptions import InputError, UsageError
from ripieno.jsonvalues import thaw
from ripieno.values import Value


class Usage(Value, kw_only=True):
    """Tokens, as the provider counts them. ``input_tokens`` includes those read from a cache."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens


NO_USAGE = Usage()
#: What an application does about open invocations.
_FIRST = 'Add their results first, or decline them: conversation.decline_open("reason"), or say(…, declining=True).'


class Stateful:
    """Hidden slots: the namespaces of the ensembles, and the canisters that a recorder has.

    They are not compared, printed, copied, pickled or serialized, so a conversation that is loaded or forked starts
    with empty namespaces.
    """

    __slots__ = ("kept", "state")
    state: dict[str, dict[str, object]]
    kept: tuple[object, tuple[Canister, ...]]


class Waiting(Value, kw_only=True):
    """The reason why an open invocation waits.

    ``approval``: no one was available to approve it; ``request`` is the question to show, and ``binding`` is what an
    approval covers. ``behind``: it conflicts with an earlier call that waits. ``caller``: the application runs it.
    ``interrupted``: its run ended before it began.
    """

    invocation: str
    why: Literal["approval", "behind", "caller", "interrupted"]
    tool: str = ""
    request: frozendict[str, object] = frozendict()
    binding: frozendict[str, object] = frozendict()

    def __post_init__(self) -> None:
        freeze_fields(self, "request", "binding")


class Conversation(Stateful, Value, kw_only=True):
    """All messages so far.

    ``open`` are the invocations that wait for a client or an absent person; ``waiting`` has the reason for each.
    Only their results continue the conversation: pass a client's results to ``say``; to get those that wait for a
    person, conduct the conversation again. ``submission`` is the call of a terminal invoker.
    """

    identifier: str = msgspec.field(default_factory=lambda: uuid.uuid4().hex)
    canisters: tuple[Canister, ...] = ()
    open: tuple[InvocationCanister, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    submission: InvocationCanister | None = None
    usage: Usage = NO_USAGE
    finish: Finish | None = None

    def __post_init__(self) -> None:
        tuple_fields(self, "canisters", "open", "waiting")

    @classmethod
    def of(cls, what: "str | Canister | Sequence[Canister] | Conversation") -> "Conversation":
        """A conversation that begins with a text or canisters; a conversation is returned unchanged."""
        if isinstance(what, Conversation):
            return what
        return cls(canisters=_canisters(what))

    def say(self, what: str | Canister | Sequence[Canister], *, declining: bool = False) -> "Conversation":
        """The next conversation to conduct. Results close their open invocations.

        ``declining``: invocations that stay open are declined before anything else is said. Errors: ``InputError`` for
        any canister but a result while invocations are open, and for a result that belongs to none of them.
        """
        added = _canisters(what)
        if declining and self.open:
            results = [one for one in added if isinstance(one, ResultCanister)]
            rest = [one for one in added if not isinstance(one, ResultCanister)]
            return self.say(results).decline_open("The user said something else instead.").say(rest)
        waiting = {invocation.identifier for invocation in self.open}
        for canister in added:
            if isinstance(canister, ResultCanister):
                if canister.invocation_id not in waiting:
                    raise InputError(f"No open invocation has the identifier {canister.invocation_id!r}.")
                waiting.discard(canister.invocation_id)
            elif waiting:
                names = ", ".join(f"{one.name} ({one.identifier})" for one in self.open if one.identifier in waiting)
                raise InputError(f"These invocations wait for their results: {names}. {_FIRST}")
        return self.replace(
            canisters=self.canisters + added,
            open=tuple(one for one in self.open if one.identifier in waiting),
            waiting=tuple(one for one in self.waiting if one.invocation in waiting),
            finish=None,
            submission=None,
        )

    def decline_open(self, reason: str = "") -> "Conversation":
        """The conversation with a denial as the result of each open invocation; the model reads ``reason``."""
        return self.say(
            [
                ResultCanister(
                    invocation_id=one.identifier,
                    error=Fault(
                        category="denied",
                        message=f"The call of {one.name!r} was declined.",
                        recoverable=False,
                        suggestion=reason or None,
                    ),
                )
                for one in self.open
            ]
        )

    def replace(self, **fields: Any) -> "Conversation":
        """The conversation with other fields and the same namespaces."""
        successor = dataclasses.replace(self, **fields)
        force_setattr(successor, "state", self.namespaces)
        if hasattr(self, "kept"):
            force_setattr(successor, "kept", self.kept)
        return successor

    def note_kept(self, recorder: object, canisters: tuple[Canister, ...]) -> None:
        """Stores that a recorder has these canisters of the conversation."""
        force_setattr(self, "kept", (recorder, canisters))

    def kept_by(self, recorder: object) -> int:
        """The number of its first canisters that a recorder has."""
        owner, canisters = getattr(self, "kept", (None, ()))
        if owner is not recorder:
            return 0
        return common_beginning(canisters, self.canisters)

    @property
    def namespaces(self) -> dict[str, dict[str, object]]:
        """The data that tools keep between calls of this conversation, by the name of the ensemble."""
        try:
            return self.state
        except AttributeError:
            force_setattr(self, "state", {})
            return self.state

    @property
    def text(self) -> str:
        """The last text of the assistant; empty if it only made calls, or if a user message follows."""
        parts: list[str] = []
        for canister in itertools.dropwhile(lambda one: isinstance(one, ResultCanister), reversed(self.canisters)):
            if isinstance(canister, AssistantCanister):
                parts.append(canister.text)
            elif not isinstance(canister, InvocationCanister):
                break
        return "".join(reversed(parts))

    def turn_mapping(self, number: int) -> dict[str, object]:
        """The calls and results of assistant message ``number``, from 1 (seed 000, section 6.4).

        Errors: ``InputError`` if there is no such message.
        """
        turns = assistant_messages(self.canisters)
        if not 1 <= number <= len(turns):
            raise InputError(f"There is no turn {number}; this conversation has {len(turns)}.")
        invocations = [one for one in turns[number - 1] if isinstance(one, InvocationCanister)]
        identifiers = {one.identifier for one in invocations}
        results = [
            one for one in self.canisters if isinstance(one, ResultCanister) and one.invocation_id in identifiers
        ]
        return {
            "assistant_message": {
                "role": "assistant",
                "tool_calls": [
                    {"id": one.identifier, "name": one.name, "arguments": thaw(one.arguments)} for one in invocations
                ],
            },
            "tool_results": [
                {"tool_call_id": one.invocation_id, "success": one.error is None, "output": one.text} for one in results
            ],
        }


def _canisters(what: str | Canister | Sequence[Canister]) -> tuple[Canister, ...]:
    if isinstance(what, str):
        return (UserCanister.of(what),)
    if isinstance(what, Canister):
        return (what,)
    several: Any = what
    given: tuple[Any, ...] = tuple(several) if hasattr(several, "__iter__") else (several,)
    if others := [one for one in given if not isinstance(one, Canister)]:
        found = f"not {type(others[0]).__name__}: {others[0]!r:.100}"
        raise UsageError(f"A conversation continues with a text, with canisters, or from a conversation, {found}")
    return given


def common_beginning(one: Sequence[Canister], other: Sequence[Canister]) -> int:
    """The number of first canisters that are the same objects in both."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, theirs) in pairs if mine is not theirs), min(len(one), len(other)))


def assistant_begins(canisters: Sequence[Canister]) -> Iterator[bool]:
    """For each canister, whether it begins an assistant message: a run of assistant and invocation canisters."""
    running = False
    for canister in canisters:
        speaks = isinstance(canister, AssistantCanister | InvocationCanister)
        yield speaks and not running
        running = speaks


def assistant_messages(canisters: Sequence[Canister]) -> list[list[AssistantCanister | InvocationCanister]]:
    """The canisters of each assistant message."""
    messages: list[list[AssistantCanister | InvocationCanister]] = []
    for canister, begins in zip(canisters, assistant_begins(canisters), strict=True):
        if begins:
            messages.append([])
        if isinstance(canister, AssistantCanister | InvocationCanister):
            messages[-1].append(canister)
    return messages
