"""Loads all layers of configuration, before anything is connected: descriptors, rules, and the parts left out.

Package data < allowed plugins < the user's configuration < the caller's. An application that names its configuration
has no layer of the user. A project's own files are included only if the command line found them, and only as far as
they are trusted.
"""

import dataclasses
import fnmatch
import os
import pathlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

import msgspec

from ripieno.assembly.plugins import BUILT_IN, Registry, discover, find_missing, place_to_allow
from ripieno.assembly.providers import combine_providers
from ripieno.assembly.selection import apply_settings, choose, named_profile
from ripieno.assembly.trust import CONFIGURATION_NAME, Project, TrustStore, paths_of, restrict
from ripieno.assembly.workspaces import changed_since_trusted, keep_apart, keep_code, shared_pins
from ripieno.descriptors import ConfigurationDescriptor, EnsembleDescriptor, ProfileDescriptor, ProviderDescriptor
from ripieno.descriptors.configuration import combine, read_parts
from ripieno.descriptors.loading import (
    Catalogue,
    Layer,
    load_ensembles,
    load_profiles,
    load_providers,
)
from ripieno.descriptors.loading.layers import (
    CHANGED,
    UNTRUSTED,
    ConfigurationPart,
    FoundFile,
    LeftOut,
    Shadowed,
    read_configuration_part,
)
from ripieno.descriptors.named_files import NamedFiles
from ripieno.exceptions import ConfigurationInvalidity, Problem, RipienoError
from ripieno.jsonvalues import is_table
from ripieno.storage.pins import Pins, PinStore
from ripieno.storage.places import Places
from ripieno.storage.undo import UndoLog
from ripieno.values import Value

_PACKAGE, _USER, _CALLER, _PROJECT = "package", "user", "caller", "project"
#: The file of a configuration that a program gives as a mapping, in messages.
_MAPPING = "the mapping"
#: The hint about a missing configuration file.
_HOW = (
    'A configuration is a TOML file, for example with the two lines [ensembles] and enabled = ["io"], or empty. '
    "Its keys: ripieno schema config"
)


class LoadedConfiguration(Value, kw_only=True):
    """A loaded configuration. ``ensembles`` are the enabled ones in their order; ``known`` has all by name."""

    configuration: ConfigurationDescriptor
    registry: Registry
    layers: tuple[Layer, ...]
    ensembles: tuple[EnsembleDescriptor, ...]
    known: Catalogue
    providers: Mapping[str, ProviderDescriptor]
    profiles: Mapping[str, ProfileDescriptor]
    workspace: pathlib.Path
    #: All files that were read.
    files: tuple[str, ...] = ()
    #: The code that the enabled ensembles name.
    named: NamedFiles = msgspec.field(default_factory=NamedFiles)
    #: The folder of trust, pins and the journal.
    state: pathlib.Path | None = None
    #: The folder of the user's own configuration, read or not.
    own: pathlib.Path | None = None
    #: The named profile, if it selects the ensembles.
    profile: ProfileDescriptor | None = None
    #: The ensembles to which an untrusted project narrows the selection.
    narrowed: tuple[str, ...] | None = None
    left_out: tuple[LeftOut, ...] = ()
    shadowed: tuple[Shadowed, ...] = ()
    warnings: tuple[Problem, ...] = ()
    #: The effective configurations; later ones take precedence.
    parts: tuple[ConfigurationPart, ...] = ()
    #: The approved definitions of foreign tools: the user's own, and those of a trusted project.
    pins: Pins | None = None
    #: The log of changes of the workspace, for undo.
    journal: UndoLog | None = None
    #: Everything that loading finds and that prevents a start-up.
    failures: tuple[RipienoError, ...] = ()
    #: Those of the failures that concern a command without ensembles, too.
    general: tuple[RipienoError, ...] = ()
    #: Ensembles with problems, as far as they could be read.
    unreadable: tuple[EnsembleDescriptor, ...] = ()
    #: Names that files with errors may define.
    unread: frozenset[str] = frozenset()

    @property
    def options(self) -> tuple[str, ...]:
        """The options of the command line that name the same configuration file, if it was named."""
        return next((("--config", one.file) for one in self.parts if one.layer == _CALLER and one.file != _MAPPING), ())


def load_own_configuration(
    configuration: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    layers: Literal["user"] | None = None,
    **settings: Any,
) -> LoadedConfiguration:
    """The configuration of an application: the user's files are read only if it names no other, or asks for them.

    ``settings`` and errors are those of ``load_configuration``.
    """
    return load_configuration(configuration, user=configuration is None or layers == "user", **settings)


def load_configuration(
    configuration: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    workspace: str | os.PathLike[str] | None = None,
    places: Places | None = None,
    project: Project | None = None,
    user: bool = True,
    trusting: bool = False,
    needs: Callable[[ConfigurationDescriptor], Collection[str]] | None = None,
) -> LoadedConfiguration:
    """Reads all layers. Imports only allowed plugins; starts and connects nothing.

    ``configuration`` is a file, or a mapping with the same tables. Without ``user``, the user's own files are not read.
    With ``trusting``, the project is read as if it was trusted, to check it; use nothing of it.
    ``needs`` names the ensembles that the caller uses; other enabled ones are left out, unless one of these is absent.
    Problems in files are in ``failures``. Errors: ``InputError`` for a trust store that cannot be read.
    """
    own = places or Places.of_user()
    file = own.file
    parts = [read_configuration_part(file, layer=_USER)] if user and file.is_file() else []
    parts += _caller_parts(configuration)
    problems = [problem for part in parts for problem in part.problems if problem.severity == "error"]
    outer = combine([part.parts for part in parts])
    registry = discover(outer.plugins, file=place_to_allow(parts) or str(file))
    store = TrustStore(own.state)
    trusted = project is not None and (trusting or store.trusts(project))
    layers = _layers(own if user else None, registry, parts, project, trusted=trusted)
    providers = load_providers(layers)
    counted = list(parts)
    left_out: list[LeftOut] = []
    if project is not None and project.part is not None:
        known = frozenset((*providers.providers, *outer.providers))
        kept, lost = restrict(project.part, _merged([part.parts for part in parts]), known, trusted=trusted)
        counted.append(dataclasses.replace(project.part, parts=kept))
        left_out.extend(lost)
        if trusted:
            problems.extend(project.part.problems)
    whole, narrowed = _combine([part.parts for part in counted])
    known_providers, strange = combine_providers(providers, counted, whole, registry, problems)
    problems.extend(strange)
    ensembles, profiles = load_ensembles(layers), load_profiles(layers)
    problems += (problem for problem in providers.problems if problem.severity == "error")
    failures: list[RipienoError] = list(registry.failures)
    general = (*([ConfigurationInvalidity(problems)] if problems else ()), *failures)
    for found in (ensembles, profiles):
        problems += (problem for problem in found.problems if problem.severity == "error")
    unread = frozenset((*ensembles.refused, *providers.refused, *profiles.refused))
    if project is not None and trusted:
        failures.extend(changed_since_trusted(project, layers[-1], ensembles.files))
    known_ensembles = apply_settings(ensembles.ensembles.replaced(whole.inline), whole, unread, failures, parts=counted)
    chosen = choose(
        known_ensembles,
        whole,
        profiles.profiles,
        narrowed,
        failures,
        parts=counted,
        advice=registry.advice,
        unread=unread,
        needed=None if needs is None else needs(whole),
    )
    if problems:
        failures.insert(0, ConfigurationInvalidity(problems))
    if user and (misnamed := own.configuration / CONFIGURATION_NAME).is_file():
        reason = f"your own configuration is {file.name} in this folder. Rename it"
        left_out.append(LeftOut(name=misnamed.name, layer=_USER, file=str(misnamed), reason=reason))
    left_out += (*ensembles.left_out, *providers.left_out, *profiles.left_out)
    if project is not None and not trusted and (reason := _obstacle(project, store)):
        left_out = [dataclasses.replace(one, reason=reason) if one.reason == UNTRUSTED else one for one in left_out]
    place = pathlib.Path(workspace or whole.workspace or os.getcwd()).absolute()
    everything: tuple[FoundFile, ...] = (ensembles, providers, profiles)
    warnings = [problem for one in everything for problem in one.problems if problem.severity != "error"]
    warnings += find_missing(registry, parts)
    keep_apart(own.state, place, whole.sandbox, failures)
    named = NamedFiles(place, project.files if project is not None and trusted else {})
    keep_code(named, chosen, failures)
    return LoadedConfiguration(
        configuration=whole,
        registry=registry,
        layers=layers,
        ensembles=chosen,
        known=known_ensembles,
        providers=known_providers,
        profiles=profiles.profiles,
        workspace=place,
        files=(
            *(part.file for part in parts if part.file != _MAPPING),
            *(path for one in everything for path in one.files),
        ),
        named=named,
        state=own.state,
        own=own.configuration,
        profile=named_profile(whole, profiles.profiles),
        narrowed=narrowed,
        left_out=tuple(left_out),
        shadowed=(*ensembles.shadowed, *providers.shadowed, *profiles.shadowed),
        warnings=tuple(warnings),
        parts=tuple(counted),
        pins=Pins(PinStore(own.state), shared_pins(project, failures) if trusted else {}),
        journal=UndoLog(own.state, place),
        failures=tuple(failures),
        general=general,
        unreadable=ensembles.unreadable,
        unread=unread,
    )


def _obstacle(project: Project, store: TrustStore) -> str:
    """Why a project is not trusted, if it is not just new."""
    if project.obstacle:
        return f"its folder cannot be trusted: {project.obstacle}"
    return CHANGED if store.knows(project) else ""


def _caller_parts(configuration: str | os.PathLike[str] | Mapping[str, Any] | None) -> list[ConfigurationPart]:
    if configuration is None:
        return []
    if isinstance(configuration, Mapping):
        parts, problems = read_parts(configuration, layer=_CALLER)
        return [ConfigurationPart(parts=parts, file=_MAPPING, layer=_CALLER, problems=problems)]
    path = pathlib.Path(configuration)
    part = read_configuration_part(path, layer=_CALLER)
    if path.exists():
        return [part]
    hinted = (dataclasses.replace(one, hint=f"{one.hint or ''} {_HOW}".strip()) for one in part.problems)
    return [dataclasses.replace(part, problems=tuple(hinted))]


def _layers(
    places: Places | None,
    registry: Registry,
    parts: Sequence[ConfigurationPart],
    project: Project | None,
    *,
    trusted: bool,
) -> tuple[Layer, ...]:
    built_in = [folder for name, folders in registry.data if name == BUILT_IN for folder in folders]
    layers = [Layer(name=_PACKAGE, folders=tuple(built_in), lazy=True)]
    layers += [Layer(name=f"plugin {name}", folders=folders) for name, folders in registry.data if name != BUILT_IN]
    if places is not None:
        # The user's folder is a layer with and without a configuration file in it.
        own = [_paths(part) for part in parts if part.layer == _USER] or [()]
        layers += [Layer(name=_USER, folders=(places.configuration,), paths=paths) for paths in own]
    layers += [Layer(name=_CALLER, paths=_paths(part)) for part in parts if part.layer == _CALLER]
    if project is not None:
        paths = paths_of(project.part) if trusted and project.part is not None else ()
        found = () if project.ensembles is None else (project.ensembles,)
        layers.append(Layer(name=_PROJECT, paths=(*found, *paths), trusted=trusted, root=project.folder))
    return tuple(layers)


def _paths(part: ConfigurationPart) -> tuple[pathlib.Path, ...]:
    return tuple(pathlib.Path(path) for path in part.parts.get("ensembles", {}).get("paths", ()))


def _merged(tables: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The keys of all tables, later ones over earlier ones, to compare limits."""
    merged: dict[str, Any] = {}
    for table in tables:
        for name, value in table.items():
            merged[name] = {**merged.get(name, {}), **value} if isinstance(value, Mapping) else value
    return merged


def _combine(tables: Sequence[Mapping[str, Any]]) -> tuple[ConfigurationDescriptor, tuple[str, ...] | None]:
    """The combined configuration, and the names to which an untrusted project narrows the ensembles.

    The ``deny`` and ``ask`` lists of the layers are joined, not replaced: no layer can revoke those of another one.
    """
    narrowed: tuple[str, ...] | None = None
    strict: dict[str, list[str]] = {"deny": [], "ask": []}
    plain: list[Mapping[str, Any]] = []
    for table in tables:
        one = dict(table)
        ensembles = one.get("ensembles")
        if is_table(ensembles) and "narrowed" in ensembles:
            narrowed = tuple(str(name) for name in ensembles["narrowed"])
            del one["ensembles"]
        for key, patterns in strict.items():
            patterns.extend(one.get("confirmation", {}).get(key, ()))
        plain.append(one)
    rules = {key: tuple(dict.fromkeys(patterns)) for key, patterns in strict.items() if patterns}
    if rules:
        plain.append({"confirmation": rules})
    return combine(plain), narrowed


def prefix_of(descriptor: EnsembleDescriptor) -> str:
    """The prefix of its tools' names: its own; otherwise its name if it is foreign; otherwise none."""
    if descriptor.prefix is not None:
        return descriptor.prefix
    foreign = descriptor.layer.startswith("plugin ") or (descriptor.connection is not None and not descriptor.invokers)
    return descriptor.name if foreign else ""


def provision(
    loaded: LoadedConfiguration, *, profile: str | None = None, include: Sequence[str] = ()
) -> LoadedConfiguration:
    """The configuration with another profile selected and more ensembles included. Problems are in ``failures``."""
    configuration = loaded.configuration
    configuration = dataclasses.replace(
        configuration,
        profile=profile or configuration.profile,
        enabled=None if profile else configuration.enabled,
        include=tuple(dict.fromkeys((*configuration.include, *include))),
    )
    failures = list(loaded.failures)
    known, profiles, parts, unread = loaded.known, loaded.profiles, loaded.parts, loaded.unread
    chosen = choose(known, configuration, profiles, loaded.narrowed, failures, parts=parts, unread=unread)
    keep_code(loaded.named, chosen, failures)
    return dataclasses.replace(
        loaded,
        configuration=configuration,
        ensembles=chosen,
        profile=named_profile(configuration, loaded.profiles),
        failures=tuple(failures),
    )


def variables_of(loaded: LoadedConfiguration, environment: Mapping[str, str]) -> Mapping[str, str]:
    """The variables that descriptors may name: all of the user's, or those that match ``[environment] allow``."""
    allow = loaded.configuration.environment
    if allow is None:
        return dict(environment)
    matching = {name for pattern in allow for name in fnmatch.filter(environment, pattern)}
    return {name: value for name, value in environment.items() if name in matching}
