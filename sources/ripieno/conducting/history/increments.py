"""What goes along with a conversation that grows, request by request, so that a turn costs what that turn brings.

What was found for the canisters so far is kept, and only what came since is gone through. The outcome is that of going
through everything: whoever cannot go on from what he has begins anew.
"""

import abc
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from ripieno.canisters import Canister
from ripieno.conducting.history.shown import is_of_assistant

F = TypeVar("F", bound="Follower")


class Follower(abc.ABC):
    """Goes through a conversation as its model was asked: all that came, then what the request makes of it."""

    def __init__(self) -> None:
        #: What was gone through. It ends with a request.
        self.canisters: tuple[Canister, ...] = ()

    def follow(self, canisters: tuple[Canister, ...]) -> bool:
        """Goes on as far as this. False where that is impossible: whoever asked begins with another follower."""
        done = len(self.canisters)
        # Tuples compare the same objects without looking into them.
        if canisters[:done] != self.canisters or (done and not _asked(canisters, done)):
            return False
        for end in _requests(canisters, done):
            for position in range(done, end):
                if not self._add(position, canisters[position]):
                    return False
            self._request(end)
            done = end
        self.canisters = canisters
        return True

    @abc.abstractmethod
    def _add(self, position: int, canister: Canister) -> bool:
        """One more canister. False where it changes what was found before."""

    @abc.abstractmethod
    def _request(self, end: int) -> None:
        """The model is asked with so many canisters before it."""


def follow(
    canisters: tuple[Canister, ...], make: Callable[[], F], memory: dict[object, Any] | None = None, key: object = None
) -> F:
    """The follower that a memory has under a key, or a new one, having gone through these canisters."""
    kept: F | None = None if memory is None else memory.get(key)
    if kept is None or not kept.follow(canisters):
        kept = make()
        if not kept.follow(canisters):
            raise AssertionError("One that has seen nothing can go anywhere.")
        if memory is not None:
            memory[key] = kept
    return kept


def _asked(canisters: Sequence[Canister], end: int) -> bool:
    """Whether what was taken for a request was one: the assistant has answered, or nothing has come since."""
    return end == len(canisters) or (is_of_assistant(canisters[end]) and not is_of_assistant(canisters[end - 1]))


def _requests(canisters: Sequence[Canister], done: int) -> Iterator[int]:
    """How many canisters the model had before it, each time that it was asked since, and what it has now."""
    for position in range(done + 1, len(canisters)):
        if is_of_assistant(canisters[position]) and not is_of_assistant(canisters[position - 1]):
            yield position
    if len(canisters) > done:
        yield len(canisters)
