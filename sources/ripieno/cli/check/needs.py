"""Missing variables and programs that the origins of ensembles need."""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from ripieno.assembly.plugins import Registry
from ripieno.cli.common.assembly import find_origins
from ripieno.cli.common.findings import Subject, finding
from ripieno.descriptors import EnsembleDescriptor
from ripieno.descriptors.loading.unknown_names import file_of
from ripieno.descriptors.reader.alternatives import variables_in
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import dotted
from ripieno.ensembles import Origin, Surroundings
from ripieno.ensembles.opener import needed_origins
from ripieno.ensembles.origin import NeededProgram, NeededVariable, needed_programs, needed_variables
from ripieno.ensembles.requirements import programs_of
from ripieno.exceptions import Problem
from ripieno.origins.settings import advise_setting, locate_program
from ripieno.sandbox.processes import clean_environment

_Need = TypeVar("_Need", NeededVariable, NeededProgram)


def absent_variables(descriptor: EnsembleDescriptor, registry: Registry, surroundings: Surroundings) -> list[str]:
    """The missing variables that an ensemble needs."""
    return sorted({need.name for need in _needs(needed_variables, descriptor, registry)} - surroundings.secrets.keys())


def check_variables(subject: Subject) -> Iterator[Problem]:
    """A warning for each missing variable that enabled ensembles need, at its first place."""
    places: dict[str, tuple[str | None, Path]] = {}
    users: dict[str, dict[str, EnsembleDescriptor]] = {}
    for descriptor in subject.descriptors:
        for need in _needs(needed_variables, descriptor, subject.loaded.registry) if descriptor.enabled else ():
            if need.name not in subject.surroundings.secrets:
                places.setdefault(need.name, _place(descriptor, need))
                users.setdefault(need.name, {})[descriptor.name] = descriptor
    for name, place in places.items():
        message = f"the variable {name} is not set, and is needed by {' and '.join(map(repr, users[name]))}"
        hint = advise_setting([name], subject.surroundings)
        if needed := [one.name for one in users[name].values() if one.required]:
            hint += (
                f" Without it, every start with {' or '.join(map(repr, needed))} fails. "
                "To start without the ensemble instead: required = false under its [ensemble]."
            )
        yield finding(*place, message, hint)


def check_journal(subject: Subject) -> Iterator[Problem]:
    """A warning for each missing variable of ``[journal] url``, without which nothing is recorded."""
    loaded = subject.loaded
    path: Path = ("journal", "url")
    for name in variables_in(loaded.configuration.journal_url or ""):
        if not os.environ.get(name):
            message = f"the variable {name} is not set, and is needed by {dotted(path)}"
            hint = f"Set it: export {name}=... Without it, every command that records fails."
            yield finding(file_of(loaded.parts, path), path, message, hint)


def check_programs(subject: Subject) -> Iterator[Problem]:
    """A warning for each program that is not found.

    There is no warning for a program under ``requires``: without it the tool is left out, with the reason.
    """
    for descriptor in subject.descriptors:
        for need in _needs(needed_programs, descriptor, subject.loaded.registry) if descriptor.enabled else ():
            required = [*descriptor.requires, *(() if need.invoker is None else need.invoker.policy.requires)]
            found = None if need.replaced or need.argv[0] in programs_of(required) else _diagnose(descriptor, need)
            if found is not None:
                yield finding(*_place(descriptor, need), *found)


def _needs(
    list_needs: Callable[[Origin, EnsembleDescriptor], Iterable[_Need]],
    descriptor: EnsembleDescriptor,
    registry: Registry,
) -> Iterator[_Need]:
    for origin in find_origins(needed_origins(descriptor), registry):
        for need in list_needs(origin, descriptor):
            if need.invoker is None or need.invoker.enabled:
                yield need


def _diagnose(descriptor: EnsembleDescriptor, need: NeededProgram) -> tuple[str, str] | None:
    """Why a program is not found, and what to do; None if it is found."""
    program = need.argv[0]
    if "/" not in program:
        # Its own PATH is known only when it starts.
        if "PATH" in need.environment or shutil.which(program, path=clean_environment()["PATH"]):
            return None
        hint = "Install it, add its folder to PATH, or write its full path."
        return f"the program {program!r} is not in PATH", hint
    if not program.startswith("/") and descriptor.folder is None:
        return None  # Its origin reports it.
    path = os.path.normpath(locate_program(program, descriptor.folder))
    if not os.path.isfile(path):
        return f"there is no program {path}", "Fix the path, or install the program there."
    return None if os.access(path, os.X_OK) else (f"{path} is not executable", f"Make it executable: chmod +x {path}")


def _place(descriptor: EnsembleDescriptor, need: NeededVariable | NeededProgram) -> tuple[str | None, Path]:
    for invoker, path in descriptor.located():
        if invoker is need.invoker:
            return invoker.file, (*path, "invocable", *need.key)
    return descriptor.file, ("connection", *need.key)
