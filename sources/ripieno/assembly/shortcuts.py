"""``assemble``; ``run`` for scripts; ``prepare_ensembles`` and ``connected`` for programs that need only ensembles."""

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Literal

from ripieno.approvals import Confirmer, Grants
from ripieno.assembly.assembly import Assembly
from ripieno.assembly.configuration import load_own_configuration
from ripieno.assembly.trust import Project
from ripieno.canisters import Canister, Controls, Conversation
from ripieno.canisters.events import Alert
from ripieno.conducting import Watcher
from ripieno.ensembles import Ensemble
from ripieno.ensembles.opener import connect_all, disconnect_all
from ripieno.exceptions import AssemblyFailure, UsageError
from ripieno.jsonvalues import EMPTY
from ripieno.sandbox import Spawner
from ripieno.storage.places import Places
from ripieno.storage.records import Recorder


def assemble(
    configuration: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    workspace: str | os.PathLike[str] | None = None,
    confirmer: Confirmer | None = None,
    recorder: Recorder | None = None,
    grants: Grants | None = None,
    spawner: Spawner | None = None,
    secrets: Mapping[str, str] | None = None,
    alert: Callable[[Alert], None] | None = None,
    watchers: Sequence[Watcher] = (),
    places: Places | None = None,
    project: Project | None = None,
    layers: Literal["user"] | None = None,
    clients: Mapping[str, Any] = EMPTY,
) -> Assembly:
    """An assembly of package data, allowed plugins, and ``configuration``, a file or a mapping with the same tables.

    The user's own configuration is read only without ``configuration``, or beneath it with ``layers="user"``.
    ``workspace`` is the folder that confines file tools, by default the current one. ``secrets`` are the variables
    that descriptors may name, by default the environment. ``recorder`` records calls and runs, by default the journal
    if ``[journal] enabled`` is true; ``grants`` has approvals from other processes, and ``watchers`` get every event of
    every run. ``clients`` are asynchronous clients of official SDKs, by the names of the providers whose requests they
    carry; they are not closed. Enter it with ``async with``. Errors: ``NameAbsence`` for one of an unknown provider.
    """
    loaded = load_own_configuration(configuration, layers=layers, workspace=workspace, places=places, project=project)
    return Assembly(
        loaded,
        confirmer=confirmer,
        recorder=recorder,
        grants=grants,
        spawner=spawner,
        secrets=secrets,
        alert=alert,
        watchers=watchers,
        clients=clients,
    )


class prepare_ensembles:
    """Connects the ensembles of a configuration (seed 002, "Configuration Loading").

    Awaited, it returns the ensembles, and the caller disconnects them. Entered with ``async with``, it disconnects them
    itself. Errors: ``AssemblyFailure``.
    """

    def __init__(
        self, configuration: str | os.PathLike[str] | Mapping[str, Any] | None = None, **settings: Any
    ) -> None:
        self._assembly = assemble(configuration, **settings)

    def __await__(self) -> Any:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> tuple[Ensemble, ...]:
        await self._assembly.__aenter__()
        return self._assembly.ensembles

    async def __aexit__(self, *details: object) -> None:
        await self._assembly.__aexit__(*details)


@contextlib.asynccontextmanager
async def connected(*ensembles: Ensemble) -> AsyncGenerator[tuple[Ensemble, ...], None]:
    """Connects ensembles that a program made itself, and disconnects them at the end.

    Errors on entering: ``AssemblyFailure``, with every reason; then all ensembles are disconnected.
    """
    failures = [outcome for outcome in await connect_all(ensembles) if outcome is not None]
    try:
        if failures:
            raise AssemblyFailure("Start-up failed:", failures)
        yield ensembles
    finally:
        await disconnect_all(ensembles)


def run(
    what: str | Canister | Sequence[Canister] | Conversation,
    *,
    model: str | None = None,
    configuration: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    ensembles: Sequence[Ensemble] = (),
    agent: str | None = None,
    supervisor: str | None = None,
    controls: Controls | None = None,
    confirmer: Confirmer | None = None,
    auxdata: Any = None,
) -> Conversation:
    """Conducts a conversation from synchronous code. ``ensembles`` are added to those of the configuration.

    Errors: ``UsageError`` in a running event loop (use ``assemble`` there); ``AssemblyFailure``, also for
    ``ensembles``; ``InputError`` for unknown names; ``ProviderFailure``; ``ToolExecutionFailure``.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise UsageError("ripieno.run is for scripts. In asynchronous code, use: async with ripieno.assemble() as …")

    async def conducted() -> Conversation:
        async with assemble(configuration, confirmer=confirmer) as assembly, connected(*ensembles) as own:
            return await assembly.conduct(
                what,
                model=model,
                agent=agent,
                ensembles=(*assembly.ensembles, *own),
                supervisor=supervisor,
                controls=controls,
                auxdata=auxdata,
            )

    return asyncio.run(conducted())
