"""What commands share that serve other programs: what is approved, which key, and what is logged.

Where the workers of a gateway count together, so that each of them can tell the sum of all.
"""

import contextlib
import dataclasses
import importlib
import logging
import os
import shutil
import tempfile
import traceback
from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

import click

from ripieno.assembly import Assembly
from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.cli.common.main import say
from ripieno.cli.common.options import Settings
from ripieno.descriptors import GatewayDescriptor
from ripieno.descriptors.rules import Pattern
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import InputError

#: The variable by which the library that counts is told of the folder, before it is imported.
_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


@contextlib.contextmanager
def counting_together(chosen: GatewayDescriptor) -> Generator[None, None, None]:
    """A folder for all workers that are forked inside; it goes with whoever made it.

    There is none where nobody counts, and where whoever runs this has named one.
    """
    from ripieno.servers.gateway.request_log import is_countable

    if not chosen.metrics or not is_countable() or os.environ.get(_VARIABLE):
        yield
        return
    maker = os.getpid()
    folder = tempfile.mkdtemp(prefix="ripieno-metrics-")
    os.environ[_VARIABLE] = folder
    try:
        # What all workers need is imported once.
        importlib.import_module("ripieno.servers.gateway.metrics")
        yield
    finally:
        if os.getpid() == maker:
            del os.environ[_VARIABLE]
            shutil.rmtree(folder, ignore_errors=True)


Command = TypeVar("Command", bound=Callable[..., Any])


def approvable(command: Command) -> Command:
    """Adds ``--approve``; the command gets it as ``approve``."""
    return click.option(
        "--approve",
        metavar="PATTERN",
        multiple=True,
        help="Approve calls that nobody could be asked about, such as io.write_file or 'io.*'. "
        "A tool that can destroy is approved by its full name only.",
    )(command)


def read_key(variable: str | None) -> str | None:
    """The key that a variable of the environment has, if one is named. Errors: ``InputError`` where it has none."""
    if variable is None:
        return None
    key = os.environ.get(variable, "")
    if not key:
        raise InputError(f"The variable {variable} is to have the key, and is not set. Try: export {variable}=...")
    return key


def approving(loaded: LoadedConfiguration, approve: Sequence[str]) -> LoadedConfiguration:
    """The same with what the command line approves."""
    rules = loaded.configuration.confirmation
    rules = dataclasses.replace(rules, approve=(*rules.approve, *approve))
    return dataclasses.replace(loaded, configuration=dataclasses.replace(loaded.configuration, confirmation=rules))


def leave_input() -> None:
    """Nothing is read from here on: a tool would wait for whoever is at the terminal, who does not know of it."""
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)


def check_approvals(assembly: Assembly, approve: Sequence[str]) -> None:
    """Errors: ``NameAbsence`` for a pattern that fits no tool: a misspelt one approves nothing."""
    if approve:
        Offer.of(assembly.ensembles, tools=[Pattern.parse(one).tool for one in approve])


class _Saying(logging.Handler):
    """Says what the libraries log, so that nothing in it can act on a terminal."""

    def __init__(self, *, debug: bool) -> None:
        super().__init__(logging.INFO if debug else logging.WARNING)
        self._debug = debug

    def emit(self, record: logging.LogRecord) -> None:
        say(f"! {record.name}: {record.getMessage()}")
        if record.exc_info is not None and record.exc_info[1] is not None:
            error = record.exc_info[1]
            say("".join(traceback.format_exception(error)) if self._debug else f"! {type(error).__name__}: {error}")


def report_logs(settings: Settings) -> None:
    """Says what libraries log: warnings, and more with ``--debug``."""
    logging.getLogger().addHandler(_Saying(debug=settings.debug))
    if settings.debug:
        logging.getLogger("mcp").setLevel(logging.INFO)
