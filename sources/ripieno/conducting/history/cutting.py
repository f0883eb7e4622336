"""Decides when and where a conversation is cut: rarely, and then by a large part.

Each cut invalidates the provider's cached prefix, so nothing is cut until the budget is exceeded, and then enough to
free a part of it. The cuts follow from the canisters alone. A conversation is cut between exchanges: the messages to
the model, its answer, and the results of that answer's calls. An answer directly after results begins one, too.
"""

import bisect
import collections
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias

from ripieno.canisters import (
    Canister,
    DocumentCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from ripieno.conducting.history.increments import Follower
from ripieno.conducting.history.shortening import Shortener
from ripieno.conducting.history.shown import LEFT_OUT, Shown, is_marker, is_of_assistant, marker
from ripieno.exceptions import InputError
from ripieno.values import Value


class Exchanges:
    """The exchanges of a growing conversation. A call and its result are in the same exchange, wherever they are."""

    def __init__(self, canisters: Sequence[Canister] = ()) -> None:
        """Reads the pairs of calls and results in ``canisters`` in advance; adds none of them."""
        #: The position at which each exchange begins.
        self.begins: list[int] = []
        self._reach = -1
        self._before: Canister | None = None
        self._length = 0
        self._pairs = _Pairs()
        pairs = _Pairs()
        self._ends = dict(
            pair for place, canister in enumerate(canisters) if (pair := pairs.add(place, canister)) is not None
        )

    def add(self, canister: Canister) -> bool:
        """Adds a canister. False if an exchange found earlier turns out to be part of the one before it."""
        position, self._length = self._length, self._length + 1
        pair = self._pairs.add(position, canister)
        if pair is not None:
            if self.begins and self.begins[-1] > pair[0]:
                return False
            self._reach = max(self._reach, position)
        before, self._before = self._before, canister
        if before is None or (self._reach < position and _may_begin(before, canister)):
            self.begins.append(position)
        self._reach = max(self._reach, self._ends.get(position, -1))
        return True


def _may_begin(before: Canister, canister: Canister) -> bool:
    if isinstance(canister, ResultCanister):
        return False
    if is_of_assistant(canister):
        return isinstance(before, ResultCanister)
    return is_of_assistant(before) or isinstance(before, ResultCanister)


class _Pairs:
    """The pairs of calls and results; those of a repeated identifier in their order, as in ``models.repair``."""

    def __init__(self) -> None:
        self._calls: dict[str, list[int]] = collections.defaultdict(list)
        self._results: dict[str, list[int]] = collections.defaultdict(list)

    def add(self, position: int, canister: Canister) -> tuple[int, int] | None:
        """The positions of the pair that this canister completes, or None."""
        if isinstance(canister, InvocationCanister):
            own, others = self._calls[canister.identifier], self._results[canister.identifier]
        elif isinstance(canister, ResultCanister):
            own, others = self._results[canister.invocation_id], self._calls[canister.invocation_id]
        else:
            return None
        own.append(position)
        return (others[len(own) - 1], position) if len(others) >= len(own) else None


#: The part of a budget that a canister takes, and that it takes if it stays after a cut. The second argument is whether
#: it begins an exchange.
Weigh: TypeAlias = Callable[[Canister, bool], tuple[int, int]]


class Budget(Value, kw_only=True):
    """The amount to show, and the part of it that a cut leaves. ``marker`` is the cost of a marker's text."""

    amount: int
    keep: float
    marker: int = 0

    def __post_init__(self) -> None:
        if self.amount < 1:
            raise InputError(f"A budget must be at least 1, not {self.amount}.")
        if not 0 <= self.keep < 1:
            raise InputError(f"keep must be at least 0 and less than 1, not {self.keep}.")


class Cut(Value, kw_only=True):
    """A cut: the start of the remaining part, the canisters that stay before it, and the part that it left out."""

    start: int
    staying: tuple[Canister, ...]
    left_out: int
    part: tuple[Canister, ...]


class Cutter(Follower):
    """The cuts of a conversation.

    A request over the budget causes a cut, which leaves the part ``keep`` of the budget without the canisters that
    always stay. At least one exchange remains, which may be too large, and everything from the first open invocation
    on. Supervisors and documents stay, and so do the user's messages that the first exchange answers.
    """

    def __init__(
        self,
        budget: Budget,
        weigh: Weigh,
        canisters: tuple[Canister, ...],
        shortener: Shortener | None = None,
        open: Collection[str] = (),
    ) -> None:
        super().__init__()
        self.cuts: list[Cut] = []
        self._budget, self._weigh, self._open = budget, weigh, open
        #: Its notes are applied.
        self.shortener = shortener
        self._applied = 0
        self._exchanges = Exchanges(canisters)
        self._current: list[Canister] = []
        # The cost before each position: of all canisters, and of those that always stay.
        self._shown, self._stays = [0], [0]
        self._staying: list[int] = []
        self._markers: list[int] = []
        #: For each exchange, the positions of the user's messages in it, and of the last ones before it.
        self._said: list[list[int]] = []
        self._before: list[list[int]] = []
        self._first = 0
        self._waiting: int | None = None

    def shown(self, memory: dict[object, Any], text: str = LEFT_OUT) -> Shown:
        """The remaining part, with ``text`` for the omitted one."""
        end = len(self._current)
        excess = max(0, self._cost(self._first, end) - self._budget.amount) if end else 0
        current: Sequence[Canister] = self._current if self._applied else self.canisters
        if not self.cuts:
            return Shown(canisters=tuple(current), excess=excess)
        cut = self.cuts[-1]
        return Shown(
            canisters=(*cut.staying, marker(text, self.canisters[cut.start], memory), *current[cut.start :]),
            left_out=cut.left_out,
            cuts=len(self.cuts),
            excess=excess,
        )

    def _add(self, position: int, canister: Canister) -> bool:
        known = len(self._exchanges.begins)
        if not self._exchanges.add(canister):
            return False
        begins = len(self._exchanges.begins) > known
        if begins:
            self._before.append((self._said[-1] or self._before[-1]) if self._said else [])
            self._said.append([])
        if isinstance(canister, UserCanister):
            (self._markers if is_marker(canister) else self._said[-1]).append(position)
        elif isinstance(canister, InvocationCanister) and self._waiting is None and canister.identifier in self._open:
            self._waiting = len(self._exchanges.begins) - 1
        shown, staying = self._weigh(canister, begins)
        if always_stays(canister):
            self._staying.append(position)
        self._current.append(canister)
        self._shown.append(self._shown[-1] + shown)
        self._stays.append(self._stays[-1] + (staying if always_stays(canister) else 0))
        return True

    def _request(self, end: int) -> None:
        self._apply_notes(end)
        if self._cost(self._first, end) <= self._budget.amount:
            return
        last = len(self._exchanges.begins) - 1
        if self._waiting is not None:
            last = min(last, self._waiting)
        chosen = next((one for one in range(self._first + 1, last + 1) if self._leaves_enough(one, end)), last)
        if chosen > self._first and self._cost(chosen, end) < self._cost(self._first, end):
            self._cut(chosen)

    def _apply_notes(self, end: int) -> None:
        notes = () if self.shortener is None else self.shortener.notes
        while self._applied < len(notes) and notes[self._applied].end <= end:
            note = notes[self._applied]
            self._applied += 1
            position = note.position
            less = self._weigh(self._current[position], False)[0] - self._weigh(note.canister, False)[0]
            self._current[position] = note.canister
            for place in range(position + 1, len(self._shown)) if less else ():
                self._shown[place] -= less

    def _leaves_enough(self, exchange: int, end: int) -> bool:
        fixed = self._fixed(exchange)
        return self._cost(exchange, end) <= fixed + (self._budget.amount - fixed) * self._budget.keep

    def _cut(self, exchange: int) -> None:
        start, before = self._exchanges.begins[exchange], self._exchanges.begins[self._first]
        positions = [*self._staying[: bisect.bisect_left(self._staying, start)], *self._words(exchange)]
        self.cuts.append(
            Cut(
                start=start,
                staying=tuple(self._current[position] for position in positions),
                left_out=start - len(positions) - bisect.bisect_left(self._markers, start),
                part=tuple(self._current[before:start]),
            )
        )
        self._first = exchange

    def _words(self, exchange: int) -> list[int]:
        """The positions of the user's messages that an exchange answers, if they are before it."""
        return [] if self._said[exchange] else self._before[exchange]

    def _fixed(self, exchange: int) -> int:
        if not exchange:
            return 0
        spoken = sum(self._weigh(self._current[position], False)[1] for position in self._words(exchange))
        return self._stays[self._exchanges.begins[exchange]] + spoken + self._budget.marker

    def _cost(self, exchange: int, end: int) -> int:
        return self._fixed(exchange) + self._shown[end] - self._shown[self._exchanges.begins[exchange]]


def always_stays(canister: Canister) -> bool:
    """Whether a canister is never cut."""
    return isinstance(canister, SupervisorCanister | DocumentCanister)
