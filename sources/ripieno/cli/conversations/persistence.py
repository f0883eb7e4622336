"""The state of a conversation on disk: its journal, its claim by one process, and its waiting calls."""

import contextlib
import os
import pathlib
import shlex
from collections.abc import Generator, Mapping, Sequence

from ripieno.approvals import Given
from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.assembly.journal import open_database, open_journal, place_of_journal
from ripieno.canisters import Conversation, TextualContent, UserCanister
from ripieno.canisters.conversation import Waiting
from ripieno.canisters.display import brief, short
from ripieno.cli.common.main import say
from ripieno.cli.common.options import Settings
from ripieno.cli.journal.queued import explaining_conducted
from ripieno.conducting.paused import Paused, PausedStore
from ripieno.conducting.resume import with_results
from ripieno.storage.journal import Journal


class Keeper:
    """Saves the conversations of one command. ``journal`` is None if it is disabled."""

    def __init__(self, loaded: LoadedConfiguration, settings: Settings, *, journal: Journal | None) -> None:
        self.journal = journal
        self.store = PausedStore(open_database(loaded, os.environ) if journal is None else journal.database)
        self._loaded = loaded
        self._workspace = str(loaded.workspace)
        #: The options that select the configuration, for commands about the same.
        self.options = settings.selection

    def answered(self, conversation: Conversation) -> tuple[Conversation, Mapping[str, Given]]:
        """The conversation with the results that were given meanwhile, and the answers to its waiting calls."""
        kept = self._kept(conversation.identifier)
        return (conversation, {}) if kept is None else (with_results(kept.results, conversation), kept.answers)

    def owner(self, identifier: str) -> str:
        """The gateway client for whom the conversation is, or an empty string."""
        kept = self._kept(identifier)
        if kept is not None or self.journal is None:
            return "" if kept is None else kept.owner
        # Of a deleted conversation, too: the owner is no part of what is deleted.
        return next((line.owner for line in self.journal.lines(identifier, stage="began", limit=1)), "")

    @contextlib.contextmanager
    def claimed(self, identifier: str) -> Generator[None, None, None]:
        """Locks a conversation against other processes. Errors on entering: ``Conflict``, with the run of a worker."""
        owner = self.owner(identifier)
        with contextlib.ExitStack() as claim:
            taken = self.store.claimed(identifier, owner=owner)
            if self.journal is None:
                claim.enter_context(taken)
            else:
                with explaining_conducted(self.journal, place_of_journal(self._loaded, os.environ), identifier, owner):
                    claim.enter_context(taken)
            yield

    def _kept(self, identifier: str) -> Paused | None:
        # People do not name the owner. Where two have the same identifier, finding the conversation was refused.
        return next((one for one in self.store.all() if one.identifier == identifier), None)

    def keep(self, conversation: Conversation, model: str, tools: tuple[str, ...] | None) -> None:
        """Saves a conversation with waiting calls and reports the next commands; deletes one without such calls.

        A run that failed before it looked at its waiting calls leaves them, and their answers, as they are.
        """
        if conversation.finish == "open":
            self._save(conversation, model, tools)
        elif not conversation.open:
            self.store.forget(conversation.identifier, owner=self.owner(conversation.identifier))

    def wait(self, conversation: Conversation, model: str, tools: tuple[str, ...] | None) -> None:
        """Reports what a conversation waits for, which is not conducted. Answers that it has stay."""
        kept = self._kept(conversation.identifier)
        if kept is None:
            self._save(conversation, model, tools)
        else:
            _report(kept)

    def _save(self, conversation: Conversation, model: str, tools: tuple[str, ...] | None) -> None:
        paused = Paused(
            conversation=conversation,
            workspace=self._workspace,
            model=model,
            tools=tools,
            options=self.options,
            owner=self.owner(conversation.identifier),
        )
        self.store.save(paused)
        _report(paused)

    def continuation(self, conversation: Conversation) -> str | None:
        """The command that continues a run that was stopped; None if nothing of it is stored."""
        if self.journal is None and self._kept(conversation.identifier) is None:
            return None
        return continuation(short(conversation.identifier), self._workspace, self.options)


def _report(paused: Paused) -> None:
    """Reports why a conversation waits, and the next commands."""
    short = paused.short
    waiting = [one for one in paused.conversation.waiting if one.why != "caller"]
    waiting = [one for one in waiting if one.invocation not in paused.answers]
    for one in (*waiting, *paused.lacking):
        say(f"Waiting: {one.tool} ({one.invocation}): {_WHY[one.why]}")
    if paused.unanswered:
        say(f"To see it:      ripieno approvals show {short}")
        say(f"To approve it:  ripieno approvals approve {short}    (or: deny)")
    for one in paused.lacking:
        say(f"To answer it:   {result_command(paused, one)}    (or: deny)")
    say(f"To continue:    {resume_command(paused)}")


def resume_command(paused: Paused) -> str:
    """The command that continues a conversation from the current folder."""
    return continuation(paused.short, paused.workspace, paused.options)


def result_command(paused: Paused, waiting: Waiting) -> str:
    """The command that gives the result of a call that the application runs; ``TEXT`` stands for the result."""
    return shlex.join(["ripieno", "approvals", "result", paused.short, waiting.invocation, "TEXT"])


def continuation(beginning: str, workspace: str | None, options: Sequence[str]) -> str:
    """``ripieno resume`` for a conversation, from the current folder."""
    words = ["ripieno", "resume", beginning, *options]
    if workspace is not None and is_elsewhere(workspace):
        words += ["--workspace", workspace]
    return shlex.join(words)


def is_elsewhere(workspace: str) -> bool:
    """Whether a workspace is another folder than the one where the command was given."""
    return pathlib.Path(workspace).resolve() != pathlib.Path.cwd()


_WHY = {
    "approval": "it needs the approval of a person.",
    "behind": "it waits for an earlier call.",
    "caller": "its client runs it, and its result is needed.",
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
