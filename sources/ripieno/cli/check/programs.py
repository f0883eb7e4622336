"""Programs that descriptors name and that are not here: warnings of ``check``, which starts none of them."""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ripieno.descriptors import EnsembleDescriptor
from ripieno.descriptors.loading import locate
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import dotted
from ripieno.descriptors.templates import ArgvTemplate
from ripieno.ensembles.requirements import programs_of
from ripieno.exceptions import Problem
from ripieno.jsonvalues import is_list, is_table
from ripieno.origins.settings import locate_program
from ripieno.sandbox.processes import clean_environment


def find_missing_programs(descriptors: Iterable[EnsembleDescriptor]) -> tuple[Problem, ...]:
    """The warnings about programs that would not be found now, with their lines.

    What says that it requires its program is left out without it, with the reason, and needs no warning.
    """
    return locate(problem for descriptor in descriptors if descriptor.enabled for problem in _missing(descriptor))


def _missing(descriptor: EnsembleDescriptor) -> Iterator[Problem]:
    connection = descriptor.connection
    required = set(programs_of(descriptor.requires))
    if connection is not None and connection.origin == "mcp":
        command: Any = connection.settings.get("command")
        program = command[0] if is_list(command) and command else None
        # That server is started with our own interpreter where there is none of that name.
        if isinstance(program, str) and program != "python" and program not in required:
            at: Path = ("connection", "command", 0)
            yield from _look(descriptor, descriptor.file, at, program, connection.settings)
    for index, invoker in enumerate(descriptor.invokers):
        if invoker.invocable.origin == "command" and invoker.enabled:
            template, _ = ArgvTemplate.read(invoker.invocable.settings.get("argv"))
            inline = invoker.file == descriptor.file
            at = (*(("invokers", index) if inline else ()), "invocable", "argv", 0)
            # An argv that cannot be read is the origin's to complain about.
            if template is not None and template.program not in {*required, *programs_of(invoker.policy.requires)}:
                yield from _look(descriptor, invoker.file, at, template.program, invoker.invocable.settings)


def _look(
    descriptor: EnsembleDescriptor, file: str | None, at: Path, program: str, settings: Mapping[str, Any]
) -> Iterator[Problem]:
    environment: Any = settings.get("environment", {})
    if "/" in program:
        # A relative one without a folder is the origin's to complain about.
        if program.startswith("/") or descriptor.folder is not None:
            path = os.path.normpath(locate_program(program, descriptor.folder))
            if not os.path.isfile(path):
                yield _warning(file, at, f"there is no program {path}", "Mend the path, or put the program there.")
            elif not os.access(path, os.X_OK):
                yield _warning(file, at, f"{path} may not be executed", f"Allow it: chmod +x {path}")
    # What a PATH of its own says is known only when it starts.
    elif not (is_table(environment) and "PATH" in environment) and not shutil.which(program, path=_path()):
        hint = "Install it, add its folder to PATH, or name it by its whole path."
        yield _warning(file, at, f"there is no program {program!r} in any folder of PATH", hint)


def _path() -> str:
    """The folders in which programs of descriptors are looked for."""
    return clean_environment()["PATH"]


def _warning(file: str | None, path: Path, message: str, hint: str) -> Problem:
    return Problem(message=message, file=file, key=dotted(path), hint=hint, severity="warning")
