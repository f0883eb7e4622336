"""The facts of ``ripieno doctor`` as JSON: what is loaded, enabled, connected, pinned and allowed, and what is not."""

import contextlib
import dataclasses
import os
import platform
import re
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any

from ripieno.approvals.rules import expect
from ripieno.assembly.availability import absence, is_available
from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.assembly.failures import find_failures
from ripieno.assembly.plugins import PluginStatus
from ripieno.assembly.trust import Project, TrustStore
from ripieno.cli.check.checks import OF_DOCTOR
from ripieno.cli.check.needs import absent_variables
from ripieno.cli.common.findings import Subject, find_problems
from ripieno.cli.common.group import version
from ripieno.cli.common.layers import left_out_mappings
from ripieno.cli.common.models import has_cloud_credentials, show_address, variables_of
from ripieno.cli.common.trials import Trial
from ripieno.cli.doctor.journal import journal_facts
from ripieno.cli.doctor.queue import queue_facts
from ripieno.cli.trust.pins import is_foreign, pin_connection
from ripieno.descriptors import EnsembleDescriptor, Policy
from ripieno.descriptors.rules import CallRules
from ripieno.ensembles import Surroundings
from ripieno.exceptions import InputError, RipienoError
from ripieno.sandbox import Sandbox
from ripieno.sandbox.tiers import MOST_PROCESSES, most_memory
from ripieno.storage.pins import Comparison, PinRecord, compare
from ripieno.storage.places import Places

_ROOT = (
    "This program and its tools run as root. Landlock is weaker for root: files that only root may read are hidden "
    "from tools beneath /etc, but nowhere else in system folders. Run it as a dedicated user."
)


def collect_facts(loaded: LoadedConfiguration, project: Project | None, trials: Mapping[str, Trial]) -> dict[str, Any]:
    """All facts, as JSON. ``trials`` is empty if nothing was connected."""
    places = Places.of_user()
    failures = [str(failure) for failure in (find_failures(loaded) if loaded.failures else ())]
    failures += [f"Ensemble {name!r}: {one.reason}" for name, one in trials.items() if one.fatal]
    journal = journal_facts(loaded)
    failures += filter(None, (journal["problem"],))
    queue = queue_facts(loaded, journal)
    subject = Subject(loaded=loaded, descriptors=loaded.ensembles)
    surroundings = subject.surroundings
    # The enabled ones first.
    names = (*(one.name for one in loaded.ensembles), *sorted(loaded.known))
    return {
        "versions": _versions(),
        "places": {
            "configuration": str(places.configuration),
            "state": str(places.state),
            "workspace": str(loaded.workspace),
        },
        "journal": journal,
        "queue": queue,
        "configuration": {"files": list(loaded.files), "model": loaded.configuration.model},
        "layers": _layers(loaded),
        "project": _project(project, places),
        "sandbox": _sandbox(surroundings.sandbox),
        "plugins": [_plugin(one) for one in loaded.registry.plugins],
        "providers": [_provider(name, loaded, surroundings) for name in loaded.providers],
        "ensembles": [_ensemble(name, loaded, trials, surroundings) for name in dict.fromkeys(names)],
        "agents": sorted(loaded.configuration.agents),
        "left_out": left_out_mappings(loaded),
        "replaced": [
            {"name": one.name, "file": one.file, "by": one.by_file or one.by_layer} for one in loaded.shadowed
        ],
        "warnings": [
            *(str(problem) for problem in find_problems(OF_DOCTOR, subject)),
            *filter(None, (journal["warning"],)),
            *(() if queue is None else queue["warnings"]),
        ],
        "failures": failures,
    }


def _versions() -> dict[str, str]:
    # Not ``platform.platform``, which starts a process.
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


def _layers(loaded: LoadedConfiguration) -> list[dict[str, Any]]:
    files: dict[str, list[str]] = {}
    for named in (loaded.known.outlines, loaded.providers, loaded.profiles):
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
        for layer in loaded.layers
    ]


def _project(project: Project | None, places: Places) -> dict[str, Any] | None:
    if project is None:
        return None
    store, state = TrustStore(places.state), "not trusted"
    if store.trusts(project):
        state = "trusted"
    elif store.knows(project):
        state = "changed since it was trusted"
    return {"folder": str(project.folder), "trust": state, "files": sorted(project.files)}


def _plugin(status: PluginStatus) -> dict[str, Any]:
    if status.failure is not None:
        state = f"failed: {status.failure}"
    elif status.allowed:
        state = "enabled"
    else:
        state = f'not allowed; to load it, add "{status.distribution}" to allow under [plugins]'
    return {**{key: getattr(status, key) for key in ("name", "distribution", "version", "allowed")}, "state": state}


def _provider(name: str, loaded: LoadedConfiguration, surroundings: Surroundings) -> dict[str, Any]:
    descriptor = loaded.providers[name]
    keys = {variable: bool(surroundings.secrets.get(variable)) for variable in variables_of(descriptor)}
    return {
        "name": name,
        "protocol": descriptor.protocol,
        "base_url": descriptor.base_url and show_address(descriptor.base_url),
        "cloud": descriptor.cloud,
        # The credentials of a cloud, which are not looked up here.
        "credentials": has_cloud_credentials(descriptor),
        "variables": keys,
        "ready": all(any(all(map(keys.__getitem__, one)) for one in need) for need in descriptor.needs),
    }


def _ensemble(
    name: str, loaded: LoadedConfiguration, trials: Mapping[str, Trial], surroundings: Surroundings
) -> dict[str, Any]:
    descriptor = loaded.known[name]
    selected = any(one.name == name for one in loaded.ensembles)
    trial = trials.get(name, Trial())
    ready = selected and trial.reason is None
    return {
        "name": name,
        "layer": descriptor.layer,
        "file": descriptor.file,
        "ready": ready,
        "reason": trial.reason if selected else absence(loaded, name),
        "description": descriptor.description,
        "available": is_available(loaded, name),
        "failed": selected and not ready,
        "required": descriptor.required,
        "tools": len(trial.names) if name in trials else None,
        "left_out": dict(trial.left_out),
        "alerts": list(trial.alerts),
        "seconds": None if trial.seconds is None else round(trial.seconds, 3),
        "connection": dict(trial.facts) or None,
        "absent_variables": absent_variables(descriptor, loaded.registry, surroundings) if selected else [],
        "pins": _pins(descriptor, loaded, starts=ready) if selected else None,
    }


def _sandbox(sandbox: Sandbox | None) -> dict[str, Any] | None:
    """The facts about the sandbox, as JSON. Tries which tiers are available."""
    if sandbox is None:
        return None
    wishes = sandbox.wishes
    return {
        "level": sandbox.level,
        "tier": sandbox.tier,
        "name": sandbox.name,
        "reason": sandbox.reason,
        "missing": sandbox.missing,
        "network": {None: "for tools that declare it", True: "for all tools", False: "for no tools"}[wishes.network],
        "readable": list(wishes.readable),
        "writable": list(wishes.writable),
        "memory": most_memory(),
        "processes": MOST_PROCESSES,
        "counted": os.path.exists("/proc/self/statm"),
        "warnings": [_ROOT] if os.geteuid() == 0 and sandbox.tier in (1, 2) else [],
    }


def _pins(descriptor: EnsembleDescriptor, loaded: LoadedConfiguration, *, starts: bool) -> dict[str, Any] | None:
    """The pins and the differences from them; None for an ensemble of our own.

    ``state`` is ``off``, ``unreadable`` (see ``reason``), ``not pinned``, ``same``, ``new``, ``changed``, or
    ``not compared`` if it was not connected. Tools were compared when the ensemble was connected; one that does not
    start has nothing to record.
    """
    if not is_foreign(descriptor):
        return None
    facts: dict[str, Any] = {"mode": descriptor.pin, "state": "off", "recorded": None, "reason": None, "advice": None}
    comparison: Comparison | None = None
    if descriptor.pin != "off":
        try:
            record = None if loaded.pins is None else loaded.pins.record(descriptor.name)
        except InputError as error:
            facts |= {"state": "unreadable", "reason": str(error)}
        else:
            comparison = _compare(descriptor, loaded, record)
            state = "not pinned" if record is None else _state(comparison)
            facts |= {"state": state, "recorded": None if record is None else len(record.tools)}
            # A changed command must be approved before it starts.
            words = {"not pinned": "ripieno lock", "new": "ripieno lock --approve", "changed": "ripieno lock --approve"}
            if state in words and (starts or state == "changed"):
                facts["advice"] = f"{words[state]} {descriptor.name}"
    kinds: dict[str, Iterable[str]] = {} if comparison is None else dataclasses.asdict(comparison)
    for kind in ("new", "changed", "gone"):
        facts[kind] = list(kinds.get(kind, ()))
    return {**facts, "command": "same" if comparison is None else comparison.command}


def _compare(
    descriptor: EnsembleDescriptor, loaded: LoadedConfiguration, record: PinRecord | None
) -> Comparison | None:
    """The known differences from the record; None if nothing was compared."""
    if loaded.pins is None or record is None:
        return None
    try:
        command = pin_connection(descriptor, loaded.registry)
    except RipienoError:
        return None
    state = compare(record, PinRecord(tools=record.tools, command=command)).command
    tools = loaded.pins.compared.get(descriptor.name)
    if tools is None:
        return None if state == "same" else Comparison(command=state)
    return dataclasses.replace(tools, command=state)


def _state(comparison: Comparison | None) -> str:
    if comparison is None:
        return "not compared"
    if comparison.changed or comparison.command != "same":
        return "changed"
    return "new" if comparison.new else "same"


def policy_facts(loaded: LoadedConfiguration, trials: Mapping[str, Trial]) -> dict[str, Any]:
    """The policy of each tool, as JSON. Unconnected ensembles have only their declared tools."""
    rules = loaded.configuration.confirmation
    read = CallRules.of(rules)
    tools: list[dict[str, Any]] = []
    for identity, policy in sorted(_policies(loaded, trials).items()):
        outlook = expect(identity, policy, read)
        tools.append(
            {"tool": identity, "effect": policy.effect, "action": outlook.action, "reason": f"{outlook.reason}."}
        )
    return {
        "confirmation": {"approve": list(rules.approve), "ask": list(rules.ask), "deny": list(rules.deny)},
        "tools": tools,
        "failures": [f"{name}: {one.reason}" for name, one in trials.items() if one.reason is not None],
    }


def _policies(loaded: LoadedConfiguration, trials: Mapping[str, Trial]) -> Mapping[str, Policy]:
    found: dict[str, Policy] = {}
    for descriptor in loaded.ensembles:
        trial = trials.get(descriptor.name)
        if trial is None or trial.reason is not None:
            found.update((f"{descriptor.name}.{one.name}", one.policy) for one in descriptor.invokers if one.enabled)
        else:
            found.update(trial.policies)
    return found
