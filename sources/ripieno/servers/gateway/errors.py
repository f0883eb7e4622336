"""Errors as clients are told them: a status, words, and whether and when to ask again."""

import json
import logging
import math
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
from ripieno.servers.gateway.history_checks import Unpaired
from ripieno.servers.gateway.signatures import Unsigned

_logger = logging.getLogger(__name__)

#: What a failure of the model's endpoint is to a client of ours, by its category. Who is not permitted there is us.
_STATUSES: Mapping[str, int] = {"quota": 429, "timeout": 504, "network": 502, "permission": 502, "resource": 502}
#: What a history is refused for, in a word: who runs this sees no more of it.
_CODES: Mapping[type[InputError], str] = {Unpaired: "unpaired_calls", Unsigned: "unsigned_result"}
#: Why an endpoint does not serve us, whatever was asked: its words are for whoever has the account.
_OURS = frozenset({"permission", "quota", "resource"})
_SHOWN = 300
_FAILED = "Whoever runs the gateway finds the reason in its log."
#: What clients look for to compact a conversation that has become too long.
_TOO_LONG = ("context_length_exceeded", "context length", "context window", "maximum context", "prompt is too long")


def refusal_of(error: Exception) -> Refusal:
    """What a client is told of an error. One that nobody foresaw is logged, and told without its words."""
    match error:
        case ProviderFailure():
            return _of_provider(error)
        case NameAbsence(kind="model"):
            return Refusal(status=404, message=str(error), code="model_not_found", parameter="model")
        case Conflict():
            return Refusal(status=409, message=str(error), code="conflict")
        case InputError():
            parameter = error.parameter if isinstance(error, RequestInvalidity) else None
            return Refusal(status=400, message=str(error), code=_CODES.get(type(error)), parameter=parameter)
        case TimeoutError():
            message = "The answer was not complete in the time that it may take here."
            return Refusal(status=504, message=message, code="timeout")
        case _:
            return _of_ourselves(error)


def _of_ourselves(error: Exception) -> Refusal:
    # Their words are for whoever runs this: they may have names, paths and passwords in them.
    if isinstance(error, ToolExecutionFailure):
        _logger.error("A tool failed.", exc_info=error)
        return Refusal(status=500, message=f"A tool that runs here failed. {_FAILED}", code="tool_failed")
    if isinstance(error, RipienoError):
        _logger.error("%s", error)
    else:
        _logger.error("A request failed for a reason that nobody foresaw.", exc_info=error)
    return Refusal(status=500, message=f"The gateway failed. {_FAILED}")


def _of_provider(error: ProviderFailure) -> Refusal:
    """The endpoint's own words; where they are about the request, its own status as well."""
    message = error.reason if not error.before else f"{error.reason} (asked before it: {'; '.join(error.before)})"
    status = _STATUSES.get(error.category, 502)
    code: str | None = None
    if isinstance(error, ProviderRefusal):
        if error.category == "validation":
            status = error.status if error.status is not None and 400 <= error.status < 500 else 400
            code = _code_in(error.body)
            if any(words in message.casefold() for words in _TOO_LONG):
                code = "context_length_exceeded"
    elif error.after is not None and not error.retryable:
        # It is left alone for now: another try would not even be made.
        status = 503
    if error.category != "validation":
        # It is no request's fault, and whoever runs this can do something about it. Words of the endpoint could be
        # those of a request.
        told = isinstance(error, ProviderUnreachable) or error.category in _OURS
        refused = f"HTTP {error.status}" if isinstance(error, ProviderRefusal) else "Its answer cannot be read."
        _logger.warning("%s: %s", error.provider, printable(message, _SHOWN) if told else refused)
    return Refusal(status=status, message=message, code=code, seconds=error.after)


def _code_in(body: Any) -> str | None:
    error = body.get("error") if is_table(body) else None
    code = error.get("code") if is_table(error) else None
    return code if isinstance(code, str) else None


def headers_of(refusal: Refusal) -> list[tuple[bytes, bytes]]:
    """The headers of an answer that is a refusal."""
    headers = [(b"content-type", b"application/json")]
    if refusal.seconds is not None:
        headers.append((b"retry-after", b"%d" % max(1, math.ceil(refusal.seconds))))
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    return headers


def plain(refusal: Refusal) -> bytes:
    """The body of a refusal where no wire is known: the form that most clients know."""
    kind = "server_error" if refusal.status >= 500 else "invalid_request_error"
    error = {"type": kind, "message": refusal.message, "code": refusal.code, "param": refusal.parameter}
    return json.dumps({"error": error}).encode()
