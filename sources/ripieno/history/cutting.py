"""When a conversation is cut, and where: rarely, and then far.

Whoever cut one exchange each turn would lose the provider's cached prefix each turn. So nothing is cut until the
budget is passed, and then so much that a part of it is free again (hysteresis). Which cuts were made follows from the
canisters alone: they are gone through again, and a cut falls where it fell when the model was asked then.
"""

import bisect
import dataclasses
import itertools
from collections.abc import Collection, Sequence
from typing import Any

from ripieno.canisters import Canister, DocumentCanister, InvocationCanister, SupervisorCanister, UserCanister
from ripieno.exceptions import InputError
from ripieno.history.exchanges import asks, exchanges
from ripieno.history.shown import LEFT_OUT, Shown, is_marker, marker
from ripieno.tokens import ConversationTokenizer

#: Where a run's memory has the tokens of each canister, by its address; the canister is kept with it.
_COUNTED = "tokens of canisters"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much may be shown, and which part of it a cut leaves. ``marker`` is what stands for what was left out."""

    amount: int
    keep: float
    marker: int = 0

    def __post_init__(self) -> None:
        if self.amount < 1:
            raise InputError(f"A budget is at least 1, not {self.amount}.")
        if not 0 <= self.keep < 1:
            raise InputError(f"A cut keeps a part of the budget, from 0 up to less than 1, not {self.keep}.")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What each canister takes of a budget; ``staying`` is what it takes when it stays behind a cut."""

    shown: Sequence[int]
    staying: Sequence[int]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Where a conversation was cut, one position a cut; what stays before the last of them; what the rest is over."""

    cuts: tuple[int, ...]
    staying: tuple[Canister, ...]
    excess: int

    def shown(self, canisters: Sequence[Canister], memory: dict[object, Any], text: str = LEFT_OUT) -> Shown:
        """What is shown, with ``text`` for what is left out."""
        if not self.cuts:
            return Shown(canisters=tuple(canisters), excess=self.excess)
        start = self.cuts[-1]
        return Shown(
            canisters=(*self.staying, marker(text, canisters[start], memory), *canisters[start:]),
            left_out=start - len(self.staying) - sum(map(is_marker, canisters[:start])),
            cuts=len(self.cuts),
            excess=self.excess,
        )


def counts(canisters: Sequence[Canister], tokenizer: ConversationTokenizer, memory: dict[object, Any]) -> list[int]:
    """The tokens of each canister by itself. Together they are at least the tokens of all."""
    known: dict[int, tuple[Canister, int]] = memory.setdefault((_COUNTED, tokenizer), {})
    for canister in canisters:
        if id(canister) not in known:
            known[id(canister)] = (canister, tokenizer.count((canister,)).tokens)
    return [known[id(canister)][1] for canister in canisters]


def always_stays(canister: Canister) -> bool:
    """Whether a canister is shown whatever is cut."""
    return isinstance(canister, SupervisorCanister | DocumentCanister)


def plan(canisters: Sequence[Canister], budget: Budget, weights: Weights, open: Collection[str] = ()) -> Plan:
    """The cuts of a conversation.

    Each is made as its model is asked with more than the budget, and leaves ``keep`` of what is free: of the budget
    without what always stays. At least one exchange remains, which may be too large; so does everything from the first
    open invocation on. Supervisors and documents stay, and so do the user's words that the first exchange answers.
    """
    begins = exchanges(canisters)
    words = _words(canisters, begins)
    shown = [0, *itertools.accumulate(weights.shown)]
    stays = [0, *itertools.accumulate(_staying(canisters, weights))]
    spoken = [sum(weights.staying[position] for position in positions) for positions in words]
    furthest = _furthest(canisters, begins, open)

    def fixed(exchange: int) -> int:
        return stays[begins[exchange]] + spoken[exchange] + budget.marker if exchange else 0

    def cost(exchange: int, end: int) -> int:
        return fixed(exchange) + shown[end] - shown[begins[exchange]]

    first = 0
    cuts: list[int] = []
    for end in asks(canisters):
        if cost(first, end) <= budget.amount:
            continue
        last = min(bisect.bisect_left(begins, end) - 1, furthest)
        chosen = next(
            (
                exchange
                for exchange in range(first + 1, last + 1)
                if cost(exchange, end) <= fixed(exchange) + (budget.amount - fixed(exchange)) * budget.keep
            ),
            last,
        )
        if chosen > first and cost(chosen, end) < cost(first, end):
            first = chosen
            cuts.append(begins[first])
    staying = [canister for canister in canisters[: begins[first]] if always_stays(canister)] if cuts else []
    staying += [canisters[position] for position in words[first]] if cuts else []
    excess = max(0, cost(first, len(canisters)) - budget.amount) if canisters else 0
    return Plan(cuts=tuple(cuts), staying=tuple(staying), excess=excess)


def _staying(canisters: Sequence[Canister], weights: Weights) -> list[int]:
    return [
        weight if always_stays(canister) else 0 for canister, weight in zip(canisters, weights.staying, strict=True)
    ]


def _words(canisters: Sequence[Canister], begins: Sequence[int]) -> list[tuple[int, ...]]:
    """For each exchange, where the words stand that it answers, if it is not itself that has them."""
    found: list[tuple[int, ...]] = []
    latest: tuple[int, ...] = ()
    for begin, end in itertools.pairwise([*begins, len(canisters)]):
        said = tuple(position for position in range(begin, end) if isinstance(canisters[position], UserCanister))
        own = any(not is_marker(canisters[position]) for position in said)
        found.append(() if own else latest)
        if own:
            latest = tuple(position for position in said if not is_marker(canisters[position]))
    return found


def _furthest(canisters: Sequence[Canister], begins: Sequence[int], open: Collection[str]) -> int:
    """The last exchange that a cut may leave as the first one."""
    for position, canister in enumerate(canisters) if open else ():
        if isinstance(canister, InvocationCanister) and canister.identifier in open:
            return bisect.bisect_right(begins, position) - 1
    return len(begins) - 1
