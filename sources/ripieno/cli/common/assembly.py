"""What commands share when they need files or ensembles: layers with the project's, notes of what was left out.

A sign of life while servers take their time to start: who sits at a terminal is told which ones.
"""

import asyncio
import contextlib
import dataclasses
import fnmatch
import pathlib
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence

import click

from ripieno.approvals import Confirmer
from ripieno.assembly import Assembly
from ripieno.assembly.configuration import LoadedConfiguration, Places, load_configuration, provision
from ripieno.assembly.plugins import Registry
from ripieno.assembly.trust import Project, TrustStore, find_project
from ripieno.canisters.events import Alert
from ripieno.cli.common.main import say
from ripieno.cli.common.options import Settings
from ripieno.conducting import Watcher
from ripieno.ensembles import Origin
from ripieno.exceptions import NameAbsence, Problem, RipienoError
from ripieno.models import Protocol

#: Seconds in which most servers have started.
PATIENCE = 2.0


@contextlib.asynccontextmanager
async def telling(connecting: Callable[[], Iterable[str]], *, patience: float = PATIENCE) -> AsyncGenerator[None, None]:
    """Says once, where standard error is a terminal, which ensembles are still connecting after a while."""
    if not sys.stderr.isatty():
        yield
        return

    async def tell() -> None:
        await asyncio.sleep(patience)
        names = ", ".join(connecting())
        if names:
            say(f"Still connecting: {names} ...")

    task = asyncio.create_task(tell(), name="sign of life")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))


def load_layers(settings: Settings, *, quiet: bool = False) -> LoadedConfiguration:
    """All layers, the project's own files among them as far as they are trusted; what was left out is said.

    Errors: ``InputError`` for a store of trust that cannot be read, ``NameAbsence`` for an unknown ``--profile``.
    """
    project = project_of(settings)
    loaded = load_configuration(settings.config, workspace=settings.workspace, project=project)
    if settings.profile is not None:
        if settings.profile not in loaded.profiles:
            raise NameAbsence("profile", settings.profile, loaded.profiles)
        loaded = provision(loaded, profile=settings.profile)
    if not quiet:
        for line in left_out_lines(loaded):
            say(line)
        if project_warnings(project):
            say("Left out: parts of the project's configuration that cannot be read; see: ripieno check")
    return loaded


def project_warnings(project: Project | None) -> tuple[Problem, ...]:
    """What is wrong in the project's configuration, as long as it does not count; once it counts, those are errors."""
    if project is None or project.part is None or TrustStore(Places.of_user().state).trusts(project):
        return ()
    return tuple(dataclasses.replace(problem, severity="warning") for problem in project.part.problems)


def project_of(settings: Settings) -> Project | None:
    """What the workspace brings along. A file of it that ``--config`` names is the caller's, not the project's."""
    project = find_project(settings.folder)
    if project is None or project.part is None or settings.config is None:
        return project
    if pathlib.Path(project.part.file).resolve() != settings.config.resolve():
        return project
    return None if project.ensembles is None else dataclasses.replace(project, part=None)


def left_out_lines(loaded: LoadedConfiguration) -> list[str]:
    """One line for each thing that was read and does not count."""
    return [f"Left out: {one.name} ({one.file}): {one.reason}." for one in loaded.left_out]


def left_out_mappings(loaded: LoadedConfiguration) -> list[dict[str, str | None]]:
    """The same as JSON."""
    return [{"name": one.name, "layer": one.layer, "file": one.file, "reason": one.reason} for one in loaded.left_out]


def only(loaded: LoadedConfiguration, patterns: Sequence[str]) -> LoadedConfiguration:
    """The same with those ensembles alone that patterns over ``ensemble.tool`` can mean: no others are connected.

    When a pattern means no ensemble, all stay, so that whoever looks tools up can say which there are.
    """
    halves = [pattern.partition(".")[0] for pattern in patterns]
    names = [descriptor.name for descriptor in loaded.ensembles]
    if any(not fnmatch.filter(names, half) for half in halves):
        return loaded
    chosen = tuple(
        descriptor
        for descriptor in loaded.ensembles
        if any(fnmatch.fnmatchcase(descriptor.name, half) for half in halves)
    )
    return dataclasses.replace(loaded, ensembles=chosen, profile=None)


def require_ensembles(loaded: LoadedConfiguration, names: Iterable[str]) -> None:
    """Errors: ``NameAbsence`` for an ensemble that does not play, with the reason where it is known."""
    playing = [descriptor.name for descriptor in loaded.ensembles]
    for name in names:
        if name not in playing:
            raise NameAbsence("ensemble", name, playing, hint=absence(loaded, name))


def resolve_wire(loaded: LoadedConfiguration, protocol: str | None, *, strict: bool) -> Protocol:
    """The wire format of this name. Errors: ``UsageError`` for none, and for one that cannot be ``strict``."""
    if not protocol:
        choices = ", ".join(sorted(loaded.registry.protocols))
        raise click.UsageError(f"Say with --protocol over which wire it is sent. There are: {choices}.")
    wire: Protocol = loaded.registry.resolve("protocols", protocol)
    if strict and wire.invocations.strict_dialect is None:
        raise click.UsageError(f"The protocol {protocol!r} cannot hold arguments to their schemas: leave out --strict.")
    return wire


def find_origins(names: Iterable[str], registry: Registry) -> Iterator[Origin]:
    """The origins of these names. What cannot be loaded is left out: ``check`` and every start report it."""
    for name in names:
        with contextlib.suppress(RipienoError):
            yield registry.resolve("origins", name)


def absence(loaded: LoadedConfiguration, name: str) -> str:
    """Why an ensemble does not play, and what to do; empty for one that nobody knows."""
    if name in loaded.known:
        if not loaded.known.outlines[name].enabled:
            return f"It is disabled (enabled = false, {loaded.known.outlines[name].file})."
        return f'It is known, and not selected: add "{name}" to enabled under [ensembles].'
    reasons = [one.reason for one in loaded.left_out if one.name == name]
    return f"It was left out: {reasons[0]}." if reasons else ""


class ToldAssembly(Assembly):
    """Tells whoever waits for it at a terminal what it waits for."""

    async def __aenter__(self) -> Assembly:
        async with telling(lambda: self.connecting):
            return await super().__aenter__()


def make_assembly(
    loaded: LoadedConfiguration,
    *,
    confirmer: Confirmer | None = None,
    alert: Callable[[Alert], None] | None = None,
    watchers: Sequence[Watcher] = (),
) -> Assembly:
    """The assembly, to be entered; alerts are said on standard error unless somebody else wants them."""
    return ToldAssembly(loaded, confirmer=confirmer, alert=say_alert if alert is None else alert, watchers=watchers)


def say_alert(alert: Alert) -> None:
    """An alert, as a line on standard error."""
    say(f"! {f'{alert.tool}: ' if alert.tool else ''}{alert.message}")
