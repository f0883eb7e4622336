"""``ripieno resume``: continues a conversation that waited for a person, or that was interrupted."""

import click

from ripieno.cli.common.assembly import load_layers
from ripieno.cli.common.main import run_async
from ripieno.cli.common.options import Settings, common, pass_settings
from ripieno.cli.common.terminal import Terminal
from ripieno.cli.conversations.cassettes import ANSWERED, exit_of
from ripieno.cli.conversations.conversation import Wanted, converse, run_options
from ripieno.cli.conversations.persistence import open_keeper
from ripieno.cli.conversations.recall import find, recall
from ripieno.exceptions import InputError


@click.command()
@click.argument("conversation", default="")
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
    with Terminal() as terminal, open_keeper(loaded) as keeper:
        found = find(keeper, conversation)
        found.check(loaded)
        chosen = wanted.like(found.model, found.tools)
        with keeper.conducting(found.identifier):
            # Another process may have continued it in between.
            resumable = recall(keeper, find(keeper, found.identifier))
            if not resumable.conversation.open and resumable.conversation.finish in ANSWERED:
                advice = f"To add a message: ripieno chat --resume {found.identifier[:8]}"
                raise InputError(f"The conversation {found.identifier} has ended. {advice}")
            going = converse(
                loaded, chosen, resumable.conversation, terminal, keeper, answers=resumable.answers, can_wait=True
            )
            ended = run_async(going, wake=terminal.interrupt)
    raise exit_of(ended)
