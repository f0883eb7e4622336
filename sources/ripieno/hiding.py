"""Takes secrets out of texts that people read."""

from collections.abc import Iterable

#: Characters of the shortest secret that is looked for: a shorter one would take words apart.
_SHORTEST = 8
#: What stands where a secret was.
HIDDEN = "[hidden]"


def hide(text: str, secrets: Iterable[str]) -> str:
    """The text with ``[hidden]`` for each secret; the longest goes first, since one may be part of another."""
    for secret in sorted(map(str.strip, secrets), key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, HIDDEN)
    return text
