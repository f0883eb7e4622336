"""What ``ripieno doctor`` knows, as JSON: layers, trust, plugins, providers, ensembles, and what was left out."""

import contextlib
import os
import platform
import re
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from ripieno.assembly.configuration import Gathered, Places
from ripieno.assembly.plugins import PluginStatus
from ripieno.assembly.trust import Project, TrustStore
from ripieno.cli.assembling import absence, left_out_mappings, make_assembly, say_alert
from ripieno.cli.group import version
from ripieno.cli.models import at_home, show_address, variables_of
from ripieno.cli.pinning import pin_facts
from ripieno.cli.sandboxing import sandbox_facts
from ripieno.cli.trials import Trial
from ripieno.cli.variables import absent_variables
from ripieno.ensembles import Surroundings


def collect_facts(gathered: Gathered, project: Project | None, trials: Mapping[str, Trial]) -> dict[str, Any]:
    """Everything, as JSON. ``trials`` are empty when nothing was connected."""
    places = Places.of_user()
    failures = [str(failure) for failure in gathered.failures]
    failures += [f"Ensemble {name!r}: {one.reason}" for name, one in trials.items() if one.fatal]
    surroundings = make_assembly(gathered, alert=say_alert).surroundings
    return {
        "versions": _versions(),
        "places": {
            "configuration": str(places.configuration),
            "state": str(places.state),
            "workspace": str(gathered.workspace),
        },
        "configuration": {"files": list(gathered.files), "model": gathered.configuration.model},
        "layers": _layers(gathered),
        "project": _project(project, places),
        "sandbox": sandbox_facts(surroundings.sandbox),
        "plugins": [_plugin(one) for one in gathered.registry.plugins],
        "providers": [_provider(name, gathered, surroundings) for name in gathered.providers],
        "ensembles": [_ensemble(name, gathered, trials, surroundings) for name in _names(gathered)],
        "agents": sorted(gathered.configuration.agents),
        "left_out": left_out_mappings(gathered),
        "replaced": [
            {"name": one.name, "file": one.file, "by": one.by_file or one.by_layer} for one in gathered.shadowed
        ],
        "warnings": [str(problem) for problem in gathered.warnings],
        "failures": failures,
    }


def _versions() -> dict[str, str]:
    # Not ``platform.platform``, which starts a process to find out.
    system = os.uname()
    versions = {
        "ripieno": version(),
        "python": platform.python_version(),
        "system": f"{system.sysname} {system.release} {system.machine}",
    }
    with contextlib.suppress(metadata.PackageNotFoundError):
        requirements = metadata.requires("ripieno") or ()
        for name in (re.split(r"[^A-Za-z0-9._-]", one)[0] for one in requirements if "extra ==" not in one):
            try:
                versions[name] = metadata.version(name)
            except metadata.PackageNotFoundError:
                versions[name] = "missing"
    return versions


def _layers(gathered: Gathered) -> list[dict[str, Any]]:
    files: dict[str, list[str]] = {}
    for named in (gathered.known.outlines, gathered.providers, gathered.profiles):
        for descriptor in named.values():
            if descriptor.file is not None:
                files.setdefault(descriptor.layer, []).append(descriptor.file)
    return [
        {
            "name": layer.name,
            "trusted": layer.trusted,
            "folders": [str(path) for path in (*layer.folders, *layer.paths)],
            "files": sorted(set(files.get(layer.name, ()))),
        }
        for layer in gathered.layers
    ]


def _project(project: Project | None, places: Places) -> dict[str, Any] | None:
    if project is None:
        return None
    store = TrustStore(places.state)
    state = (
        "trusted"
        if store.trusts(project)
        else "changed since it was trusted"
        if store.knows(project)
        else "not trusted"
    )
    return {"folder": str(project.folder), "trust": state, "files": sorted(project.files)}


def _plugin(status: PluginStatus) -> dict[str, Any]:
    if status.failure is not None:
        state = f"failed: {status.failure}"
    elif status.allowed:
        state = "plays"
    else:
        state = f'not allowed: add "{status.distribution}" to allow under [plugins] to load it'
    return {
        "name": status.name,
        "distribution": status.distribution,
        "version": status.version,
        "allowed": status.allowed,
        "state": state,
    }


def _provider(name: str, gathered: Gathered, surroundings: Surroundings) -> dict[str, Any]:
    descriptor = gathered.providers[name]
    keys = {variable: bool(surroundings.secrets.get(variable)) for variable in variables_of(descriptor)}
    return {
        "name": name,
        "protocol": descriptor.protocol,
        "base_url": descriptor.base_url and show_address(descriptor.base_url),
        "cloud": descriptor.cloud,
        # Those of a cloud, which this program does not look for.
        "credentials": at_home(descriptor),
        "variables": keys,
        "ready": all(any(all(map(keys.__getitem__, one)) for one in need) for need in descriptor.needs),
    }


def _names(gathered: Gathered) -> list[str]:
    playing = [descriptor.name for descriptor in gathered.ensembles]
    return [*playing, *sorted(name for name in gathered.known if name not in playing)]


def _ensemble(name: str, gathered: Gathered, trials: Mapping[str, Trial], surroundings: Surroundings) -> dict[str, Any]:
    descriptor = gathered.known[name]
    selected = any(one.name == name for one in gathered.ensembles)
    trial = trials.get(name)
    plays = selected and (trial is None or trial.reason is None)
    reason = absence(gathered, name) if not selected else trial.reason if trial is not None else None
    return {
        "name": name,
        "layer": descriptor.layer,
        "file": descriptor.file,
        "plays": plays,
        "reason": reason,
        "failed": selected and not plays,
        "required": descriptor.required,
        "tools": None if trial is None else len(trial.names),
        "left_out": {} if trial is None else dict(trial.left_out),
        "alerts": [] if trial is None else list(trial.alerts),
        "seconds": None if trial is None or trial.seconds is None else round(trial.seconds, 3),
        "connection": None if trial is None or not trial.facts else dict(trial.facts),
        "absent_variables": absent_variables(descriptor, surroundings) if selected else [],
        "pins": pin_facts(descriptor, gathered.pins, starts=trial is None or plays) if selected else None,
    }
