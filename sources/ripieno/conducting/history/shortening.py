"""Replaces results by short notes: stale ones where that saves more than it costs, and the oldest over a budget.

Replacing a stale result invalidates the provider's cache from there on: its cost are the tokens after it in the last
request that are not saved. Of all ways to replace the stale results from one of them on, the one with the highest
saving minus ``weight`` times the cost is taken, if that is more than 0. Results that have not been sent cost nothing.
Budgets are enforced rarely, and then by a large part. Results that the model has not read yet stay.
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
from ripieno.values import Value

#: The notes in place of a stale result, and of a result over the budget of its ensemble.
STALE = "(Left out: stale since a later call of {name}.)"
CROWDED = "(Left out: too many tokens were taken by results of {name}. Call again if it is needed.)"


class Note(Value, kw_only=True):
    """The note in place of the result at a position, from the request with ``end`` canisters on."""

    end: int
    position: int
    canister: ResultCanister


class _Short(Value, kw_only=True):
    position: int
    note: ResultCanister
    saved: int


@dataclasses.dataclass(slots=True, kw_only=True)
class _Bounded:
    """The results of an ensemble with a budget, oldest first, and the tokens of those that are not notes."""

    limit: int
    results: collections.deque[_Short] = dataclasses.field(default_factory=collections.deque[_Short])
    taken: int = 0


class Shortener(Follower):
    """The notes of one conversation. ``keep`` is the part of an ensemble's budget that remains after it is exceeded."""

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
        #: The number of requests that changed results sent before.
        self.breaks = 0
        self._supersession, self._weight, self._keep = supersession, weight, keep
        self._count, self._memory = count, memory
        self._current: list[Canister] = []
        #: The tokens before each position.
        self._tokens = [0]
        self._calls: dict[str, InvocationCanister] = {}
        #: The results of each key that are not stale; the stale ones; the stale ones that are not notes yet.
        self._latest: dict[tuple[str, str], list[tuple[int, InvocationCanister]]] = {}
        self._gone: set[int] = set()
        self._waiting: dict[int, _Short] = {}
        self._fresh = False
        self._bounded = {name: _Bounded(limit=limit) for name, limit in supersession.budgets.items()}
        self._bounded_of: dict[int, _Bounded] = {}
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
        # A result with opaque content stays: the provider requires it back.
        if any(isinstance(content, OpaqueContent) for content in result.content):
            return
        for key in self._supersession.is_known_by(call):
            self._latest.setdefault(key, []).append((position, call))
        bounded = self._bounded.get(self._supersession.ensembles.get(call.name, ""))
        if bounded is not None and (short := self._shorten(position, CROWDED, call.name)) is not None:
            bounded.results.append(short)
            bounded.taken += self._count(result)
            self._bounded_of[position] = bounded

    def _make_stale(self, key: tuple[str, str], call: InvocationCanister) -> None:
        stays: list[tuple[int, InvocationCanister]] = []
        for position, earlier in self._latest.pop(key, ()):
            if not self._supersession.covers(call, earlier):
                stays.append((position, earlier))
            elif position not in self._gone:
                self._gone.add(position)
                short = None if position in self._short else self._shorten(position, STALE, call.name)
                if short is not None:
                    self._waiting[position] = short
                    self._fresh = True
        if stays:
            self._latest[key] = stays

    def _shorten(self, position: int, text: str, name: str) -> _Short | None:
        old = self._current[position]
        assert isinstance(old, ResultCanister)
        content = (TextualContent(text=text.format(name=name)),)
        make = functools.partial(dataclasses.replace, old, content=content, error=None)
        note = remember(self._memory, old, content, make)
        saved = self._count(old) - self._count(note)
        return _Short(position=position, note=note, saved=saved) if saved > 0 else None

    def _request(self, end: int) -> None:
        chosen = self._worthwhile() if self._fresh else []
        self._fresh = False
        for bounded in self._bounded.values():
            chosen += self._over_budget(bounded, {one.position for one in chosen})
        self.breaks += any(one.position < self._sent for one in chosen)
        for short in chosen:
            self._replace(short, end)
        self._sent = end

    def _replace(self, short: _Short, end: int) -> None:
        position = short.position
        self._waiting.pop(position, None)
        self._short.add(position)
        bounded = self._bounded_of.pop(position, None)
        if bounded is not None:
            bounded.taken -= self._count(self._current[position])
        self._current[position] = short.note
        for place in range(position + 1, len(self._tokens)):
            self._tokens[place] -= short.saved
        self.notes.append(Note(end=end, position=position, canister=short.note))

    def _worthwhile(self) -> list[_Short]:
        """The stale results to replace now, by the rule of costs."""
        best, net, saved, cost = 0, 0.0, 0, 0
        order = [self._waiting[position] for position in sorted(self._waiting, reverse=True)]
        after, most = self._sent, sum(one.saved for one in order)
        for number, one in enumerate(order, 1):
            if most - self._weight * cost <= net:
                break  # No earlier result can compensate for the cost.
            if one.position < after:
                cost += self._tokens[after] - self._tokens[one.position + 1]
                after = one.position
            saved += one.saved
            if saved - self._weight * cost > net:
                best, net = number, saved - self._weight * cost
        return order[:best]

    def _over_budget(self, bounded: _Bounded, already: set[int]) -> list[_Short]:
        taken = bounded.taken - sum(
            self._count(self._current[position]) for position in already if self._bounded_of.get(position) is bounded
        )
        chosen: list[_Short] = []
        least = bounded.limit * self._keep if taken > bounded.limit else bounded.limit
        while taken > least and bounded.results and bounded.results[0].position < self._sent:
            short = bounded.results.popleft()
            if short.position in already or short.position in self._short:
                continue
            taken -= self._count(self._current[short.position])
            chosen.append(short)
        return chosen
