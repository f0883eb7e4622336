"""``ConversationList``: the lists of all owners' conversations, and a cheap look whether one has changed."""

from collections.abc import Sequence
from typing import Any

from ripieno.servers.chat.open_conversations import OpenConversations
from ripieno.servers.chat.store import ConversationStore
from ripieno.storage.journal.summaries import Summary


class ConversationList:
    """The conversations of each owner, whichever process begins, continues, renames or deletes them."""

    def __init__(self, store: ConversationStore, held: OpenConversations, *, most: int) -> None:
        self._store = store
        self._open = held
        self._most = most
        #: The number of the newest line that was looked at, and of the last change by owner.
        self._seen: int | None = None
        self._last: dict[str, int] = {}
        #: The conversations by owner that another process may conduct.
        self._maybe: dict[str, set[str]] = {}

    async def summaries(self, owner: str) -> Sequence[Summary]:
        """The conversations, those first that were written last."""
        found = await self._store.summaries(owner, limit=self._most)
        self._add(self._store.hidden(owner), {one.identifier for one in found if one.is_open_ended})
        return found

    async def look(self, owner: str) -> dict[str, Any]:
        """``running``: the conversations that have a run now, in any process. ``changed``: a number for the list.

        The number is another one after a change. A look reads only the lines since the look before, of any owner.
        """
        changes = await self._store.list_changes(self._seen)
        self._seen = max(self._seen or 0, changes.newest)
        self._last |= {name: max(number, self._last.get(name, 0)) for name, number in changes.last.items()}
        for name, whose in changes.began:
            self._add(whose, {name})
        hidden = self._store.hidden(owner)
        running = set(self._open.under_way(owner))
        for name in sorted(self._maybe.get(hidden, set()) - running):
            if await self._store.is_claimed(owner, name):
                running.add(name)
            else:
                # The line of its next run brings it back.
                self._maybe.get(hidden, set()).discard(name)
        return {"running": sorted(running), "changed": self._last.get(hidden, 0)}

    def _add(self, owner: str, names: set[str]) -> None:
        if names:
            self._maybe.setdefault(owner, set()).update(names)
