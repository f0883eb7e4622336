"""Ensembles from TOML text, opened as by an assembly, and calls of their invokers."""

import asyncio
import os
import pathlib
import sys
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

from ripieno.assembly.builtins import ripieno_origins
from ripieno.assembly.plugins import resolve
from ripieno.canisters.events import Alert
from ripieno.descriptors import EnsembleDescriptor
from ripieno.descriptors.ensembles import read_ensemble
from ripieno.descriptors.reader.problems import Source
from ripieno.ensembles import Context, Ensemble, Origin, Surroundings
from ripieno.ensembles.opener import opener
from ripieno.ensembles.origin import check_origin
from ripieno.ensembles.owner import Recovery
from ripieno.exceptions import Problem
from ripieno.sandbox.processes import LocalSpawner
from tests.support.live_processes import Living

ORIGINS: Mapping[str, Origin] = {name: resolve(path) for name, path in ripieno_origins().items()}
#: The default recovery of ensembles.
RECOVERY = Recovery()
SERVERS = pathlib.Path(__file__).parent / "mcp_servers"


class Alerts(list[Alert]):
    """A list of alerts that a test can wait for."""

    def __init__(self) -> None:
        super().__init__()
        self._came = asyncio.Event()

    def append(self, alert: Alert) -> None:
        super().append(alert)
        self._came.set()

    async def wait_for(self, part: str) -> Alert:
        """The first alert whose message contains a text."""
        async with asyncio.timeout(60):
            while True:
                self._came.clear()
                for alert in self:
                    if part in alert.message:
                        return alert
                await self._came.wait()


def server(
    script: str, mode: str = "", *, name: str = "it", alive: Living | None = None, more: str = "", connection: str = ""
) -> str:
    """An ensemble of a server in ``mcp_servers``, with ``more`` environment and ``connection`` keys."""
    holding = f'ALIVE = "{alive.path}"' if alive else ""
    return f"""
        [ensemble]
        name = "{name}"
        [connection]
        origin = "mcp"
        command = ["{sys.executable}", "{SERVERS / script}", "{mode}"]
        {connection}
        [connection.environment]
        {holding}
        {more}
    """


async def held(alive: Living) -> None:
    """Waits until a process holds it open."""
    # Opening such a pipe for reading waits for its first writer.
    os.close(await asyncio.to_thread(os.open, alive.path, os.O_RDONLY))


def describe(text: str, folder: pathlib.Path | None = None) -> EnsembleDescriptor:
    """The descriptor of a TOML text that has no problems of its own."""
    file = None if folder is None else str(folder / "ensemble.toml")
    place = None if folder is None else str(folder)
    descriptor, problems = read_ensemble(tomllib.loads(text), Source(file=file, text=text), folder=place)
    assert descriptor is not None, "\n".join(map(str, problems))
    return descriptor


def check(text: str, folder: pathlib.Path | None = None) -> list[Problem]:
    """The problems that the origins find."""
    descriptor = describe(text, folder)
    return [problem for origin in ORIGINS.values() for problem in check_origin(origin, descriptor)]


def surround(
    workspace: pathlib.Path, alerts: list[Alert] | None = None, *, secrets: Mapping[str, str] | None = None
) -> Surroundings:
    """Surroundings that keep their alerts in a list."""
    kept = Alerts() if alerts is None else alerts
    return Surroundings(workspace=workspace, spawner=LocalSpawner(), secrets=secrets or {}, alert=kept.append)


def make_ensemble(
    text: str, surroundings: Surroundings, folder: pathlib.Path | None = None, *, recovery: Recovery | None = RECOVERY
) -> Ensemble:
    """An ensemble that is not connected yet."""
    descriptor = describe(text, folder)
    return Ensemble(
        descriptor.name,
        opener=opener(descriptor, ORIGINS, surroundings),
        configuration=descriptor.configuration,
        surroundings=surroundings,
        recovery=recovery,
    )


def make_context(ensemble: Ensemble, tool: str, progress: Callable[..., None] = lambda *_: None) -> Context:
    """The context of a call outside of a run."""
    return Context(
        invoker=ensemble.access_invoker(tool),
        invocation="call_1",
        conversation="conversation",
        turn=1,
        auxdata=None,
        namespace={},
        connection=ensemble.connection,
        configuration=ensemble.configuration,
        surroundings=ensemble.surroundings,
        deadline=None,
        progress=progress,
    )


async def call(ensemble: Ensemble, tool: str, progress: Callable[..., None] = lambda *_: None, **arguments: Any) -> Any:
    """The return value of an invoker, or its error."""
    context = make_context(ensemble, tool, progress)
    async with asyncio.timeout(30):
        return await context.invoker(context, arguments)
