"""Who watches the runs of a command: OpenTelemetry where it is configured, and a log where one is wanted."""

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Generator
from typing import Any, Literal, TypeVar

import click

from ripieno.conducting import Watcher
from ripieno.showing import clean

Command = TypeVar("Command", bound=Callable[..., Any])
LogFormat = Literal["text", "json"]
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
    watchers: list[Watcher] = []
    with contextlib.ExitStack() as stack:
        if log is not None:
            from ripieno.telemetry.logs import log_runs

            stack.enter_context(_logging(log, logging.DEBUG if debug else logging.INFO))
            watchers.append(log_runs)
        if any(name.startswith(_PREFIX) for name in os.environ):
            from ripieno.telemetry.conventions import wants_telemetry

            if wants_telemetry():
                from ripieno.telemetry.tracing import Telemetry

                watchers.append(Telemetry())
        yield tuple(watchers)


class _Plain(logging.Formatter):
    """A line for people, in which nothing can act on a terminal, and only a traceback begins another one."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return super().formatMessage(record).replace("\r", "\\r").replace("\n", "\\n")

    def format(self, record: logging.LogRecord) -> str:
        return clean(super().format(record))


@contextlib.contextmanager
def _logging(log: LogFormat, level: int) -> Generator[None, None, None]:
    from ripieno.telemetry.logs import JsonFormatter

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log == "json" else _Plain("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("ripieno")
    level_before, told_before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(level)
    # Whoever says what libraries log would say all of it again.
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level_before)
        logger.propagate = told_before
