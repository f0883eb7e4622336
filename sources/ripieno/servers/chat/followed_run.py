"""``FollowedRun``: a run that a worker conducts, in the form that a held conversation needs of a run."""

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Generator
from typing import Any

from ripieno.assembly.submissions import SubmittedRun
from ripieno.canisters import Canister, Conversation, ResultCanister
from ripieno.canisters.controls import Finish
from ripieno.canisters.events import (
    ConductEnded,
    ContentSealed,
    Event,
    InvocationSealed,
    ResultReady,
    TurnBegan,
    TurnEnded,
    collect,
)
from ripieno.exceptions import InputError, NameAbsence, RipienoError
from ripieno.servers.chat.store import ConversationStore, Stored
from ripieno.storage.databases.contract import Disconnected
from ripieno.storage.dispatch.contract import Dispatched
from ripieno.storage.dispatch.events import Logged, StretchBegan

#: Seconds between attempts to reach a database that is away.
_PATIENCE = 1.0
#: Before the reason why a run is no longer followed.
_LOST = "This server cannot show the rest of the run. Load the conversation again when the run has ended."
_FINISHES: dict[str, Finish] = {"failed": "error", "cancelled": "cancelled", "waiting": "open", "answered": "open"}


class FollowedRun:
    """The run of a submission, from the event log on. Awaiting it returns its end; cancelling the waiter ends nothing.

    While the database is away, it is tried again. Any other error ends the following, and the run goes on.

    ``conversation`` grows by whole turns. ``number`` is that of the last event that was read, ``caught_up`` is set when
    all events so far were. At the end, ``stored`` is the conversation as it is stored then.
    """

    def __init__(
        self, submitted: SubmittedRun, store: ConversationStore, conversation: Conversation, *, after: int = 0
    ) -> None:
        self.conversation = conversation
        self.number = after
        self.caught_up = asyncio.Event()
        self.stored: Stored | None = None
        self._submitted = submitted
        self._store = store
        self._watchers: list[Callable[[Logged], None]] = []
        self._turn = _Turn()
        #: The calls before the next turn that have their results in the conversation.
        self._settled: set[str] = set()
        self._ended = False
        self._left = False
        self._cancelling: asyncio.Task[None] | None = None

    def watch(self, watcher: Callable[[Logged], None]) -> None:
        """Calls a function with every event."""
        self._watchers.append(watcher)

    def cancel(self) -> None:
        """Cancels the run, wherever it is under way."""
        if self._cancelling is None:
            self._cancelling = asyncio.create_task(self._cancel(), name="ripieno cancel")

    def leave(self) -> None:
        """Ends the following, when its waiter is cancelled or there is an event. The run goes on."""
        self._left = True

    def __await__(self) -> Generator[Any, None, Conversation]:
        return self._follow().__await__()

    async def _cancel(self) -> None:
        while not self._ended:
            try:
                await self._submitted.cancel()
            except Disconnected:
                await asyncio.sleep(_PATIENCE)
            except InputError:
                # It was deleted, or the following ends with the same error.
                return
            else:
                return

    async def _follow(self) -> Conversation:
        try:
            while not self._ended and not self._left:
                try:
                    await self._read()
                    if not self._ended and not self._left:
                        await self._end(await self._submitted.state())
                except NameAbsence:
                    # It was deleted.
                    self._emit(ConductEnded(finish="cancelled", turns=0, calls=0))
                    self._ended = True
                except Disconnected:
                    await asyncio.sleep(_PATIENCE)
                except InputError as error:
                    self._emit(ConductEnded(finish="error", turns=0, calls=0))
                    raise InputError(f"{_LOST} {error}") from error
        finally:
            self._ended = True
            self.caught_up.set()
        return self.conversation

    async def _read(self) -> None:
        async with contextlib.aclosing(self._submitted.logged(self.number)) as batches:
            async for batch in batches:
                if not batch:
                    self.caught_up.set()
                for number, event in batch:
                    await self._take(event)
                    self.number = number
                if self._left:
                    return

    async def _take(self, event: Logged) -> None:
        match event:
            case StretchBegan():
                self._turn = _Turn()
                await self._begin(event)
                results = itertools.takewhile(_is_result, reversed(self.conversation.canisters))
                self._settled = {one.invocation_id for one in results if isinstance(one, ResultCanister)}
            case ResultReady() if event.invocation.identifier in self._settled:
                # It is for those who have not read the conversation.
                return
            case TurnBegan():
                self._settled.clear()
                self._grow()
            case ConductEnded():
                self._grow()
                await self._load()
                self._ended = True
            case _:
                self._turn.take(event)
        self._emit(event)

    async def _begin(self, began: StretchBegan) -> None:
        """The conversation that a worker continues: mostly that of this run, and otherwise as it is stored."""
        known, added = self.conversation.canisters, began.canisters
        if not began.kept:
            canisters = added
        elif len(known) == began.kept + len(added):
            return
        elif len(known) == began.kept:
            canisters = (*known, *added)
        else:
            stored = await self._store.load(*self._key)
            canisters = (*stored.resumable.conversation.canisters[: began.kept], *added)
        open_ = tuple(one for one in self.conversation.open if one in canisters)
        answered = {one.invocation_id for one in canisters if isinstance(one, ResultCanister)}
        left = tuple(one for one in open_ if one.identifier not in answered)
        self.conversation = self.conversation.replace(canisters=canisters, open=left, waiting=(), finish=None)

    def _grow(self) -> None:
        """Adds the turn under way, if its answer is whole."""
        self.conversation, self._turn = self._turn.added_to(self.conversation), _Turn()

    async def _load(self) -> None:
        with contextlib.suppress(NameAbsence):
            self.stored = await self._store.load(*self._key)
            self.conversation = self.stored.resumable.conversation

    async def _end(self, dispatched: Dispatched) -> None:
        """The end of a run whose worker has written none: it was cancelled before, or its worker died after it."""
        if self._cancelling is not None:
            # Its calls may wait again.
            await asyncio.wait((self._cancelling,))
        await self._load()
        self._ended = True
        finish = _FINISHES.get(dispatched.state) or self.conversation.finish or "stop"
        self._emit(ConductEnded(finish=finish, turns=0, calls=0))
        if dispatched.state == "failed":
            raise RipienoError(dispatched.reason)

    def _emit(self, event: Logged) -> None:
        for watcher in self._watchers:
            watcher(event)

    @property
    def _key(self) -> tuple[str, str]:
        return self._submitted.submission.owner, self._submitted.submission.conversation


def _is_result(canister: Canister) -> bool:
    return isinstance(canister, ResultCanister)


class _Turn:
    """The events of one turn, of which the conversation gets the canisters."""

    def __init__(self) -> None:
        self._sealed: list[Event] = []
        self._ended: TurnEnded | None = None
        self._results: dict[str, ResultCanister] = {}

    def take(self, event: Logged) -> None:
        match event:
            case InvocationSealed() | ContentSealed():
                self._sealed.append(event)
            case TurnEnded():
                self._ended = event
            case ResultReady(discarded=False):
                self._results[event.invocation.identifier] = event.result
            case _:
                pass

    def added_to(self, conversation: Conversation) -> Conversation:
        """The conversation with its answer, if that is whole, and the results of its calls."""
        calls, usage = conversation.open, conversation.usage
        canisters = conversation.canisters
        if self._ended is not None:
            calls = tuple(one.invocation for one in self._sealed if isinstance(one, InvocationSealed))
            canisters = (*canisters, *collect(self._sealed))
            usage = usage + self._ended.usage
        results = [self._results[one.identifier] for one in calls if one.identifier in self._results]
        left = tuple(one for one in calls if one.identifier not in self._results)
        waiting = {one.identifier for one in left}
        return conversation.replace(
            canisters=(*canisters, *results),
            open=left,
            waiting=tuple(one for one in conversation.waiting if one.invocation in waiting),
            usage=usage,
        )
