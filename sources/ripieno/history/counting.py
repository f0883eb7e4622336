"""What each canister takes, counted once."""

from collections.abc import Callable
from typing import Any

from ripieno.canisters import Canister
from ripieno.models.tokens import ConversationTokenizer

#: Where a run's memory has the tokens of each canister, by its address; the canister is kept with it.
_COUNTED = "tokens of canisters"


def counting(tokenizer: ConversationTokenizer, memory: dict[object, Any]) -> Callable[[Canister], int]:
    """Counts the tokens of each canister by itself, once. Together they are at least the tokens of all."""
    known: dict[int, tuple[Canister, int]] = memory.setdefault((_COUNTED, tokenizer), {})

    def count(canister: Canister) -> int:
        counted = known.get(id(canister))
        if counted is None:
            counted = known[id(canister)] = (canister, tokenizer.count((canister,)).tokens)
        return counted[1]

    return count
