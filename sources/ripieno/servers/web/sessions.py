"""Sign-ins of the page: one-time codes in printed links, and the tokens that browsers get for them.

Both are kept in memory only, as digests. They end with the process.
"""

import hashlib
import secrets
import time
from collections.abc import Callable, Iterable

from ripieno.servers.http.keys import BEARER, Keys

#: Seconds in which a code can be used.
CODE_SECONDS = 900.0
#: The most browsers that are signed in; then the oldest sign-in ends.
_TOKENS = 100


class Sessions:
    """Codes, tokens, and the owners that they name. ``keys`` are accepted in place of a code, any number of times."""

    def __init__(self, keys: Keys | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._keys = keys
        self._clock = clock
        #: The owner and the last moment of each unused code, and the owner of each token, by their digests.
        self._codes: dict[bytes, tuple[str, float]] = {}
        self._tokens: dict[bytes, str] = {}

    def make_code(self, owner: str = "") -> str:
        """A code that can be exchanged once."""
        code = secrets.token_urlsafe(32)
        self._codes[_digest(code)] = (owner, self._clock() + CODE_SECONDS)
        return code

    @property
    def has_code(self) -> bool:
        """Whether a code waits to be used."""
        self._codes = {digest: one for digest, one in self._codes.items() if one[1] > self._clock()}
        return bool(self._codes)

    def exchange(self, code: str) -> str | None:
        """The token for a code; None for a code that is unknown, was used, or has expired."""
        found = self._codes.pop(_digest(code), None)
        if found is not None and found[1] > self._clock():
            owner = found[0]
        elif self._keys is not None and self._keys.identify([(BEARER, f"Bearer {code}".encode())]) is not None:
            owner = ""
        else:
            return None
        token = secrets.token_urlsafe(32)
        self._tokens[_digest(token)] = owner
        while len(self._tokens) > _TOKENS:
            del self._tokens[next(iter(self._tokens))]
        return token

    def owner_of(self, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        """The owner of a request that has exactly one bearer token, a known one; otherwise None."""
        sent = [value for name, value in headers if name == BEARER]
        scheme, _, token = sent[0].partition(b" ") if len(sent) == 1 else (b"", b"", b"")
        return self._tokens.get(_digest(token)) if scheme.lower() == b"bearer" else None


def _digest(text: str | bytes) -> bytes:
    # The place of a digest in a table tells an attacker nothing about the text.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text).digest()
