"""Validates an environment: the available tools against those of a profile and of one task."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.assembly.configuration import LoadedConfiguration, Places, load_configuration, provision
from ripieno.assembly.coverage.manifest import read_manifest
from ripieno.assembly.coverage.survey import cover
from ripieno.assembly.coverage.values import Coverage, TaskStatus
from ripieno.assembly.protection import sandbox_of
from ripieno.assembly.trust import Project
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
    """The coverage of a configuration's environment, with another ``profile`` if one is given. Connects nothing.

    ``configuration``, ``workspace``, ``places`` and ``project`` are those of ``assemble``. ``languages`` and ``kinds``
    describe a task, such as ``["python"]`` and ``["web"]``: its ensembles are included as by ``include`` under
    ``[ensembles]``, and its status is ``task`` of the result. ``fulfilled`` states whether everything selected is
    available; ``missing_tools`` has the reasons if not. Searches programs, and starts a process to try the sandbox.
    Errors: ``NameAbsence`` for a name that is not in the manifest; ``AssemblyFailure`` if a start-up would fail, also
    for an unknown profile.
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
    """The status of one task in an environment: whether it is ``ready``, and the tools with what they lack.

    Arguments and errors are those of ``validate_environment``. Languages are rust, python and javascript, kinds web,
    data-science and devops. ``included`` are the ensembles that the configuration would have to include.
    """
    loaded = load_configuration(configuration, workspace=workspace, places=places, project=project)
    coverage = validate_loaded(loaded, profile=profile, languages=languages, kinds=kinds)
    return coverage.task or TaskStatus(names=())


def validate_loaded(
    loaded: LoadedConfiguration, *, profile: str | None = None, languages: Sequence[str] = (), kinds: Sequence[str] = ()
) -> Coverage:
    """The coverage of a loaded configuration; see ``validate_environment``."""
    need = read_manifest().need_of(languages, kinds) if languages or kinds else None
    selected = provision(loaded, profile=profile) if profile else loaded
    enabled = {one.name for one in selected.ensembles}
    included = [name for name in (() if need is None else need.ensembles) if name not in enabled]
    if included:
        selected = provision(selected, include=included)
    if selected.failures:
        raise AssemblyFailure("Start-up would fail:", selected.failures)
    sandbox = sandbox_of(selected)
    surroundings = Surroundings(
        workspace=selected.workspace, spawner=LocalSpawner(), secrets={}, alert=lambda _: None, sandbox=sandbox
    )
    try:
        return cover(selected, surroundings, need=need, names=(*languages, *kinds), included=included)
    finally:
        sandbox.close()
