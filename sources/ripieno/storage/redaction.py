"""Redaction of secrets, in every encoded form, in texts, bytes, JSON values and logs."""

import base64
import binascii
import functools
import json
import logging
import re
import urllib.parse
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ripieno.jsonvalues import is_list, is_table

#: The replacement of a secret.
HIDDEN = "[hidden]"
#: Characters of the shortest secret, and of the shortest form of one. A shorter one would match parts of words.
_SHORTEST = 8
#: Precedes the data of a ``data`` URL.
_BASE64 = ";base64,"
#: Keys of JSON objects whose texts are base64.
_DATA = frozenset({"data", "blob"})


class Redactor:
    """Replaces known secrets, and their forms in URLs, JSON, base64 and logs.

    At one place the longest form is replaced first, since one secret may be part of another. ``mark`` makes the
    replacement. Secrets of less than 8 characters are ignored.
    """

    def __init__(self, secrets: Iterable[str] = (), *, mark: Callable[[str], str] = lambda _: HIDDEN) -> None:
        self._mark = mark
        self._secrets: frozenset[str] = frozenset()
        self._marks: dict[str, str] = {}
        self._prefixes: frozenset[str] | None = None
        self._in_json: tuple[str, ...] | None = None
        self.learn(secrets)

    def __bool__(self) -> bool:
        """Whether it knows any secret."""
        return bool(self._marks)

    def learn(self, secrets: Iterable[str]) -> None:
        """Adds secrets."""
        known = self._secrets.union(stripped for one in secrets if len(stripped := one.strip()) >= _SHORTEST)
        if known == self._secrets:
            return
        marks = {form: self._mark(secret) for secret in known for form in _forms(secret) if len(form) >= _SHORTEST}
        self._secrets, self._prefixes, self._in_json = known, None, None
        self._marks = dict(sorted(marks.items(), key=lambda one: len(one[0]), reverse=True))

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The positions of secrets in a text."""
        pattern = self._pattern(text)
        return [] if pattern is None else [found.span() for found in pattern.finditer(text)]

    def text(self, text: str) -> str:
        """The text with a mark for each secret, including the base64 of a ``data`` URL."""
        if not self._marks:
            return text
        head, mark, data = text.partition(_BASE64)
        if mark:
            text = head + mark + self._base64(data)
        pattern = self._pattern(text)
        return text if pattern is None else pattern.sub(lambda found: self._marks[found[0]], text)

    def data(self, data: bytes) -> bytes:
        """The bytes with a mark for each secret."""
        for form, mark in self._marks.items():
            data = data.replace(form.encode("utf-8", "surrogatepass"), mark.encode())
        return data

    def value(self, value: Any) -> Any:
        """Bytes or a JSON value with a mark for each secret: in texts, keys, numbers and base64."""
        return self._value(value) if self._marks else value

    def unsettled(self, text: str, start: int) -> int:
        """The position, at least ``start``, from which the end of a text may begin a secret."""
        if self._prefixes is None:
            self._prefixes = frozenset(form[:size] for form in self._marks for size in range(1, len(form)))
        longest = len(next(iter(self._marks), ""))
        first = max(start, len(text) - longest + 1)
        return next((at for at in range(first, len(text)) if text[at:] in self._prefixes), len(text))

    def suspects(self, *texts: str) -> bool:
        """Whether texts or JSON may contain a secret. Fast when they do not; base64 always may."""
        if not self._marks:
            return False
        if self._in_json is None:
            self._in_json = tuple({written for form in self._marks for written in _in_json(form)})
        together = "\n".join(texts)
        return '"data":"' in together or any(form in together for form in self._in_json)

    def _pattern(self, text: str) -> re.Pattern[str] | None:
        """The pattern of the secrets in a text. An alternation of all known ones would be slow."""
        present = [form for form in self._marks if form in text]
        return re.compile("|".join(map(re.escape, present))) if present else None

    def _value(self, value: Any, name: str = "") -> Any:
        if isinstance(value, str):
            return self.text(self._base64(value) if name in _DATA else value)
        if is_table(value):
            return {self.text(key): self._value(item, key) for key, item in value.items()}
        if is_list(value):
            return [self._value(item) for item in value]
        if isinstance(value, bytes):
            return self.data(value)
        if value is None or isinstance(value, bool):
            return value
        shown = self.text(written := json.dumps(value))
        return value if shown == written else shown

    def _base64(self, text: str) -> str:
        """Redacts base64; text that is not base64 is unchanged."""
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            return text
        hidden = self.data(data)
        return text if hidden == data else base64.b64encode(hidden).decode()


#: Knows no secret.
NO_SECRETS = Redactor()


def _forms(secret: str) -> Iterator[str]:
    """A secret and its forms in URLs, JSON, credentials and logs; in base64 also as part of a longer text."""
    encoded = secret.encode("utf-8", "surrogatepass")
    yield secret
    yield urllib.parse.quote(encoded, safe="")
    yield urllib.parse.quote_plus(encoded)
    yield from _in_json(secret)
    yield repr(encoded)[2:-1]
    yield base64.b64encode(encoded).decode()
    # A prefix shifts it by 0 to 2 bytes; the characters that it shares with the secret are left out.
    for offset, first in ((0, 0), (1, 2), (2, 3)):
        core = base64.b64encode(bytes(offset) + encoded).decode()[first : (offset + len(encoded)) * 8 // 6]
        yield core
        yield core.replace("+", "-").replace("/", "_")


def _in_json(text: str) -> tuple[str, str]:
    """A text as it is inside JSON: in UTF-8, and in ASCII."""
    return json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]


class _LogFilter(logging.Filter):
    """Removes the secrets of all live redactors from log records."""

    def __init__(self) -> None:
        super().__init__()
        self.redactors: dict[int, weakref.ref[Redactor]] = {}

    def add(self, redactor: Redactor) -> None:
        """Removes its secrets, too, as long as it lives."""
        key, known = id(redactor), self.redactors
        if redactor and key not in known:
            known[key] = weakref.ref(redactor, lambda _: known.pop(key, None))

    def filter(self, record: logging.LogRecord) -> bool:
        message = kept = record.getMessage()
        # ``list`` copies in one step, so that no garbage collection changes the table meanwhile.
        for reference in list(self.redactors.values()):
            redactor = reference()
            kept = kept if redactor is None else redactor.text(kept)
        if kept != message:
            record.msg, record.args = kept, ()
        return True


_FILTER = _LogFilter()


@functools.cache
def _loggers_of(names: tuple[str, ...]) -> tuple[logging.Logger, ...]:
    return tuple(map(logging.getLogger, names))


def redact_logs(loggers: tuple[str, ...], *redactors: Redactor) -> None:
    """Keeps the secrets of ``redactors`` out of the logs of libraries, at every level, during their lifetime.

    A filter applies to one logger and not to its children: ``loggers`` names each. Repeated before each request, it
    also holds after an application has configured its logs anew.
    """
    for logger in _loggers_of(loggers):
        if _FILTER not in logger.filters:
            logger.addFilter(_FILTER)
    for redactor in redactors:
        _FILTER.add(redactor)
