"""Fingerprints, which replace secrets: equal secrets have equal ones.

A fingerprint is an HMAC-SHA256. Without the key, a guess cannot be verified.
"""

import functools
import hashlib
import hmac
import os
import pathlib
import secrets as randomness
from collections.abc import Iterable

from ripieno.descriptors.reader.regular_files import read_regular
from ripieno.exceptions import InputError
from ripieno.storage.files import created, make_private
from ripieno.storage.redaction import Redactor

_KEY_BYTES = 32


def fingerprints(secrets: Iterable[str], key: pathlib.Path | None) -> Redactor:
    """A redactor that writes fingerprints, or ``[secret]`` without a file for the key.

    Reads or creates the key at the first secret. Errors: ``InputError``.
    """
    if key is None:
        return Redactor(secrets, mark=lambda _: "[secret]")
    load = functools.cache(_load_key)

    def mark(secret: str) -> str:
        encoded = secret.encode("utf-8", "surrogatepass")
        return f"[secret {hmac.digest(load(key), encoded, hashlib.sha256).hex()[:12]}]"

    return Redactor(secrets, mark=mark)


def _load_key(path: pathlib.Path) -> bytes:
    try:
        if not path.exists():
            # With a journal in PostgreSQL, nothing else may have made the folder yet.
            make_private(path.parent)
            with created(path) as temporary, temporary.open("wb") as file:
                file.write(randomness.token_bytes(_KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
        key = read_regular(path)
    except OSError as error:
        raise InputError(f"The key of the journal, {path}, cannot be used: {error.strerror}.") from error
    if len(key) != _KEY_BYTES:
        raise InputError(
            f"The key of the journal, {path}, has {len(key)} bytes instead of {_KEY_BYTES}. "
            "Move it away; a new key is then created, and secrets get other fingerprints than before."
        )
    return key
