"""``ripieno explain``: the definition of one tool on a wire, and the parts of its schema that are lost."""

import dataclasses

import click

from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.cli.common.assembly import make_assembly
from ripieno.cli.common.completion import complete_tool
from ripieno.cli.common.layers import load_layers, select_ensembles
from ripieno.cli.common.main import run_async
from ripieno.cli.common.options import Format, Settings, common, formats, pass_settings
from ripieno.cli.common.tables import print_json, print_table
from ripieno.cli.common.wires import protocols
from ripieno.cli.tools.explanation import suggest_tool
from ripieno.cli.tools.sent import resolve_wire
from ripieno.descriptors.names import split
from ripieno.ensembles import Invoker
from ripieno.models import Protocol
from ripieno.schemas.lowering import Lowered


@click.command()
@click.argument("tool", metavar="ENSEMBLE.TOOL", shell_complete=complete_tool)
@protocols("The wire format, instead of that of the configured model.")
@click.option("--strict", is_flag=True, help="As sent in strict mode, in which the provider enforces the schema.")
@formats
@common
@pass_settings
def explain(settings: Settings, tool: str, protocol: str | None, strict: bool, output: Format) -> None:
    """Show the definition of one tool as a wire format sends it.

    The wire format is that of the configured model, or that of chat completions if there is none.

    Also lists the parts of its schema that the wire format cannot send as they are: KEPT is expressed in another form,
    MOVED is in a description, DROPPED is not sent, and DOUBTFUL is sent, although the provider documents that it
    refuses it. All parts are still checked when the tool is called.

    \b
    Example:
      ripieno explain io.read_file --strict
    """
    ensemble, name = split(tool)
    loaded = load_layers(settings)
    if not name:
        raise suggest_tool(tool, (), loaded, command="explain")
    wire = resolve_wire(loaded, protocol, strict=strict)
    loaded = select_ensembles(loaded, [ensemble])
    run_async(_explain(loaded, tool, wire, strict, output))


async def _explain(loaded: LoadedConfiguration, tool: str, wire: Protocol, strict: bool, output: Format) -> None:
    async with make_assembly(loaded) as assembly:
        invoker = assembly.access_invoker(tool)
        lowered = wire.invocations.lowered(invoker, strict=strict)
        if output == "json":
            print_json(_mapping(invoker, wire, lowered, strict=strict))
            return
        print_json(wire.invocations.definition_of(invoker, strict=strict))
        click.echo()
        if strict:
            click.echo("Strict: yes" if lowered.strict else f"Strict: no. {lowered.reason}.")
        if not lowered.losses:
            click.echo("All of its schema is sent.")
            return
        rows = [(one.outcome, f"#{one.pointer}", one.keyword, one.note) for one in lowered.losses]
        print_table(("OUTCOME", "PLACE", "KEYWORD", "HOW"), rows)


def _mapping(invoker: Invoker, wire: Protocol, lowered: Lowered, *, strict: bool) -> dict[str, object]:
    return {
        "tool": invoker.identity,
        "protocol": wire.name,
        "sent": wire.invocations.definition_of(invoker, strict=strict),
        "strict": lowered.strict,
        "reason": lowered.reason,
        "losses": [dataclasses.asdict(one) for one in lowered.losses],
    }
