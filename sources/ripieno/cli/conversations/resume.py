"""``ripieno resume``: continues a conversation that waited for a person, or that was interrupted."""

import dataclasses
import pathlib
import shlex
from collections.abc import Mapping
from typing import Any

import click

from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.cli.common.assembly import load_layers
from ripieno.cli.common.main import run_async
from ripieno.cli.common.options import Settings, common, pass_settings
from ripieno.cli.common.terminal import Terminal
from ripieno.cli.conversations.cassettes import ANSWERED
from ripieno.cli.conversations.conversation import Wanted, compared, converse, run_options
from ripieno.cli.conversations.persistence import Keeper, open_keeper
from ripieno.cli.journal.selection import complete_conversation
from ripieno.conducting.paused import Paused
from ripieno.conducting.resume import Resumable, paused_resumable, resumable
from ripieno.exceptions import InputError, NameAbsence


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FoundConversation:
    """A conversation of an owner, with its saved state, if it waits, and its earlier model, tools and workspace."""

    identifier: str
    owner: str
    paused: Paused | None = None
    model: str | None = None
    tools: tuple[str, ...] | None = None
    workspace: str | None = None

    def check(self, loaded: LoadedConfiguration) -> None:
        """Errors: ``InputError`` if the workspace is another one than before."""
        here = loaded.workspace.resolve()
        if self.workspace is not None and pathlib.Path(self.workspace).resolve() != here:
            raise InputError(
                f"The workspace of the conversation is {self.workspace}, not {here}. "
                f"Change to that folder, or add: --workspace {self.workspace}"
            )


def find(keeper: Keeper, beginning: str) -> FoundConversation:
    """The conversation whose identifier has this beginning. Without one: the only one that waits, or else the latest
    that no gateway client requested.

    Errors: ``NameAbsence``; ``InputError`` if several match.
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
            owner=paused.owner,
            paused=paused,
            model=paused.model,
            tools=paused.tools,
            workspace=paused.workspace,
        )
    assert journal is not None
    own = (one for one in journal.conversations() if one.conducted and not one.owner)
    summary = journal.find(beginning) if beginning else next(own, None)
    if summary is None:
        raise InputError("There is no conversation to continue. To start one: ripieno ask")
    began = [line.record for line in journal.lines(summary.identifier, stage="began")]
    latest = began[-1] if began else None
    details: Mapping[str, Any] = {} if latest is None else latest.details
    tools = details.get("tools")
    return FoundConversation(
        identifier=summary.identifier,
        owner=summary.owner,
        model=details.get("model"),
        tools=None if tools is None else tuple(tools),
        workspace=details.get("workspace"),
    )


def recall(keeper: Keeper, found: FoundConversation) -> Resumable:
    """The conversation to continue, and its answers. Errors: ``InputError`` if there is nothing to continue."""
    if keeper.journal is not None:
        return resumable(keeper.journal, found.identifier, found.paused, owner=found.owner)
    if found.paused is None:
        raise InputError(
            "No conversation waits, and the journal is disabled (--no-journal, or [journal] enabled = false)."
        )
    return paused_resumable(found.paused)


@click.command()
@click.argument("conversation", default="", shell_complete=complete_conversation)
@run_options
@common
@pass_settings
def resume(settings: Settings, *, conversation: str, wanted: Wanted) -> None:
    """Continue a CONVERSATION that waits for a person, or that was interrupted.

    The beginning of its identifier is enough. Without it, continues the only one that waits, or else the latest one of
    the journal. Approved calls run now, once. For unanswered calls you are asked; without a terminal they keep waiting.
    A call that was running when its process was killed is not repeated: the model learns that its outcome is unknown.

    \b
    Example:
      ripieno resume
      ripieno resume 3f9a --autonomous
    """
    loaded = load_layers(settings)
    with Terminal() as terminal, open_keeper(loaded, settings) as keeper:
        found = find(keeper, conversation)
        found.check(loaded)
        chosen = wanted.like(found.model, found.tools)
        with keeper.claimed(found.identifier):
            # Another process may have continued it in between.
            recalled = recall(keeper, find(keeper, found.identifier))
            if not recalled.conversation.open and recalled.conversation.finish in ANSWERED:
                words = ["ripieno", "chat", "--resume", found.identifier[:8], *settings.given]
                advice = f"To add a message: {shlex.join(words)}"
                raise InputError(f"The conversation {found.identifier} has ended. {advice}")
            going = converse(
                loaded, chosen, recalled.conversation, terminal, keeper, answers=recalled.answers, can_wait=True
            )
            ended = run_async(going, wake=terminal.interrupt)
    raise compared(ended, chosen, loaded)
