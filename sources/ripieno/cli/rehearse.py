"""``ripieno rehearse``: serves a score as a model over every wire format, for programs that talk to models."""

import asyncio

import click

from ripieno.cli.running import Interrupted, run_async
from ripieno.cli.scores import find_score
from ripieno.cli.settings import Settings, common, pass_settings
from ripieno.gathering import gather
from ripieno.processors import Protocol
from ripieno.rehearsal.server import base_url, create_application, serve
from ripieno.scores import Score
from ripieno.showing import clean


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
    registry = gather(settings.config).registry
    protocols: list[Protocol] = [registry.resolve("protocols", name) for name in sorted(registry.protocols)]
    try:
        run_async(_serve(played, protocols, port))
    except Interrupted:
        click.echo("The rehearsal is over.")


async def _serve(score: Score, protocols: list[Protocol], port: int) -> None:
    async with serve(create_application(score, protocols), port=port) as url:
        click.echo(f"The score {score.name!r} plays at {url}, until Ctrl-C. The model is scripted.")
        for protocol in protocols:
            click.echo(f"  {protocol.name:<18} {base_url(url, protocol)}")
        click.echo("Point the SDKs at it in the environment; any key will do:")
        for protocol in {protocol.sdk: protocol for protocol in reversed(protocols)}.values():
            variable = protocol.sdk.upper()
            click.echo(f"  export {variable}_BASE_URL={base_url(url, protocol)} {variable}_API_KEY=none")
        click.echo("or ripieno, in a configuration; then: ripieno ask -m rehearsed/" + score.name + " ...")
        click.echo(f'  [providers.rehearsed]\n  protocol = "{protocols[-1].name}"')
        click.echo(f'  base_url = "{base_url(url, protocols[-1])}"')
        if score.prompt:
            click.echo(clean(f"It expects to be asked: {score.prompt}"))
        await asyncio.Event().wait()
