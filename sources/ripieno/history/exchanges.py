"""Where a conversation may be parted: between exchanges, and when its model was asked.

An exchange is what was said to the model, its answer (one assistant message), and the results of that answer's calls.
In a chain of calls, an answer follows results: then nothing is said before it, and it begins an exchange all the same.
"""

import collections
from collections.abc import Sequence

from ripieno.canisters import Canister, InvocationCanister, ResultCanister
from ripieno.history.shown import is_of_assistant


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


def _may_begin(before: Canister, canister: Canister) -> bool:
    if isinstance(canister, ResultCanister):
        return False
    if is_of_assistant(canister):
        return isinstance(before, ResultCanister)
    return is_of_assistant(before) or isinstance(before, ResultCanister)


def _ends(canisters: Sequence[Canister]) -> dict[int, int]:
    """For the first of each call and its result, where the second stands.

    The results of an identifier that was taken twice belong to its calls in their order, as mending has it.
    """
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
