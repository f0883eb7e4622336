"""``ripieno resume``: continues a conversation that waited for a person, or that was interrupted."""

import shlex

import click

from ripieno.canisters.display import short
from ripieno.cli.common.layers import load_layers
from ripieno.cli.common.main import run_async, say
from ripieno.cli.common.options import Settings, common, pass_settings
from ripieno.cli.common.terminal import Terminal
from ripieno.cli.conversations.cassettes import ANSWERED
from ripieno.cli.conversations.conversation import Wanted, compared, converse, run_options
from ripieno.cli.conversations.persistence import Keeper, first_words, open_keeper
from ripieno.cli.conversations.selection import FoundConversation, complete_resumable, find, find_or_latest
from ripieno.cli.journal.transcript import moment
from ripieno.conducting.resume import Resumable, paused_resumable, resumable
from ripieno.exceptions import InputError


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
@click.argument("conversation", default="", shell_complete=complete_resumable)
@run_options
@common
@pass_settings
def resume(settings: Settings, *, conversation: str, wanted: Wanted) -> None:
    """Continue a CONVERSATION that waits for a person, or that was interrupted.

    The beginning of its identifier is enough. Without it, continues the only one of this folder that waits, or else the
    latest that was interrupted, and says which. If several wait, it does nothing, and prints the command for each.

    Approved calls run now, once. For unanswered calls you are asked; without a terminal they keep waiting. A call that
    was running when its process was killed is not repeated: the model learns that its outcome is unknown.

    \b
    Example:
      ripieno resume
      ripieno resume 3f9a --autonomous
    """
    loaded = load_layers(settings)
    with Terminal() as terminal, open_keeper(loaded, settings) as keeper:
        found = find_or_latest(keeper, conversation, loaded.workspace)
        chosen = wanted.like(found.model, found.tools)
        with keeper.claimed(found.identifier):
            # Another process may have continued it in between.
            found = find(keeper, found.identifier)
            recalled = recall(keeper, found)
            if not recalled.conversation.open and recalled.conversation.finish in ANSWERED:
                there = () if found.is_of(loaded.workspace) else ("--workspace", str(found.workspace))
                words = ["ripieno", "chat", "--resume", short(found.identifier), *settings.selection, *there]
                words += () if there or settings.workspace is None else ("--workspace", str(settings.workspace))
                advice = f"To add a message: {shlex.join(words)}"
                raise InputError(f"The conversation {found.identifier} has ended. {advice}")
            found.check(loaded)
            if not conversation:
                begun = first_words(recalled.conversation)
                say(f"Continuing {short(found.identifier)}, of {moment(found.last)} UTC: {begun}")
            going = converse(
                loaded, chosen, recalled.conversation, terminal, keeper, answers=recalled.answers, can_wait=True
            )
            ended = run_async(going, wake=terminal.react)
    raise compared(ended, chosen, loaded)
