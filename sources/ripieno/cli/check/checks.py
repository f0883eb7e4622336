"""The checks of ``check`` and ``doctor``. To add one, write a function and list it here."""

import functools
from collections.abc import Iterator

from ripieno.assembly.availability import absence, disabled
from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.assembly.failures import check_origins, find_unmatched
from ripieno.assembly.selection import applied_profile, place_in
from ripieno.cli.check.descriptors import check_arguments, check_descriptors
from ripieno.cli.check.functions import check_functions
from ripieno.cli.check.models import check_keys, check_models, check_schemas
from ripieno.cli.check.needs import check_durable, check_journal, check_programs, check_state, check_variables
from ripieno.cli.common.findings import Check, Subject, check_names, check_replaced, check_rules, finding
from ripieno.cli.common.group import COMMANDS
from ripieno.descriptors.gateway import CREATE_SECRET, SECRET_BYTES, store_fault
from ripieno.descriptors.loading.unknown_names import file_of
from ripieno.descriptors.names import split
from ripieno.descriptors.reader.alternatives import variables_in
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import dotted, spelling
from ripieno.descriptors.templates import Template
from ripieno.ensembles import Surroundings
from ripieno.exceptions import Problem
from ripieno.origins.settings import advise_setting, why_missing


def check_failures(subject: Subject) -> Iterator[Problem]:
    """Errors that prevent every command from starting, and those of origins in the same files."""
    yield from subject.problems
    yield from check_origins(subject.loaded.unreadable, subject.loaded.registry, reported=subject.problems)


def check_loading(subject: Subject) -> Iterator[Problem]:
    """Warnings from loading."""
    yield from subject.loaded.warnings


def check_commands(subject: Subject) -> Iterator[Problem]:
    """Warnings about commands of plugins that have the name of one of our own."""
    for name, path in subject.loaded.registry.commands.items():
        if name in COMMANDS:
            message = f"the command {name!r} of a plugin is not used: ripieno has one of this name"
            yield Problem(
                message=message, hint=f"It is {path}. Its plugin can give it another name.", severity="warning"
            )


def check_readable(subject: Subject) -> Iterator[Problem]:
    """Errors that origins report about readable ensembles."""
    return check_origins(subject.descriptors, subject.loaded.registry)


def check_agents(subject: Subject) -> tuple[Problem, ...]:
    """Errors for patterns under ``tools`` of an agent that match no tool, also of ensembles that are not enabled."""
    return find_unmatched(subject.loaded, explain=functools.partial(absence, subject.loaded))


def check_profiles(subject: Subject) -> Iterator[Problem]:
    """Warnings about ensembles of profiles that do not exist. Those of the selected profile prevent a start."""
    loaded = subject.loaded
    known = {*loaded.known, *loaded.unread}
    for name, profile in loaded.profiles.items():
        if name != applied_profile(loaded.configuration):
            for key, names in (("ensembles", profile.ensembles), ("configurable", profile.configurable)):
                for index, one in enumerate(names):
                    if one not in known and profile.layer != "package":
                        message = f"the profile {name!r} names the ensemble {one!r}, which does not exist"
                        hint = spelling(one, loaded.known) or "To list the ensembles: ripieno ensembles"
                        yield finding(profile.file, ("profile", key, index), message, hint)


def check_disabled(subject: Subject) -> Iterator[Problem]:
    """Warnings about ensembles that the configuration names, and that their own files disable."""
    loaded = subject.loaded
    for name, why in disabled(loaded).items():
        file, path = place_in(loaded.parts, name) or (None, ("ensembles",))
        message = f"[ensembles] names the ensemble {name!r}, which is disabled: {why.removesuffix('.')}"
        yield finding(file, path, message, "Delete that line to load it, or this name.")


def check_gateway(subject: Subject) -> Iterator[Problem]:
    """Problems that `ripieno serve responses` refuses. The variable and the model may still be given for serving."""
    yield from _unknown_ensembles(subject.loaded)
    if not subject.loaded.failures:
        fault = store_fault(subject.loaded.configuration.gateway)
        if fault is not None:
            key, why, advice = fault
            yield _problem(subject.loaded, ("gateway", key), why, f"{advice}.")
        yield from _missing_model(subject.loaded)
        yield from _unknown_tools(subject.loaded)
        yield from _unusable_secret(subject.loaded, subject.surroundings)


def _unknown_ensembles(loaded: LoadedConfiguration) -> Iterator[Problem]:
    gateway = loaded.configuration.gateway
    named: list[tuple[Path, str]] = []
    for key, names in (("ensembles", gateway.ensembles), ("mcp", gateway.mcp)):
        named += [(("gateway", key, index), name) for index, name in enumerate(names)]
    named += [(("gateway", "hosted", kind), split(identity)[0]) for kind, identity in gateway.hosted.items()]
    # After a failure, the selection may be incomplete.
    enabled = [*loaded.known, *loaded.unread] if loaded.failures else [one.name for one in loaded.ensembles]
    for path, name in named:
        if name not in enabled:
            message = f"{dotted(path)} names the ensemble {name!r}, which is not enabled"
            hint = absence(loaded, name) or spelling(name, loaded.known) or "To list the ensembles: ripieno ensembles"
            yield _problem(loaded, path, message, hint)


def _unknown_tools(loaded: LoadedConfiguration) -> Iterator[Problem]:
    """Errors for tools that an ensemble lacks. The tools of a connection are unknown until it is connected."""
    descriptors = {descriptor.name: descriptor for descriptor in loaded.ensembles}
    for kind, identity in loaded.configuration.gateway.hosted.items():
        ensemble, tool = split(identity)
        descriptor = descriptors.get(ensemble)
        if descriptor is None or descriptor.connection is not None:
            continue
        tools = [invoker.name for invoker in descriptor.invokers if invoker.enabled]
        if tool not in tools:
            path: Path = ("gateway", "hosted", kind)
            message = f"{dotted(path)} names the tool {tool!r}, which {ensemble!r} does not have"
            near = spelling(identity, [f"{ensemble}.{one}" for one in tools])
            yield _problem(loaded, path, message, near or f"To list its tools: ripieno tools --ensemble {ensemble}")


def _unusable_secret(loaded: LoadedConfiguration, surroundings: Surroundings) -> Iterator[Problem]:
    path: Path = ("gateway", "secret")
    secret = loaded.configuration.gateway.secret
    names = variables_in(secret)
    lacking = [name for name in names if not surroundings.secrets.get(name)]
    for name in lacking:
        message = f"the variable {name} {why_missing([name], surroundings)}, and is needed by {dotted(path)}"
        yield _problem(loaded, path, message, advise_setting([name], surroundings), "warning")
    if names and not lacking:
        length = len(Template.parse(secret, variables=True).header({}, surroundings.secrets).encode())
        if length < SECRET_BYTES:
            which = f"with the value of {' and '.join(names)}, {dotted(path)}"
            yield _problem(
                loaded, path, f"{which} has {length} bytes: it needs {SECRET_BYTES} or more", f"{CREATE_SECRET}."
            )


def _missing_model(loaded: LoadedConfiguration) -> Iterator[Problem]:
    configuration = loaded.configuration
    gateway = configuration.gateway
    if file_of(loaded.parts, ("gateway",)) and not (gateway.models or gateway.map or configuration.model):
        hint = 'Add models = ["provider/model"] to it, or start it with --model provider/model.'
        yield _problem(loaded, ("gateway",), "the gateway has no model to serve", hint, "warning")


def _problem(loaded: LoadedConfiguration, path: Path, message: str, hint: str, severity: str = "error") -> Problem:
    return finding(file_of(loaded.parts, path), path, message, hint, severity)


#: The checks of ensemble files.
OF_ENSEMBLES: tuple[Check, ...] = (
    check_readable,
    check_functions,
    check_programs,
    check_descriptors,
    check_arguments,
    check_replaced,
    check_variables,
)
#: The checks of a whole configuration with its ensembles.
OF_CONFIGURATIONS: tuple[Check, ...] = (
    check_failures,
    check_loading,
    check_commands,
    *OF_ENSEMBLES,
    check_names,
    check_rules,
    check_agents,
    check_profiles,
    check_disabled,
    check_schemas,
    check_models,
    check_keys,
    check_journal,
    check_state,
    check_durable,
    check_gateway,
)
#: The warnings in ``doctor``, for enabled ensembles.
OF_DOCTOR: tuple[Check, ...] = (check_loading, check_programs, check_keys)
