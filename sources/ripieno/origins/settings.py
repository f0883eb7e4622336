"""What the built-in origins share: kinds of settings with templates, and how settings are read and complained about."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor
from ripieno.descriptors.reader.alternatives import TemplateText
from ripieno.descriptors.reader.kinds import INVALID, Named, Text
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems, Source
from ripieno.descriptors.templates import ArgvTemplate, Complaint, Template
from ripieno.ensembles import Surroundings
from ripieno.exceptions import ConfigurationInvalidity, ConnectionFailure, Problem

Settings = TypeVar("Settings")
#: Reads the settings of one invoker that stand at a path; None after what is wrong was added.
InvocableReader: TypeAlias = Callable[[EnsembleDescriptor, InvokerDescriptor, Path, Problems], Settings | None]

#: A folder beneath another one.
FOLDER = Text(
    pattern=r"(?!/)(?!(?:[^\x00]*/)?\.\.(?:/|$))[^\x00-\x1f\\]+", shape="a relative path of a folder, without .."
)
VARIABLE_NAME = Text(pattern=r"[A-Za-z_][A-Za-z0-9_]*", shape="the name of a variable")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Argv:
    """A program and its arguments, with places; kept parsed."""

    expected: str = (
        "a list that names a program and its arguments: strings, and tables with when and argv, or with each"
    )

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        template, complaints = ArgvTemplate.read(value)
        add_complaints(complaints, path, problems)
        return INVALID if template is None else template

    def schema(self) -> dict[str, Any]:
        strings = {"type": "array", "items": {"type": "string"}, "minItems": 1}
        when = {
            "type": "object",
            "properties": {
                "when": {"type": "string", "description": "An argument; when absent, null or false, nothing is added."},
                "argv": {**strings, "description": "The elements that are added otherwise."},
            },
            "required": ["when", "argv"],
            "additionalProperties": False,
        }
        each = {
            "type": "object",
            "properties": {
                "each": {"type": "string", "description": "An argument that is a list: one element for each item."}
            },
            "required": ["each"],
            "additionalProperties": False,
        }
        return {
            "type": "array",
            "prefixItems": [{"type": "string"}],
            "items": {"anyOf": [{"type": "string"}, when, each]},
            "minItems": 1,
        }


ENVIRONMENT = Named(name=VARIABLE_NAME, kind=TemplateText(variables=True), expected="a table of variables")


def add_complaints(complaints: Iterable[Complaint], path: Path, problems: Problems) -> None:
    """Adds what is wrong with the template that stands at ``path``."""
    for complaint in complaints:
        problems.add((*path, *complaint.path), complaint.message, complaint.hint)


def check_invocables(
    origin: str, descriptor: EnsembleDescriptor, read: InvocableReader[Settings]
) -> tuple[Problem, ...]:
    """What is wrong with the invokers of an origin; keys lead from the file in which each stands."""
    found: list[Problem] = []
    for invoker, path in descriptor.located():
        if invoker.invocable.origin == origin:
            problems = Problems(Source(file=invoker.file))
            read(descriptor, invoker, (*path, "invocable"), problems)
            found.extend(problems.finished())
    return tuple(found)


def read_invocable(
    descriptor: EnsembleDescriptor, invoker: InvokerDescriptor, read: InvocableReader[Settings]
) -> Settings:
    """The settings of one invoker. Errors: ``ConfigurationInvalidity``, for whoever did not check before."""
    problems = Problems(Source(file=invoker.file))
    settings = read(descriptor, invoker, ("invocable",), problems)
    if settings is None:
        raise ConfigurationInvalidity(problems.finished())
    return settings


def check_connection(
    origin: str, descriptor: EnsembleDescriptor, read: Callable[[EnsembleDescriptor, Problems], object]
) -> tuple[Problem, ...]:
    """What is wrong with ``[connection]``, when it is this origin's."""
    if descriptor.connection is None or descriptor.connection.origin != origin:
        return ()
    problems = Problems(Source(file=descriptor.file))
    read(descriptor, problems)
    return problems.finished()


def check_program(program: str, descriptor: EnsembleDescriptor, path: Path, problems: Problems) -> None:
    """A relative program must be beneath the descriptor's folder; files of a workspace never pass for programs."""
    if "/" not in program or program.startswith("/"):
        return
    if ".." in program.split("/"):
        problems.add(path, f"{program} leads out of this file's folder", "Name it by its whole path.")
    elif descriptor.folder is None:
        problems.add(path, f"{program} needs a folder, and this ensemble has no file", "Name it by its whole path.")


def locate_program(program: str, folder: str | None) -> str:
    """A checked program as it is started: a relative path begins at the descriptor's folder."""
    return os.path.join(folder or "/", program) if "/" in program else program


def require_variables(ensemble: str, templates: Iterable[Template], surroundings: Surroundings) -> None:
    """Errors: ``ConnectionFailure`` that names every variable which templates need and nobody set."""
    needed = {name for template in templates for name in template.variables}
    missing = sorted(needed - surroundings.secrets.keys())
    if missing:
        several = len(missing) > 1
        names = ", ".join(missing)
        reason = f"the variable{'s' if several else ''} {names} {'are' if several else 'is'} needed, and not set."
        raise ConnectionFailure(ensemble, reason, hint=advise_setting(missing, surroundings))


def advise_setting(missing: Sequence[str], surroundings: Surroundings) -> str:
    """What to do about variables that are not there."""
    advice = f"Set {'them' if len(missing) > 1 else 'it'} in the environment."
    hidden = [name for name in missing if not surroundings.allows(name)]
    if hidden:
        advice += f" Only what allow under [environment] names is seen: add {', '.join(hidden)} to it."
    return advice
