"""Approvals, keys, logs and metrics of the serving commands."""

import contextlib
import dataclasses
import importlib
import logging
import os
import sys
import traceback
from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

import click

from ripieno.assembly import Assembly
from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.cli.common.main import say
from ripieno.cli.common.options import Number, Settings
from ripieno.descriptors import GatewayDescriptor
from ripieno.descriptors.rules import Pattern
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import InputError
from ripieno.sandbox.private_folder import PrivateFolder

#: The address that servers listen on if no other is given: only this machine reaches it.
HOST = "127.0.0.1"
Command = TypeVar("Command", bound=Callable[..., Any])
#: The variable with the metrics folder, which prometheus_client reads when it is imported.
_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


def listening(port: int) -> Callable[[Command], Command]:
    """The options --host and --port of a server, with its usual port."""

    def add(command: Command) -> Command:
        named = click.option(
            "--port",
            metavar="N",
            type=Number(0, 65535),
            default=port,
            show_default=True,
            help="The port; 0 for any free one.",
        )(command)
        return click.option(
            "--host", metavar="ADDRESS", default=HOST, show_default=True, help="The address to listen on."
        )(named)

    return add


@contextlib.contextmanager
def shared_metrics(chosen: GatewayDescriptor) -> Generator[None, None, None]:
    """A metrics folder for all workers that are forked inside the block; its creator removes it, or the next start.

    There is none without metrics, and if the operator has named a folder.
    """
    from ripieno.servers.gateway.request_log import is_countable

    if not chosen.metrics or not is_countable() or os.environ.get(_VARIABLE):
        yield
        return
    creator = os.getpid()
    folder = PrivateFolder()
    os.environ[_VARIABLE] = folder.path
    try:
        # Imported once for all workers.
        importlib.import_module("ripieno.servers.gateway.metrics")
        yield
    finally:
        if os.getpid() == creator:
            del os.environ[_VARIABLE]
            folder.close()


#: Adds ``--approve``; the command receives it as ``approve``.
approvable = click.option(
    "--approve",
    metavar="PATTERN",
    multiple=True,
    help="Approve calls of these tools, such as io.write_file or 'io.*'. Destructive tools need their full name.",
)


def read_key(variable: str | None) -> str | None:
    """The key in an environment variable, if one is named. Errors: ``InputError`` if it is not set."""
    if variable is None:
        return None
    key = os.environ.get(variable, "")
    if not key:
        raise InputError(f"The variable {variable}, which holds the key, is not set. Set it: export {variable}=...")
    return key


def approving(loaded: LoadedConfiguration, approve: Sequence[str]) -> LoadedConfiguration:
    """The configuration with the approvals of the command line."""
    rules = loaded.configuration.confirmation
    rules = dataclasses.replace(rules, approve=(*rules.approve, *approve))
    return dataclasses.replace(loaded, configuration=dataclasses.replace(loaded.configuration, confirmation=rules))


def report_starting() -> None:
    """Reports on a terminal that the server starts, which may take seconds."""
    if sys.stderr.isatty():
        say("Starting...")


def leave_input() -> None:
    """Replaces standard input by /dev/null, so that no tool waits for input from the terminal."""
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)


def check_approvals(assembly: Assembly, approve: Sequence[str]) -> None:
    """Errors: ``NameAbsence`` for a pattern that matches no tool, such as a misspelt one."""
    if approve:
        Offer.of(assembly.ensembles, tools=[Pattern.parse(one).tool for one in approve])


class _LogHandler(logging.Handler):
    """Writes log records of libraries to standard error, with control characters escaped."""

    def __init__(self, *, debug: bool) -> None:
        super().__init__(logging.INFO if debug else logging.WARNING)
        self._debug = debug

    def emit(self, record: logging.LogRecord) -> None:
        say(f"! {record.name}: {record.getMessage()}")
        if record.exc_info is not None and record.exc_info[1] is not None:
            error = record.exc_info[1]
            say("".join(traceback.format_exception(error)) if self._debug else f"! {type(error).__name__}: {error}")


@contextlib.contextmanager
def report_logs(settings: Settings) -> Generator[None, None, None]:
    """Reports what libraries log: warnings, and more with ``--debug``."""
    handler, root, mcp = _LogHandler(debug=settings.debug), logging.getLogger(), logging.getLogger("mcp")
    level_before = mcp.level
    root.addHandler(handler)
    if settings.debug:
        mcp.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(handler)
        mcp.setLevel(level_before)
