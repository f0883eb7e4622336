"""Methods and headers that a request may have, and the headers that survive a redirect."""

import re
from collections.abc import Iterable, Sequence

from ripieno.exceptions import InputError

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
#: Methods that change nothing (RFC 9110, section 9.2.1).
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
# Without the underscore: servers that read headers as variables confuse Content_Length with Content-Length.
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^`|~-]{1,128}")
_VALUE = re.compile(r"(?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?")
#: Characters of all headers together.
_LENGTH = 32 * 1024
_COUNT = 64
#: Headers of the connection itself, and those that could split a request.
_OURS = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "content-encoding", "accept-encoding", "trailer", "te"),
        *("connection", "keep-alive", "upgrade", "expect", "via", "http2-settings", "max-forwards"),
        *("proxy-connection", "proxy-authorization", "proxy-authenticate"),
    }
)
#: Headers that another origin gets, too. All others may be credentials.
_HARMLESS = frozenset({"accept", "accept-language", "content-type", "range", "user-agent"})

Headers = tuple[tuple[str, str], ...]


def check_header(name: str, value: str | None = None) -> None:
    """Errors: ``InputError`` for an invalid or reserved name, and for an invalid value."""
    if _NAME.fullmatch(name) is None:
        raise InputError(f"{name[:80]!r} is not a valid header name")
    if name.lower() in _OURS:
        raise InputError(f"the header {name} is set by the connection itself and cannot be given")
    if value is not None and _VALUE.fullmatch(value) is None:
        raise InputError(
            f"the value of the header {name} has invalid characters: "
            "use ASCII without control characters, and no space at its ends"
        )


def check_headers(headers: Iterable[tuple[str, str]]) -> Headers:
    """The headers, with unique names. Errors: ``InputError``."""
    given = tuple(headers)
    for name, value in given:
        check_header(name, value)
    names = [name.lower() for name, _ in given]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise InputError(f"the header {doubled} is given twice")
    if len(given) > _COUNT or sum(len(name) + len(value) for name, value in given) > _LENGTH:
        raise InputError(f"the headers are too large: at most {_COUNT} headers and {_LENGTH} characters are allowed")
    return given


def for_another_origin(headers: Sequence[tuple[str, str]]) -> Headers:
    """The headers that a redirect to another origin keeps."""
    return tuple((name, value) for name, value in headers if name.lower() in _HARMLESS)


def without_body(headers: Sequence[tuple[str, str]]) -> Headers:
    """The headers that a redirect to a request without a body keeps."""
    return tuple((name, value) for name, value in headers if not name.lower().startswith("content-"))
