"""Results that become notes: stale ones where that saves more than it breaks, and the oldest of what has a budget.

The rule of costs for stale results: replacing one breaks the provider's cache from there on. What stood after it in the
last request must be read anew: its tokens, without those that are saved, are the cost. Of all ways to replace the stale
results from one of them on, that one is taken whose saved tokens less ``weight`` times the cost are most, if they are
more than 0. What has not been sent yet costs nothing.

Budgets are kept as conversations are cut: rarely, and then far. What the model has not read yet stays.
"""

import collections
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from ripieno.canisters import Canister, InvocationCanister, OpaqueContent, ResultCanister, TextualContent
from ripieno.conducting.history.increments import Follower
from ripieno.conducting.history.shown import Shown, remember
from ripieno.conducting.history.supersession import Supersession

#: What stands in place of a stale result, and of one that its ensemble has no room for.
STALE = "(Left out: stale since a later call of {name}.)"
CROWDED = "(Left out: too many tokens were taken by results of {name}. Call again if it is needed.)"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What stands in place of the result at a position, since the request with ``end`` canisters before it."""

    end: int
    position: int
    canister: ResultCanister


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Short:
    """A result that may become a note: where it stands, the note, and the tokens that saves."""

    position: int
    note: ResultCanister
    saved: int


@dataclasses.dataclass(slots=True, kw_only=True)
class _Room:
    """The results of an ensemble with a budget, oldest first, and the tokens of those that are no notes."""

    limit: int
    results: collections.deque[_Short] = dataclasses.field(default_factory=collections.deque[_Short])
    taken: int = 0


class Shortener(Follower):
    """The notes of one conversation. ``keep`` is the part of an ensemble's budget that is left when it was passed."""

    def __init__(
        self,
        supersession: Supersession,
        *,
        weight: float,
        keep: float,
        count: Callable[[Canister], int],
        memory: dict[object, Any],
    ) -> None:
        super().__init__()
        self.notes: list[Note] = []
        #: How often something was changed that had been sent.
        self.breaks = 0
        self._supersession, self._weight, self._keep = supersession, weight, keep
        self._count, self._memory = count, memory
        self._current: list[Canister] = []
        #: What is before each position.
        self._tokens = [0]
        self._calls: dict[str, InvocationCanister] = {}
        #: The results of each key that nothing has made stale; all that were made so; those that still wait for it.
        self._latest: dict[tuple[str, str], list[tuple[int, InvocationCanister]]] = {}
        self._gone: set[int] = set()
        self._waiting: dict[int, _Short] = {}
        self._fresh = False
        self._rooms = {name: _Room(limit=limit) for name, limit in supersession.budgets.items()}
        self._room_of: dict[int, _Room] = {}
        self._short: set[int] = set()
        self._sent = 0

    def shown(self) -> Shown:
        """The canisters, with the notes."""
        canisters = tuple(self._current) if self.notes else self.canisters
        return Shown(canisters=canisters, cuts=self.breaks, shortened=len(self.notes))

    def _add(self, position: int, canister: Canister) -> bool:
        self._current.append(canister)
        self._tokens.append(self._tokens[-1] + self._count(canister))
        if isinstance(canister, InvocationCanister):
            self._calls[canister.identifier] = canister
        elif isinstance(canister, ResultCanister):
            call = self._calls.pop(canister.invocation_id, None)
            if call is not None:
                self._result(position, canister, call)
        return True

    def _result(self, position: int, result: ResultCanister, call: InvocationCanister) -> None:
        if result.error is None:
            for key in sorted(self._supersession.makes_stale(call)):
                self._make_stale(key, call)
        # Nobody may take out of a result what a provider wants back.
        if any(isinstance(content, OpaqueContent) for content in result.content):
            return
        for key in self._supersession.is_known_by(call):
            self._latest.setdefault(key, []).append((position, call))
        room = self._rooms.get(self._supersession.ensembles.get(call.name, ""))
        if room is not None and (short := self._shorten(position, CROWDED, call.name)) is not None:
            room.results.append(short)
            room.taken += self._count(result)
            self._room_of[position] = room

    def _make_stale(self, key: tuple[str, str], call: InvocationCanister) -> None:
        stays: list[tuple[int, InvocationCanister]] = []
        for position, earlier in self._latest.pop(key, ()):
            if not self._supersession.covers(call, earlier):
                stays.append((position, earlier))
            elif position not in self._gone:
                self._gone.add(position)
                self._wait(position, call.name)
        if stays:
            self._latest[key] = stays

    def _wait(self, position: int, name: str) -> None:
        short = None if position in self._short else self._shorten(position, STALE, name)
        if short is not None:
            self._waiting[position] = short
            self._fresh = True

    def _shorten(self, position: int, text: str, name: str) -> _Short | None:
        """The note that may stand at a position; None where it would save nothing."""
        old = self._current[position]
        assert isinstance(old, ResultCanister)
        text = text.format(name=name)
        note = remember(self._memory, old, text, functools.partial(_noted, old, text))
        saved = self._count(old) - self._count(note)
        return _Short(position=position, note=note, saved=saved) if saved > 0 else None

    def _request(self, end: int) -> None:
        chosen = self._worthwhile() if self._fresh else []
        self._fresh = False
        for room in self._rooms.values():
            chosen += self._crowded(room, {one.position for one in chosen})
        self.breaks += any(one.position < self._sent for one in chosen)
        for short in chosen:
            self._replace(short, end)
        self._sent = end

    def _replace(self, short: _Short, end: int) -> None:
        position = short.position
        self._waiting.pop(position, None)
        self._short.add(position)
        room = self._room_of.pop(position, None)
        if room is not None:
            room.taken -= self._count(self._current[position])
        self._current[position] = short.note
        for place in range(position + 1, len(self._tokens)):
            self._tokens[place] -= short.saved
        self.notes.append(Note(end=end, position=position, canister=short.note))

    def _worthwhile(self) -> list[_Short]:
        """Which stale results are replaced now, by the rule of costs."""
        best, net, saved, cost = 0, 0.0, 0, 0
        order = [self._waiting[position] for position in sorted(self._waiting, reverse=True)]
        after, most = self._sent, sum(one.saved for one in order)
        for number, one in enumerate(order, 1):
            if most - self._weight * cost <= net:
                break  # Nothing before it can make up for what it costs.
            if one.position < after:
                cost += self._tokens[after] - self._tokens[one.position + 1]
                after = one.position
            saved += one.saved
            if saved - self._weight * cost > net:
                best, net = number, saved - self._weight * cost
        return order[:best]

    def _crowded(self, room: _Room, already: set[int]) -> list[_Short]:
        """The oldest results of an ensemble that make room for it, when its budget is passed."""
        taken = room.taken - sum(
            self._count(self._current[position]) for position in already if self._room_of.get(position) is room
        )
        chosen: list[_Short] = []
        least = room.limit * self._keep if taken > room.limit else room.limit
        while taken > least and room.results and room.results[0].position < self._sent:
            short = room.results.popleft()
            if short.position in already or short.position in self._short:
                continue
            taken -= self._count(self._current[short.position])
            chosen.append(short)
        return chosen


def _noted(old: ResultCanister, text: str) -> ResultCanister:
    return dataclasses.replace(old, content=(TextualContent(text=text),), error=None)
