"""What a request may say: methods and headers, and which of them survive a redirect."""

import re
from collections.abc import Iterable, Sequence

from ripieno.exceptions import InputError

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
#: Those that change nothing (RFC 9110, section 9.2.1).
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
# Without the underscore: what reads headers as variables takes Content_Length for Content-Length.
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^`|~-]{1,128}")
_VALUE = re.compile(r"(?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?")
#: Characters of all headers together.
_ROOM = 32 * 1024
_COUNT = 64
#: What the connection itself says, and what would cut a request in two.
_OURS = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "content-encoding", "accept-encoding", "trailer", "te"),
        *("connection", "keep-alive", "upgrade", "expect", "via", "http2-settings", "max-forwards"),
        *("proxy-connection", "proxy-authorization", "proxy-authenticate"),
    }
)
#: What another origin is told too. Everything else may be a credential.
_HARMLESS = frozenset({"accept", "accept-language", "content-type", "range", "user-agent"})

Headers = tuple[tuple[str, str], ...]


def check_header(name: str, value: str | None = None) -> None:
    """Errors: ``InputError`` for a name that is none or not for tools to set, and for a value that does not fit."""
    if _NAME.fullmatch(name) is None:
        raise InputError(f"{name[:80]!r} is no name of a header")
    if name.lower() in _OURS:
        raise InputError(f"the header {name} is set by the connection itself, and cannot be given")
    if value is not None and _VALUE.fullmatch(value) is None:
        raise InputError(
            f"the value of the header {name} has characters that a header cannot hold: "
            "only ASCII without control characters, and no space at its ends, fits"
        )


def check_headers(headers: Iterable[tuple[str, str]]) -> Headers:
    """The headers, each name once. Errors: ``InputError``."""
    given = tuple(headers)
    for name, value in given:
        check_header(name, value)
    names = [name.lower() for name, _ in given]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise InputError(f"the header {doubled} is given twice")
    if len(given) > _COUNT or sum(len(name) + len(value) for name, value in given) > _ROOM:
        raise InputError(f"the headers are too large: {_COUNT} of them, and {_ROOM} characters, are the most")
    return given


def for_another_origin(headers: Sequence[tuple[str, str]]) -> Headers:
    """What is left of the headers when a redirect leads to another origin."""
    return tuple((name, value) for name, value in headers if name.lower() in _HARMLESS)


def without_body(headers: Sequence[tuple[str, str]]) -> Headers:
    """What is left of the headers when a redirect turns the request into one without a body."""
    return tuple((name, value) for name, value in headers if not name.lower().startswith("content-"))
