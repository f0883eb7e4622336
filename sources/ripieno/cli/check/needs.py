"""Variables and programs that ensembles need and that are not there; their origins name them."""

import os
import shutil
from collections.abc import Iterator

from ripieno.assembly.plugins import Registry
from ripieno.cli.common.assembly import find_origins
from ripieno.cli.common.findings import Subject, finding
from ripieno.descriptors import EnsembleDescriptor
from ripieno.descriptors.reader.positions import Path
from ripieno.ensembles import Surroundings
from ripieno.ensembles.opener import needed_origins
from ripieno.ensembles.origin import NeededProgram, NeededVariable, needed_programs, needed_variables
from ripieno.ensembles.requirements import programs_of
from ripieno.exceptions import Problem
from ripieno.origins.settings import advise_setting, locate_program
from ripieno.sandbox.processes import clean_environment


def absent_variables(descriptor: EnsembleDescriptor, registry: Registry, surroundings: Surroundings) -> list[str]:
    """The variables that an ensemble needs and that are not there."""
    return sorted({need.name for need in _variables(descriptor, registry)} - surroundings.secrets.keys())


def check_variables(subject: Subject) -> Iterator[Problem]:
    """A warning for each variable that some of the ensembles need and that is not there, at its first place."""
    places: dict[str, tuple[str | None, Path]] = {}
    users: dict[str, dict[str, None]] = {}
    for descriptor in subject.descriptors:
        for need in _variables(descriptor, subject.loaded.registry) if descriptor.enabled else ():
            if need.name not in subject.surroundings.secrets:
                places.setdefault(need.name, _place(descriptor, need))
                users.setdefault(need.name, {})[descriptor.name] = None
    for name, place in places.items():
        message = f"the variable {name} is not set, and {' and '.join(map(repr, users[name]))} cannot do without"
        yield finding(*place, message, advise_setting([name], subject.surroundings))


def check_programs(subject: Subject) -> Iterator[Problem]:
    """A warning for each program that would not be found now.

    What says that it requires its program is left out without it, with the reason, and needs no warning.
    """
    for descriptor in subject.descriptors:
        for need in _programs(descriptor, subject.loaded.registry) if descriptor.enabled else ():
            required = [*descriptor.requires, *(() if need.invoker is None else need.invoker.policy.requires)]
            found = None if need.replaced or need.argv[0] in programs_of(required) else _look(descriptor, need)
            if found is not None:
                yield finding(*_place(descriptor, need), *found)


def _variables(descriptor: EnsembleDescriptor, registry: Registry) -> Iterator[NeededVariable]:
    for origin in find_origins(needed_origins(descriptor), registry):
        for need in needed_variables(origin, descriptor):
            if need.invoker is None or need.invoker.enabled:
                yield need


def _programs(descriptor: EnsembleDescriptor, registry: Registry) -> Iterator[NeededProgram]:
    for origin in find_origins(needed_origins(descriptor), registry):
        for need in needed_programs(origin, descriptor):
            if need.invoker is None or need.invoker.enabled:
                yield need


def _look(descriptor: EnsembleDescriptor, need: NeededProgram) -> tuple[str, str] | None:
    """Why a program would not be found, and what to do; None where it would be."""
    program = need.argv[0]
    if "/" not in program:
        # What a PATH of its own says is known only when it starts.
        if "PATH" in need.environment or shutil.which(program, path=clean_environment()["PATH"]):
            return None
        hint = "Install it, add its folder to PATH, or name it by its whole path."
        return f"there is no program {program!r} in any folder of PATH", hint
    if not program.startswith("/") and descriptor.folder is None:
        return None  # Its origin complains.
    path = os.path.normpath(locate_program(program, descriptor.folder))
    if not os.path.isfile(path):
        return f"there is no program {path}", "Correct the path, or put the program there."
    return None if os.access(path, os.X_OK) else (f"{path} may not be executed", f"Allow it: chmod +x {path}")


def _place(descriptor: EnsembleDescriptor, need: NeededVariable | NeededProgram) -> tuple[str | None, Path]:
    """The file and the key at which something is needed."""
    for invoker, path in descriptor.located():
        if invoker is need.invoker:
            return invoker.file, (*path, "invocable", *need.key)
    return descriptor.file, ("connection", *need.key)
