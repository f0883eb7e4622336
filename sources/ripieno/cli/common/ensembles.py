"""Connection of the ensembles for commands that list tools, with reports of what happens meanwhile."""

import sys
from typing import Self

from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.assembly.ensembles import ConnectedEnsembles
from ripieno.canisters.events import Alert
from ripieno.cli.common.main import say
from ripieno.lazy.modules import asyncio

#: Seconds in which most servers have started.
_USUAL_START = 2.0


class Reporting(ConnectedEnsembles):
    """Reports once, on a terminal, which ensembles are slow to connect."""

    async def __aenter__(self) -> Self:
        if not sys.stderr.isatty():
            return await super().__aenter__()
        task = asyncio.create_task(self._report_slow(), name="report of slow servers")
        try:
            return await super().__aenter__()
        finally:
            task.cancel()
            await asyncio.wait((task,))

    async def _report_slow(self) -> None:
        await asyncio.sleep(_USUAL_START)
        if names := ", ".join(self.connecting):
            say(f"Still connecting: {names} ...")


def make_ensembles(loaded: LoadedConfiguration) -> ConnectedEnsembles:
    """The ensembles, not connected yet. Their alerts go to standard error."""
    return Reporting(loaded, alert=say_alert)


def say_alert(alert: Alert) -> None:
    """Writes an alert as a line on standard error."""
    say(f"! {f'{alert.tool}: ' if alert.tool else ''}{alert.message}")
