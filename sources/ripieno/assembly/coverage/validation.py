"""Validates an environment: what a profile promises, and what one task needs, against what is there."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.assembly.configuration import LoadedConfiguration, Places, load_configuration, provision
from ripieno.assembly.coverage.manifest import read_manifest
from ripieno.assembly.coverage.survey import cover
from ripieno.assembly.coverage.values import Coverage, TaskStatus
from ripieno.assembly.protection import sandbox_of
from ripieno.assembly.trust import Project
from ripieno.canisters.events import Alert
from ripieno.ensembles import Surroundings
from ripieno.exceptions import AssemblyFailure
from ripieno.sandbox.processes import LocalSpawner


def validate_environment(
    configuration: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    profile: str | None = None,
    languages: Sequence[str] = (),
    kinds: Sequence[str] = (),
    workspace: str | os.PathLike[str] | None = None,
    places: Places | None = None,
    project: Project | None = None,
) -> Coverage:
    """What the environment of a configuration covers, with another profile where one is named. Connects nothing.

    ``configuration``, ``workspace``, ``places`` and ``project`` are those of ``assemble``. ``languages`` and ``kinds``
    describe a task, such as ``["python"]`` and ``["web"]``: what it needs is included as ``include`` under
    ``[ensembles]`` would, and is ``task`` of what is returned. ``fulfilled`` of that says whether all is there that was
    selected, and ``missing_tools`` has the reasons of what is not. Looks for programs, and starts a process to try the
    sandbox. Errors: ``NameAbsence`` for what is not in the manifest, ``AssemblyFailure`` where a start would fail, for
    a profile that there is not, too.
    """
    loaded = load_configuration(configuration, workspace=workspace, places=places, project=project)
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
) -> TaskStatus:
    """Whether an environment has what one task needs: ``ready`` of what is returned, whose tools say what they lack.

    Arguments and errors are those of ``validate_environment``. Languages are rust, python and javascript, kinds web,
    data-science and devops. ``included`` are the ensembles that a configuration does not have yet, and would need.
    """
    loaded = load_configuration(configuration, workspace=workspace, places=places, project=project)
    coverage = validate_loaded(loaded, profile=profile, languages=languages, kinds=kinds)
    return coverage.task or TaskStatus(names=())


def validate_loaded(
    loaded: LoadedConfiguration, *, profile: str | None = None, languages: Sequence[str] = (), kinds: Sequence[str] = ()
) -> Coverage:
    """The same for what was loaded already."""
    need = read_manifest().need_of(languages, kinds) if languages or kinds else None
    selected = provision(loaded, profile=profile) if profile else loaded
    playing = {one.name for one in selected.ensembles}
    included = [name for name in (() if need is None else need.ensembles) if name not in playing]
    if included:
        selected = provision(selected, include=included)
    if selected.failures:
        raise AssemblyFailure("A start would fail:", selected.failures)
    sandbox = sandbox_of(selected)
    surroundings = Surroundings(
        workspace=selected.workspace, spawner=LocalSpawner(), secrets={}, alert=_ignore, sandbox=sandbox
    )
    try:
        return cover(selected, surroundings, need=need, names=(*languages, *kinds), included=included)
    finally:
        sandbox.close()


def _ignore(_: Alert) -> None:
    """Nothing is connected, so nobody has anything to say."""
