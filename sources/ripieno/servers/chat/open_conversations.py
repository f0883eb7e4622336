"""``OpenConversations``: those of all owners that are in memory, each once, and changed by one request at a time."""

import asyncio
import contextlib
import math
import time
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

from ripieno.exceptions import InputError, NameAbsence
from ripieno.servers.chat.held import HeldConversation
from ripieno.servers.chat.ring import Entry
from ripieno.servers.chat.runs import Runs
from ripieno.servers.chat.store import ConversationStore

#: The messages of a conversation that is only looked at, at least.
NEWEST = 200
#: Seconds for which a summary is used again.
_CHECKED = 1.0
#: Seconds between looks for what other processes add to conversations that have readers.
LOOKS = 1.0
_Key = tuple[str, str]
Result = TypeVar("Result")


class OpenConversations:
    """The conversations in memory, by owner and identifier. Others are read from the store, in a thread.

    Of those without a run and a reader, the ``most`` that were used last stay. Errors of ``find`` and ``change``:
    ``NameAbsence`` for a conversation that the owner does not have.
    """

    def __init__(self, store: ConversationStore, runs: Runs, *, most: int) -> None:
        self._store = store
        self._runs = runs
        self._most = most
        #: Those first that were used first.
        self._held: dict[_Key, HeldConversation] = {}
        #: A lock is there while a request uses it or waits for it.
        self._locks: weakref.WeakValueDictionary[_Key, asyncio.Lock] = weakref.WeakValueDictionary()
        self._changes: set[asyncio.Task[object]] = set()
        #: Set while there may be readers.
        self._read = asyncio.Event()

    def start(self) -> None:
        """Begins to look for what others do."""
        self._runs.start(self.refresh)
        self._watching = asyncio.create_task(self._watch(), name="ripieno chat readers")

    def get(self, owner: str, identifier: str) -> HeldConversation | None:
        """The conversation, if it is in memory."""
        return self._held.get((owner, identifier))

    def of(self, owner: str | None = None) -> Iterator[tuple[str, HeldConversation]]:
        """The conversations in memory of an owner, or of all, with their identifiers."""
        return ((name, held) for (whose, name), held in self._held.items() if owner in (None, whose))

    def under_way(self, owner: str) -> list[str]:
        """The conversations of an owner that have a run, by their identifiers."""
        return [name for name, held in self.of(owner) if held.running]

    async def find(self, owner: str, identifier: str, *, newest: int | None = None) -> HeldConversation:
        """The conversation to look at: a change may be under way. It is as it is now until the caller next waits.

        With ``newest``, at most ``NEWEST``, its first messages may be missing. All others stay.
        """
        held = self._held.get((owner, identifier))
        whole = newest is None or newest > NEWEST
        if held is not None and not _is_old(held) and not (whole and held.missing):
            return self._used(held, identifier)
        async with self._lock(owner, identifier):
            return await self._load(owner, identifier, whole=whole)

    async def read(
        self, held: HeldConversation, position: str, *, quiet: float | None
    ) -> AsyncGenerator[Sequence[Entry], None]:
        """The events of ``EventRing.read``. What other processes add is noticed while they are read."""
        self._read.set()
        async with contextlib.aclosing(held.ring.read(position, quiet=quiet)) as batches:
            async for batch in batches:
                yield batch

    async def refresh(self, owner: str, identifier: str) -> None:
        """Takes what others have done with a conversation, if it is in memory."""
        async with self._lock(owner, identifier):
            held = self._held.get((owner, identifier))
            if held is not None:
                await self._runs.refresh(held)

    async def change(
        self, owner: str, identifier: str, change: Callable[[HeldConversation], Awaitable[Result]]
    ) -> Result:
        """Changes a conversation, after the changes before. The change is finished also if its request is cancelled.

        Otherwise, a cancelled request would leave a claim that nothing releases, or an answer that starts no run.
        """

        async def alone() -> Result:
            async with self._lock(owner, identifier):
                return await change(await self._load(owner, identifier))

        task = asyncio.create_task(alone(), name="ripieno chat change")
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        return await asyncio.shield(task)

    async def create(self, owner: str, identifier: str) -> str:
        """Begins a conversation with this identifier, if the owner has none of it; returns the identifier."""
        async with self._lock(owner, identifier):
            if (owner, identifier) in self._held or await self._store.has(owner, identifier):
                return identifier
            return await self._store.create(owner, "", identifier)

    def drop(self, owner: str, identifier: str) -> None:
        """Takes a conversation out of memory."""
        held = self._held.pop((owner, identifier), None)
        if held is not None:
            self._runs.leave(held)

    async def close(self) -> None:
        """Waits for all changes, then stops or leaves all runs."""
        self._watching.cancel()
        while self._changes:
            await asyncio.wait(self._changes)
        await asyncio.wait((self._watching,))
        await self._runs.close([held for _, held in self.of() if held.running])

    def _lock(self, owner: str, identifier: str) -> asyncio.Lock:
        return self._locks.setdefault((owner, identifier), asyncio.Lock())

    async def _load(self, owner: str, identifier: str, *, whole: bool = True) -> HeldConversation:
        """The conversation, while the caller has its lock.

        Its summary takes a time proportional to its lines (measured: 12 ms for 20,000): one is enough for a request.
        """
        held = self._held.get((owner, identifier))
        if held is None:
            now = time.monotonic()
            held = await self._runs.open(owner, identifier, newest=None if whole else NEWEST)
            held.checked = now
            return self._used(held, identifier)
        if _is_old(held):
            # Another process may have deleted, renamed or continued it. What changes it here sets the time back.
            held.checked = time.monotonic()
            try:
                await self._runs.look(held)
            except BaseException:
                held.checked = -math.inf
                raise
        await self._runs.refresh(held)
        if whole:
            await self._runs.complete(held)
        return self._used(held, identifier)

    def _used(self, held: HeldConversation, identifier: str) -> HeldConversation:
        self._held.pop((held.owner, identifier), None)
        self._held[held.owner, identifier] = held
        # One with a change under way is not loaded again before its end, unless a run begins, which is not idle.
        idle = [key for key, one in self._held.items() if one.idle]
        for key in idle[: max(len(idle) - self._most, 0)]:
            self._runs.leave(self._held.pop(key))
        return held

    async def _watch(self) -> None:
        """Looks at the conversations that have readers and no run: once for all of them, while there are any."""
        while True:
            await self._read.wait()
            followed = {key: held for key, held in self._held.items() if held.ring.readers}
            if not followed:
                self._read.clear()
                continue
            # A change that is under way looks itself.
            free = {key: one for key, one in followed.items() if not (one.running or self._lock(*key).locked())}
            # A database that is away is asked again.
            with contextlib.suppress(InputError):
                lengths = await self._store.lengths(list(free))
                for (key, held), lines in zip(free.items(), lengths, strict=True):
                    if lines != held.summary.lines or held.under_way_elsewhere:
                        with contextlib.suppress(InputError):
                            await self._look(*key)
            await asyncio.sleep(LOOKS)

    async def _look(self, owner: str, identifier: str) -> None:
        """Takes what another process has done with a conversation, if it is in memory."""
        async with self._lock(owner, identifier):
            held = self._held.get((owner, identifier))
            if held is None:
                return
            held.checked = -math.inf
            try:
                await self._load(owner, identifier, whole=False)
            except NameAbsence:
                # It was deleted: a reader that loads it again learns that.
                held.ring.restart()


def _is_old(held: HeldConversation) -> bool:
    """Whether what is known of a conversation may have changed."""
    return held.under_way_elsewhere or time.monotonic() - held.checked > _CHECKED
