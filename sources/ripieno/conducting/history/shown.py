"""What a strategy gives back, and how it says that something was left out.

What each canister takes, counted once.
"""

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol, TypeVar

from ripieno.canisters import AssistantCanister, Canister, InvocationCanister, TextualContent, UserCanister
from ripieno.canisters.conversation import NO_USAGE, Usage
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


C = TypeVar("C", bound=Canister)

#: Where a run's memory has what was made of which canister.
_MADE = "canisters made for a history"
#: What stands where something was left out. It never changes: whatever did would break a provider's cache.
LEFT_OUT = "(Earlier parts of this conversation were left out here.)"
#: Which part of its budget a cut leaves, where nothing else is said.
KEEP = 0.5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a model is shown. ``left_out`` canisters of the conversation are not among it.

    ``cuts`` is how often the beginning has changed since the conversation began: each time, what the provider had
    cached of it was lost. In a chain it is a sum, and each strategy begins anew where the one before it cuts.

    ``excess`` is by how much this is over the budget, in the strategy's unit; 0 where it fits. It is no error: the
    budget is an estimate, so a provider may take what is a little over it, and only whoever asks
    knows whether to try, to tell somebody, or to end the run. ``shortened`` results are notes; those that were left out
    are counted as well. ``usage`` is what asking a model took, this time.
    """

    canisters: tuple[Canister, ...]
    left_out: int = 0
    cuts: int = 0
    excess: int = 0
    shortened: int = 0
    usage: Usage = NO_USAGE


class HistoryStrategy(Protocol):
    """Decides what a model is shown of a conversation."""

    async def show(
        self, canisters: Sequence[Canister], *, open: Collection[str] = (), memory: dict[object, Any] | None = None
    ) -> Shown:
        """What to show of these canisters, for the next turn.

        ``open`` has the identifiers of invocations that wait for somebody else; they are never left out. Whoever asks
        turn after turn gives the same ``memory`` each time, so that nothing is counted twice. The outcome depends on
        the canisters alone, never on the memory. Errors: ``ProviderFailure``, where a model is asked.
        """
        ...


def remember(memory: dict[object, Any], original: Canister, about: object, make: Callable[[], C]) -> C:
    """What was made of a canister before, or is now: the same object keeps its encoding and is counted once."""
    made: dict[object, tuple[Canister, C]] = memory.setdefault(_MADE, {})
    # The original is kept with it: its address is its name.
    return made.setdefault((id(original), about), (original, make()))[1]


def marker(text: str, following: Canister, memory: dict[object, Any]) -> UserCanister:
    """A canister that stands before the first one that remains, and has its time, so that it is always the same."""
    return remember(
        memory,
        following,
        text,
        lambda: UserCanister(content=(TextualContent(text=text),), timestamp=following.timestamp),
    )


def is_marker(canister: Canister) -> bool:
    """Whether a canister only says that something was left out."""
    return isinstance(canister, UserCanister) and canister.content == (TextualContent(text=LEFT_OUT),)


def is_of_assistant(canister: Canister) -> bool:
    """Whether a canister is a part of an assistant message."""
    return isinstance(canister, AssistantCanister | InvocationCanister)
