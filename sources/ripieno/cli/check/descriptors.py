"""Warnings about valid descriptors that are hard to use for a model or a person."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any

from ripieno.assembly.failures import check_origins
from ripieno.assembly.programs import find_origins
from ripieno.cli.common.findings import Subject, finding
from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor
from ripieno.descriptors.argument_schemas import check_value
from ripieno.descriptors.command_words import is_shell, program_texts
from ripieno.descriptors.loading import read_toml
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.templates import ArgvTemplate
from ripieno.ensembles.opener import needed_origins
from ripieno.ensembles.origin import unused_arguments
from ripieno.exceptions import ConfigurationInvalidity, Problem
from ripieno.jsonvalues import is_table
from ripieno.toolset import DATA

#: A verb and its object, in lower case: ``read_file``.
_VERB_NOUN = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+\Z")


def check_arguments(subject: Subject) -> Iterator[Problem]:
    """A warning for each declared argument that a tool does not use."""
    for descriptor in subject.descriptors:
        if any(check_origins([descriptor], subject.loaded.registry)):
            continue  # A template with an error has no arguments.
        places = {id(invoker): body for invoker, body in descriptor.located()}
        for origin in find_origins(needed_origins(descriptor), subject.loaded.registry):
            for invoker, name in unused_arguments(origin, descriptor):
                at = (*places[id(invoker)], "arguments", "properties", name)
                message = f"the argument {name!r} of {invoker.name!r} is used nowhere, so its value has no effect"
                yield finding(invoker.file, at, message, f"Write {{{name}}} under invocable, or delete the argument.")


def check_descriptors(subject: Subject) -> Iterator[Problem]:
    """Warnings about names, descriptions and effects."""
    for descriptor in subject.descriptors:
        file = _mapping(descriptor.file)
        # Only authors can rename tools: not the users of a plugin, and bundled ones have names that models know.
        foreign = descriptor.layer.startswith("plugin ") or (
            descriptor.file is not None and FilePath(descriptor.file).resolve().is_relative_to(DATA.resolve())
        )
        if not descriptor.description:
            hint = "Describe its purpose in one line: description = ..."
            yield finding(descriptor.file, ("ensemble",), f"the ensemble {descriptor.name!r} has no description", hint)
        if not foreign:
            yield from _lint_names(descriptor)
        for invoker, body in descriptor.located():
            header = body or ("invoker",)
            yield from _lint_parameters(invoker, body)
            yield from _lint_program_texts(invoker, body)
            if not _declares_effect(file, invoker, body):
                message = f"{invoker.name!r} declares no effect, so it counts as a write and asks before each call"
                hint = 'Add effect = "none", "read", "write" or "destructive" to it, or to [defaults].'
                yield finding(invoker.file, header, message, hint)


# The form is that of seed 000, section 9.1. It is a recommendation, so one warning has all names.
def _lint_names(descriptor: EnsembleDescriptor) -> Iterator[Problem]:
    others = [(invoker, body) for invoker, body in descriptor.located() if not _VERB_NOUN.match(invoker.name)]
    if others:
        first, body = others[0]
        message = f"not verb_noun: {', '.join(invoker.name for invoker, _ in others)}"
        hint = "Models choose better between names of a verb and its object, such as read_file."
        yield finding(first.file, (*(body or ("invoker",)), "name"), message, hint)


# That an invoker has no description is an error already.
def _lint_parameters(invoker: InvokerDescriptor, body: Path) -> Iterator[Problem]:
    properties: Any = invoker.arguments.get("properties", {})
    for name, schema in properties.items():
        if is_table(schema) and "default" in schema:
            at = (*body, "arguments", "properties", name, "default")
            for message, hint in check_value(invoker.arguments, name, schema["default"], "default"):
                yield finding(invoker.file, at, f"the default does not fit its argument: {message}", hint)
        # The target of a reference may have a description.
        described = is_table(schema) and (schema.get("description") or "$ref" in schema)
        if name not in invoker.policy.presets and not described:
            at = (*body, "arguments", "properties", name)
            message = f"the parameter {name!r} of {invoker.name!r} has no description"
            yield finding(invoker.file, at, message, 'Add description = "..." with its meaning and unit.')


# The whole text as an argument, as in ["sh", "-c", "{command}"], is a tool for code, and its author knows.
def _lint_program_texts(invoker: InvokerDescriptor, body: Path) -> Iterator[Problem]:
    template, _ = ArgvTemplate.read(invoker.invocable.settings.get("argv"))
    if invoker.invocable.origin != "command" or template is None:
        return
    words = template.templates
    for at, program in program_texts([one.literal or "" for _, one in words]):
        place, text = words[at]
        if text.placeholders and len(text.parts) > 1:
            name = text.placeholders[0]
            message = f"{{{name}}} is inside a text that {program} runs, so its value is run as code"
            hint = (
                f'Pass it as an argument of the text: argv = ["sh", "-c", "echo \\"$1\\" | wc", "sh", "{{{name}}}"]'
                if is_shell(program)
                else f'Pass it as an element after the text, which reads its arguments: argv = [..., "{{{name}}}"]'
            )
            yield finding(invoker.file, (*body, "invocable", "argv", *place), message, hint)


def _declares_effect(file: Mapping[str, Any], invoker: InvokerDescriptor, body: Path) -> bool:
    """Whether a file declares the effect. The descriptor itself always has one, the default."""
    if invoker.policy.effect != "write" or "effect" in file.get("defaults", {}):
        return True
    if not body:
        return "effect" in _mapping(invoker.file).get("invoker", {})
    items, index = file.get("invokers", ()), int(body[1])
    return index < len(items) and "effect" in items[index]


def _mapping(file: str | None) -> Mapping[str, Any]:
    """The content of a file; empty for an ensemble within a configuration."""
    try:
        return {} if file is None else read_toml(FilePath(file)).mapping
    except ConfigurationInvalidity:
        return {}
