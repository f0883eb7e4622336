"""Names: the identity of a tool, what a model sees of it, and patterns over identities.

The identity is ``ensemble.tool``, split at the first dot. The exposed name is what every provider takes; it
never depends on which other ensembles are loaded.
"""

import fnmatch
import functools
import hashlib
import re

ENSEMBLE_NAME = re.compile(r"[a-z][a-z0-9_-]*\Z")
EXPOSED_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}\Z")
#: What the names of all providers have in common (measured over their documented patterns).
EXPOSED_LENGTH = 64
_TAIL_LENGTH = 8
#: Characters that logs have of a name.
_SPELLED_LENGTH = 64


def expose(tool: str, prefix: str = "") -> str:
    """The exposed name: ``tool``, or ``prefix__tool``.

    One that no provider would take (odd characters, a leading digit, more than 64 characters) is made legal and
    gets a tail of eight hexadecimal digits, which depends on the name alone.
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
    """What follows a prefix in an exposed name; None where the name does not have it, or there is none."""
    beginning = f"{prefix}__"
    return exposed.removeprefix(beginning) if prefix and exposed.startswith(beginning) else None


def split(identity: str) -> tuple[str, str]:
    """Ensemble and tool of an identity; the tool is empty when there is no dot."""
    ensemble, _, tool = identity.partition(".")
    return ensemble, tool


@functools.lru_cache(maxsize=4096)
def matches(pattern: str, identity: str) -> bool:
    """Whether a pattern such as ``io.read_*`` or ``git.*`` fits an identity: each half on its own.

    A pattern without a dot is a name of an ensemble, and fits all of its tools. An identity fits itself, whatever
    characters a server put into the name of its tool.
    """
    if pattern == identity:
        return True
    ensemble, tool = split(identity)
    ensemble_pattern, dot, tool_pattern = pattern.partition(".")
    return fnmatch.fnmatchcase(ensemble, ensemble_pattern) and (not dot or fnmatch.fnmatchcase(tool, tool_pattern))


def is_wildcard(pattern: str) -> bool:
    """Whether a pattern can fit more than one tool."""
    return "." not in pattern or any(character in pattern for character in "*?[")


def spelled(name: str) -> str:
    """A name that a client or a model wrote, for a log: cut, in ASCII; nothing in it ends a line or acts on a terminal.

    Plain names stay as they are.
    """
    return ascii(name[:_SPELLED_LENGTH])[1:-1] + ("..." if len(name) > _SPELLED_LENGTH else "")
