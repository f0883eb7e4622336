"""Incremental processing of a growing conversation, request by request, so that a turn costs only its own canisters.

The state for the earlier canisters is kept, and only new ones are processed. The result equals that of processing
everything: if the state cannot be continued, processing starts again.
"""

import abc
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from ripieno.canisters import Canister
from ripieno.conducting.history.shown import is_of_assistant

F = TypeVar("F", bound="Follower")


class Follower(abc.ABC):
    """Processes a conversation in the order of the model's requests: the new canisters, then the request."""

    def __init__(self) -> None:
        #: The processed canisters. They end with a request.
        self.canisters: tuple[Canister, ...] = ()

    def follow(self, canisters: tuple[Canister, ...]) -> bool:
        """Processes the new canisters. False if that is impossible: the caller then needs a new follower."""
        done = len(self.canisters)
        # The comparison of tuples skips identical objects.
        if canisters[:done] != self.canisters or (done and not _is_request(canisters, done)):
            return False
        for end in requests(canisters, done):
            for position in range(done, end):
                if not self._add(position, canisters[position]):
                    return False
            self._request(end)
            done = end
        self.canisters = canisters
        return True

    @abc.abstractmethod
    def _add(self, position: int, canister: Canister) -> bool:
        """Processes one canister. False if it invalidates the state."""

    @abc.abstractmethod
    def _request(self, end: int) -> None:
        """Processes a request with the first ``end`` canisters."""


def follow(
    canisters: tuple[Canister, ...], make: Callable[[], F], memory: dict[object, Any] | None = None, key: object = None
) -> F:
    """The follower that a memory has under a key, or a new one, after it has processed these canisters."""
    kept: F | None = None if memory is None else memory.get(key)
    if kept is None or not kept.follow(canisters):
        kept = make()
        if not kept.follow(canisters):
            raise AssertionError("A new follower accepts any conversation.")
        if memory is not None:
            memory[key] = kept
    return kept


def _is_request(canisters: Sequence[Canister], end: int) -> bool:
    """Whether the model was asked at ``end``: the assistant has answered, or nothing has come since."""
    return end == len(canisters) or (is_of_assistant(canisters[end]) and not is_of_assistant(canisters[end - 1]))


def requests(canisters: Sequence[Canister], done: int = 0) -> Iterator[int]:
    """The number of canisters of each request since ``done``, and of the current one."""
    return (end for end in range(done + 1, len(canisters) + 1) if _is_request(canisters, end))
