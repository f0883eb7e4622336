"""``ripieno invoke``: one call of one tool, through the same pipeline as a model's calls."""

import sys
from collections.abc import Sequence

import click

from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.cli import exits
from ripieno.cli.arguments import read_object, read_pairs
from ripieno.cli.assembling import gather_layers, make_assembly, only, require_ensembles
from ripieno.cli.running import run_async, say
from ripieno.cli.settings import Settings, common, pass_settings
from ripieno.cli.tables import print_json
from ripieno.cli.terminal import Terminal, make_confirmer
from ripieno.confirmation import Confirmer
from ripieno.contents import TextualContent
from ripieno.events import Event, ExecutionProgress
from ripieno.exceptions import InputError
from ripieno.execution import Circumstances
from ripieno.gathering import Gathered
from ripieno.jsonvalues import freeze
from ripieno.naming import split
from ripieno.showing import Renderer, clean


@click.command()
@click.argument("tool", metavar="ENSEMBLE.TOOL")
@click.argument("pairs", metavar="[KEY=VALUE]...", nargs=-1)
@click.option(
    "--arguments", "text", metavar="JSON", help="All arguments as a JSON object; - reads it from standard input."
)
@click.option("--yes", "-y", is_flag=True, help="Approve this one call; what is denied stays denied.")
@click.option(
    "--format",
    "output",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="The result as text, or the whole of it as JSON.",
)
@common
@pass_settings
def invoke(settings: Settings, *, tool: str, pairs: tuple[str, ...], text: str | None, yes: bool, output: str) -> None:
    """Call one tool yourself.

    Values are read by the tool's schema: numbers, true and false, JSON for lists and tables, anything else as
    text. A call that changes something asks at the terminal first, unless it is approved. The exit code is 1
    when the result is an error.

    \b
    Example:
      ripieno invoke io.read_file path=README.rst start_line=1 end_line=3
      ripieno invoke io.write_file --arguments '{"path": "a.txt", "content": "Hello"}' --yes
    """
    ensemble, name = split(tool)
    if not name:
        raise InputError(f"A tool is named ENSEMBLE.TOOL, such as io.read_file; not {tool!r}.")
    if text is not None and pairs:
        raise click.UsageError("Give arguments as KEY=VALUE or with --arguments, not both.")
    gathered = gather_layers(settings)
    if not gathered.failures:
        require_ensembles(gathered, [ensemble])
        gathered = only(gathered, [ensemble])
    given = None if text is None else read_object(sys.stdin.read() if text == "-" else text)
    with Terminal() as terminal:
        confirmer = make_confirmer(terminal, yes=yes)
        result = run_async(_invoke(gathered, tool, pairs, given, confirmer), wake=terminal.interrupt)
    if output == "json":
        print_json(result.response_mapping())
    else:
        _print_text(result)
    raise click.exceptions.Exit(exits.GOOD if result.error is None else exits.REFUSED)


async def _invoke(
    gathered: Gathered,
    tool: str,
    pairs: Sequence[str],
    given: dict[str, object] | None,
    confirmer: Confirmer,
) -> ResultCanister:
    async with make_assembly(gathered, confirmer=confirmer) as assembly:
        invoker = assembly.access_invoker(tool)
        arguments = read_pairs(pairs, invoker.arguments_schema) if given is None else given
        invocation = InvocationCanister(identifier="call_1", name=invoker.exposed, arguments=freeze(arguments))
        renderer = Renderer(sys.stderr)

        def notify(event: Event) -> None:
            if isinstance(event, ExecutionProgress):
                renderer.show(event)

        around = Circumstances(conversation="command line", turn=1, notify=notify)
        return await assembly.execution.execute(invocation, ensembles=(invoker.ensemble,), circumstances=around)


def _print_text(result: ResultCanister) -> None:
    if result.error is not None:
        say(result.error.text())
    terminal = sys.stdout.isatty()
    for content in result.content:
        if isinstance(content, TextualContent):
            written = clean(content.text) if terminal else content.text
            sys.stdout.write(written)
            # On a terminal the prompt must not stand behind the text; a file gets what the tool said.
            if terminal and not written.endswith("\n"):
                sys.stdout.write("\n")
        else:
            say(f"[{type(content).__name__}: use --format json, or another program, for what is no text]")
