"""What is allowed in a descriptor and still makes a tool worse for a model or a person: warnings of ``check``."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any

from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor
from ripieno.descriptors.loading import locate, read_toml
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import dotted
from ripieno.exceptions import ConfigurationInvalidity, Problem
from ripieno.jsonvalues import is_table
from ripieno.toolset import DATA

#: A verb and what it is done to, in lower case: ``read_file``.
_VERB_NOUN = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+\Z")


def lint(descriptors: Iterable[EnsembleDescriptor]) -> tuple[Problem, ...]:
    """The warnings about these ensembles, with their lines."""
    return locate(problem for descriptor in descriptors for problem in _lint_ensemble(descriptor))


def _lint_ensemble(descriptor: EnsembleDescriptor) -> Iterator[Problem]:
    file = _mapping(descriptor.file)
    # What comes with the package has the names that agents know already.
    ours = descriptor.file is not None and FilePath(descriptor.file).resolve().is_relative_to(DATA.resolve())
    if not descriptor.description:
        hint = "Say in a line what it is for: description = ..."
        yield _warning(descriptor.file, ("ensemble",), f"the ensemble {descriptor.name!r} has no description", hint)
    for index, invoker in enumerate(descriptor.invokers):
        inline = invoker.file == descriptor.file
        header: Path = ("invokers", index) if inline else ("invoker",)
        if not ours and not _VERB_NOUN.match(invoker.name):
            hint = "Models choose better between names such as read_file: a verb, and what it is done to."
            yield _warning(invoker.file, (*header, "name"), f"the name {invoker.name!r} is not verb_noun", hint)
        yield from _lint_parameters(invoker, ("invokers", index) if inline else ())
        if not _declares_effect(file, invoker, index, inline=inline):
            message = f"{invoker.name!r} declares no effect, so it counts as a write and asks before each call"
            hint = 'Add effect = "none", "read", "write" or "destructive" to it, or to [defaults].'
            yield _warning(invoker.file, header, message, hint)


# That an invoker has no description is an error already.
def _lint_parameters(invoker: InvokerDescriptor, body: Path) -> Iterator[Problem]:
    properties: Any = invoker.arguments.get("properties", {})
    for name, schema in properties.items():
        if name not in invoker.policy.presets and not _described(schema):
            at = (*body, "arguments", "properties", name)
            message = f"the parameter {name!r} of {invoker.name!r} has no description"
            yield _warning(invoker.file, at, message, 'Add description = "...": what it means, in which unit.')


def _described(schema: Any) -> bool:
    # What a reference names may describe itself.
    return is_table(schema) and bool(schema.get("description") or "$ref" in schema)


def _declares_effect(file: Mapping[str, Any], invoker: InvokerDescriptor, index: int, *, inline: bool) -> bool:
    """Whether some file says what it does to the world; the descriptor itself has the default all the same."""
    if invoker.policy.effect != "write" or "effect" in file.get("defaults", {}):
        return True
    if not inline:
        return "effect" in _mapping(invoker.file).get("invoker", {})
    items = file.get("invokers", ())
    return index < len(items) and "effect" in items[index]


def _mapping(file: str | None) -> Mapping[str, Any]:
    """What a file says, or nothing where there is none (an ensemble that stands in a configuration)."""
    try:
        return {} if file is None else read_toml(FilePath(file)).mapping
    except ConfigurationInvalidity:
        return {}


def _warning(file: str | None, path: Path, message: str, hint: str) -> Problem:
    return Problem(message=message, file=file, key=dotted(path), hint=hint, severity="warning")
