"""The state of a conversation on disk: its journal, its claim by one process, and its waiting calls."""

import contextlib
import os
import pathlib
import shlex
from collections.abc import Generator, Mapping

from ripieno.approvals import Given
from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.assembly.journal import open_database, open_journal
from ripieno.canisters import Conversation, TextualContent, UserCanister
from ripieno.cli.common.main import say
from ripieno.cli.common.options import Settings
from ripieno.conducting.observers.console import brief
from ripieno.conducting.paused import Paused, PausedStore
from ripieno.storage.journal import Journal


class Keeper:
    """Saves the conversations of one command. ``journal`` is None if it is disabled."""

    def __init__(self, loaded: LoadedConfiguration, settings: Settings, *, journal: Journal | None) -> None:
        self.journal = journal
        self.store = PausedStore(open_database(loaded, os.environ) if journal is None else journal.database)
        self._workspace = str(loaded.workspace)
        self._options = settings.selection

    def answers(self, conversation: Conversation) -> Mapping[str, Given]:
        """The answers to waiting calls."""
        kept = self._kept(conversation.identifier)
        return {} if kept is None else kept.answers

    def owner(self, identifier: str) -> str:
        """The gateway client for whom the conversation is, or an empty string."""
        kept = self._kept(identifier)
        if kept is not None or self.journal is None:
            return "" if kept is None else kept.owner
        began = (line.record for line in self.journal.lines(identifier, stage="began"))
        return next((record.owner for record in began if record is not None), "")

    def claimed(self, identifier: str) -> contextlib.AbstractContextManager[None]:
        """Locks a conversation against other processes. Errors on entering: ``Conflict``."""
        return self.store.claimed(identifier, owner=self.owner(identifier))

    def _kept(self, identifier: str) -> Paused | None:
        # People do not name the owner. Where two have the same identifier, finding the conversation was refused.
        return next((one for one in self.store.all() if one.identifier == identifier), None)

    def keep(self, conversation: Conversation, model: str, tools: tuple[str, ...] | None) -> None:
        """Saves a conversation with waiting calls and reports the next commands; deletes any other."""
        if conversation.finish != "open":
            self.store.forget(conversation.identifier, owner=self.owner(conversation.identifier))
            return
        paused = Paused(
            conversation=conversation,
            workspace=self._workspace,
            model=model,
            tools=tools,
            options=self._options,
            owner=self.owner(conversation.identifier),
        )
        self.store.save(paused)
        short = paused.short
        for one in conversation.waiting:
            say(f"Waiting: {one.tool} ({one.invocation}): {_WHY[one.why]}")
        if any(one.why == "approval" for one in conversation.waiting):
            say(f"To see it:      ripieno approvals show {short}")
            say(f"To approve it:  ripieno approvals approve {short}    (or: deny)")
        say(f"To continue:    {resume_command(paused)}")


def resume_command(paused: Paused) -> str:
    """The command that continues a conversation from the current folder."""
    words = ["ripieno", "resume", paused.short, *paused.options]
    if pathlib.Path(paused.workspace).resolve() != pathlib.Path.cwd():
        words += ["--workspace", paused.workspace]
    return shlex.join(words)


_WHY = {
    "approval": "it needs the approval of a person.",
    "behind": "it waits for an earlier call.",
    "caller": "the application that embeds ripieno must run it.",
    "interrupted": "it did not start.",
}


@contextlib.contextmanager
def open_keeper(loaded: LoadedConfiguration, settings: Settings) -> Generator[Keeper, None, None]:
    """A keeper with the user's journal, unless it is disabled. Errors: ``InputError``."""
    if not loaded.configuration.journal:
        keeper = Keeper(loaded, settings, journal=None)
        try:
            yield keeper
        finally:
            keeper.store.close()
        return
    with open_journal(loaded, os.environ) as journal:
        yield Keeper(loaded, settings, journal=journal)


def first_words(conversation: Conversation) -> str:
    """The user's first message, shortened."""
    contents = next((one.content for one in conversation.canisters if isinstance(one, UserCanister)), ())
    return brief(" ".join(one.text for one in contents if isinstance(one, TextualContent)))
