"""Replaces secrets in records by fingerprints: equal secrets are told apart from others, and none can be read.

A fingerprint is an HMAC-SHA256 under a key that lies beside the journal; who has only the journal cannot try out
guesses of a secret.
"""

import contextlib
import dataclasses
import functools
import hashlib
import hmac
import json
import os
import pathlib
import secrets as randomness
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from frozendict import frozendict

from ripieno.exceptions import InputError
from ripieno.jsonvalues import canonical
from ripieno.storage.records import Record
from ripieno.storage.redaction import forms

#: Characters of the shortest secret that is looked for, and of a form of it: a shorter one would take words apart.
_SHORTEST = 8
_KEY_BYTES = 32
T = TypeVar("T")


class Fingerprints:
    """Knows the secrets, in the forms in which URLs, JSON and logs write them."""

    def __init__(self, secrets: Iterable[str], key: pathlib.Path) -> None:
        known = {stripped for secret in secrets if len(stripped := secret.strip()) >= _SHORTEST}
        self._marks: dict[str, str] = {}
        if known:
            value = _load(key)
            for secret in known:
                encoded = secret.encode("utf-8", "surrogatepass")
                mark = f"[secret {hmac.digest(value, encoded, hashlib.sha256).hex()[:12]}]"
                self._marks.update((form, mark) for form in forms((secret,)) if len(form) >= _SHORTEST)
        # The longest goes first, since one may be part of another.
        self._forms = sorted(self._marks, key=len, reverse=True)
        self._written = tuple({written for form in self._forms for written in _inside(form)})

    def suspect(self, *texts: str) -> bool:
        """Whether texts, or canonical JSON, may have a secret in them. Bytes in base64 always may."""
        if not self._written:
            return False
        together = "\n".join(texts)
        return '"data":"' in together or any(form in together for form in self._written)

    def text(self, text: str) -> str:
        """The text with a fingerprint for each secret."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, self._marks[form])
        return text

    def record(self, record: Record) -> Record:
        """The record with fingerprints in all texts and bytes. What a type limits to a few words stays."""
        return self._fields(record)

    def _fields(self, value: T) -> T:
        kind: Any = type(value)
        # Identity counts: some fields are left out when values are compared.
        changed = {name: new for name in _free(kind) if (new := self._any(old := getattr(value, name))) is not old}
        return dataclasses.replace(typing.cast("Any", value), **changed) if changed else value

    def _any(self, value: Any) -> Any:
        """A part of a record; the same object where there is no secret in it."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, bytes):
            return self._bytes(value)
        if isinstance(value, Mapping):
            return self._json(value)
        if _is_tuple(value):
            return _kept(value, self._any)
        return self._fields(value) if dataclasses.is_dataclass(value) else value

    def _bytes(self, value: bytes) -> bytes:
        for form in self._forms:
            encoded = form.encode("utf-8", "surrogatepass")
            if encoded in value:
                value = value.replace(encoded, self._marks[form].encode())
        return value

    def _json(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return self._table(typing.cast("Mapping[str, Any]", value))
        if _is_tuple(value):
            return _kept(value, self._json)
        if value is None or isinstance(value, bool):
            return value
        shown = self.text(written := canonical(value).decode())
        return value if shown == written else shown

    def _table(self, table: Mapping[str, Any]) -> Mapping[str, Any]:
        changed = {self.text(key): self._json(item) for key, item in table.items()}
        same = all(key in changed and changed[key] is item for key, item in table.items())
        return table if same else frozendict[str, Any](changed)


def _is_tuple(value: object) -> typing.TypeGuard[tuple[Any, ...]]:
    return isinstance(value, tuple)


def _kept(items: tuple[Any, ...], change: Callable[[Any], Any]) -> tuple[Any, ...]:
    changed = tuple(map(change, items))
    return items if all(new is old for new, old in zip(changed, items, strict=True)) else changed


@functools.cache
def _free(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass that may hold any text, or parts that may."""
    hints = typing.get_type_hints(kind)
    names = (field.name for field in dataclasses.fields(kind))
    return tuple(name for name in names if typing.get_origin(hints[name]) is not typing.Literal)


def _inside(form: str) -> tuple[str, str]:
    """A text as it stands inside of JSON: in UTF-8, and in ASCII."""
    return json.dumps(form, ensure_ascii=False)[1:-1], json.dumps(form)[1:-1]


def _load(path: pathlib.Path) -> bytes:
    """The key, which is made when there is none. Errors: ``InputError``."""
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
            # A link fails where another program was first, and then that one's key counts.
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
            "Move it away, and another is made; secrets then have other fingerprints than before."
        )
    return key
