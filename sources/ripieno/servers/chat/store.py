"""The stored conversations of all owners: the journal, and beside it those that wait.

Every look-up is by owner and identifier; nothing of another owner is read, named or changed. Every method works in a
thread of its own: a long conversation, a disk or a network would hold up all others.
"""

import contextlib
import pathlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ripieno.approvals import Given
from ripieno.assembly.deletion import delete_conversation
from ripieno.canisters import ResultCanister
from ripieno.conducting.paused import Paused, PausedStore
from ripieno.conducting.resume import Resumable, resumable, resumable_end
from ripieno.ensembles.threads import run_in_thread
from ripieno.exceptions import Conflict, NameAbsence
from ripieno.storage.dispatch.contract import Dispatcher
from ripieno.storage.journal import Journal
from ripieno.storage.journal.summaries import ListChanges, Summary, lengths, list_changes
from ripieno.storage.records import Record, cut_record

Result = TypeVar("Result")


class Stored(NamedTuple):
    """A conversation to continue, or the end of one to look at; ``paused`` if it waits.

    ``under_way``: another process conducts it, so that it is only to look at.
    """

    summary: Summary
    resumable: Resumable
    paused: Paused | None
    under_way: bool


class ConversationStore:
    """The conversations in a journal. Those that wait are beside it, with their questions and answers.

    Errors of all methods: ``NameAbsence`` for an identifier that the owner does not have; ``InputError`` if a file
    cannot be used. ``state`` is the folder with kept outputs, and ``queue`` has the submitted runs.
    """

    def __init__(self, journal: Journal, *, state: pathlib.Path | None = None, queue: Dispatcher | None = None) -> None:
        self._journal = journal
        self._state = state
        self._queue = queue
        self._paused = PausedStore(journal.database)

    async def create(self, owner: str, title: str, identifier: str = "") -> str:
        """Begins an empty conversation, and returns its identifier. One that is given is not another owner's."""
        identifier = identifier or uuid.uuid4().hex
        await self.rename(owner, identifier, title)
        return identifier

    async def rename(self, owner: str, identifier: str, title: str) -> None:
        """Gives a conversation another title. It is one of the owner's."""
        await self.record(
            Record(stage="titled", conversation=identifier, turn=0, owner=owner, details={"title": title})
        )

    async def record_cut(
        self, owner: str, identifier: str, texts: Sequence[Mapping[str, Any]], *, interrupted: bool
    ) -> None:
        """Keeps the texts of an answer that was cut off, beside it; ``interrupted`` by the end of the server."""
        await self.record(cut_record(owner, identifier, texts, interrupted=interrupted))

    async def summary(self, owner: str, identifier: str) -> Summary:
        """One conversation in short."""
        return await _in_thread(self._summary, owner, identifier)

    async def has(self, owner: str, identifier: str) -> bool:
        """Whether the owner has this conversation."""
        try:
            await self.summary(owner, identifier)
        except NameAbsence:
            return False
        return True

    async def summaries(self, owner: str, *, limit: int) -> Sequence[Summary]:
        """The conversations in short, those first that were written last."""

        def read() -> Sequence[Summary]:
            # Calls of other programs, which no model requested, are no conversations.
            every = (one for one in self._journal.conversations(owner=owner) if one.conducted or not one.words)
            found = (one for one in every if not one.deletions)
            return [one for one, _ in zip(found, range(limit), strict=False)]

        return await _in_thread(read)

    async def load(
        self, owner: str, identifier: str, *, newest: int | None = None, was_under_way: bool = False
    ) -> Stored:
        """A conversation to continue; to look at, if ``newest`` limits what is read of one that does not wait.

        A run elsewhere that ``was_under_way`` is so until its process has released the conversation.
        """

        def read() -> Stored:
            summary = self._summary(owner, identifier)
            paused = self._paused.load(identifier, owner=owner)
            maybe = was_under_way or summary.is_open_ended
            under_way = maybe and self._paused.is_claimed(identifier, owner=owner)
            if paused is None and newest is not None:
                found = resumable_end(self._journal, identifier, owner=owner, newest=newest, under_way=under_way)
            else:
                found = resumable(self._journal, identifier, paused, owner=owner, under_way=under_way)
            return Stored(summary, found, paused, under_way)

        return await _in_thread(read)

    async def lengths(self, keys: Sequence[tuple[str, str]]) -> Sequence[int]:
        """The numbers of lines of conversations, given by owner and identifier: one look for all of them."""

        def read() -> Sequence[int]:
            hidden = [(self._journal.redactor.text(name), self._journal.redactor.text(owner)) for owner, name in keys]
            with self._journal.database.using("read") as connection:
                found = lengths(connection, hidden)
            return [found[one] for one in hidden]

        return await _in_thread(read)

    async def list_changes(self, after: int | None) -> ListChanges:
        """The changes in the lists of all owners after the line of a number. Names are as the journal has them."""

        def read() -> ListChanges:
            with self._journal.database.using("read") as connection:
                return list_changes(connection, after)

        return await _in_thread(read)

    def hidden(self, owner: str) -> str:
        """The name of an owner as the journal has it."""
        return self._journal.redactor.text(owner)

    async def is_claimed(self, owner: str, identifier: str) -> bool:
        """Whether any process has the lock of a conversation now."""
        return await _in_thread(lambda: self._paused.is_claimed(identifier, owner=owner))

    async def paused(self, owner: str, identifier: str) -> Paused | None:
        """A conversation that waits, as it is kept."""
        return await _in_thread(lambda: self._paused.load(identifier, owner=owner))

    async def answer(self, owner: str, identifier: str, invocation: str, given: Given) -> Paused:
        """Keeps an answer to a question. It is final. Errors: ``Conflict`` if there is one, or the question is gone."""
        return await self._change(lambda: self._paused.answer(identifier, {invocation: given}, owner=owner))

    async def give(self, owner: str, identifier: str, result: ResultCanister) -> Paused:
        """Keeps the result of a call that the client runs. It is final. Errors: as ``answer``."""
        return await self._change(lambda: self._paused.give(identifier, [result], owner=owner))

    async def _change(self, change: Callable[[], Paused]) -> Paused:
        try:
            return await _in_thread(change)
        except NameAbsence:
            raise Conflict("The conversation no longer waits. Load it again.") from None

    async def waiting(self, owner: str) -> Sequence[Paused]:
        """All conversations of the owner that wait, the oldest first."""
        return await _in_thread(self._paused.all, owner)

    async def usage(self, owner: str, since: str) -> Mapping[str, Any]:
        """The statistics of the owner's conversations since a time (ISO 8601, UTC)."""
        return await _in_thread(lambda: self._journal.statistics(since=since, owner=owner).mapping())

    async def pause(self, paused: Paused) -> None:
        """Keeps a conversation that waits, with the answers so far."""
        await _in_thread(self._paused.save, paused)

    async def resume(self, owner: str, identifier: str) -> None:
        """Forgets that a conversation waits."""
        await _in_thread(lambda: self._paused.forget(identifier, owner=owner))

    async def delete(self, owner: str, identifier: str) -> None:
        """Deletes all that is kept of a conversation of the owner. The journal still proves that it existed.

        Errors: ``Conflict`` if another process conducts it, which would go on to write into the journal.
        """

        def delete() -> None:
            with self._paused.claimed(identifier, owner=owner):
                try:
                    delete_conversation(self._journal, identifier, owner=owner, state=self._state, queue=self._queue)
                finally:
                    self._journal.database.clean()

        await _in_thread(delete)

    async def claim(self, owner: str, identifier: str) -> "Claim":
        """Locks a conversation against other processes, until the claim is released. Errors: ``Conflict``."""
        claim = Claim(self._paused.claimed(identifier, owner=owner))
        await _in_thread(claim.enter)
        return claim

    async def record(self, record: Record) -> None:
        """Adds a record to the journal."""
        await _in_thread(self._journal.record, [record])

    def _summary(self, owner: str, identifier: str) -> Summary:
        found = self._journal.summary(identifier, owner=owner)
        if found.deletions:
            raise NameAbsence("conversation", identifier)
        return found


class Claim:
    """A lock of a conversation against other processes."""

    def __init__(self, lock: contextlib.AbstractContextManager[None]) -> None:
        self._lock = lock

    def enter(self) -> None:
        """Takes it."""
        self._lock.__enter__()

    async def release(self) -> None:
        """Releases it."""
        await _in_thread(self._lock.__exit__, None, None, None)


async def _in_thread(function: Callable[..., Result], *arguments: object) -> Result:
    # Callers do more than return the value.
    return await run_in_thread(function, *arguments, name="store", patient=False)
