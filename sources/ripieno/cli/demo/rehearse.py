"""``ripieno rehearse``: serves a score as a model over every wire format, for clients of models."""

import asyncio
import json
import os
import shlex
import shutil
import sys
from collections.abc import Sequence

import click

from ripieno.assembly.configuration import LoadedConfiguration, load_configuration, prefix_of
from ripieno.canisters.display import clean
from ripieno.cli.common.completion import complete_score
from ripieno.cli.common.findings import exposed_names
from ripieno.cli.common.main import Interrupted, run_async, say
from ripieno.cli.common.options import Number, Settings, common, pass_settings
from ripieno.cli.common.scores import find_score
from ripieno.cli.common.tables import print_table
from ripieno.descriptors.loading import Layer, load_ensembles
from ripieno.descriptors.names import unprefixed
from ripieno.models import Protocol
from ripieno.servers.http.server import serve
from ripieno.storage.places import Places
from ripieno.testing.rehearsal.server import base_url, create_application
from ripieno.testing.scores import Score
from ripieno.toolset import DATA
from ripieno.values import Value

#: The ensembles that bundled scores need in addition to the bundled ones.
ENSEMBLES = DATA / "demo" / "ensembles"


class WantedEnsemble(Value, kw_only=True):
    """An ensemble, and the tools that a score calls in it. ``added``: its file must be configured to have them."""

    name: str
    tools: tuple[str, ...]
    file: str
    added: bool = False


def wanted_ensembles(score: Score, loaded: LoadedConfiguration) -> tuple[WantedEnsemble, ...]:
    """The ensembles that the score calls: enabled ones, then the demo's. Tools that none of them has are left out."""
    demo = load_ensembles([Layer(name="demo", paths=(ENSEMBLES,))]).ensembles
    wanted: list[WantedEnsemble] = []
    left = dict.fromkeys(score.tools)
    for descriptor in (*loaded.ensembles, *demo.values()):
        declared = {name for _, _, name in exposed_names(descriptor)}
        prefix = prefix_of(descriptor) if descriptor.connection is not None else ""
        tools = tuple(name for name in left if name in declared or unprefixed(name, prefix) is not None)
        for name in tools:
            del left[name]
        if tools:
            file = descriptor.file or "in the configuration"
            wanted.append(
                WantedEnsemble(name=descriptor.name, tools=tools, file=file, added=descriptor.layer == "demo")
            )
    return tuple(wanted)


@click.command()
@click.argument("score", shell_complete=complete_score)
@click.option("--port", metavar="N", type=Number(0, 65535), default=0, help="The port; a free one by default.")
@click.option("--lenient", is_flag=True, help="Answer conversations that strict servers refuse.")
@common
@pass_settings
def rehearse(settings: Settings, score: str, port: int, lenient: bool) -> None:
    """Serve a score as a model, over real wire formats.

    SCORE is the name of a bundled score, or the path of a TOML file. The server listens on this machine only, accepts
    any key and any model name, and runs until Ctrl-C. Like strict servers, it refuses calls without a result, results
    without a call, and names and identifiers that its wire does not allow.

    \b
    Example:
      ripieno rehearse demo --port 8001
    """
    chosen = find_score(score)
    loaded = load_configuration(settings.config)
    registry = loaded.registry
    found: list[Protocol] = [registry.resolve("protocols", name) for name in sorted(registry.protocols)]
    protocols = [protocol for protocol in found if protocol.routes]
    try:
        run_async(_serve(chosen, protocols, port, wanted_ensembles(chosen, loaded), lenient=lenient))
    except Interrupted:
        click.echo("The rehearsal has ended.")


async def _serve(
    score: Score, protocols: list[Protocol], port: int, wanted: Sequence[WantedEnsemble], *, lenient: bool
) -> None:
    application = create_application(score, protocols, warn=lambda text: say(f"! {text}"), lenient=lenient)
    async with serve(application, port=port) as url:
        click.echo(f"Serving the score {score.name!r} at {url}, until Ctrl-C. The model is scripted.")
        for protocol in protocols:
            click.echo(f"  {protocol.name:<18} {base_url(url, protocol)}")
        click.echo("To use it from an SDK, set one of these; any key is accepted:")
        for protocol in {protocol.sdk: protocol for protocol in reversed(protocols)}.values():
            click.echo(f"  export {_variables(url, protocol)}")
        file = Places.of_user().file
        click.echo(clean(f"To use it from ripieno, add to {file}:"))
        click.echo(f'  [providers.rehearsed]\n  protocol = "{protocols[-1].name}"')
        click.echo(f'  base_url = "{base_url(url, protocols[-1])}"')
        _print_needs(score, wanted)
        await asyncio.Event().wait()


def _variables(url: str, protocol: Protocol) -> str:
    if protocol.environment is not None:
        return protocol.environment.format(url=url)
    variable = protocol.sdk.upper()
    return f"{variable}_BASE_URL={base_url(url, protocol)} {variable}_API_KEY=none"


def _print_needs(score: Score, wanted: Sequence[WantedEnsemble]) -> None:
    files = [one.file for one in wanted if one.added]
    if files:
        click.echo(clean(f"  [ensembles]\n  paths = {json.dumps(files, ensure_ascii=False)}"))
    approve = score.setup.configuration.get("confirmation", {}).get("approve", ())
    if approve:
        click.echo("  # The score's calls that change something. Without these lines, you are asked: answer y.")
        click.echo(clean(f"  [confirmation]\n  approve = {json.dumps(list(approve), ensure_ascii=False)}"))
    click.echo(clean(f"Then: ripieno ask -m rehearsed/{score.name} {shlex.quote(score.prompt or '...')}"))
    if wanted:
        click.echo("The score calls these tools, so the client must offer them:")
        print_table((), [("", one.name, ", ".join(one.tools), one.file) for one in wanted])
    offered = {name for one in wanted for name in one.tools}
    if unknown := ", ".join(name for name in dict.fromkeys(score.tools) if name not in offered):
        click.echo(clean(f"It calls tools that no enabled ensemble has: {unknown}. See: ripieno ensembles"))
    own = os.path.dirname(sys.executable)
    if files and os.path.dirname(shutil.which("python") or "") != own:
        click.echo(clean(f"One of them is a server that needs this `python`: export PATH={own}:$PATH"))
    if score.prompt:
        click.echo(clean(f"The score expects this prompt: {score.prompt}"))
