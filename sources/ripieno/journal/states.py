"""What became of each call of a conversation, as its lines tell it: what resuming needs."""

import dataclasses
import datetime
from collections.abc import Iterable
from typing import Literal

from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.journal.lines import Line

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
