"""``ripieno ask``: one prompt to a model, which may call tools. The answer streams."""

import os
import stat
import sys

import click

from ripieno.canisters import Conversation
from ripieno.cli.common import exit_codes
from ripieno.cli.common.layers import load_layers
from ripieno.cli.common.main import run_async
from ripieno.cli.common.options import Settings, common, pass_settings
from ripieno.cli.common.terminal import Terminal
from ripieno.cli.conversations.cassettes import begin
from ripieno.cli.conversations.conversation import Wanted, compared, converse, run_options
from ripieno.cli.conversations.persistence import open_keeper
from ripieno.exceptions import InputError
from ripieno.testing.cassettes import Replay


@click.command()
@click.argument("prompt", required=False)
@run_options
@common
@pass_settings
def ask(settings: Settings, *, prompt: str | None, wanted: Wanted) -> None:
    """Send one prompt to a model, which may call tools.

    The answer goes to standard output, lines about tools to standard error. A pipe or a file at standard input is added
    to the PROMPT, or is the whole of it. Calls that change something ask at the terminal first; with --defer they wait
    for an answer, and with --autonomous no one is asked. The exit code is 10 if a call waits, 11 if a limit ended the
    run, 12 if it ended without an answer, 13 if a call was denied because there is no terminal, and 3 if the model's
    endpoint fails. The journal records everything (ripieno journal), and an interrupted run can be continued (ripieno
    resume).

    The model score:FILE is scripted: a score names the calls, and your own tools run. It needs no key and no network.
    If something differs from what the score expects, it is listed, and the exit code is 1.

    \b
    Example:
      ripieno ask -m PROVIDER/MODEL "What is in README.rst?"
      git diff | ripieno ask "Summarise this."
      ripieno ask --tools 'io.read_*' "Which files are there?"
      ripieno ask -m score:./mine.toml "What is in README.rst?"
      ripieno ask --defer "Write a README for this project."
      ripieno ask --record talk.jsonl "What is in README.rst?"
      ripieno ask --replay talk.jsonl
    """
    text = sys.stdin.read() if prompt == "-" else _with_pipe(prompt)
    if text is None and not isinstance(wanted.cassette, Replay):
        raise click.UsageError("Missing argument 'PROMPT'.")
    if text is not None and not text.strip():
        raise InputError("The prompt is empty.")
    loaded = load_layers(settings)
    conversation = Conversation.of(text) if text is not None else begin(wanted.cassette)
    with Terminal() as terminal, open_keeper(loaded, settings) as keeper, keeper.claimed(conversation.identifier):
        ended = run_async(converse(loaded, wanted, conversation, terminal, keeper), wake=terminal.react)
    found = compared(ended, wanted, loaded)
    # A script must notice that its answer is that of a model that was not allowed to do something.
    denied = terminal.lacking and found.exit_code == exit_codes.GOOD
    raise click.exceptions.Exit(exit_codes.DENIED) if denied else found


def _with_pipe(prompt: str | None) -> str | None:
    """The prompt, with what a pipe or a file at standard input has. Sockets and other devices are not read."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # Standard input is closed, or replaced.
        return prompt
    piped = sys.stdin.read().strip() if stat.S_ISFIFO(mode) or stat.S_ISREG(mode) else ""
    return "\n\n".join(filter(None, (prompt, piped))) or prompt
