"""The checks of ``check`` and ``doctor``. To add one, write a function and list it here."""

from collections.abc import Iterator

from ripieno.assembly.availability import absence
from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.assembly.failures import check_origins
from ripieno.cli.check.agents import check_agents
from ripieno.cli.check.descriptors import check_descriptors
from ripieno.cli.check.functions import check_functions
from ripieno.cli.check.models import check_keys, check_models, check_schemas
from ripieno.cli.check.needs import check_programs, check_variables
from ripieno.cli.common.findings import Check, Subject, check_names, check_replaced, check_rules, finding
from ripieno.descriptors.loading.unknown_names import file_of
from ripieno.descriptors.names import split
from ripieno.descriptors.reader.alternatives import variables_in
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import dotted, spelling
from ripieno.ensembles import Surroundings
from ripieno.exceptions import Problem
from ripieno.origins.settings import advise_setting


def check_failures(subject: Subject) -> Iterator[Problem]:
    """Errors that prevent every command from starting, and those of origins in the same files."""
    yield from subject.problems
    yield from check_origins(subject.loaded.unreadable, subject.loaded.registry, reported=subject.problems)


def check_loading(subject: Subject) -> Iterator[Problem]:
    """Warnings from loading."""
    yield from subject.loaded.warnings


def check_readable(subject: Subject) -> Iterator[Problem]:
    """Errors that origins report about readable ensembles."""
    return check_origins(subject.descriptors, subject.loaded.registry)


def check_gateway(subject: Subject) -> Iterator[Problem]:
    """Problems that `ripieno serve responses` refuses. The variable and the model may still be given for serving."""
    if not subject.loaded.failures:
        yield from _missing_model(subject.loaded)
        yield from _unknown_ensembles(subject.loaded)
        yield from _unknown_tools(subject.loaded)
        yield from _missing_secret(subject.loaded, subject.surroundings)


def _unknown_ensembles(loaded: LoadedConfiguration) -> Iterator[Problem]:
    gateway = loaded.configuration.gateway
    named: list[tuple[Path, str]] = []
    for key, names in (("ensembles", gateway.ensembles), ("mcp", gateway.mcp)):
        named += [(("gateway", key, index), name) for index, name in enumerate(names)]
    named += [(("gateway", "hosted", kind), split(identity)[0]) for kind, identity in gateway.hosted.items()]
    enabled = [descriptor.name for descriptor in loaded.ensembles]
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


def _missing_secret(loaded: LoadedConfiguration, surroundings: Surroundings) -> Iterator[Problem]:
    path: Path = ("gateway", "secret")
    for name in variables_in(loaded.configuration.gateway.secret):
        if not surroundings.secrets.get(name):
            message = f"the variable {name} is not set, and is needed by {dotted(path)}"
            yield _problem(loaded, path, message, advise_setting([name], surroundings), "warning")


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
    check_replaced,
    check_variables,
)
#: The checks of a whole configuration with its ensembles.
OF_CONFIGURATIONS: tuple[Check, ...] = (
    check_failures,
    check_loading,
    *OF_ENSEMBLES,
    check_names,
    check_rules,
    check_agents,
    check_schemas,
    check_models,
    check_keys,
    check_gateway,
)
#: The warnings in ``doctor``, for enabled ensembles.
OF_DOCTOR: tuple[Check, ...] = (check_loading, check_programs)
