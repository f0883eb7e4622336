"""Loading of layers for all commands, with reports of what was left out."""

import dataclasses
import fnmatch
import os
import pathlib
from collections.abc import Callable, Collection, Iterable, Sequence

from ripieno.assembly.availability import absence, reason_of
from ripieno.assembly.configuration import LoadedConfiguration, load_configuration, provision
from ripieno.assembly.failures import find_failures
from ripieno.assembly.trust import Project, TrustStore, find_project
from ripieno.cli.common.main import say
from ripieno.cli.common.options import Settings
from ripieno.descriptors import ConfigurationDescriptor
from ripieno.descriptors.ensembles import is_foreign
from ripieno.descriptors.loading.layers import LeftOut
from ripieno.exceptions import AssemblyFailure, NameAbsence
from ripieno.storage.places import Places


def load_layers(
    settings: Settings,
    *,
    quiet: bool = False,
    needs: Callable[[ConfigurationDescriptor], Collection[str]] | None = None,
) -> LoadedConfiguration:
    """All layers, the project's own files included if they are trusted. Reports what was left out, unless ``quiet``.

    ``needs`` is that of ``load_configuration``.
    Errors: ``InputError`` for an unreadable trust store, ``NameAbsence`` for an unknown ``--profile``.
    """
    project = project_of(settings)
    loaded = load_configuration(settings.config, workspace=settings.workspace, project=project, needs=needs)
    if settings.profile is not None:
        if settings.profile not in loaded.profiles:
            raise NameAbsence("profile", settings.profile, loaded.profiles)
        loaded = provision(loaded, profile=settings.profile)
    recorded = settings.journal and loaded.configuration.journal is not False
    loaded = dataclasses.replace(loaded, configuration=dataclasses.replace(loaded.configuration, journal=recorded))
    if not quiet:
        for line in left_out_lines(loaded):
            say(line)
        if project is not None and project.part is not None and project.part.problems and untrusted(project):
            say("Left out: unreadable parts of the project's configuration. To see them: ripieno check")
    return loaded


def untrusted(project: Project | None) -> bool:
    """Whether there is a project that is not trusted."""
    return project is not None and not TrustStore(Places.of_user().state).trusts(project)


def project_of(settings: Settings) -> Project | None:
    """The project in the workspace. Its configuration file counts as the caller's if ``--config`` names it."""
    project = find_project(settings.folder)
    if project is None or project.part is None or settings.config is None:
        return project
    if pathlib.Path(project.part.file).resolve() != settings.config.resolve():
        return project
    return None if project.ensembles is None else dataclasses.replace(project, part=None)


def left_out_lines(loaded: LoadedConfiguration) -> list[str]:
    """One line for each reason, with all that was read but is not used. It ends with the command that helps, if any."""
    groups: dict[str, list[LeftOut]] = {}
    for one in loaded.left_out:
        groups.setdefault(reason_of(loaded, one), []).append(one)
    lines: list[str] = []
    for reason, several in groups.items():
        names = ", ".join(dict.fromkeys(one.name for one in several))
        files = [one.file for one in several if one.file is not None]
        place = f" ({os.path.commonpath(files)})" if files else ""
        # A command is not followed by a period.
        lines.append(f"Left out: {names}{place}: {reason}{'' if 'run: ripieno trust' in reason else '.'}")
    return lines


def left_out_mappings(loaded: LoadedConfiguration) -> list[dict[str, str | None]]:
    """The same as JSON."""
    return [{"name": one.name, "layer": one.layer, "file": one.file, "reason": one.reason} for one in loaded.left_out]


def only(loaded: LoadedConfiguration, patterns: Sequence[str]) -> LoadedConfiguration:
    """The configuration with only the ensembles that match patterns over ``ensemble.tool``; no others are connected.

    If a pattern matches no ensemble, all stay, so that the later error can list them.
    """
    halves = [pattern.partition(".")[0] for pattern in patterns]
    names = [descriptor.name for descriptor in loaded.ensembles]
    if any(not fnmatch.filter(names, half) for half in halves):
        return loaded
    chosen = tuple(one for one in loaded.ensembles if any(fnmatch.fnmatchcase(one.name, half) for half in halves))
    configuration = dataclasses.replace(loaded.configuration, enabled=tuple(one.name for one in chosen), include=())
    return dataclasses.replace(loaded, configuration=configuration, ensembles=chosen, profile=None)


def require_ensembles(loaded: LoadedConfiguration, names: Iterable[str]) -> None:
    """Errors: ``NameAbsence``, with the reason if known, for an ensemble that is not enabled."""
    enabled = [descriptor.name for descriptor in loaded.ensembles]
    for name in names:
        if name not in enabled:
            why = absence(loaded, name)
            left_out = why and f"is {why[0].lower()}{why[1:]}"
            raise NameAbsence("ensemble", name, enabled, left_out=left_out, hint=loaded.registry.advice)


def owner_of(loaded: LoadedConfiguration, name: str) -> str | None:
    """The owner of an ensemble that is not the user's: the package or a plugin; None otherwise."""
    holder = loaded.known.outlines.get(name)
    if holder is None or not is_foreign(holder.layer):
        return None
    return "a bundled ensemble" if holder.layer == "package" else f"an ensemble of the {holder.layer}"


def select_ensembles(loaded: LoadedConfiguration, names: Sequence[str]) -> LoadedConfiguration:
    """The configuration with only these ensembles; unchanged without names, or with failures.

    Errors: ``NameAbsence`` for one that is not enabled.
    """
    if not names or loaded.failures:
        return loaded
    require_ensembles(loaded, names)
    return only(loaded, names)


def load_valid_layers(settings: Settings) -> LoadedConfiguration:
    """All layers. Errors: ``AssemblyFailure`` with everything that prevents a start."""
    loaded = load_layers(settings)
    require_valid(loaded)
    return loaded


def require_valid(loaded: LoadedConfiguration) -> None:
    """Errors: ``AssemblyFailure`` with everything that prevents a start, if loading found a part of it."""
    if loaded.failures:
        raise AssemblyFailure("Start-up would fail:", find_failures(loaded))


def load_without_ensembles(settings: Settings) -> LoadedConfiguration:
    """All layers, for a command that uses no ensembles. Their errors are only mentioned."""
    loaded = load_layers(settings)
    if loaded.failures and not loaded.general:
        say("This command uses no ensembles; those that do cannot start. To see why: ripieno check")
    return dataclasses.replace(loaded, ensembles=(), failures=loaded.general, unreadable=())
