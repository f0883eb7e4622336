"""``ripieno forecast CITY``: a command of the plugin. Options such as ``--config`` stand before its name."""

import asyncio
from typing import Any

import click


@click.command()
@click.argument("city")
@click.pass_obj
def forecast(settings: Any, city: str) -> None:
    """Ask the configured model what to wear in a CITY."""
    click.echo(asyncio.run(_ask(settings, city)))


async def _ask(settings: Any, city: str) -> str:
    async with settings.assemble() as assembly:
        conversation = await assembly.conduct(f"What should I wear in {city}?", tools=["weather.*"])
        text: str = conversation.text
        return text
