"""The stored conversations of all owners: the journal, and beside it those that wait.

Every look-up is by owner and identifier; nothing of another owner is read, named or changed.
"""

import contextlib
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.conducting.paused import Paused, PausedStore
from ripieno.conducting.resume import Resumable, resumable
from ripieno.exceptions import NameAbsence
from ripieno.storage.journal import Journal
from ripieno.storage.journal.summaries import Summary
from ripieno.storage.records import Record


class ConversationStore:
    """The conversations in a journal. Those that wait are beside it, with their questions and answers.

    Errors of all methods: ``NameAbsence`` for an identifier that the owner does not have; ``InputError`` if a file
    cannot be used.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._paused = PausedStore(journal.database)

    def create(self, owner: str, title: str, identifier: str = "") -> str:
        """Begins an empty conversation, and returns its identifier. One that is given is not another owner's."""
        identifier = identifier or uuid.uuid4().hex
        self._record_title(owner, identifier, title)
        return identifier

    def rename(self, owner: str, identifier: str, title: str) -> None:
        """Gives a conversation another title. It is one of the owner's."""
        self._record_title(owner, identifier, title)

    def record_cut(self, owner: str, identifier: str, texts: Sequence[Mapping[str, Any]]) -> None:
        """Keeps the texts of an answer that was cut off, beside the conversation."""
        self._journal.record(
            [Record(stage="cut", conversation=identifier, turn=0, owner=owner, details={"texts": texts})],
        )

    def _record_title(self, owner: str, identifier: str, title: str) -> None:
        details = {"title": title}
        self._journal.record(
            [Record(stage="titled", conversation=identifier, turn=0, owner=owner, details=details)],
        )

    def summary(self, owner: str, identifier: str) -> Summary:
        """One conversation in short."""
        found = self._journal.summary(identifier, owner=owner)
        if found.deleted:
            raise NameAbsence("conversation", identifier)
        return found

    def summaries(self, owner: str, *, limit: int) -> Sequence[Summary]:
        """The conversations in short, those first that were written last."""
        # Calls of other programs, which no model requested, are no conversations.
        every = (one for one in self._journal.conversations(owner=owner) if one.conducted or not one.words)
        found = (one for one in every if not one.deleted)
        return [one for one, _ in zip(found, range(limit), strict=False)]

    def load(self, owner: str, identifier: str) -> tuple[Summary, Resumable, Paused | None]:
        """A conversation to continue; and if it waits, the model and the agent with which it goes on."""
        summary = self.summary(owner, identifier)
        paused = self.paused(owner, identifier)
        return summary, resumable(self._journal, identifier, paused, owner=owner), paused

    def paused(self, owner: str, identifier: str) -> Paused | None:
        """The conversation if it waits."""
        return self._paused.load(identifier, owner=owner)

    def waiting(self, owner: str) -> Sequence[Paused]:
        """All conversations of the owner that wait, the oldest first."""
        return self._paused.all(owner)

    def pause(self, paused: Paused) -> None:
        """Keeps a conversation that waits, with the answers so far."""
        self._paused.save(paused)

    def resume(self, owner: str, identifier: str) -> None:
        """Forgets that a conversation waits."""
        self._paused.forget(identifier, owner=owner)

    def delete(self, owner: str, identifier: str) -> None:
        """Deletes the content of a conversation of the owner. The journal still proves that it existed."""
        self.resume(owner, identifier)
        self._journal.delete(identifier, owner=owner)

    def claim(self, owner: str, identifier: str) -> contextlib.AbstractContextManager[None]:
        """A lock against other processes, which a run holds. Errors on entering: ``Conflict``."""
        return self._paused.claimed(identifier, owner=owner)
