"""Restoration of a conversation, and of the state of its calls, from journal lines.

The result of a call that ran here is only in the record of the call's end. It belongs after the answer that requested
the call.
"""

import dataclasses
import datetime
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

from ripieno.canisters import AssistantCanister, Canister, Conversation, InvocationCanister, ResultCanister
from ripieno.canisters.controls import Finish
from ripieno.canisters.conversation import NO_USAGE, Usage, assistant_begins
from ripieno.canisters.faults import Fault
from ripieno.exceptions import InputError
from ripieno.jsonvalues import EMPTY
from ripieno.storage.journal.lines import DELETED, Line
from ripieno.storage.records import Record
from ripieno.values import Value

#: What a fork has from the latest run, so that it continues in the same workspace.
_PARTICIPANTS = ("workspace", "model", "tools", "agent", "named_model")
_LOST = Fault(
    category="outcome_unknown",
    message="The outcome of this call was not recorded.",
    recoverable=False,
    suggestion="Find out what it did before you repeat it.",
)


class ReplayedConversation:
    """A conversation built record by record. ``turns`` has the turn of each canister.

    ``missing`` counts the first canisters of the conversation that were not recorded, because a server's client has
    them.
    """

    def __init__(self) -> None:
        self.missing = 0
        self.canisters: list[Canister] = []
        self.turns: list[int] = []
        self._results: dict[tuple[int, str], ResultCanister] = {}

    def take(self, record: Record) -> None:
        """Adds the next record."""
        if record.stage == "said" and record.canister is not None:
            self._say(record.canister, record)
        elif record.invocation is not None:
            key = record.turn, record.invocation.identifier
            if record.stage in ("started", "discarded"):
                # Another attempt, or a result that no model has seen.
                self._results.pop(key, None)
            elif record.result is not None:
                self._results[key] = record.result

    def finish(self) -> None:
        """Adds the results of the last answer in their places."""
        for invocation, turn in self._pending():
            result = self._results.get((turn, invocation.identifier))
            if result is not None:
                self._add(result, turn)

    def _say(self, canister: Canister, record: Record) -> None:
        place = record.details.get("place")
        if isinstance(place, int):
            if not self.canisters or place < self.missing:
                del self.canisters[:], self.turns[:]
                self.missing = place
            place -= self.missing
        if isinstance(place, int) and place < len(self.canisters):
            # The conversation was rolled back to this place and continued.
            del self.canisters[place:], self.turns[place:]
        speaks = isinstance(canister, AssistantCanister | InvocationCanister)
        if not (speaks and self.turns and self.turns[-1] == record.turn):
            self.finish()
        if isinstance(place, int) and len(self.canisters) < place:
            self._fill(place)
        self._add(canister, record.turn)

    def _fill(self, place: int) -> None:
        """Fills gaps where no result was recorded."""
        for invocation, turn in self._pending():
            if len(self.canisters) < place:
                self._add(ResultCanister(invocation_id=invocation.identifier, error=_LOST), turn)

    def _add(self, canister: Canister, turn: int) -> None:
        self.canisters.append(canister)
        self.turns.append(turn)

    def _pending(self) -> list[tuple[InvocationCanister, int]]:
        """The calls of the last answer without a result, in the model's order."""
        calls, results = last_calls(self.canisters)
        return [(call, self.turns[place]) for place, call in calls.items() if call.identifier not in results]


def last_calls(canisters: Sequence[Canister]) -> tuple[dict[int, InvocationCanister], set[str]]:
    """The calls of the last assistant message by place, and the identifiers of those with results."""
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


def replay(records: Iterable[Record]) -> ReplayedConversation:
    """The conversation that a sequence of records builds."""
    conversation = ReplayedConversation()
    for record in records:
        conversation.take(record)
    conversation.finish()
    return conversation


#: ``finished``: it has a result or was refused. ``never_started``: it can run. ``outcome_unknown``: it was started,
#: its end was not recorded, and it must not be repeated.
Status = Literal["finished", "never_started", "outcome_unknown"]


class InvocationState(Value, kw_only=True):
    """The state of one call. ``stage`` is its last recorded stage.

    ``invocation`` and ``result`` are None where no line has them or they are deleted. A call of stage ``discarded`` has
    run and has its result, which no model has seen.
    """

    identifier: str
    turn: int
    tool: str
    status: Status
    stage: str
    invocation: InvocationCanister | None = None
    result: ResultCanister | None = None


def fold(lines: Iterable[Line]) -> tuple[InvocationState, ...]:
    """The state of each call, in order of first mention.

    A call is identified by its turn and identifier, since models reuse identifiers in later turns. A run that continues
    a conversation may count turns anew: a repeated call with another timestamp is another call.
    """
    states: dict[tuple[int, str], InvocationState] = {}
    said: dict[tuple[int, str], datetime.datetime] = {}
    for line in lines:
        if line.invocation is None:
            continue
        key, record = (line.turn, line.invocation), line.record
        before = states.get(key)
        stated = _stated(line, record)
        if stated is not None:
            if key in said and said[key] != stated.timestamp:
                before = None
            said[key] = stated.timestamp
        elif line.stage == "started" and before is not None and before.status == "finished":
            # Another call, started while the model still streams it.
            said.pop(key, None)
        states[key] = _after(before, line, record, line.invocation)
    return tuple(states.values())


def _stated(line: Line, record: Record | None) -> InvocationCanister | None:
    """The call that a line records as requested by the model."""
    said = record.canister if record is not None and line.stage == "said" else None
    return said if isinstance(said, InvocationCanister) else None


def _after(before: InvocationState | None, line: Line, record: Record | None, identifier: str) -> InvocationState:
    state = before or InvocationState(
        identifier=identifier, turn=line.turn, tool=line.tool, status="never_started", stage=line.stage
    )
    said = None if record is None else record.canister
    invocation = said if isinstance(said, InvocationCanister) else None if record is None else record.invocation
    result = said if isinstance(said, ResultCanister) else None if record is None else record.result
    status = state.status
    if line.stage == "started":
        # Another attempt: the result of the earlier one does not apply.
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


#: The finishes of answers that are in the conversation and are not complete.
SHORT: tuple[Finish | None, ...] = ("length", "filter")


class Unfinished(Value, kw_only=True):
    """An answer that is not complete.

    ``texts`` has what the model wrote before the answer was cut off: that is no part of the conversation. Without
    texts, the answer is, and ends before this ``place``, which counts canisters. ``finish`` is that of its run.
    """

    place: int
    texts: tuple[Mapping[str, Any], ...]
    finish: Finish | None = None

    def mapping(self) -> dict[str, Any]:
        """The JSON form."""
        return {"place": self.place, "texts": [dict(one) for one in self.texts], "finish": self.finish}


class Restored(Value, kw_only=True):
    """A conversation from its journal, with fingerprints in place of secrets.

    ``conversation.open`` are the calls of the last assistant message without a result. ``states`` are those of that
    message's calls, in the model's order. ``ended``: no run was interrupted. ``turns`` has the turn of each canister.
    ``missing`` counts the first canisters, which a server's client has and the journal does not. ``owner`` is the user
    or the client for whom it was recorded. ``cut`` has what the model wrote at last, if its answer was cut off, and
    ``unfinished`` the earlier answers that are not complete. ``participants`` are the workspace, the model and the
    tools of the latest run, as far as they are recorded.
    """

    conversation: Conversation
    states: tuple[InvocationState, ...]
    ended: bool
    turns: tuple[int, ...]
    missing: int = 0
    owner: str = ""
    cut: tuple[Mapping[str, Any], ...] = ()
    unfinished: tuple[Unfinished, ...] = ()
    participants: Mapping[str, Any] = EMPTY

    def after(self, canisters: Sequence[Canister]) -> "Restored":
        """The conversation with the missing canisters, which come first."""
        whole = self.conversation.replace(canisters=(*canisters, *self.conversation.canisters))
        turns = (*(0 for _ in canisters), *self.turns)
        return dataclasses.replace(self, conversation=whole, turns=turns, missing=self.missing - len(canisters))

    def require_all(self) -> None:
        """Errors: ``InputError`` if canisters are missing."""
        if self.missing:
            raise InputError(
                f"The journal does not have the first {self.missing} messages of this conversation: the client of "
                "the gateway has them, and can continue it."
            )

    def fork(self) -> tuple[Conversation, list[Record]]:
        """The conversation under a new identifier, and the records that begin it in a journal.

        Errors: ``InputError`` if canisters are missing.
        """
        self.require_all()
        forked = dataclasses.replace(self.conversation, identifier=uuid.uuid4().hex, finish=None)
        origin = {"conversation": self.conversation.identifier, "messages": len(forked.canisters)}
        details = {**self.participants, "forked": {**origin, "usage": dataclasses.asdict(forked.usage)}}
        said = (
            Record(stage="said", conversation=forked.identifier, turn=turn, owner=self.owner, canister=canister)
            for canister, turn in zip(forked.canisters, self.turns, strict=True)
        )
        began = Record(stage="began", conversation=forked.identifier, turn=0, owner=self.owner, details=details)
        return forked, [began, *said]


def restore(conversation: str, lines: Iterable[Line], *, until: int | None = None) -> Restored:
    """The conversation of its lines, or its first ``until`` canisters.

    Errors: ``InputError`` when it was deleted, has fewer canisters, or the last of them is in the middle of a turn.
    """
    replayed, calling = ReplayedConversation(), list[Line]()
    usages: list[tuple[int, Usage]] = []
    finish, ended, owner, texts, place = None, True, "", (), 0
    unfinished: list[Unfinished] = []
    participants: Mapping[str, Any] = EMPTY
    for line in lines:
        if line.stage == DELETED:
            continue
        record = line.record
        if record is None:
            raise InputError(f"The content of the conversation {conversation!r} was deleted.")
        replayed.take(record)
        if record.stage == "said" and isinstance(said := record.details.get("place"), int):
            # A conversation that was rolled back has others.
            unfinished = [one for one in unfinished if one.place <= said]
        owner = record.owner
        if line.invocation is not None:
            calling.append(line)
        if record.stage == "turned":
            usages.append((record.turn, _usage(record.details)))
            # An answer without calls ends the run, even if the end was not recorded.
            finish = _finish(record)
            if finish in SHORT:
                end = replayed.missing + len(replayed.canisters)
                unfinished.append(Unfinished(place=end, texts=(), finish=finish))
        elif record.stage in ("began", "ended"):
            if texts:
                unfinished.append(Unfinished(place=place, texts=texts, finish=finish))
            origin: Any = record.details.get("forked")
            ended = record.stage == "ended" or origin is not None
            usages.append((0, _usage(origin or {})))
            finish, texts = _finish(record), ()
            if record.stage == "began":
                participants = {key: record.details[key] for key in _PARTICIPANTS if key in record.details}
        elif record.stage == "cut":
            texts = tuple(record.details.get("texts", ()))
            replayed.finish()
            place = replayed.missing + len(replayed.canisters)
            interrupted = bool(record.details.get("interrupted"))
            ended, finish = ended and not interrupted, None if interrupted else finish
    replayed.finish()
    everything = tuple(replayed.canisters)
    canisters, turns = everything[:until], replayed.turns[:until]
    if until is not None:
        check_cut(canisters, until, everything)
    cut, last = len(canisters) < len(everything), max(turns, default=0)
    calls, results = last_calls(canisters)
    # Only the lines of these calls are read again: no record of a long conversation stays in memory.
    wanted = {(turns[place], one.identifier) for place, one in calls.items()}
    folded = fold(line for line in calling if (line.turn, line.invocation) in wanted)
    states = {(state.turn, state.identifier): state for state in folded}
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
        missing=replayed.missing,
        owner=owner,
        cut=() if cut else texts,
        unfinished=tuple(one for one in unfinished if one.place <= replayed.missing + len(canisters)),
        participants=participants,
    )


def check_cut(canisters: Sequence[Canister], until: int, everything: Sequence[Canister]) -> None:
    """Checks that a conversation can be cut there. Errors: ``InputError``, which names a valid place."""
    if until < 1 or len(canisters) < until:
        raise InputError(f"There is no message {until}; the conversation has {len(everything)}. Count from 1.")
    if not is_cut(canisters, everything):
        before_turn = max(place for place, begins in enumerate(assistant_begins(canisters)) if begins)
        raise InputError(
            f"Message {until} is in the middle of a turn; calls and their results stay together. "
            f"Cut after all results of the turn, or before it, at {before_turn}."
        )


def is_cut(canisters: Sequence[Canister], everything: Sequence[Canister]) -> bool:
    """Whether the first canisters of a conversation, at least one, end with a whole turn."""
    following = everything[len(canisters)] if len(canisters) < len(everything) else None
    calls, results = last_calls(canisters)
    speaking = isinstance(canisters[-1], AssistantCanister | InvocationCanister)
    return not (
        isinstance(following, ResultCanister)
        or (speaking and isinstance(following, AssistantCanister | InvocationCanister))
        or any(call.identifier not in results for call in calls.values())
    )


def _usage(details: Mapping[str, Any]) -> Usage:
    counts: Any = details.get("usage") or {}
    names = (field.name for field in dataclasses.fields(Usage))
    return Usage(**{name: counts[name] for name in names if isinstance(counts.get(name), int)})


def _finish(record: Record) -> Finish | None:
    found: Any = record.details.get("finish") if record.stage in ("turned", "ended") else None
    return found if found in get_args(Finish) and found != "invocations" else None
