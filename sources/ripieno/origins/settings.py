"""Shared code of the built-in origins: kinds of settings with templates, and their reading and checking."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from frozendict import frozendict

from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor
from ripieno.descriptors.reader.alternatives import TemplateText
from ripieno.descriptors.reader.keys import Table
from ripieno.descriptors.reader.kinds import INVALID, Named, Text, refuse
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems, Source, undotted
from ripieno.descriptors.templates import ArgvTemplate, Complaint, Template
from ripieno.ensembles import Surroundings
from ripieno.exceptions import ConfigurationInvalidity, ConnectionFailure, InputError, Problem
from ripieno.values import Value

Settings = TypeVar("Settings")
#: Reads the settings of one invoker at a path, and adds their problems; None where they cannot be read.
InvocableReader: TypeAlias = Callable[[EnsembleDescriptor, InvokerDescriptor, Path, Problems], Settings | None]

#: A folder beneath another one.
FOLDER = Text(
    pattern=r"(?!/)(?!(?:[^\x00]*/)?\.\.(?:/|$))[^\x00-\x1f\\]+", shape="a relative path of a folder, without .."
)
VARIABLE_NAME = Text(pattern=r"[A-Za-z_][A-Za-z0-9_]*", shape="the name of a variable")


class Argv(Value, kw_only=True):
    """A program and its arguments, with placeholders; stored parsed."""

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


class ParsedText(Value, kw_only=True):
    """A string in a format of its own, stored as ``parse`` returns it. ``parse`` raises ``InputError``."""

    expected: str
    parse: Callable[[str], Any]
    hint: str | None = None
    pattern: str | None = None

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if not isinstance(value, str):
            return refuse(self, value, path, problems)
        try:
            return self.parse(value)
        except InputError as error:
            problems.add(path, str(error), self.hint)
            return INVALID

    def schema(self) -> dict[str, Any]:
        return {"type": "string"} if self.pattern is None else {"type": "string", "pattern": self.pattern}


def _parse_variables(text: str) -> Template:
    template = Template.parse(text, variables=True)
    if template.placeholders:
        raise InputError(f"{{{template.placeholders[0]}}} is an argument; arguments are not allowed here")
    return template


#: A template without arguments.
VARIABLE_TEXT = ParsedText(
    expected="a string, with {env:NAME} where a variable goes",
    parse=_parse_variables,
    hint='Variables are "{env:NAME}"; write "{{" for a brace that is text.',
)
ENVIRONMENT = Named(VARIABLE_NAME, TemplateText(variables=True), expected="a table of variables")


def add_complaints(complaints: Iterable[Complaint], path: Path, problems: Problems) -> None:
    """Adds the defects of the template at ``path``."""
    for complaint in complaints:
        problems.add((*path, *complaint.path), complaint.message, complaint.hint)


def check_invocables(
    origin: str, descriptor: EnsembleDescriptor, read: InvocableReader[Settings]
) -> tuple[Problem, ...]:
    """The problems of an origin's invokers; their paths start in each invoker's file."""
    found: list[Problem] = []
    for invoker, path in descriptor.located():
        if invoker.invocable.origin == origin:
            at = (*path, "invocable")
            problems = Problems(Source(file=invoker.file))
            read(descriptor, invoker, at, problems)
            first = problems.finished()
            found.extend(first)
            # Without the keys that are refused, the others can be checked together: the reader sees which are lacking.
            refused = {undotted(one.key)[len(at)] for one in first if one.key and undotted(one.key)[:-1] == at}
            if refused:
                kept: frozendict[str, Any] = frozendict(
                    {key: one for key, one in invoker.invocable.settings.items() if key not in refused}
                )
                calling = dataclasses.replace(invoker.invocable, settings=kept)
                if read(descriptor, dataclasses.replace(invoker, invocable=calling), at, problems) is not None:
                    found.extend(problems.finished()[len(first) :])
    return tuple(found)


def read_invocable(
    descriptor: EnsembleDescriptor, invoker: InvokerDescriptor, read: InvocableReader[Settings]
) -> Settings:
    """The settings of one invoker. Errors: ``ConfigurationInvalidity``, if they were not checked before."""
    problems = Problems(Source(file=invoker.file))
    settings = read(descriptor, invoker, ("invocable",), problems)
    if settings is None or len(problems):
        raise ConfigurationInvalidity(problems.finished())
    return settings


def read_configuration(
    table: Table,
    configuration: Mapping[str, Any],
    complete: Callable[[Mapping[str, Any], Problems], None] | None = None,
    *,
    file: str | None = None,
) -> Mapping[str, Any]:
    """The keys of an ensemble's ``[configuration]``. ``complete`` takes the keys, and adds further problems.

    Errors: ``ConfigurationInvalidity`` with all problems; ``file`` names their place.
    """
    problems = Problems(Source(file=file))
    read = table.read(configuration, ("configuration",), problems)
    values: Mapping[str, Any] = {} if read is INVALID else read
    if complete is not None:
        complete(values, problems)
    if len(problems):
        raise ConfigurationInvalidity(problems.finished())
    return values


def check_connection(
    origin: str, descriptor: EnsembleDescriptor, read: Callable[[EnsembleDescriptor, Problems], object]
) -> tuple[Problem, ...]:
    """The problems of ``[connection]``, if it is this origin's."""
    if descriptor.connection is None or descriptor.connection.origin != origin:
        return ()
    problems = Problems(Source(file=descriptor.file))
    read(descriptor, problems)
    return problems.finished()


def check_program(program: str, descriptor: EnsembleDescriptor, path: Path, problems: Problems) -> None:
    """Checks that a relative program is beneath the descriptor's folder; files of a workspace are never programs."""
    if "/" not in program or program.startswith("/"):
        return
    if ".." in program.split("/"):
        problems.add(path, f"{program} is outside of this file's folder", "Use its absolute path.")
    elif descriptor.folder is None:
        problems.add(path, f"{program} needs a folder, but this ensemble has no file", "Use its absolute path.")


def locate_program(program: str, folder: str | None) -> str:
    """The path of a checked program; a relative path starts at the descriptor's folder."""
    return os.path.join(folder or "/", program) if "/" in program else program


def require_variables(ensemble: str, templates: Iterable[Template], surroundings: Surroundings) -> None:
    """Errors: ``ConnectionFailure`` with the name of every variable that templates need and that is not set."""
    needed = {name for template in templates for name in template.variables}
    missing = sorted(needed - surroundings.secrets.keys())
    if missing:
        reason = (
            f"the variable{'s' if len(missing) > 1 else ''} {', '.join(missing)} {why_missing(missing, surroundings)}."
        )
        raise ConnectionFailure(ensemble, reason, hint=advise_setting(missing, surroundings))


def why_missing(missing: Sequence[str], surroundings: Surroundings) -> str:
    """The reason why variables are missing, as the end of a sentence about them."""
    return f"{'are' if len(missing) > 1 else 'is'} {'not allowed' if _are_set(missing, surroundings) else 'not set'}"


def _are_set(missing: Sequence[str], surroundings: Surroundings) -> bool:
    """Whether all of them are set, and missing only because they are not allowed."""
    return all(name in os.environ and not surroundings.allows(name) for name in missing)


def advise_setting(missing: Sequence[str], surroundings: Surroundings) -> str:
    """Advice about missing variables."""
    if _are_set(missing, surroundings):
        be = "They are" if len(missing) > 1 else "It is"
        return f"{be} set, but only variables in allow under [environment] are read: add {', '.join(missing)} to it."
    advice = f"Set {'them' if len(missing) > 1 else 'it'}: export {' '.join(f'{name}=...' for name in missing)}"
    hidden = [name for name in missing if not surroundings.allows(name)]
    if hidden:
        advice += f" Only variables in allow under [environment] are read: add {', '.join(hidden)} to it."
    return advice
