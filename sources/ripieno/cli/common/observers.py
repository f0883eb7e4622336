"""Who watches the runs of a command: OpenTelemetry where it is configured, and a log where one is wanted."""

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Generator, Mapping
from typing import Any, Literal, TypeVar

import click

from ripieno.cli.common.main import voiced
from ripieno.conducting import Watcher
from ripieno.conducting.observers.console import clean

_logger = logging.getLogger("ripieno.cli")

Command = TypeVar("Command", bound=Callable[..., Any])
LogFormat = Literal["text", "json"]
#: How lines begin that warn a person.
_WARNS = "! "
#: What only an environment that OpenTelemetry is configured in has.
_PREFIX = "OTEL_"


def logged(command: Command) -> Command:
    """Adds ``--log-format``; the command gets it as ``log``."""
    return click.option(
        "--log-format",
        "log",
        type=click.Choice(("text", "json")),
        help="Log each answer, call and end on standard error, in lines that programs read.",
    )(command)


@contextlib.contextmanager
def observed(log: LogFormat | None, *, debug: bool = False) -> Generator[tuple[Watcher, ...], None, None]:
    """The watchers of a command, for as long as it is entered; ``debug`` logs also what starts."""
    with contextlib.nullcontext() if log is None else _logging(log, debug=debug):
        yield watchers_for(log)


def watchers_for(log: LogFormat | None) -> tuple[Watcher, ...]:
    """Those that write a log, and those that make spans."""
    watchers: list[Watcher] = []
    if log is not None:
        from ripieno.conducting.observers.logs import log_runs

        watchers.append(log_runs)
    if any(name.startswith(_PREFIX) for name in os.environ):
        from ripieno.conducting.observers.conventions import wants_telemetry

        if wants_telemetry():
            from ripieno.conducting.observers.tracing import Telemetry

            watchers.append(Telemetry())
    return tuple(watchers)


@contextlib.contextmanager
def log_everything(log: LogFormat, *, debug: bool = False) -> Generator[None, None, None]:
    """What a person would be told, and what libraries warn of, is in the log as well, for commands that nobody watches.

    So programs can read all that goes to standard error.
    """
    with _logging(log, debug=debug) as handler, voiced(_log):
        root = logging.getLogger()
        root.addHandler(handler)
        try:
            yield
        finally:
            root.removeHandler(handler)


def _log(text: str) -> None:
    warns = text.startswith(_WARNS)
    _logger.log(logging.WARNING if warns else logging.INFO, "%s", text.removeprefix(_WARNS))


class _Plain(logging.Formatter):
    """A line for people, in which nothing can act on a terminal, and only a traceback begins another one."""

    def __init__(self, fields: Callable[[], Mapping[str, str]]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        self._fields = fields

    def formatMessage(self, record: logging.LogRecord) -> str:
        request = self._fields().get("request")
        if request is not None:
            record.message = f"[{request}] {record.message}"
        return super().formatMessage(record).replace("\r", "\\r").replace("\n", "\\n")

    def formatException(self, ei: Any) -> str:
        # No line of it begins as one of a record does, whatever an error says.
        return "".join(f"  {line}\n" for line in super().formatException(ei).splitlines()).rstrip("\n")

    def format(self, record: logging.LogRecord) -> str:
        return clean(super().format(record))


@contextlib.contextmanager
def _logging(log: LogFormat, *, debug: bool) -> Generator[logging.Handler, None, None]:
    from ripieno.conducting.observers.logs import FIELDS, JsonFormatter

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log == "json" else _Plain(FIELDS.get))
    logger = logging.getLogger("ripieno")
    level_before, told_before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if debug else logging.INFO)
    # Whoever says what libraries log would say all of it again.
    logger.propagate = False
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level_before)
        logger.propagate = told_before
