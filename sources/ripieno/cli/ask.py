"""``ripieno ask``: one prompt to a model, which may call the tools; the answer streams as it comes."""

import sys

import click

from ripieno.cli import exits
from ripieno.cli.asking import Wanted, asking, follow
from ripieno.cli.assembling import gather_layers
from ripieno.cli.running import run_async
from ripieno.cli.settings import Settings, common, pass_settings
from ripieno.cli.terminal import ShownConfirmer, Terminal, make_confirmer
from ripieno.conversations import Conversation
from ripieno.exceptions import InputError
from ripieno.gathering import Gathered

#: Ends of a run that are answers.
_ANSWERED = ("stop", "terminal")


@click.command()
@click.argument("prompt")
@asking
@common
@pass_settings
def ask(
    settings: Settings, *, prompt: str, model: str | None, agent: str | None, tools: tuple[str, ...], quiet: bool
) -> None:
    """Ask a model, which may call the tools.

    The answer goes to standard output, lines about tools to standard error. A PROMPT of - is read from standard
    input. Calls that change something ask at the terminal first. The exit code is 1 when the run ends without
    an answer, and 3 when the model's endpoint fails.

    \b
    Example:
      ripieno ask -m PROVIDER/MODEL "What is in README.rst?"
      ripieno ask --tools 'io.read_*' "Which files are there?"
    """
    wanted = Wanted.of(model, agent, tools, quiet)
    text = sys.stdin.read() if prompt == "-" else prompt
    if not text.strip():
        raise InputError("The prompt is empty.")
    gathered = gather_layers(settings)
    with Terminal() as terminal:
        conversation = run_async(_ask(gathered, wanted, text, terminal), wake=terminal.interrupt)
    raise click.exceptions.Exit(exits.GOOD if conversation.finish in _ANSWERED else exits.REFUSED)


async def _ask(gathered: Gathered, wanted: Wanted, text: str, terminal: Terminal) -> Conversation:
    confirmer = ShownConfirmer(make_confirmer(terminal))
    renderer = wanted.renderer()
    async with wanted.assembly(gathered, confirmer, renderer) as assembly:
        return await follow(wanted.conduct(assembly, text), assembly, renderer, confirmer)
