"""The checks of ``check`` and ``doctor``. To add one, write a function and list it here."""

from collections.abc import Iterator

from ripieno.cli.check.descriptors import check_descriptors
from ripieno.cli.check.functions import check_functions
from ripieno.cli.check.gateway import check_gateway
from ripieno.cli.check.models import check_models, check_schemas
from ripieno.cli.check.needs import check_programs, check_variables
from ripieno.cli.common.findings import Check, Subject
from ripieno.cli.common.rules import check_names, check_replaced, check_rules
from ripieno.ensembles import Origin
from ripieno.ensembles.opener import needed_origins
from ripieno.ensembles.origin import check_origin
from ripieno.exceptions import ConfigurationInvalidity, Problem, RipienoError


def check_failures(subject: Subject) -> Iterator[Problem]:
    """Errors that prevent every command from starting."""
    for failure in subject.loaded.failures:
        if isinstance(failure, ConfigurationInvalidity):
            yield from failure.problems
        else:
            yield Problem(message=str(failure))


def check_loading(subject: Subject) -> Iterator[Problem]:
    """Warnings from loading."""
    yield from subject.loaded.warnings


def check_origins(subject: Subject) -> Iterator[Problem]:
    """Errors that origins report about readable ensembles."""
    for descriptor in subject.descriptors:
        for name in needed_origins(descriptor):
            try:
                origin: Origin = subject.loaded.registry.resolve("origins", name)
            except RipienoError as error:
                yield Problem(message=f"ensemble {descriptor.name!r}: {error}", file=descriptor.file)
            else:
                yield from check_origin(origin, descriptor)


#: The checks of ensemble files.
OF_ENSEMBLES: tuple[Check, ...] = (
    check_origins,
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
    check_schemas,
    check_models,
    check_gateway,
)
#: The warnings in ``doctor``, for enabled ensembles.
OF_DOCTOR: tuple[Check, ...] = (check_loading, check_programs)
