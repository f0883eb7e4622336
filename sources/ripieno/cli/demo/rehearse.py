"""``ripieno rehearse``: serves a score as a model over every wire format, for programs that talk to models."""

import asyncio
import json
import os
import shlex
import shutil
import sys
from collections.abc import Sequence

import click

from ripieno.assembly.configuration import load_configuration
from ripieno.cli.common.main import Interrupted, run_async, say
from ripieno.cli.common.options import Settings, common, pass_settings
from ripieno.cli.common.tables import print_table
from ripieno.cli.demo.scores import WantedEnsemble, find_score, wanted_ensembles
from ripieno.conducting.observers.console import clean
from ripieno.models import Protocol
from ripieno.servers.http.server import serve
from ripieno.testing.rehearsal.server import base_url, create_application
from ripieno.testing.scores import Score


@click.command()
@click.argument("score")
@click.option(
    "--port", metavar="N", type=click.IntRange(0, 65535), default=0, help="The port; any free one by default."
)
@common
@pass_settings
def rehearse(settings: Settings, score: str, port: int) -> None:
    """Serve a score as a model, over real wire formats.

    SCORE is a bundled one by its name, or a TOML file by its path. It answers on this machine only, to any key
    and any name of a model, until Ctrl-C.

    \b
    Example:
      ripieno rehearse demo --port 8001
    """
    played = find_score(score)
    loaded = load_configuration(settings.config)
    registry = loaded.registry
    found: list[Protocol] = [registry.resolve("protocols", name) for name in sorted(registry.protocols)]
    protocols = [protocol for protocol in found if protocol.routes]
    try:
        run_async(_serve(played, protocols, port, wanted_ensembles(played, loaded)))
    except Interrupted:
        click.echo("The rehearsal is over.")


async def _serve(score: Score, protocols: list[Protocol], port: int, wanted: Sequence[WantedEnsemble]) -> None:
    application = create_application(score, protocols, warn=lambda text: say(f"! {text}"))
    async with serve(application, port=port) as url:
        click.echo(f"The score {score.name!r} plays at {url}, until Ctrl-C. The model is scripted.")
        for protocol in protocols:
            click.echo(f"  {protocol.name:<18} {base_url(url, protocol)}")
        click.echo("Point the SDKs at it in the environment; any key will do:")
        for protocol in {protocol.sdk: protocol for protocol in reversed(protocols)}.values():
            click.echo(f"  export {_variables(url, protocol)}")
        click.echo(f'or ripieno, in a configuration:\n  [providers.rehearsed]\n  protocol = "{protocols[-1].name}"')
        click.echo(f'  base_url = "{base_url(url, protocols[-1])}"')
        _print_wishes(score, wanted)
        await asyncio.Event().wait()


def _variables(url: str, protocol: Protocol) -> str:
    """What an SDK reads of its environment."""
    if protocol.environment is not None:
        return protocol.environment.format(url=url)
    variable = protocol.sdk.upper()
    return f"{variable}_BASE_URL={base_url(url, protocol)} {variable}_API_KEY=none"


def _print_wishes(score: Score, wanted: Sequence[WantedEnsemble]) -> None:
    """What the score wants of whoever asks it: ensembles, and a first question."""
    folders = list(dict.fromkeys(one.folder for one in wanted if one.folder is not None))
    if folders:
        click.echo(clean(f"  [ensembles]\n  paths = {json.dumps(folders, ensure_ascii=False)}"))
    click.echo(clean(f"Then: ripieno ask -m rehearsed/{score.name} {shlex.quote(score.prompt or '...')}"))
    if wanted:
        click.echo("It calls these tools, so whoever asks must offer them:")
        print_table((), [("", one.name, ", ".join(one.tools), one.file) for one in wanted])
    own = os.path.dirname(sys.executable)
    if folders and os.path.dirname(shutil.which("python") or "") != own:
        click.echo(clean(f"One is a server that `python` runs, which must be this one: export PATH={own}:$PATH"))
    if score.prompt:
        click.echo(clean(f"It expects to be asked: {score.prompt}"))
