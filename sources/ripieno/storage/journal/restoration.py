"""A conversation as its lines tell it: what resuming and forking begin with.

The canisters of a conversation from its records: what was said, and the results of its calls, each in its place.

A result that came of a call stands in the record of its end alone. It belongs behind the answer that asked for it.

What became of each call of a conversation, as its lines tell it: what resuming needs.
"""

import dataclasses
import datetime
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

from ripieno.canisters import AssistantCanister, Canister, Conversation, InvocationCanister, ResultCanister
from ripieno.canisters.controls import Finish
from ripieno.canisters.conversation import NO_USAGE, Usage
from ripieno.canisters.faults import Fault
from ripieno.exceptions import InputError
from ripieno.storage.journal.lines import DELETED, Line
from ripieno.storage.records import Record

_LOST = Fault(
    category="outcome_unknown",
    message="What became of this call was not written down.",
    recoverable=False,
    suggestion="Find out what it did before you repeat it.",
)


class Retelling:
    """A conversation that grows by records. ``turns`` has the answer that each canister belongs to."""

    def __init__(self) -> None:
        self.canisters: list[Canister] = []
        self.turns: list[int] = []
        self._results: dict[tuple[int, str], ResultCanister] = {}

    def take(self, record: Record) -> None:
        """Takes the next record of the conversation."""
        if record.stage == "said" and record.canister is not None:
            self._say(record.canister, record)
        elif record.invocation is not None:
            key = record.turn, record.invocation.identifier
            if record.stage in ("started", "discarded"):
                # Another attempt, or one that no model has seen.
                self._results.pop(key, None)
            elif record.result is not None:
                self._results[key] = record.result

    def finish(self) -> None:
        """Puts the results of the last answer in their place."""
        for invocation, turn in self._pending():
            result = self._results.get((turn, invocation.identifier))
            if result is not None:
                self._add(result, turn)

    def _say(self, canister: Canister, record: Record) -> None:
        place = record.details.get("place")
        if isinstance(place, int) and place < len(self.canisters):
            # Somebody went back to there, and on from there.
            del self.canisters[place:], self.turns[place:]
        speaks = isinstance(canister, AssistantCanister | InvocationCanister)
        if not (speaks and self.turns and self.turns[-1] == record.turn):
            self.finish()
        if isinstance(place, int):
            self._fill(place)
        self._add(canister, record.turn)

    def _fill(self, place: int) -> None:
        """Results of which nothing was written down leave no gap."""
        for invocation, turn in self._pending():
            if len(self.canisters) < place:
                self._add(ResultCanister(invocation_id=invocation.identifier, error=_LOST), turn)

    def _add(self, canister: Canister, turn: int) -> None:
        self.canisters.append(canister)
        self.turns.append(turn)

    def _pending(self) -> list[tuple[InvocationCanister, int]]:
        """The calls of the last answer that have no result yet, in the model's order."""
        calls, results = last_calls(self.canisters)
        return [(call, self.turns[place]) for place, call in calls.items() if call.identifier not in results]


def last_calls(canisters: Sequence[Canister]) -> tuple[dict[int, InvocationCanister], set[str]]:
    """The calls of the last assistant message by their places, and the identifiers of those that have results."""
    calls: dict[int, InvocationCanister] = {}
    results: set[str] = set()
    spoken = False
    for place in reversed(range(len(canisters))):
        canister = canisters[place]
        if isinstance(canister, ResultCanister) and not spoken:
            results.add(canister.invocation_id)
        elif isinstance(canister, AssistantCanister | InvocationCanister):
            spoken = True
            if isinstance(canister, InvocationCanister):
                calls[place] = canister
        else:
            break
    return dict(reversed(calls.items())), results


def retell(records: Iterable[Record]) -> Retelling:
    """All of these records together."""
    told = Retelling()
    for record in records:
        told.take(record)
    told.finish()
    return told


#: ``finished``: it has a result, be it that it was refused. ``never_started``: it can run. ``outcome_unknown``: it was
#: started, nothing is known after that, and it is not to be repeated.
Status = Literal["finished", "never_started", "outcome_unknown"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InvocationState:
    """What became of one call. ``stage`` is the last that its lines tell.

    ``invocation`` and ``result`` are None where no line has them, or where they are deleted. A call whose stage is
    ``discarded`` has run and has its result, which no model has seen.
    """

    identifier: str
    turn: int
    tool: str
    status: Status
    stage: str
    invocation: InvocationCanister | None = None
    result: ResultCanister | None = None


def fold(lines: Iterable[Line]) -> tuple[InvocationState, ...]:
    """The state of each call, in the order in which they are first told of.

    A call is known by its turn and its identifier, since models give identifiers again in later turns. Runs that go on
    with a conversation may count turns anew: a call that is said again, and not as it was, is another one.
    """
    states: dict[tuple[int, str], InvocationState] = {}
    said: dict[tuple[int, str], datetime.datetime] = {}
    for line in lines:
        if line.invocation is None:
            continue
        key = (line.turn, line.invocation)
        before = states.get(key)
        stated = _stated(line)
        if stated is not None:
            if key in said and said[key] != stated.timestamp:
                before = None
            said[key] = stated.timestamp
        elif line.stage == "started" and before is not None and before.status == "finished":
            # It is another one, which runs while the model still speaks of it.
            said.pop(key, None)
        states[key] = _after(before, line, line.invocation)
    return tuple(states.values())


def _stated(line: Line) -> InvocationCanister | None:
    """The call that a line says the model asked for."""
    record = line.record if line.stage == "said" else None
    return record.canister if record is not None and isinstance(record.canister, InvocationCanister) else None


def _after(before: InvocationState | None, line: Line, identifier: str) -> InvocationState:
    state = before or InvocationState(
        identifier=identifier, turn=line.turn, tool=line.tool, status="never_started", stage=line.stage
    )
    record = line.record
    said = None if record is None else record.canister
    invocation = said if isinstance(said, InvocationCanister) else None if record is None else record.invocation
    result = said if isinstance(said, ResultCanister) else None if record is None else record.result
    status = state.status
    if line.stage == "started":
        # Another attempt: what the one before it gave says nothing of this one.
        status, state = "outcome_unknown", dataclasses.replace(state, result=None)
    elif line.stage in ("finished", "refused", "discarded") or result is not None:
        status = "finished"
    return dataclasses.replace(
        state,
        tool=line.tool or state.tool,
        status=status,
        stage=line.stage,
        invocation=invocation or state.invocation,
        result=result or state.result,
    )


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
