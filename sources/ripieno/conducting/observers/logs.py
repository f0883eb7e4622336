"""Runs as records of ``logging``: one for each answer, call and end, with fields for programs.

::

    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.getLogger("ripieno").addHandler(handler)
    assemble(watchers=[log_runs])

Each record has ``conversation`` and ``turn``; that of a call has ``tool`` and ``invocation``. No record has texts,
arguments or results.
"""

import contextvars
import datetime
import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from frozendict import frozendict

from ripieno.canisters.events import (
    Alert,
    ConductEnded,
    ConfirmationRequested,
    Event,
    ExecutionBegan,
    ResultReady,
    TurnBegan,
    TurnEnded,
)
from ripieno.descriptors.names import spelled

_logger = logging.getLogger("ripieno.runs")
#: The attributes of every record of ``logging``; all others are fields of the caller.
_OWN = frozenset(logging.LogRecord("", 0, "", 0, "", None, None).__dict__) | {"message", "asctime", "taskName"}
_NONE: frozendict[str, str] = frozendict()
#: Fields of every line that any code logs during a request to a server of this package, or a run of a worker.
FIELDS: contextvars.ContextVar[Mapping[str, str]] = contextvars.ContextVar("fields of logs", default=_NONE)


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON in ASCII: ``time`` (ISO 8601, UTC), ``level``, ``logger``, ``message``, its fields.

    ``process`` is the number of the process. During a request of a server, ``request`` is the ``x-request-id`` of its
    answer, and ``client`` the address of its client; during a submitted run, ``run`` is its identifier. ``exception``
    has an exception with its traceback. Values that are not JSON are written as text.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        time_ = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        line: dict[str, Any] = {
            "time": time_.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
            **FIELDS.get(),
        }
        line |= {name: value for name, value in record.__dict__.items() if name not in _OWN and name not in line}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_runs(
    conversation: str, model: str, *, gives_back: Callable[[], bool] = lambda: False
) -> Callable[[Event], None]:
    """A watcher: returns a function that writes the events of a run to the logger ``ripieno.runs``.

    ``gives_back``: whether who ends a run now gives it back to a queue, as a worker does that ends.
    """
    return _Log(conversation, model, gives_back).take


class _Log:
    def __init__(self, conversation: str, model: str, gives_back: Callable[[], bool]) -> None:
        self._gives_back = gives_back
        #: A result may be reported from the task of another run, whose record was written with this one's.
        self._surrounding = FIELDS.get()
        self._fields: dict[str, Any] = {"conversation": conversation, "model": model, "turn": 0}
        self._began = time.monotonic()
        self._say(logging.INFO, "A run begins with %s.", model)

    def take(self, event: Event) -> None:
        match event:
            case TurnBegan(turn=turn):
                self._fields["turn"] = turn
            case TurnEnded(finish=finish, usage=usage):
                taken = round((time.monotonic() - self._began) * 1000)
                tokens = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
                self._began = time.monotonic()
                self._say(logging.INFO, "An answer ended with %s.", finish, finish=finish, milliseconds=taken, **tokens)
            case ConfirmationRequested():
                call = _call(event.tool, event.invocation.identifier)
                self._say(logging.INFO, "%s needs an approval.", call["tool"], effect=event.effect, **call)
            case ExecutionBegan():
                call = _call(event.tool, event.invocation.identifier)
                self._say(logging.DEBUG, "%s starts.", call["tool"], early=event.early, **call)
            case ResultReady():
                self._began = time.monotonic()
                self._result(event)
            case Alert(message=message, tool=tool):
                self._say(logging.WARNING, "%s", message, **({} if tool is None else {"tool": spelled(tool)}))
            case ConductEnded(finish="cancelled", turns=turns, calls=calls) if self._gives_back():
                given = {"finish": "given_back", "turns": turns, "calls": calls}
                self._say(logging.INFO, "The run is given back: another worker continues it.", **given)
            case ConductEnded(finish=finish, turns=turns, calls=calls):
                level = logging.WARNING if finish in ("error", "aborted") else logging.INFO
                self._say(level, "The run ended with %s.", finish, finish=finish, turns=turns, calls=calls)
            case _:
                pass

    def _result(self, event: ResultReady) -> None:
        result = event.result
        fields = {"milliseconds": round(result.report.duration_ms), "attempts": result.report.attempts}
        call = _call(event.tool, event.invocation.identifier)
        fields |= call
        if result.error is None:
            self._say(logging.INFO, "%s succeeded.", call["tool"], error=None, **fields)
        else:
            category = result.error.category
            what = "%s failed: %s." if result.report.attempts or result.report.cached else "%s was refused: %s."
            self._say(logging.WARNING, what, call["tool"], category, error=category, **fields)

    def _say(self, level: int, message: str, *values: object, **fields: Any) -> None:
        if _logger.isEnabledFor(level):
            token = FIELDS.set(self._surrounding)
            try:
                _logger.log(level, message, *values, extra={**self._fields, **fields})
            finally:
                FIELDS.reset(token)


def _call(tool: str, identifier: str) -> dict[str, Any]:
    return {"tool": spelled(tool), "invocation": spelled(identifier)}
