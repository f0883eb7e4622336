"""Finds a conversation that waits or was interrupted, and how it was conducted before."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.cli.conversations.persistence import Keeper
from ripieno.conducting.paused import Paused
from ripieno.conducting.resume import Resumable, resumable
from ripieno.exceptions import InputError, NameAbsence


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FoundConversation:
    """A conversation, what is kept of it where it waits, and the model, tools and folder that it had."""

    identifier: str
    paused: Paused | None = None
    model: str | None = None
    tools: tuple[str, ...] | None = None
    workspace: str | None = None

    def check(self, loaded: LoadedConfiguration) -> None:
        """Errors: ``InputError`` where tools would work in another folder than before."""
        here = loaded.workspace.resolve()
        if self.workspace is not None and pathlib.Path(self.workspace).resolve() != here:
            raise InputError(
                f"The conversation worked in {self.workspace}, and this is {here}. "
                f"Go there, or add: --workspace {self.workspace}"
            )


def find(keeper: Keeper, beginning: str) -> FoundConversation:
    """The conversation whose identifier begins so; for an empty text the only one that waits, or else the latest.

    Errors: ``NameAbsence``; ``InputError`` where several are meant.
    """
    journal = keeper.journal
    try:
        paused = None if journal and not beginning and not keeper.store.all() else keeper.store.find(beginning)
    except NameAbsence:
        if journal is None:
            raise
        paused = None
    if paused is not None:
        return FoundConversation(
            identifier=paused.identifier,
            paused=paused,
            model=paused.model,
            tools=paused.tools,
            workspace=paused.workspace,
        )
    assert journal is not None
    summary = journal.find(beginning) if beginning else next(iter(journal.conversations(limit=1)), None)
    if summary is None:
        raise InputError("There is no conversation to go on with. Begin one with: ripieno ask")
    began = [line.record for line in journal.lines(summary.identifier, stage="began")]
    latest = began[-1] if began else None
    details: Mapping[str, Any] = {} if latest is None else latest.details
    tools = details.get("tools")
    return FoundConversation(
        identifier=summary.identifier,
        model=details.get("model"),
        tools=None if tools is None else tuple(tools),
        workspace=details.get("workspace"),
    )


def recall(keeper: Keeper, found: FoundConversation) -> Resumable:
    """What to go on with. Errors: ``InputError`` where there is nothing."""
    if keeper.journal is not None:
        return resumable(keeper.journal, found.identifier, found.paused)
    if found.paused is None:
        raise InputError("There is no journal here ([journal] enabled = false), and no conversation that waits.")
    return Resumable(conversation=found.paused.conversation, answers=found.paused.answers)
