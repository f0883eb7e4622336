"""The requirements of an ensemble or a tool: programs, a sandbox, the network, other ensembles.

``requires = ["git"]`` and ``["command:git"]`` name a program, ``["sandbox"]`` a sandbox of tier 1 or higher,
``["network"]`` the network as the operator grants it, and ``["ensemble:git"]`` an enabled ensemble. A tool with an
unmet requirement is left out, with the reason; it is never replaced.

A tool that may run the project's own program (``project = true`` at its ``[invocable]``) does not need one in PATH if
the project has it.
"""

import dataclasses
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from frozendict import frozendict

from ripieno.descriptors import EnsembleDescriptor, InvocableDescriptor, InvokerDescriptor
from ripieno.ensembles.surroundings import Surroundings
from ripieno.sandbox.processes import clean_environment

COMMAND, ENSEMBLE, NETWORK, SANDBOX = "command", "ensemble", "network", "sandbox"
PYTHON = "python"
#: The folders of a project's own programs.
PROJECT_FOLDERS = (".venv/bin", "venv/bin", "node_modules/.bin")
_OWN = "of your own configuration"


def programs_of(requires: Iterable[str]) -> Iterator[str]:
    """The required programs."""
    return (name for kind, name in map(_split, requires) if kind == COMMAND)


def find_unmet(descriptor: EnsembleDescriptor, surroundings: Surroundings) -> str | None:
    """Why an ensemble is unavailable, or None. Starts a process only to try a sandbox."""
    invocables = [one.invocable for one in descriptor.invokers]
    return _find(descriptor.requires, descriptor, descriptor, invocables, surroundings)


def find_unmet_of(invoker: InvokerDescriptor, descriptor: EnsembleDescriptor, surroundings: Surroundings) -> str | None:
    """Why a tool cannot be offered, or None, without the requirements of its ensemble."""
    return _find(invoker.policy.requires, descriptor, invoker, [invoker.invocable], surroundings)


def waits_for_grant(invoker: InvokerDescriptor, descriptor: EnsembleDescriptor, surroundings: Surroundings) -> bool:
    """Whether a tool and its ensemble lack only the grant of the network."""
    if find_unmet(descriptor, surroundings) is None and find_unmet_of(invoker, descriptor, surroundings) is None:
        return False
    policy = dataclasses.replace(invoker.policy, requires=_without_network(invoker.policy.requires))
    invoker = dataclasses.replace(invoker, policy=policy)
    descriptor = dataclasses.replace(descriptor, requires=_without_network(descriptor.requires))
    return find_unmet(descriptor, surroundings) is None and find_unmet_of(invoker, descriptor, surroundings) is None


def _without_network(requires: Iterable[str]) -> tuple[str, ...]:
    return tuple(one for one in requires if one != NETWORK)


def find_absent(
    selected: Iterable[EnsembleDescriptor], known: Iterable[str], surroundings: Surroundings
) -> frozendict[str, str | None]:
    """Why each ensemble is unavailable; None for the enabled ones. ``known`` are the names of all ensembles.

    Ensembles that require each other are enabled together. Connections are not opened here.
    """
    absent: dict[str, str | None] = {
        name: f'it is not enabled; to enable it, set include = ["{name}"] under [ensembles]' for name in known
    }
    enabled = {one.name: one for one in selected}
    absent.update(dict.fromkeys(enabled))
    while True:
        current = dataclasses.replace(surroundings, absent=frozendict(absent))
        lost = {name: reason for name, one in enabled.items() if (reason := find_unmet(one, current)) is not None}
        if not lost:
            return current.absent
        absent.update(lost)
        enabled = {name: one for name, one in enabled.items() if name not in lost}


def has_command(name: str) -> bool:
    """Whether a program is in the absolute folders of PATH, which tools use."""
    return next(_commands(name), None) is not None


def find_hidden(name: str, surroundings: Surroundings) -> str | None:
    """The path of a program in PATH that the sandbox hides from confined programs; None where it shows one."""
    return next(_commands(name), None) if find_shown(name, surroundings) is None else None


def find_shown(name: str, surroundings: Surroundings) -> str | None:
    """The path of the first program of a name in PATH that confined programs can start; None without one."""
    sandbox = surroundings.sandbox
    return next((path for path in _commands(name) if sandbox is None or sandbox.shows(path)), None)


def _commands(name: str) -> Iterator[str]:
    """The paths of the programs of a name in the folders of PATH, in their order."""
    folders = (clean_environment()["PATH"] or os.defpath).split(os.pathsep)
    return (path for folder in folders if (path := shutil.which(name, path=folder)) is not None)


def find_own_program(roots: Iterable[str], *names: str) -> str | None:
    """The path of the first of these programs that a project in one of these folders has, or None.

    It belongs to the project, so the caller must confine it.
    """
    for root in dict.fromkeys(roots):
        for name in names:
            for folder in PROJECT_FOLDERS:
                path = os.path.join(root, folder, name)
                if "/" not in name and os.path.isfile(path) and os.access(path, os.X_OK):
                    return path
    return None


def own_path(roots: Iterable[str]) -> str:
    """The PATH with the folders of projects before those of the system."""
    folders = [os.path.join(root, one) for root in dict.fromkeys(roots) for one in PROJECT_FOLDERS]
    return os.pathsep.join([*(one for one in folders if os.path.isdir(one)), clean_environment()["PATH"]])


def _split(requirement: str) -> tuple[str, str]:
    """The kind and the name of a requirement; a bare word that is not a kind is the name of a program."""
    kind, separator, name = requirement.partition(":")
    if separator:
        return kind, name
    return (requirement, "") if requirement in (SANDBOX, NETWORK) else (COMMAND, requirement)


def _find(
    requires: Iterable[str],
    descriptor: EnsembleDescriptor,
    asking: EnsembleDescriptor | InvokerDescriptor,
    invocables: Sequence[InvocableDescriptor],
    surroundings: Surroundings,
) -> str | None:
    for requirement in requires:
        match _split(requirement):
            case (kind, "") if kind == SANDBOX:
                sandbox = surroundings.sandbox
                reason = "no sandbox is available" if sandbox is None else sandbox.missing
            case (kind, "") if kind == NETWORK:
                reason = _lacks_network(descriptor.name, asking.configuration, invocables, surroundings)
            case (kind, name) if kind == COMMAND and name:
                reason = _lacks_command(name, descriptor, invocables, surroundings)
            case (kind, name) if kind == ENSEMBLE and name:
                lack = surroundings.absent.get(name, "no ensemble has this name")
                reason = None if lack is None else f"the ensemble {name!r} is not available: {lack}"
            case _:
                reason = 'this is not a requirement: write "command:NAME", "sandbox", "network" or "ensemble:NAME"'
        if reason is not None:
            return f"it requires {requirement!r}, and {reason}"
    return None


def _lacks_command(
    name: str, descriptor: EnsembleDescriptor, invocables: Sequence[InvocableDescriptor], surroundings: Surroundings
) -> str | None:
    """Why a program is missing. The project's own one suffices if all invocables would run that one, confined."""
    if has_command(name):
        hidden = find_hidden(name, surroundings) if _are_confined(descriptor, invocables) else None
        if hidden is None:
            return None
        advice = f'set readable = ["{os.path.dirname(hidden)}"] under [sandbox] {_OWN}'
        more = "Programs that keep files elsewhere in a home, as rustup does in .rustup, need these folders, too"
        return f"the sandbox hides {hidden}: {advice}. {more}"
    if not invocables or not all(map(_runs_own, invocables)):
        return f"there is no program {name!r} in any folder of PATH"
    workspace = os.path.realpath(surroundings.workspace)
    places = [os.path.join(workspace, str(one.settings.get("directory", "."))) for one in invocables]
    if all(find_own_program((place, workspace), name) for place in places):
        return None
    folders = ", ".join(PROJECT_FOLDERS)
    return f"there is no program {name!r}, neither in {folders} of the workspace nor in any folder of PATH"


def _are_confined(descriptor: EnsembleDescriptor, invocables: Sequence[InvocableDescriptor]) -> bool:
    """Whether all of these run their programs in the sandbox. A Python function that is not ours may start its own."""
    own = {COMMAND: not descriptor.own, PYTHON: descriptor.layer == "package"}
    return bool(invocables) and all(one.settings.get("confined", own.get(one.origin, False)) for one in invocables)


def _runs_own(invocable: InvocableDescriptor) -> bool:
    """Whether it runs the project's own programs: confined, if it is a program itself."""
    settings, origin = invocable.settings, invocable.origin
    return settings.get("project") is True and (
        origin == PYTHON or (origin == COMMAND and settings.get("confined") is True)
    )


def _lacks_network(
    ensemble: str,
    configuration: Mapping[str, Any],
    invocables: Sequence[InvocableDescriptor],
    surroundings: Surroundings,
) -> str | None:
    """Why the network is not granted.

    Tools that ask HTTP servers themselves need ``hosts`` in their ``[configuration]``, whatever the ``[sandbox]``.
    Programs need ``network`` under ``[sandbox]``, or at the tool if ``[sandbox]`` does not set it.
    """
    origins = {one.origin for one in invocables}
    # Such a tool may reach its own url.
    if configuration.get("hosts") or origins == {"http"}:
        return None
    programs = "command" in origins or "network" in configuration
    if "python" in origins and not programs:
        return f'the network is not granted: set hosts = ["api.example.org"] under [configuration.{ensemble}] {_OWN}'
    decided = None if surroundings.sandbox is None else surroundings.sandbox.wishes.network
    if decided is not None:
        advice = f"network is false under [sandbox]; set it to true there, or delete it, in a file {_OWN}"
        return None if decided else f"the network is not granted: {advice}"
    # Connected servers and clients decide for themselves.
    asked = not programs or any(one.settings.get("network") is True for one in invocables)
    if asked or configuration.get("network") is True:
        return None
    place = "at its [invocable]" if "command" in origins else f"under [configuration.{ensemble}]"
    return f"the network is not granted: set network = true {place}, or under [sandbox] {_OWN}"
