"""A conversation as its lines tell it: what resuming and forking begin with."""

import dataclasses
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from ripieno.canisters import AssistantCanister, Canister, Conversation, InvocationCanister, ResultCanister
from ripieno.canisters.controls import Finish
from ripieno.canisters.conversation import NO_USAGE, Usage
from ripieno.exceptions import InputError
from ripieno.journal.lines import DELETED, Line
from ripieno.journal.retelling import last_calls, retell
from ripieno.journal.states import InvocationState, fold
from ripieno.recording import Record


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """A conversation from its journal. In place of secrets it has their fingerprints.

    ``conversation.open`` are the calls of the last assistant message that have no result; ``states`` tells
    what became of each call of that message, in the model's order. ``ended``: no conduct was left in the middle.
    """

    conversation: Conversation
    states: tuple[InvocationState, ...]
    ended: bool
    #: For each canister, the turn that it was said in.
    turns: tuple[int, ...]

    def fork(self) -> tuple[Conversation, list[Record]]:
        """The same conversation under a new identifier, and the records that begin it in a journal."""
        forked = dataclasses.replace(self.conversation, identifier=uuid.uuid4().hex, finish=None)
        origin = {"conversation": self.conversation.identifier, "messages": len(forked.canisters)}
        details = {"forked": {**origin, "usage": dataclasses.asdict(forked.usage)}}
        said = (
            Record(stage="said", conversation=forked.identifier, turn=turn, canister=canister)
            for canister, turn in zip(forked.canisters, self.turns, strict=True)
        )
        return forked, [Record(stage="began", conversation=forked.identifier, turn=0, details=details), *said]


def restore(conversation: str, lines: Iterable[Line], *, until: int | None = None) -> Restored:
    """The conversation of these lines, which are all of its own, or its first ``until`` canisters.

    Errors: ``InputError`` when it was deleted, when there are not so many canisters, and when the last of them is in
    the middle of a turn.
    """
    kept = [line for line in lines if line.stage != DELETED]
    records: list[Record] = []
    usages: list[tuple[int, Usage]] = []
    finish, ended = None, True
    for line in kept:
        record = line.record
        if record is None:
            raise InputError(f"What was said in the conversation {conversation!r} was deleted.")
        records.append(record)
        if record.stage == "turned":
            usages.append((record.turn, _usage(record.details)))
            # An answer without calls is the end, whether or not that was written down.
            finish = _finish(record)
        elif record.stage in ("began", "ended"):
            origin: Any = record.details.get("forked")
            ended = record.stage == "ended" or origin is not None
            usages.append((0, _usage(origin or {})))
            finish = _finish(record)
    told = retell(records)
    whole = tuple(told.canisters)
    canisters, turns = whole[:until], told.turns[:until]
    if until is not None:
        _check_cut(canisters, until, whole)
    cut, last = len(canisters) < len(whole), max(turns, default=0)
    calls, results = last_calls(canisters)
    states = {(state.turn, state.identifier): state for state in fold(kept)}
    return Restored(
        conversation=Conversation(
            identifier=conversation,
            canisters=canisters,
            open=tuple(one for one in calls.values() if one.identifier not in results),
            usage=sum((usage for turn, usage in usages if turn <= last), start=NO_USAGE),
            finish=None if cut else finish,
        ),
        states=tuple(states[(turns[place], one.identifier)] for place, one in calls.items()),
        ended=ended or cut,
        turns=tuple(turns),
    )


def _check_cut(canisters: Sequence[Canister], until: int, everything: Sequence[Canister]) -> None:
    """Errors: ``InputError``, which says where it can be cut instead."""
    if until < 1 or len(canisters) < until:
        raise InputError(f"There is no message {until}; the conversation has {len(everything)}. Count from 1.")
    following = everything[until] if until < len(everything) else None
    calls, results = last_calls(canisters)
    speaking = isinstance(canisters[-1], AssistantCanister | InvocationCanister)
    if (
        isinstance(following, ResultCanister)
        or (speaking and isinstance(following, AssistantCanister | InvocationCanister))
        or any(call.identifier not in results for call in calls.values())
    ):
        raise InputError(
            f"Message {until} is in the middle of a turn: calls and their results stay together. "
            f"Cut behind all results of the turn, or before it, at {_before_turn(canisters)}."
        )


def _before_turn(canisters: Sequence[Canister]) -> int:
    """How many canisters stand before the last turn."""
    count = len(canisters)
    while count and isinstance(canisters[count - 1], ResultCanister):
        count -= 1
    while count and isinstance(canisters[count - 1], AssistantCanister | InvocationCanister):
        count -= 1
    return count


def _usage(details: Mapping[str, Any]) -> Usage:
    told: Any = details.get("usage") or {}
    names = (field.name for field in dataclasses.fields(Usage))
    return Usage(**{name: told[name] for name in names if isinstance(told.get(name), int)})


def _finish(record: Record) -> Finish | None:
    found: Any = record.details.get("finish") if record.stage in ("turned", "ended") else None
    return found if found in get_args(Finish) and found != "invocations" else None
