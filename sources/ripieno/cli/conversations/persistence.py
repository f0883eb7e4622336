"""What commands keep of a conversation: its journal, the claim that one process conducts it, and what is left open."""

import contextlib
import os
from collections.abc import Generator, Mapping

from ripieno.approvals import Given
from ripieno.assembly.configuration import LoadedConfiguration, Places
from ripieno.assembly.protection import withheld
from ripieno.canisters import Conversation, TextualContent, UserCanister
from ripieno.cli.common.main import say
from ripieno.conducting.observers.console import brief
from ripieno.conducting.paused import Paused, PausedStore
from ripieno.storage.journal import NAME, Journal


class Keeper:
    """Keeps the conversations of one command. ``journal`` is None where the configuration wants none."""

    def __init__(self, loaded: LoadedConfiguration, *, journal: Journal | None) -> None:
        self.journal = journal
        self.store = PausedStore(loaded.state or Places.of_user().state)
        self._workspace = str(loaded.workspace)

    @contextlib.contextmanager
    def conducting(self, identifier: str) -> Generator[None, None, None]:
        """Claims a conversation for this process. Errors: ``InputError`` when another one conducts it."""
        with self.store.claimed(identifier):
            yield

    def answers(self, conversation: Conversation) -> Mapping[str, Given]:
        """What was answered meanwhile to calls that wait."""
        kept = self.store.load(conversation.identifier)
        return {} if kept is None else kept.answers

    def caller(self, conversation: Conversation) -> str:
        """The client of a server that asked for it; empty where nobody did."""
        kept = self.store.load(conversation.identifier)
        return "" if kept is None else kept.caller

    def keep(self, conversation: Conversation, model: str, tools: tuple[str, ...] | None) -> None:
        """Saves a conversation that waits for somebody, and says what to do; forgets one that waits no more."""
        if conversation.finish != "open":
            self.store.forget(conversation.identifier)
            return
        self.store.save(
            Paused(
                conversation=conversation,
                workspace=self._workspace,
                model=model,
                tools=tools,
                caller=self.caller(conversation),
            )
        )
        short = conversation.identifier[:8]
        for one in conversation.waiting:
            say(f"Open: {one.tool} ({one.invocation}): {_WHY[one.why]}")
        if any(one.why == "approval" for one in conversation.waiting):
            say(f"Look at it:    ripieno approvals show {short}")
            say(f"Allow it:      ripieno approvals approve {short}    (or: deny)")
        say(f"Then go on:    ripieno resume {short}")


_WHY = {
    "approval": "it waits for a person.",
    "behind": "it waits for a call before it.",
    "caller": "whoever embeds ripieno has to run it.",
    "interrupted": "it did not begin.",
}


@contextlib.contextmanager
def keeping(loaded: LoadedConfiguration) -> Generator[Keeper, None, None]:
    """A keeper with the user's journal, unless ``[journal] enabled`` is false. Errors: ``InputError``."""
    state = loaded.state or Places.of_user().state
    if loaded.configuration.journal is False:
        yield Keeper(loaded, journal=None)
        return
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    with Journal(state / NAME, secrets=withheld(loaded, os.environ)) as journal:
        yield Keeper(loaded, journal=journal)


def first_words(conversation: Conversation) -> str:
    """What the user said first, shortened."""
    said = (one for one in conversation.canisters if isinstance(one, UserCanister))
    contents = next((one.content for one in said), ())
    return brief(" ".join(one.text for one in contents if isinstance(one, TextualContent)))
