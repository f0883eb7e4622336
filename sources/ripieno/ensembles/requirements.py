"""What must be there before an ensemble or a tool is offered: programs, a sandbox, the network, other ensembles.

``requires = ["git"]`` and ``["command:git"]`` name a program, ``["sandbox"]`` a sandbox of tier 1 or more,
``["network"]`` what the operator grants of it, and ``["ensemble:git"]`` an ensemble that plays. What is not met leaves
the tool out, with the reason; it is never replaced by something else, and never offered to fail.

A tool that runs a program of the project, where the project has one (``project = true`` at its ``[invocable]``), needs
none in PATH then.
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
#: Where a project keeps programs of its own.
PROJECT_FOLDERS = (".venv/bin", "venv/bin", "node_modules/.bin")
_OWN = "of your own configuration"


def programs_of(requires: Iterable[str]) -> Iterator[str]:
    """The programs among what is required."""
    return (name for kind, name in map(_split, requires) if kind == COMMAND)


def find_unmet(descriptor: EnsembleDescriptor, surroundings: Surroundings) -> str | None:
    """Why an ensemble cannot play, or None. Starts a process for a sandbox only."""
    invocables = [one.invocable for one in descriptor.invokers]
    return _find(descriptor.requires, descriptor.name, descriptor, invocables, surroundings)


def find_unmet_of(invoker: InvokerDescriptor, descriptor: EnsembleDescriptor, surroundings: Surroundings) -> str | None:
    """Why a tool of an ensemble cannot be offered, or None; what the ensemble itself requires is not looked at."""
    return _find(invoker.policy.requires, descriptor.name, invoker, [invoker.invocable], surroundings)


def waits_for_grant(invoker: InvokerDescriptor, descriptor: EnsembleDescriptor, surroundings: Surroundings) -> bool:
    """Whether all is there that a tool and its ensemble require, and only the network is not granted."""
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
    """Why each ensemble does not play; None for those that do. ``known`` are the names of all that there are.

    Those that require each other play together. What becomes of a connection is not known before it is opened.
    """
    absent: dict[str, str | None] = dict.fromkeys(known, "it is not selected; [ensembles] include can name it")
    playing = {one.name: one for one in selected}
    absent.update(dict.fromkeys(playing))
    while True:
        around = dataclasses.replace(surroundings, absent=frozendict(absent))
        lost = {name: reason for name, one in playing.items() if (reason := find_unmet(one, around)) is not None}
        if not lost:
            return around.absent
        absent.update(lost)
        playing = {name: one for name, one in playing.items() if name not in lost}


def has_command(name: str) -> bool:
    """Whether a program would be found as a tool finds it: in the absolute folders of PATH."""
    return shutil.which(name, path=clean_environment()["PATH"] or os.defpath) is not None


def find_own_program(roots: Iterable[str], *names: str) -> str | None:
    """The path of the first program of these names that a project in one of these folders has of its own, or None.

    It is the project's: whoever runs it confines it.
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
    """Its kind, and the name of what is meant; a bare word that is no kind of its own names a program."""
    kind, separator, name = requirement.partition(":")
    if separator:
        return kind, name
    return (requirement, "") if requirement in (SANDBOX, NETWORK) else (COMMAND, requirement)


def _find(
    requires: Iterable[str],
    ensemble: str,
    asking: EnsembleDescriptor | InvokerDescriptor,
    invocables: Sequence[InvocableDescriptor],
    surroundings: Surroundings,
) -> str | None:
    for requirement in requires:
        match _split(requirement):
            case (kind, "") if kind == SANDBOX:
                reason = _lacks_sandbox(surroundings)
            case (kind, "") if kind == NETWORK:
                reason = _lacks_network(ensemble, asking.configuration, invocables, surroundings)
            case (kind, name) if kind == COMMAND and name:
                reason = _lacks_command(name, invocables, surroundings)
            case (kind, name) if kind == ENSEMBLE and name:
                lack = surroundings.absent.get(name, "there is none of that name")
                reason = None if lack is None else f"the ensemble {name!r} does not play: {lack}"
            case _:
                reason = 'nobody knows what that is: write "command:NAME", "sandbox", "network" or "ensemble:NAME"'
        if reason is not None:
            return f"it requires {requirement!r}, and {reason}"
    return None


def _lacks_command(name: str, invocables: Sequence[InvocableDescriptor], surroundings: Surroundings) -> str | None:
    """Why a program is not found; that of the project counts where all that need it would run that one, confined."""
    if has_command(name):
        return None
    settings = [one.settings for one in invocables if one.origin == COMMAND]
    owned = len(settings) == len(invocables) > 0 and all(
        one.get("project") is True and one.get("confined") is True for one in settings
    )
    if not owned:
        return f"there is no program {name!r} in any folder of PATH"
    workspace = os.path.realpath(surroundings.workspace)
    places = [os.path.join(workspace, str(one.get("directory", "."))) for one in settings]
    if all(find_own_program((place, workspace), name) for place in places):
        return None
    folders = ", ".join(PROJECT_FOLDERS)
    return f"there is no program {name!r}, neither in {folders} of the workspace nor in any folder of PATH"


def _lacks_sandbox(surroundings: Surroundings) -> str | None:
    sandbox = surroundings.sandbox
    if sandbox is None:
        return "there is none here"
    return sandbox.missing


def _lacks_network(
    ensemble: str,
    configuration: Mapping[str, Any],
    invocables: Sequence[InvocableDescriptor],
    surroundings: Surroundings,
) -> str | None:
    """Why nothing can be reached.

    Tools that ask HTTP servers themselves need ``hosts`` in their ``[configuration]``, and the ``[sandbox]`` is no
    matter to them. Programs need ``network``: under ``[sandbox]``, or at the tool where that leaves it to tools.
    """
    origins = {one.origin for one in invocables}
    # The url of such a tool is what it may reach.
    if configuration.get("hosts") or origins == {"http"}:
        return None
    programs = "command" in origins or "network" in configuration
    if "python" in origins and not programs:
        return f'the network is not granted: set hosts = ["api.example.org"] under [configuration.{ensemble}] {_OWN}'
    decided = None if surroundings.sandbox is None else surroundings.sandbox.wishes.network
    if decided is not None:
        advice = f"network is false under [sandbox]; set it to true there, or delete it, in a file {_OWN}"
        return None if decided else f"the network is not granted: {advice}"
    # A server that is connected to, and a client, decide for themselves.
    asked = not programs or any(one.settings.get("network") is True for one in invocables)
    if asked or configuration.get("network") is True:
        return None
    place = "at its [invocable]" if "command" in origins else f"under [configuration.{ensemble}]"
    return f"the network is not granted: set network = true {place}, or under [sandbox] {_OWN}"
