"""A reference implementation of exchanges and cuts, which processes the whole conversation each time."""

import collections
import itertools
from collections.abc import Callable, Collection, Sequence

from ripieno.canisters import Canister, InvocationCanister, ResultCanister, UserCanister
from ripieno.conducting.history import is_marker
from ripieno.conducting.history.cutting import always_stays
from ripieno.conducting.history.shown import is_of_assistant


def exchanges(canisters: Sequence[Canister]) -> list[int]:
    """The position at which each exchange begins. No call is in another one than its result, wherever that stands."""
    ends = _ends(canisters)
    begins: list[int] = []
    reach = -1
    for position, canister in enumerate(canisters):
        if not position or (reach < position and _may_begin(canisters[position - 1], canister)):
            begins.append(position)
        reach = max(reach, ends.get(position, -1))
    return begins


def asks(canisters: Sequence[Canister]) -> list[int]:
    """How many canisters the model had before it, each time that it was asked, and what it has now."""
    positions = [
        position
        for position in range(1, len(canisters))
        if is_of_assistant(canisters[position]) and not is_of_assistant(canisters[position - 1])
    ]
    return [*positions, len(canisters)] if canisters else positions


def cuts(
    canisters: Sequence[Canister],
    *,
    amount: int,
    keep: float,
    marker: int,
    shown: Callable[[int], int],
    staying: Callable[[int], int],
    open: Collection[str] = (),
) -> list[int]:
    """Where a conversation is cut. ``shown`` and ``staying`` say what the canister at a position takes."""
    begins = exchanges(canisters)
    words = _words(canisters, begins)
    furthest = len(begins) - 1
    for position, canister in enumerate(canisters):
        if isinstance(canister, InvocationCanister) and canister.identifier in open:
            furthest = max(number for number, begin in enumerate(begins) if begin <= position)
            break

    def fixed(exchange: int) -> int:
        if not exchange:
            return 0
        always = [one for one in range(begins[exchange]) if always_stays(canisters[one])]
        return sum(map(staying, [*always, *words[exchange]])) + marker

    def cost(exchange: int, end: int) -> int:
        return fixed(exchange) + sum(map(shown, range(begins[exchange], end)))

    first = 0
    made: list[int] = []
    for end in asks(canisters):
        if cost(first, end) <= amount:
            continue
        last = min(sum(begin < end for begin in begins) - 1, furthest)
        enough = [
            one for one in range(first + 1, last + 1) if cost(one, end) <= fixed(one) + (amount - fixed(one)) * keep
        ]
        chosen = enough[0] if enough else last
        if chosen > first and cost(chosen, end) < cost(first, end):
            first = chosen
            made.append(begins[first])
    return made


def _words(canisters: Sequence[Canister], begins: Sequence[int]) -> list[tuple[int, ...]]:
    """For each exchange, where the words stand that it answers, if it is not itself that has them."""
    found: list[tuple[int, ...]] = []
    latest: tuple[int, ...] = ()
    for begin, end in itertools.pairwise([*begins, len(canisters)]):
        said = tuple(
            position
            for position in range(begin, end)
            if isinstance(canisters[position], UserCanister) and not is_marker(canisters[position])
        )
        found.append(() if said else latest)
        latest = said or latest
    return found


def _may_begin(before: Canister, canister: Canister) -> bool:
    if isinstance(canister, ResultCanister):
        return False
    if is_of_assistant(canister):
        return isinstance(before, ResultCanister)
    return is_of_assistant(before) or isinstance(before, ResultCanister)


def _ends(canisters: Sequence[Canister]) -> dict[int, int]:
    """For the first of each call and its result, where the second stands."""
    calls: dict[str, list[int]] = collections.defaultdict(list)
    results: dict[str, list[int]] = collections.defaultdict(list)
    for position, canister in enumerate(canisters):
        if isinstance(canister, InvocationCanister):
            calls[canister.identifier].append(position)
        elif isinstance(canister, ResultCanister):
            results[canister.invocation_id].append(position)
    return {
        min(pair): max(pair)
        for identifier, positions in calls.items()
        for pair in zip(positions, results.get(identifier, ()), strict=False)
    }
