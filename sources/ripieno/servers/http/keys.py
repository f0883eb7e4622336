"""Keys of callers: made here, kept as digests, and compared in the same time whatever was sent."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Iterable, Mapping

from ripieno.exceptions import InputError

BEARER = b"authorization"
#: Headers in which clients of the various wires send their key.
PLACES = frozenset({BEARER, b"x-api-key", b"x-goog-api-key"})
#: Characters that a header can carry, and as many as nobody guesses.
_KEY = re.compile(r"[\x21-\x7e]{16,}")
_SCHEME = "sha256:"


def make_key() -> str:
    """A fresh key, with 256 bits that nobody knows. Its beginning tells programs that look for secrets what it is."""
    return f"ripieno_{secrets.token_urlsafe(32)}"


def digest_of(key: str) -> str:
    """What is kept of a key, ``sha256:HEX``. Errors: ``InputError`` for what is none."""
    if not _KEY.fullmatch(key):
        raise InputError("A key has at least 16 characters, all of them ASCII and none of them a space.")
    return _SCHEME + hashlib.sha256(key.encode()).hexdigest()


class Keys:
    """The digests of keys, by the names of those who have them; ``places`` are headers that may have a key.

    Errors: ``InputError`` for what is no digest.
    """

    def __init__(self, digests: Mapping[str, str], *, places: Collection[bytes] = PLACES) -> None:
        self.places = places
        self._known = [(name, _read(name, digest)) for name, digest in digests.items()]

    def __len__(self) -> int:
        return len(self._known)

    def identify(self, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        """Whose key was sent, or None unless there is exactly one and it is known."""
        sent = [(name, value) for name, value in headers if name in self.places]
        key = _key_of(*sent[0]) if len(sent) == 1 else b""
        digest = hashlib.sha256(key).digest()
        found: str | None = None
        for name, known in self._known:
            if hmac.compare_digest(digest, known):
                found = name
        # The digest of nothing is known to everybody.
        return found if key else None


def _read(name: str, digest: str) -> bytes:
    if not re.fullmatch(f"{_SCHEME}[0-9a-f]{{64}}", digest):
        raise InputError(f"The digest of {name}'s key is none: ripieno serve key makes one.")
    return bytes.fromhex(digest.removeprefix(_SCHEME))


def _key_of(name: bytes, value: bytes) -> bytes:
    if name != BEARER:
        return value
    scheme, _, key = value.partition(b" ")
    return key.strip() if scheme.lower() == b"bearer" else b""
