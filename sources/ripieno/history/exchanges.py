"""Where a conversation may be parted: between exchanges.

An exchange is what was said to the model, its answer (one assistant message), and the results of that answer's calls.
In a chain of calls, an answer follows results: then nothing is said before it, and it begins an exchange all the same.
"""

import collections
from collections.abc import Sequence

from ripieno.canisters import Canister, InvocationCanister, ResultCanister
from ripieno.history.shown import is_of_assistant


class Exchanges:
    """The exchanges of a conversation that grows. No call is in another one than its result, wherever that stands."""

    def __init__(self, canisters: Sequence[Canister] = ()) -> None:
        """Knows beforehand which calls and results belong together in ``canisters``, of which none is added yet."""
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
        """One more canister. False when an exchange that was found turns out to be a part of the one before it."""
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
    """Which call and which result belong together.

    The results of an identifier that was taken twice belong to its calls in their order, as mending has it.
    """

    def __init__(self) -> None:
        self._calls: dict[str, list[int]] = collections.defaultdict(list)
        self._results: dict[str, list[int]] = collections.defaultdict(list)

    def add(self, position: int, canister: Canister) -> tuple[int, int] | None:
        """Where the first of both stands, and this one, which is the second; None where it is the first."""
        if isinstance(canister, InvocationCanister):
            own, others = self._calls[canister.identifier], self._results[canister.identifier]
        elif isinstance(canister, ResultCanister):
            own, others = self._results[canister.invocation_id], self._calls[canister.invocation_id]
        else:
            return None
        own.append(position)
        return (others[len(own) - 1], position) if len(others) >= len(own) else None
