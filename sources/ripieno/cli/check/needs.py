"""Variables and programs that ensembles need and that are not there; their origins name them."""

import os
import shutil
from collections.abc import Iterable, Iterator

from ripieno.assembly.plugins import Registry
from ripieno.descriptors import EnsembleDescriptor
from ripieno.descriptors.loading import locate
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import dotted
from ripieno.ensembles import Origin, Surroundings
from ripieno.ensembles.opener import needed_origins
from ripieno.ensembles.origin import (
    NeededProgram,
    NeededVariable,
    check_tables,
    needed_programs,
    needed_variables,
    pin_programs,
)
from ripieno.ensembles.requirements import programs_of
from ripieno.exceptions import ConfigurationInvalidity, Problem, RipienoError
from ripieno.origins.settings import advise_setting, locate_program
from ripieno.sandbox.processes import clean_environment
from ripieno.storage.pins import Pin


def find_origins(names: Iterable[str], registry: Registry) -> Iterator[Origin]:
    """The origins of these names. What cannot be loaded is left out: ``check`` and every start report it."""
    for name in names:
        try:
            origin: Origin = registry.resolve("origins", name)
        except RipienoError:
            continue
        yield origin


def pin_connection(descriptor: EnsembleDescriptor, registry: Registry) -> Pin | None:
    """The pin of what the connection of an ensemble starts.

    Errors: ``ConfigurationInvalidity`` for settings that its origin refuses; those of ``Registry.resolve``.
    """
    if descriptor.connection is None:
        return None
    origin: Origin = registry.resolve("origins", descriptor.connection.origin)
    if problems := check_tables(origin, descriptor):
        raise ConfigurationInvalidity(locate(problems))
    return pin_programs(origin, descriptor)


def absent_variables(descriptor: EnsembleDescriptor, registry: Registry, surroundings: Surroundings) -> list[str]:
    """The variables that an ensemble needs and that are not there."""
    return sorted({need.name for need in _variables(descriptor, registry)} - surroundings.secrets.keys())


def find_absent_variables(
    descriptors: Iterable[EnsembleDescriptor], registry: Registry, surroundings: Surroundings
) -> tuple[Problem, ...]:
    """A warning for each variable that some of the ensembles need and that is not there, with its first line."""
    places: dict[str, tuple[str | None, Path]] = {}
    users: dict[str, dict[str, None]] = {}
    for descriptor in descriptors:
        for need in _variables(descriptor, registry) if descriptor.enabled else ():
            if need.name not in surroundings.secrets:
                places.setdefault(need.name, _place(descriptor, need))
                users.setdefault(need.name, {})[descriptor.name] = None
    return locate(
        _warning(
            place,
            f"the variable {name} is not set, and {' and '.join(map(repr, users[name]))} cannot do without",
            advise_setting([name], surroundings),
        )
        for name, place in places.items()
    )


def find_missing_programs(descriptors: Iterable[EnsembleDescriptor], registry: Registry) -> tuple[Problem, ...]:
    """The warnings about programs that would not be found now, with their lines.

    What says that it requires its program is left out without it, with the reason, and needs no warning.
    """
    return locate(
        problem for descriptor in descriptors if descriptor.enabled for problem in _missing(descriptor, registry)
    )


def _variables(descriptor: EnsembleDescriptor, registry: Registry) -> Iterator[NeededVariable]:
    for origin in find_origins(needed_origins(descriptor), registry):
        for need in needed_variables(origin, descriptor):
            if need.invoker is None or need.invoker.enabled:
                yield need


def _missing(descriptor: EnsembleDescriptor, registry: Registry) -> Iterator[Problem]:
    for origin in find_origins(needed_origins(descriptor), registry):
        for need in needed_programs(origin, descriptor):
            required = [*descriptor.requires, *(() if need.invoker is None else need.invoker.policy.requires)]
            if need.replaced or need.argv[0] in programs_of(required):
                continue
            if need.invoker is None or need.invoker.enabled:
                yield from _look(descriptor, need)


def _look(descriptor: EnsembleDescriptor, need: NeededProgram) -> Iterator[Problem]:
    program, place = need.argv[0], _place(descriptor, need)
    if "/" in program:
        # A relative one without a folder is the origin's to complain about.
        if program.startswith("/") or descriptor.folder is not None:
            path = os.path.normpath(locate_program(program, descriptor.folder))
            if not os.path.isfile(path):
                yield _warning(place, f"there is no program {path}", "Correct the path, or put the program there.")
            elif not os.access(path, os.X_OK):
                yield _warning(place, f"{path} may not be executed", f"Allow it: chmod +x {path}")
    # What a PATH of its own says is known only when it starts.
    elif "PATH" not in need.environment and not shutil.which(program, path=clean_environment()["PATH"]):
        hint = "Install it, add its folder to PATH, or name it by its whole path."
        yield _warning(place, f"there is no program {program!r} in any folder of PATH", hint)


def _place(descriptor: EnsembleDescriptor, need: NeededVariable | NeededProgram) -> tuple[str | None, Path]:
    """The file and the key at which something is needed."""
    for invoker, path in descriptor.located():
        if invoker is need.invoker:
            return invoker.file, (*path, "invocable", *need.key)
    return descriptor.file, ("connection", *need.key)


def _warning(place: tuple[str | None, Path], message: str, hint: str) -> Problem:
    return Problem(message=message, file=place[0], key=dotted(place[1]), hint=hint, severity="warning")
