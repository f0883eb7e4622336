"""Names: the identity of a tool, its exposed name, and patterns over identities.

The identity is ``ensemble.tool``, split at the first dot. Every provider accepts the exposed name, which does not
depend on the other loaded ensembles.
"""

import fnmatch
import functools
import hashlib
import re

ENSEMBLE_NAME = re.compile(r"[a-z][a-z0-9_-]*\Z")
EXPOSED_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}\Z")
#: The longest name that all providers accept (from their documented patterns).
EXPOSED_LENGTH = 64
_TAIL_LENGTH = 8
#: The most characters of a name in a log.
_SPELLED_LENGTH = 64


def expose(tool: str, prefix: str = "") -> str:
    """The exposed name: ``tool``, or ``prefix__tool``.

    A name that providers refuse (other characters, a leading digit, more than 64 characters) is changed and gets a
    suffix of eight hexadecimal digits, which depends on the name alone.
    """
    name = f"{prefix}__{tool}" if prefix else tool
    if EXPOSED_NAME.match(name):
        return name
    tail = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_TAIL_LENGTH]
    legal = re.sub(r"[^a-zA-Z0-9_-]", "_", name)
    if not re.match(r"[a-zA-Z_]", legal):
        legal = f"_{legal}"
    return f"{legal[: EXPOSED_LENGTH - _TAIL_LENGTH - 1]}_{tail}"


def unprefixed(exposed: str, prefix: str) -> str | None:
    """An exposed name without its prefix; None if it does not have the prefix, or the prefix is empty."""
    beginning = f"{prefix}__"
    return exposed.removeprefix(beginning) if prefix and exposed.startswith(beginning) else None


def split(identity: str) -> tuple[str, str]:
    """Ensemble and tool of an identity; the tool is empty without a dot."""
    ensemble, _, tool = identity.partition(".")
    return ensemble, tool


@functools.lru_cache(maxsize=4096)
def matches(pattern: str, identity: str) -> bool:
    """Whether both halves of a pattern such as ``io.read_*`` or ``git.*`` match an identity.

    A pattern without a dot is the name of an ensemble and matches all its tools. An identity always matches itself,
    even if a server uses wildcards in the name of a tool.
    """
    if pattern == identity:
        return True
    ensemble, tool = split(identity)
    ensemble_pattern, dot, tool_pattern = pattern.partition(".")
    return fnmatch.fnmatchcase(ensemble, ensemble_pattern) and (not dot or fnmatch.fnmatchcase(tool, tool_pattern))


def is_wildcard(pattern: str) -> bool:
    """Whether a pattern can match more than one tool."""
    return "." not in pattern or any(character in pattern for character in "*?[")


def spelled(name: str) -> str:
    """A name from a client or a model for a log: cut, in ASCII, without control characters."""
    return ascii(name[:_SPELLED_LENGTH])[1:-1] + ("..." if len(name) > _SPELLED_LENGTH else "")
