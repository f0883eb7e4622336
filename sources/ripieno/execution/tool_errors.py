"""Exceptions of a tool as faults that the model reads. All others are bugs of the tool."""

import errno
import socket
import ssl
from typing import Any

from frozendict import frozendict

from ripieno.canisters.contents import legible
from ripieno.canisters.faults import SUGGESTIONS, Category, Fault
from ripieno.exceptions import ToolFault

#: The suggestion after a failure that may come too late to prevent an effect.
VERIFY = SUGGESTIONS["outcome_unknown"]
#: Errors of the system, by class. The first that matches applies.
_CATEGORIES: tuple[tuple[tuple[type[OSError], ...], Category], ...] = (
    ((TimeoutError,), "timeout"),
    ((PermissionError,), "permission"),
    ((ConnectionError, socket.gaierror, socket.herror, ssl.SSLError), "network"),
)
_NETWORK = frozenset({errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH})
_MESSAGES: dict[Category, str] = {
    "timeout": "An operation took too long.",
    "permission": "An operation is not permitted.",
    "network": "A remote host could not be reached.",
    "resource": "A resource is not available.",
}


def fault_of(error: BaseException, *, harmless: bool) -> Fault | None:
    """The fault of a ``ToolFault`` or an error of the system (``OSError`` and its classes); None for a bug.

    ``harmless``: the call changes nothing. Source of the categories: seed 000, section 7.1.
    """
    if isinstance(error, ToolFault):
        return Fault.raised(error)
    if not isinstance(error, OSError):
        return None
    category = _category(error)
    symbol = errno.errorcode.get(error.errno or 0)
    return Fault(
        category=category,
        message=legible(_message(error) or _MESSAGES[category]),
        code=category,
        details=frozendict({"exception": type(error).__name__, **({"errno": symbol} if symbol else {})}),
        suggestion=VERIFY if category in ("timeout", "network") and not harmless else SUGGESTIONS[category],
    )


def _category(error: OSError) -> Category:
    for kinds, category in _CATEGORIES:
        if isinstance(error, kinds):
            return category
    if error.errno in _NETWORK:
        return "network"
    cause: object = getattr(error, "reason", None)  # ``urllib.error.URLError`` has the error here.
    return _category(cause) if isinstance(cause, OSError) and cause is not error else "resource"


def _message(error: OSError) -> str:
    """``No such file or directory: 'x'``, without the number."""
    if not error.strerror:
        return str(error).strip()
    parts: list[Any] = [one for one in (error.filename, error.filename2) if one is not None]
    return ": ".join([str(error.strerror), *([" -> ".join(map(repr, parts))] if parts else [])])
