"""Observers of a command's runs: OpenTelemetry if it is configured, and a log if requested."""

import contextlib
import functools
import logging
import os
import sys
from collections.abc import Callable, Generator, Mapping
from typing import Any, Literal

import click

from ripieno.canisters.display import clean, short
from ripieno.cli.common.main import messages_to
from ripieno.conducting import Watcher

_logger = logging.getLogger("ripieno.cli")

LogFormat = Literal["text", "json"]
#: The prefix of warnings.
_WARNS = "! "
#: The prefix of OpenTelemetry's environment variables.
_PREFIX = "OTEL_"


#: Adds ``--log-format``; the command receives it as ``log``.
logged = click.option(
    "--log-format",
    "log",
    type=click.Choice(("text", "json")),
    help="Log each answer, call and end of a run on standard error, in one line. Off by default.",
)


@contextlib.contextmanager
def observed(log: LogFormat | None, *, debug: bool = False) -> Generator[tuple[Watcher, ...], None, None]:
    """The watchers of a command, for the duration of the block; ``debug`` also logs what starts."""
    with contextlib.nullcontext() if log is None else _logging(log, debug=debug):
        yield watchers_for(log)


def watchers_for(log: LogFormat | None, gives_back: Callable[[], bool] = lambda: False) -> tuple[Watcher, ...]:
    """The watchers that write a log and that make spans. ``gives_back``: see ``log_runs``."""
    watchers: list[Watcher] = []
    if log is not None:
        from ripieno.conducting.observers.logs import log_runs

        watchers.append(functools.partial(log_runs, gives_back=gives_back))
    if any(name.startswith(_PREFIX) for name in os.environ):
        from ripieno.conducting.observers.conventions import wants_telemetry

        if wants_telemetry():
            from ripieno.assembly.protection import secrets_among
            from ripieno.conducting.observers.tracing import Telemetry

            watchers.append(Telemetry(secrets=secrets_among(os.environ)))
    return tuple(watchers)


@contextlib.contextmanager
def log_everything(log: LogFormat, *, debug: bool = False) -> Generator[None, None, None]:
    """Logs also the messages for people and the warnings of libraries, for servers.

    Programs can then parse all of standard error.
    """
    with _logging(log, debug=debug) as handler, messages_to(_log):
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
    """A line for people, with control characters escaped; only a traceback adds lines."""

    def __init__(self, fields: Callable[[], Mapping[str, str]]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        self._fields = fields

    def formatMessage(self, record: logging.LogRecord) -> str:
        fields = self._fields()
        if (request := fields.get("request")) is not None:
            record.message = f"[{request}] {record.message}"
        if (run := fields.get("run")) is not None:
            record.message = f"[run {short(run)} of {short(fields['conversation'])}] {record.message}"
        return super().formatMessage(record).replace("\r", "\\r").replace("\n", "\\n")

    def formatException(self, ei: Any) -> str:
        # Indented, so that no line looks like the start of a record.
        return "".join(f"  {line}\n" for line in super().formatException(ei).splitlines()).rstrip("\n")

    def format(self, record: logging.LogRecord) -> str:
        return clean(super().format(record))


@contextlib.contextmanager
def _logging(log: LogFormat, *, debug: bool) -> Generator[logging.Handler, None, None]:
    from ripieno.conducting.observers.logs import FIELDS, JsonFormatter

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log == "json" else _Plain(FIELDS.get))
    logger = logging.getLogger("ripieno")
    level_before, propagate_before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if debug else logging.INFO)
    # Otherwise the root logger's handlers would repeat it.
    logger.propagate = False
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level_before)
        logger.propagate = propagate_before
