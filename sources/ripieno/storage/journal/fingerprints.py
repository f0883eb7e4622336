"""Fingerprints that replace secrets in the journal: equal secrets have equal ones.

A fingerprint is an HMAC-SHA256 under a key beside the journal. Without the key, a guess cannot be verified.
"""

import contextlib
import hashlib
import hmac
import os
import pathlib
import secrets as randomness
from collections.abc import Iterable

from ripieno.exceptions import InputError
from ripieno.storage.redaction import Redactor

_KEY_BYTES = 32


def fingerprints(secrets: Iterable[str], key: pathlib.Path) -> Redactor:
    """A redactor that writes fingerprints. Reads or creates the key at the first secret. Errors: ``InputError``."""
    loaded: list[bytes] = []

    def mark(secret: str) -> str:
        if not loaded:
            loaded.append(_load(key))
        encoded = secret.encode("utf-8", "surrogatepass")
        return f"[secret {hmac.digest(loaded[0], encoded, hashlib.sha256).hex()[:12]}]"

    return Redactor(secrets, mark=mark)


def _load(path: pathlib.Path) -> bytes:
    """Reads the key, or creates it. Errors: ``InputError``."""
    try:
        with contextlib.suppress(FileNotFoundError):
            return _checked(path.read_bytes(), path)
        temporary = path.with_name(f".{randomness.token_hex(8)}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "wb") as file:
                file.write(randomness.token_bytes(_KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
            # The link fails when another program was first; that program's key is then used.
            with contextlib.suppress(FileExistsError):
                os.link(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        return _checked(path.read_bytes(), path)
    except OSError as error:
        raise InputError(f"The key of the journal, {path}, cannot be used: {error.strerror}.") from error


def _checked(key: bytes, path: pathlib.Path) -> bytes:
    if len(key) != _KEY_BYTES:
        raise InputError(
            f"The key of the journal, {path}, has {len(key)} bytes instead of {_KEY_BYTES}. "
            "Move it away; a new key is then created, and secrets get other fingerprints than before."
        )
    return key
