"""Errors for clients: a status, a message, and whether and when to retry."""

import json
import logging
import math
import re
from collections.abc import Mapping
from typing import Any

from ripieno.descriptors.reader.problems import printable
from ripieno.exceptions import (
    Conflict,
    InputError,
    NameAbsence,
    ProviderFailure,
    ProviderRefusal,
    ProviderUnreachable,
    RequestInvalidity,
    RipienoError,
    ToolExecutionFailure,
)
from ripieno.jsonvalues import is_table
from ripieno.models.protocol import Refusal
from ripieno.servers.http.limits import Refused
from ripieno.storage.databases.contract import Disconnected

_logger = logging.getLogger(__name__)

#: The status for a failure of the model's endpoint, by category. "permission" concerns the server, not its client.
_STATUSES: Mapping[str, int] = {"quota": 429, "timeout": 504, "network": 502, "permission": 502, "resource": 502}
#: Categories whose messages are logged: they concern the account at an endpoint, or what it does not understand.
_OURS = frozenset({"permission", "quota", "resource", "validation"})
_SHOWN = 300
#: Addresses of endpoints, and the details of a failed connection, which have hosts and ports: for the log only.
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+]*://[^\s'\"<>()]*[^\s'\"<>().,:;]")
_DETAILS = re.compile(r" \((?:[^()]|\([^()]*\))*\)")
#: Seconds after which a client may try again what needs the database.
_RETRY = 5.0
_FAILED = "The log of the server has the reason."
#: Messages about too long conversations. Clients compact a conversation after the code for them.
_TOO_LONG = ("context_length_exceeded", "context length", "context window", "maximum context", "prompt is too long")


def refusal_of(error: Exception) -> Refusal:
    """The refusal for an error. An unexpected error is logged, and its message is not sent."""
    match error:
        case Refused():
            return error.refusal
        case ProviderFailure():
            return _of_provider(error)
        case NameAbsence(kind="model"):
            return Refusal(status=404, message=str(error), code="model_not_found", parameter="model")
        case InputError():
            return _of_input(error)
        case TimeoutError():
            message = "The answer exceeded the time limit of this server."
            return Refusal(status=504, message=message, code="timeout")
        case _:
            return _of_ourselves(error)


def _of_input(error: InputError) -> Refusal:
    if isinstance(error, Disconnected):
        # The address in its message is for the log only.
        _logger.error("%s", error)
        message = f"The database of this server cannot be reached now. {_FAILED}"
        return Refusal(status=503, message=message, code="database_unreachable", seconds=_RETRY)
    parameter = error.parameter if isinstance(error, RequestInvalidity) else None
    status, code = (409, "conflict") if isinstance(error, Conflict) else (400, getattr(error, "code", None))
    return Refusal(status=status, message=str(error), code=code, parameter=parameter)


def _of_ourselves(error: Exception) -> Refusal:
    # The messages are for the operator: they may contain names, paths and passwords.
    if isinstance(error, ToolExecutionFailure):
        _logger.error("A tool failed.", exc_info=error)
        return Refusal(status=500, message=f"A tool that runs here failed. {_FAILED}", code="tool_failed")
    if isinstance(error, RipienoError):
        _logger.error("%s", error)
    else:
        _logger.error("A request failed unexpectedly.", exc_info=error)
    return Refusal(status=500, message=f"The server failed. {_FAILED}")


def _of_provider(error: ProviderFailure) -> Refusal:
    """The endpoint's message without addresses; if it concerns the request, the endpoint's status as well."""
    message = error.reason if not error.before else f"{error.reason} (tried before it: {'; '.join(error.before)})"
    public = _ADDRESS.sub("the endpoint", error.reason)
    if isinstance(error, ProviderUnreachable):
        public = _DETAILS.sub("", public)
    status = _STATUSES.get(error.category, 502)
    code: str | None = None
    if isinstance(error, ProviderRefusal):
        if error.category == "validation":
            status = error.status if error.status is not None and 400 <= error.status < 500 else 400
            code = _code_in(error.body)
            if any(words in message.casefold() for words in _TOO_LONG):
                code = "context_length_exceeded"
    elif error.after is not None and not error.retryable:
        # Its breaker is open: a retry would not be sent.
        status = 503
    # The operator can act on it. Messages of other categories could quote an answer.
    shown = isinstance(error, ProviderUnreachable) or error.category in _OURS
    refused = f"HTTP {error.status}" if isinstance(error, ProviderRefusal) else "The answer cannot be read."
    _logger.warning("%s: %s", error.provider, printable(message, _SHOWN) if shown else refused)
    return Refusal(status=status, message=public, code=code, seconds=error.after)


def _code_in(body: Any) -> str | None:
    error = body.get("error") if is_table(body) else None
    code = error.get("code") if is_table(error) else None
    return code if isinstance(code, str) else None


def headers_of(refusal: Refusal) -> list[tuple[bytes, bytes]]:
    """The headers of a refusal."""
    headers = [(b"content-type", b"application/json")]
    if refusal.seconds is not None:
        headers.append((b"retry-after", b"%d" % max(1, math.ceil(refusal.seconds))))
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    return headers


def plain(refusal: Refusal) -> bytes:
    """The body of a refusal for an unknown wire: the most common form."""
    kind = "server_error" if refusal.status >= 500 else "invalid_request_error"
    error = {"type": kind, "message": refusal.message, "code": refusal.code, "param": refusal.parameter}
    return json.dumps({"error": error}).encode()
