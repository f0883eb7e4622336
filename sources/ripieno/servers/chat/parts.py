"""Parts of a conversation's messages: a page shows the newest first, and earlier ones on demand."""

from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.canisters import AssistantCanister, Canister, InvocationCanister, ResultCanister
from ripieno.canisters.conversation import common_beginning
from ripieno.ensembles.threads import run_in_thread
from ripieno.servers.chat.contents import message_of
from ripieno.storage.journal.restoration import Unfinished

#: Messages that are made in the event loop. More take a thread (measured: 10,000 hold up all others for 150 ms).
_FEW = 200


async def read_part(
    canisters: Sequence[Canister],
    *,
    before: int | None = None,
    limit: int | None = None,
    missing: int = 0,
    unfinished: Sequence[Unfinished] = (),
) -> dict[str, Any]:
    """``messages``: the newest ``limit``, of those before a place; all without a limit. ``place`` counts those before.

    ``missing`` canisters come before all of these. There are more messages if the first of them would be in the middle
    of a turn: calls are beside their results. ``unfinished`` are the answers after one of these that are not complete.
    """
    end = len(canisters) if before is None else min(before, len(canisters))
    place = 0 if limit is None else max(end - limit, 0)
    while 0 < place < end and _continues(canisters[place - 1], canisters[place]):
        place -= 1
    part = canisters[place:end]
    messages = messages_of(part) if len(part) <= _FEW else await run_in_thread(messages_of, part, name="messages")
    first, last = missing + place, missing + end
    within = [one.mapping() for one in unfinished if first < one.place <= last]
    return {"messages": messages, "place": first, "unfinished": within}


def unfinished_of(snapshot: Mapping[str, Any]) -> Mapping[int, Sequence[Sequence[Mapping[str, Any]]]]:
    """The texts of each answer that was cut off, by the number of messages before it. A turn under way is not one."""
    found: dict[int, list[Sequence[Mapping[str, Any]]]] = {}
    for one in (each for each in snapshot["unfinished"] if each["texts"]):
        found.setdefault(one["place"], []).append(one["texts"])
    texts = [one for one in snapshot["turn"] if one["type"] in ("text", "reasoning")]
    if texts and snapshot["state"] != "running":
        found.setdefault(len(snapshot["messages"]), []).append(texts)
    return found


class AllMessages:
    """The messages of a conversation that goes on. Each is made once: a reader of events needs all of them often."""

    def __init__(self) -> None:
        self._canisters: Sequence[Canister] = ()
        self._messages: list[dict[str, Any]] = []

    def of(self, canisters: Sequence[Canister]) -> list[dict[str, Any]]:
        """The messages of these canisters."""
        same = common_beginning(self._canisters, canisters)
        self._canisters = canisters
        self._messages = [*self._messages[:same], *messages_of(canisters[same:])]
        return self._messages


def messages_of(canisters: Sequence[Canister]) -> list[dict[str, Any]]:
    """The messages as clients get them."""
    return [message_of(one) for one in canisters]


def _continues(before: Canister, canister: Canister) -> bool:
    """Whether a canister is of the same turn as the one before it."""
    speaks = AssistantCanister | InvocationCanister
    return isinstance(canister, ResultCanister) or (isinstance(canister, speaks) and isinstance(before, speaks))
