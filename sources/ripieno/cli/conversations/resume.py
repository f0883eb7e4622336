"""``ripieno resume``: goes on with a conversation that waited for a person, or whose process ended in the middle."""

import click

from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.canisters import Conversation
from ripieno.cli.common import exit_codes
from ripieno.cli.common.assembly import load_layers
from ripieno.cli.common.main import run_async
from ripieno.cli.common.options import Settings, common, pass_settings
from ripieno.cli.common.terminal import ShownConfirmer, Terminal
from ripieno.cli.conversations.ask import ANSWERED
from ripieno.cli.conversations.conversation import Wanted, asking, follow
from ripieno.cli.conversations.persistence import Keeper, keeping
from ripieno.cli.conversations.recall import find, recall
from ripieno.conducting.resume import Resumable
from ripieno.exceptions import InputError


@click.command()
@click.argument("conversation", default="")
@asking
@common
@pass_settings
def resume(settings: Settings, *, conversation: str, wanted: Wanted) -> None:
    """Go on with a CONVERSATION that waits for a person, or that was interrupted.

    A beginning of its identifier is enough; without one it is the only one that waits, or else the last one of the
    journal. Calls that were approved run now, once; those that nobody has answered are asked about, or go on waiting
    where nobody is at the terminal. A call that ran
    when its process was killed is not repeated: the model is told that nobody knows what it did.

    \b
    Example:
      ripieno resume
      ripieno resume 3f9a --autonomous
    """
    loaded = load_layers(settings)
    with Terminal() as terminal, keeping(loaded) as keeper:
        found = find(keeper, conversation)
        found.check(loaded)
        chosen = wanted.like(found.model, found.tools)
        with keeper.conducting(found.identifier):
            # Somebody else may have gone on with it just before.
            what = recall(keeper, find(keeper, found.identifier))
            if not what.conversation.open and what.conversation.finish in ANSWERED:
                advice = f"Say more with: ripieno chat --resume {found.identifier[:8]}"
                raise InputError(f"The conversation {found.identifier} is at its end. {advice}")
            ended = run_async(_resume(loaded, chosen, what, terminal, keeper), wake=terminal.interrupt)
    raise click.exceptions.Exit(exit_codes.GOOD if ended.finish in ANSWERED else exit_codes.REFUSED)


async def _resume(
    loaded: LoadedConfiguration, wanted: Wanted, what: Resumable, terminal: Terminal, keeper: Keeper
) -> Conversation:
    confirmer = ShownConfirmer(wanted.confirmer(terminal, patient=True))
    renderer = wanted.renderer()
    async with wanted.assembly(loaded, confirmer, renderer, keeper) as assembly:
        caller = keeper.caller(what.conversation)
        run = wanted.conduct(assembly, what.conversation, answers=what.answers, caller=caller)
        try:
            return await follow(run, assembly, renderer, confirmer)
        finally:
            keeper.keep(run.conversation, run.model.identity, wanted.tools)
