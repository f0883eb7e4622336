"""Changes of a conversation by other processes, between two lines of a chat at the terminal."""

from ripieno.canisters import AssistantCanister, Conversation, UserCanister
from ripieno.canisters.display import count
from ripieno.cli.common.main import say
from ripieno.cli.conversations.persistence import Keeper
from ripieno.conducting.resume import resumable
from ripieno.exceptions import InputError
from ripieno.storage.journal.lines import DELETED

#: Characters of an identifier that commands need.
_SHORT = 8


class KnownRuns:
    """The runs that a chat knows of each of its conversations. All methods need the claim of the conversation.

    A run begins with a line of its own: one after those that are known is a run of another process.
    """

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        #: The numbers of the last lines about a beginning or a deletion.
        self._known: dict[str, int] = {}

    def note(self, identifier: str) -> None:
        """Notes that all that the journal has of a conversation is known."""
        self._known[identifier] = max(self._latest(identifier, "began"), self._latest(identifier, DELETED))

    def renew(self, conversation: Conversation) -> Conversation:
        """The conversation as the journal has it, if another process has continued it, which is said; itself otherwise.

        Errors: ``InputError`` if it was deleted.
        """
        journal, identifier = self._keeper.journal, conversation.identifier
        known = self._known.get(identifier, 0)
        if journal is None:
            return conversation
        if self._latest(identifier, DELETED) > known:
            raise InputError(f"The conversation {identifier} was deleted meanwhile. To begin a new one: /new")
        owner = self._keeper.owner(identifier)
        began = next(journal.lines(identifier, owner=owner, stage="began", after=known, limit=1), None)
        if began is None:
            return conversation
        paused = self._keeper.store.load(identifier, owner=owner)
        renewed = resumable(journal, identifier, paused, owner=owner).conversation
        said = (line.record for line in journal.lines(identifier, owner=owner, stage="said", after=began.number))
        messages = [one for one in said if one and isinstance(one.canister, UserCanister | AssistantCanister)]
        waiting = ", ".join(one.name for one in renewed.open)
        what = f"{count(len(messages), 'new message')}{f', and these calls wait: {waiting}' if waiting else ''}"
        say(f"Continued elsewhere: {what}. To read it: ripieno journal show {identifier[:_SHORT]}")
        self.note(identifier)
        return renewed

    def _latest(self, identifier: str, stage: str) -> int:
        """The number of the latest line of a stage that the journal has; that of the latest known line without one."""
        journal, known = self._keeper.journal, self._known.get(identifier, 0)
        if journal is None:
            return known
        owner = self._keeper.owner(identifier)
        found = journal.lines(identifier, owner=owner, stage=stage, after=known)
        return max((line.number for line in found), default=known)
