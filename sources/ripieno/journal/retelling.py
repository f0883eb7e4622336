"""The canisters of a conversation from its records: what was said, and the results of its calls, each in its place.

A result that came of a call stands in the record of its end alone. It belongs behind the answer that asked for it.
"""

from collections.abc import Iterable, Sequence

from ripieno.canisters import AssistantCanister, Canister, InvocationCanister, ResultCanister
from ripieno.canisters.faults import Fault
from ripieno.recording import Record

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
