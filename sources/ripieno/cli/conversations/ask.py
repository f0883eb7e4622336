"""``ripieno ask``: one prompt to a model, which may call the tools; the answer streams as it comes."""

import sys

import click

from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.canisters import Conversation
from ripieno.cli.common import exit_codes
from ripieno.cli.common.assembly import load_layers
from ripieno.cli.common.main import run_async
from ripieno.cli.common.options import Settings, common, pass_settings
from ripieno.cli.common.terminal import ShownConfirmer, Terminal
from ripieno.cli.conversations.cassettes import begin
from ripieno.cli.conversations.conversation import Wanted, asking, follow
from ripieno.cli.conversations.persistence import Keeper, keeping
from ripieno.exceptions import InputError
from ripieno.testing.cassettes import Replay

#: Ends of a run that are answers.
ANSWERED = ("stop", "terminal")


@click.command()
@click.argument("prompt", required=False)
@asking
@common
@pass_settings
def ask(settings: Settings, *, prompt: str | None, wanted: Wanted) -> None:
    """Ask a model, which may call the tools.

    The answer goes to standard output, lines about tools to standard error. A PROMPT of - is read from standard
    input. Calls that change something ask at the terminal first; with --defer they wait for somebody, and with
    --autonomous nobody is asked. The exit code is 1 when the run ends without an answer, and 3 when the model's
    endpoint fails. What happens is written down: see ripieno journal, and ripieno resume where it was interrupted.

    \b
    Example:
      ripieno ask -m PROVIDER/MODEL "What is in README.rst?"
      ripieno ask --tools 'io.read_*' "Which files are there?"
      ripieno ask --defer "Write a README for this project."
      ripieno ask --record talk.jsonl "What is in README.rst?"
      ripieno ask --replay talk.jsonl
    """
    text = sys.stdin.read() if prompt == "-" else prompt
    if text is None and not isinstance(wanted.cassette, Replay):
        raise click.UsageError("Missing argument 'PROMPT'.")
    if text is not None and not text.strip():
        raise InputError("The prompt is empty.")
    loaded = load_layers(settings)
    conversation = Conversation.of(text) if text is not None else begin(wanted.cassette)
    with Terminal() as terminal, keeping(loaded) as keeper, keeper.conducting(conversation.identifier):
        ended = run_async(_ask(loaded, wanted, conversation, terminal, keeper), wake=terminal.interrupt)
    raise click.exceptions.Exit(exit_codes.GOOD if ended.finish in ANSWERED else exit_codes.REFUSED)


async def _ask(
    loaded: LoadedConfiguration, wanted: Wanted, what: Conversation, terminal: Terminal, keeper: Keeper
) -> Conversation:
    confirmer = ShownConfirmer(wanted.confirmer(terminal))
    renderer = wanted.renderer()
    async with wanted.assembly(loaded, confirmer, renderer, keeper) as assembly:
        run = wanted.conduct(assembly, what)
        try:
            return await follow(run, assembly, renderer, confirmer)
        finally:
            keeper.keep(run.conversation, run.model.identity, wanted.tools)
