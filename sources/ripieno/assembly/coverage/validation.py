"""Validates an environment: its tools against the manifest of the package, by profile and by task.

Descriptors, programs and the sandbox decide which tools there are; nothing is connected.
"""

import dataclasses
import functools
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from frozendict import frozendict

from ripieno.assembly.configuration import LoadedConfiguration, load_own_configuration, prefix_of, provision
from ripieno.assembly.coverage.values import CategoryStatus, Coverage, EnsembleStatus, State, TaskStatus, ToolStatus
from ripieno.assembly.failures import find_failures
from ripieno.assembly.protection import sandbox_of
from ripieno.assembly.selection import applied_profile
from ripieno.assembly.trust import Project
from ripieno.descriptors import EnsembleDescriptor
from ripieno.descriptors.names import expose
from ripieno.ensembles import Surroundings
from ripieno.ensembles.opener import why_not
from ripieno.ensembles.requirements import find_absent, find_hidden, has_command, programs_of, waits_for_grant
from ripieno.exceptions import AssemblyFailure, NameAbsence
from ripieno.jsonvalues import listed
from ripieno.sandbox.processes import LocalSpawner
from ripieno.storage.places import Places
from ripieno.toolset import DATA
from ripieno.values import Value


class Need(Value, kw_only=True):
    """The needs of a task: ensembles, and tools by their exposed names."""

    ensembles: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()


class Manifest(Value, kw_only=True):
    """Names of tools by category, and the needs of languages and kinds of tasks (seed 000, sections 11.2 to 11.6).

    ``minimum`` tools make a category. ``matrix`` has the categories of each column. ``fallbacks`` are substitutes for
    tools; ``shells`` are substitutes for the categories in ``shell_categories``.
    """

    version: str
    minimum: int
    categories: frozendict[str, tuple[str, ...]]
    matrix: frozendict[str, tuple[str, ...]]
    languages: frozendict[str, Need]
    kinds: frozendict[str, Need]
    fallbacks: frozendict[str, tuple[str, ...]]
    shells: tuple[str, ...]
    shell_categories: tuple[str, ...]

    def category_of(self, tool: str) -> str | None:
        """The category of a tool."""
        return next((name for name, tools in self.categories.items() if tool in tools), None)

    def need_of(self, languages: Iterable[str] = (), kinds: Iterable[str] = ()) -> Need:
        """The needs of a task in these languages and of these kinds, each name once. Errors: ``NameAbsence``."""
        needs = [_named("language", one, self.languages) for one in languages]
        needs += [_named("kind of task", one, self.kinds) for one in kinds]
        return Need(
            ensembles=tuple(dict.fromkeys(name for need in needs for name in need.ensembles)),
            tools=tuple(dict.fromkeys(name for need in needs for name in need.tools)),
        )


def _named(what: str, name: str, known: Mapping[str, Need]) -> Need:
    if name not in known:
        raise NameAbsence(what, name, known)
    return known[name]


@functools.cache
def read_manifest() -> Manifest:
    """The manifest of the package."""
    mapping = tomllib.loads((DATA / "manifests" / "environment.toml").read_text(encoding="utf-8"))

    def lists(table: Mapping[str, Any]) -> frozendict[str, tuple[str, ...]]:
        return frozendict({name: tuple(names) for name, names in table.items()})

    def needs(table: Mapping[str, Any]) -> frozendict[str, Need]:
        return frozendict({name: Need(**lists(need)) for name, need in table.items()})

    return Manifest(
        version=mapping["version"],
        minimum=mapping["minimum"],
        categories=lists(mapping["categories"]),
        matrix=lists(mapping["matrix"]),
        languages=needs(mapping["languages"]),
        kinds=needs(mapping["kinds"]),
        fallbacks=lists(mapping["fallbacks"]),
        shells=tuple(mapping["shell"]["tools"]),
        shell_categories=tuple(mapping["shell"]["categories"]),
    )


def validate_environment(
    configuration: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    profile: str | None = None,
    languages: Sequence[str] = (),
    kinds: Sequence[str] = (),
    workspace: str | os.PathLike[str] | None = None,
    places: Places | None = None,
    project: Project | None = None,
    layers: Literal["user"] | None = None,
) -> Coverage:
    """The coverage of a configuration's environment, with another ``profile`` if one is given. Connects nothing.

    ``configuration``, ``workspace``, ``places``, ``project`` and ``layers`` are those of ``assemble``. ``languages``
    and ``kinds`` describe a task, such as ``["python"]`` and ``["web"]``, or ``"python"`` alone: its ensembles are
    included as by ``include`` under ``[ensembles]``, and its status is ``task`` of the result. ``fulfilled`` states
    whether everything selected is available; ``lacking_tools`` has the reasons if not. Searches programs, and starts a
    process to try the sandbox. Errors: ``NameAbsence`` for a name that is not in the manifest; ``AssemblyFailure`` if a
    start-up would fail, also for an unknown profile.
    """
    loaded = load_own_configuration(configuration, layers=layers, workspace=workspace, places=places, project=project)
    return validate_loaded(loaded, profile=profile, languages=languages, kinds=kinds)


def validate_for_task(
    languages: Sequence[str] = (),
    kinds: Sequence[str] = (),
    configuration: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    profile: str | None = None,
    workspace: str | os.PathLike[str] | None = None,
    places: Places | None = None,
    project: Project | None = None,
    layers: Literal["user"] | None = None,
) -> TaskStatus:
    """The status of one task in an environment: whether it is ``ready``, and the tools with what they lack.

    Arguments and errors are those of ``validate_environment``. Languages are rust, python and javascript, kinds web,
    data-science and devops. ``included`` are the ensembles that the configuration would have to include.
    """
    loaded = load_own_configuration(configuration, layers=layers, workspace=workspace, places=places, project=project)
    coverage = validate_loaded(loaded, profile=profile, languages=languages, kinds=kinds)
    return coverage.task or TaskStatus(names=())


def validate_loaded(
    loaded: LoadedConfiguration, *, profile: str | None = None, languages: Sequence[str] = (), kinds: Sequence[str] = ()
) -> Coverage:
    """The coverage of a loaded configuration; see ``validate_environment``."""
    languages, kinds = listed(languages), listed(kinds)
    need = read_manifest().need_of(languages, kinds) if languages or kinds else None
    selected = provision(loaded, profile=profile) if profile else loaded
    enabled = {one.name for one in selected.ensembles}
    included = [name for name in (() if need is None else need.ensembles) if name not in enabled]
    if included:
        selected = provision(selected, include=included)
    if selected.failures:
        raise AssemblyFailure("Start-up would fail:", find_failures(selected))
    sandbox = sandbox_of(selected)
    surroundings = Surroundings(
        workspace=selected.workspace, spawner=LocalSpawner(), secrets={}, alert=lambda _: None, sandbox=sandbox
    )
    try:
        return cover(selected, surroundings, need=need, names=(*languages, *kinds), included=included)
    finally:
        sandbox.close()


def cover(
    loaded: LoadedConfiguration,
    surroundings: Surroundings,
    *,
    need: Need | None = None,
    names: Iterable[str] = (),
    included: Iterable[str] = (),
) -> Coverage:
    """The coverage of the manifest, and of the needs of a task, by the enabled ensembles.

    ``names`` describe the task; ``included`` are the ensembles that are enabled only for it. Searches programs, and
    tries a sandbox if a tool requires one. Discovered tools are unknown here.
    """
    return _Survey(loaded, surroundings, read_manifest()).cover(need, tuple(names), tuple(included))


class _Survey:
    def __init__(self, loaded: LoadedConfiguration, surroundings: Surroundings, manifest: Manifest) -> None:
        self.loaded = loaded
        self.manifest = manifest
        absent = find_absent(loaded.ensembles, loaded.known, surroundings)
        surroundings = dataclasses.replace(surroundings, absent=absent)
        self.unmet: Mapping[str, str | None] = {one.name: absent[one.name] for one in loaded.ensembles}
        self.found: dict[str, ToolStatus] = {}
        #: Tools that lack a program, which a shell would lack, too.
        self.lacking: set[str] = set()
        for descriptor in loaded.ensembles:
            self._look(descriptor, surroundings)
        self.elsewhere = {
            expose(invoker.name, prefix_of(one)): one.name
            for one in loaded.known.values()
            if one.name not in self.unmet
            for invoker in one.invokers
        }

    def _look(self, descriptor: EnsembleDescriptor, surroundings: Surroundings) -> None:
        for invoker in descriptor.invokers:
            name = expose(invoker.name, prefix_of(descriptor))
            if name in self.found:
                continue
            reason = self.unmet[descriptor.name] or why_not(invoker, descriptor, surroundings)
            self.found[name] = ToolStatus(
                name=name,
                ensemble=descriptor.name,
                described=bool(invoker.description.strip()),
                reason=reason,
                # This searches programs again, only if something is missing.
                granted=reason is None or not waits_for_grant(invoker, descriptor, surroundings),
            )
            requires = (*descriptor.requires, *invoker.policy.requires)
            if any(not has_command(one) or find_hidden(one, surroundings) for one in programs_of(requires)):
                self.lacking.add(name)

    def cover(self, need: Need | None, names: tuple[str, ...], included: tuple[str, ...]) -> Coverage:
        profile = self.loaded.profile
        categories = tuple(self._category(name) for name in self.manifest.categories)
        states: dict[str, State] = {one.name: one.state for one in categories}
        others = [one for one in self.loaded.ensembles if one.category not in states and one.name not in included]
        task = None
        if need is not None:
            task = TaskStatus(
                names=names,
                tools=tuple(self._tool(name) for name in need.tools),
                ensembles=tuple(self._ensemble(name) for name in need.ensembles),
                included=included,
            )
        return Coverage(
            profile=applied_profile(self.loaded.configuration),
            version=self.manifest.version,
            categories=categories,
            ensembles=tuple(EnsembleStatus(name=one.name, reason=self.unmet[one.name]) for one in others),
            matrix=frozendict({column: self._column(names, states) for column, names in self.manifest.matrix.items()}),
            configurable=() if profile is None else profile.configurable,
            task=task,
        )

    def _category(self, name: str) -> CategoryStatus:
        tools = tuple(self._tool(tool) for tool in self.manifest.categories[name])
        profile = self.loaded.profile
        return CategoryStatus(
            name=name,
            tools=tools,
            selected=(profile is not None and name in profile.categories)
            or any(one.category == name for one in self.loaded.ensembles)
            # A few of its tools in another ensemble do not select the category.
            or sum(tool.present for tool in tools) >= self.manifest.minimum,
            minimum=self.manifest.minimum,
        )

    def _tool(self, name: str) -> ToolStatus:
        status = self.found.get(name)
        if status is not None and status.callable:
            return status
        if status is None:
            reason = (
                f"the ensemble {self.elsewhere[name]!r}, which has it, is not enabled"
                if name in self.elsewhere
                else "no ensemble has it"
            )
            return ToolStatus(name=name, reason=reason, fallback=self._fallback(name))
        return dataclasses.replace(status, fallback=self._fallback(name))

    def _fallback(self, name: str) -> tuple[str, ...]:
        category = self.manifest.category_of(name)
        offered = list(self.manifest.fallbacks.get(name, ()))
        if category in self.manifest.shell_categories and name not in self.lacking:
            offered += self.manifest.shells
        return tuple(dict.fromkeys(one for one in offered if one in self.found and self.found[one].callable))

    def _ensemble(self, name: str) -> EnsembleStatus:
        if name not in self.unmet:
            known = name in self.loaded.known
            return EnsembleStatus(name=name, reason="it is not enabled" if known else "no ensemble has this name")
        return EnsembleStatus(name=name, reason=self.unmet[name])

    def _column(self, categories: Iterable[str], known: Mapping[str, State]) -> State:
        """The state of a column: that of its worst part, no if none of it is selected."""
        states: list[State] = []
        for name in categories:
            if name in known:
                states.append(known[name])
                continue
            unmet = [self.unmet[one.name] for one in self.loaded.ensembles if one.category == name]
            states.append("no" if not unmet else "yes" if None in unmet else "missing")
        for worst in ("missing", "not granted"):
            if worst in states:
                return worst
        return "no" if set(states) == {"no"} else "yes" if set(states) == {"yes"} else "missing"
