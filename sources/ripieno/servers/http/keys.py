"""Keys of callers: created here, stored as digests, and compared in constant time."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Iterable, Mapping

from ripieno.exceptions import InputError

BEARER = b"authorization"
#: The headers with a key, over the various wires.
PLACES = frozenset({BEARER, b"x-api-key", b"x-goog-api-key"})
#: Characters that are valid in a header, and too many to guess.
_KEY = re.compile(r"[\x21-\x7e]{16,}")
_SCHEME = "sha256:"


def make_key() -> str:
    """A new key with 256 random bits. Its prefix identifies it for secret scanners."""
    return f"ripieno_{secrets.token_urlsafe(32)}"


def digest_of(key: str) -> str:
    """The digest of a key, ``sha256:HEX``. Errors: ``InputError`` for an invalid key."""
    if not _KEY.fullmatch(key):
        raise InputError("A key has at least 16 characters, all of them ASCII and none of them a space.")
    return _SCHEME + hashlib.sha256(key.encode()).hexdigest()


class Keys:
    """The digests of keys, by their owners' names; ``places`` are the headers that may hold a key.

    Errors: ``InputError`` for an invalid digest.
    """

    def __init__(self, digests: Mapping[str, str], *, places: Collection[bytes] = PLACES) -> None:
        self.places = places
        self._known = [(name, _read(name, digest)) for name, digest in digests.items()]

    def __len__(self) -> int:
        return len(self._known)

    def identify(self, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        """The owner of the key that was sent; None unless there is exactly one key, and it is known."""
        sent = [(name, value) for name, value in headers if name in self.places]
        key = _key_of(*sent[0]) if len(sent) == 1 else b""
        digest = hashlib.sha256(key).digest()
        found: str | None = None
        for name, known in self._known:
            if hmac.compare_digest(digest, known):
                found = name
        # An empty key never matches.
        return found if key else None


def _read(name: str, digest: str) -> bytes:
    if not re.fullmatch(f"{_SCHEME}[0-9a-f]{{64}}", digest):
        raise InputError(f"The digest of {name}'s key is invalid. To make a key: ripieno serve key")
    return bytes.fromhex(digest.removeprefix(_SCHEME))


def _key_of(name: bytes, value: bytes) -> bytes:
    if name != BEARER:
        return value
    scheme, _, key = value.partition(b" ")
    return key.strip() if scheme.lower() == b"bearer" else b""
