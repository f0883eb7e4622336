"""``Shown``, the result of a strategy, with markers for omitted parts and cached token counts."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol, TypeVar

from ripieno.canisters import AssistantCanister, Canister, InvocationCanister, TextualContent, UserCanister
from ripieno.canisters.conversation import NO_USAGE, Usage
from ripieno.models.tokens import ConversationTokenizer
from ripieno.values import Value

#: The key of the token counts in a run's memory, by the address of each canister, which is stored with its count.
_COUNTED = "tokens of canisters"


def counting(tokenizer: ConversationTokenizer, memory: dict[object, Any]) -> Callable[[Canister], int]:
    """A function that counts the tokens of each canister once. Their sum is at least the tokens of all together."""
    known: dict[int, tuple[Canister, int]] = memory.setdefault((_COUNTED, tokenizer), {})

    def count(canister: Canister) -> int:
        counted = known.get(id(canister))
        if counted is None:
            counted = known[id(canister)] = (canister, tokenizer.count((canister,)).tokens)
        return counted[1]

    return count


C = TypeVar("C", bound=Canister)

#: The key of the derived canisters in a run's memory.
_MADE = "canisters made for a history"
#: The text in place of an omitted part. It is constant, since a change would invalidate a provider's cache.
LEFT_OUT = "(Earlier parts of this conversation were left out here.)"
#: The part of its budget that a cut leaves by default.
KEEP = 0.5


class Shown(Value, kw_only=True):
    """The canisters that a model is shown. ``left_out`` canisters of the conversation are omitted.

    ``cuts`` is how often the beginning has changed, which invalidates the provider's cache; in a chain it is a sum.
    ``excess`` is the amount over the budget, in the strategy's unit, or 0. It is no error, since the budget is an
    estimate. ``shortened`` results are notes, including those that were left out later. ``usage`` is that of asking a
    model, this time.
    """

    canisters: tuple[Canister, ...]
    left_out: int = 0
    cuts: int = 0
    excess: int = 0
    shortened: int = 0
    usage: Usage = NO_USAGE


class HistoryStrategy(Protocol):
    """Decides which part of a conversation a model is shown."""

    async def show(
        self, canisters: Sequence[Canister], *, open: Collection[str] = (), memory: dict[object, Any] | None = None
    ) -> Shown:
        """The part of these canisters to show in the next turn.

        ``open`` has the identifiers of invocations that wait for a person or the caller; they are never left out. A
        caller that asks every turn passes the same ``memory`` each time, so that nothing is counted twice. The result
        depends on the canisters alone, never on the memory. Errors: ``ProviderFailure``, if a model is asked.
        """
        ...


def remember(memory: dict[object, Any], original: Canister, about: object, make: Callable[[], C]) -> C:
    """The canister made from an original, created once: one object keeps its encoding and is counted once."""
    made: dict[object, tuple[Canister, C]] = memory.setdefault(_MADE, {})
    key = (id(original), about)
    if key not in made:
        # The original is stored with it, because its address is the key.
        made[key] = (original, make())
    return made[key][1]


def marker(text: str, following: Canister, memory: dict[object, Any]) -> UserCanister:
    """A canister with a text, placed before the first remaining one. It has that one's time, so that it is constant."""
    content = (TextualContent(text=text),)
    return remember(memory, following, text, lambda: UserCanister(content=content, timestamp=following.timestamp))


def is_marker(canister: Canister) -> bool:
    """Whether a canister is only the marker of an omitted part."""
    return isinstance(canister, UserCanister) and canister.content == (TextualContent(text=LEFT_OUT),)


def is_of_assistant(canister: Canister) -> bool:
    """Whether a canister is part of an assistant message."""
    return isinstance(canister, AssistantCanister | InvocationCanister)
