"""Missing programs that the origins of an ensemble start, and what else origins need."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from ripieno.assembly.plugins import Registry
from ripieno.descriptors import EnsembleDescriptor
from ripieno.ensembles import Origin
from ripieno.ensembles.opener import needed_origins
from ripieno.ensembles.origin import NeededProgram, NeededVariable, needed_programs
from ripieno.ensembles.requirements import programs_of
from ripieno.exceptions import RipienoError
from ripieno.origins.settings import locate_program
from ripieno.sandbox.processes import clean_environment

_Need = TypeVar("_Need", NeededVariable, NeededProgram)


def find_origins(names: Iterable[str], registry: Registry) -> Iterator[Origin]:
    """The named origins. Skips those that cannot be loaded: ``check`` and every start report them."""
    for name in names:
        with contextlib.suppress(RipienoError):
            yield registry.resolve("origins", name)


def needs_of(
    descriptor: EnsembleDescriptor,
    registry: Registry,
    list_needs: Callable[[Origin, EnsembleDescriptor], Iterable[_Need]],
) -> Iterator[_Need]:
    """The needs of the origins of an ensemble, for its enabled tools."""
    for origin in find_origins(needed_origins(descriptor), registry):
        for need in list_needs(origin, descriptor):
            if need.invoker is None or need.invoker.enabled:
                yield need


def missing_programs(descriptor: EnsembleDescriptor, registry: Registry) -> Iterator[tuple[NeededProgram, str, str]]:
    """The programs that are not found, each with the reason, and what to do.

    Those under ``requires`` are not among them: without one, the tool is left out, with the reason.
    """
    for need in needs_of(descriptor, registry, needed_programs):
        required = [*descriptor.requires, *(() if need.invoker is None else need.invoker.policy.requires)]
        found = None if need.replaced or need.argv[0] in programs_of(required) else _diagnose(descriptor, need)
        if found is not None:
            yield need, *found


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
