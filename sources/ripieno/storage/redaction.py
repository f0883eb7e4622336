"""Redaction of secrets, in every encoded form, in texts, bytes, JSON values and logs."""

import base64
import binascii
import functools
import json
import logging
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ripieno.jsonvalues import is_list, is_table, listed
from ripieno.storage.encodings import NEAR, View, escapes, fold, forms, groups, unfinished, views

#: The replacement of a secret.
HIDDEN = "[hidden]"
#: Characters of the shortest secret, and of the shortest form of one. A shorter one would match parts of words.
_SHORTEST = 8
#: Precedes the data of a ``data`` URL.
_BASE64 = ";base64,"
#: Keys of JSON objects whose texts are base64.
_DATA = frozenset({"data", "blob"})
#: The bytes of a word. A form of at least ``_LONG`` bytes has a whole word of any text in which it is.
_WORD = 8
_LONG = 2 * _WORD - 1
#: Characters of a part of a form. One escape in a form of 8 characters has a part before or after it.
_PART = 4
#: Where a secret begins and ends, and its replacement.
_Hit = tuple[int, int, str]


class Redactor:
    """Replaces known secrets, in any case and in the encodings of ``ripieno.storage.encodings``.

    At one place the longest form is replaced, since one secret may be part of another. ``mark`` makes the replacement.
    Secrets of less than 8 characters are ignored.
    """

    def __init__(self, secrets: Iterable[str] = (), *, mark: Callable[[str], str] = lambda _: HIDDEN) -> None:
        self._mark = mark
        #: The marks by secret.
        self._secrets: dict[str, str] = {}
        self._escapes = escapes(())
        #: By form, in lower case.
        self._marks: dict[str, str] = {}
        self._short: tuple[str, ...] = ()
        self._long: tuple[str, ...] = ()
        #: The words of the long forms, as numbers.
        self._words: frozenset[int] = frozenset()
        #: The parts of all forms, made for the first text with escapes.
        self._parts: frozenset[str] | None = None
        self._bytes: Redactor | None = None
        self._prefixes: frozenset[str] | None = None
        self.learn(secrets)

    def __bool__(self) -> bool:
        """Whether it knows any secret."""
        return bool(self._marks)

    def learn(self, secrets: Iterable[str]) -> None:
        """Adds secrets."""
        known = {
            stripped for one in listed(secrets) if len(stripped := one.strip()) >= _SHORTEST
        } - self._secrets.keys()
        if known:
            new = {secret: self._mark(secret) for secret in sorted(known)}
            self._secrets.update(new)
            self._escapes = escapes(self._secrets)
            self._search({fold(form): mark for secret, mark in new.items() for form in forms(secret)})

    def _search(self, marks: Mapping[str, str]) -> None:
        self._marks = {**{form: mark for form, mark in marks.items() if len(form) >= _SHORTEST}, **self._marks}
        encoded = {form: form.encode("utf-8", "surrogatepass") for form in self._marks}
        self._short = tuple(form for form, data in encoded.items() if len(data) < _LONG)
        self._long = tuple(form for form, data in encoded.items() if len(data) >= _LONG)
        words = (encoded[form][at : at + _WORD] for form in self._long for at in range(_WORD))
        self._words = frozenset(int.from_bytes(word, sys.byteorder) for word in words)
        self._parts = self._bytes = self._prefixes = None

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The positions of secrets in a text."""
        return [(start, end) for start, end, _ in self._found(text)]

    def text(self, text: str) -> str:
        """The text with a mark for each secret, including the base64 of a ``data`` URL."""
        if not self._marks:
            return text
        head, mark, data = text.partition(_BASE64)
        if mark:
            text = head + mark + self._base64(data)
        return _replaced(text, self._found(text))

    def data(self, data: bytes) -> bytes:
        """The bytes with a mark for each secret."""
        if not self._marks:
            return data
        try:
            text = data.decode()
        except UnicodeDecodeError:
            # Each byte is a character. Escapes occur by chance, and are not decoded.
            text, redactor = data.decode("latin-1"), self._of_bytes()
            found = redactor._in_view(View(fold(text)))
            return _replaced(text, _apart(found)).encode("latin-1") if found else data
        shown = self.text(text)
        return data if shown is text else shown.encode("utf-8", "surrogatepass")

    def value(self, value: Any) -> Any:
        """Bytes or a JSON value with a mark for each secret: in texts, keys, numbers and base64."""
        return self._value(value) if self._marks else value

    def unsettled(self, text: str, start: int) -> int:
        """The position, at least ``start``, from which the end of a text may begin a secret."""
        if self._prefixes is None:
            self._prefixes = frozenset(form[:size] for form in self._marks for size in range(1, len(form)))
        longest = max(map(len, self._marks), default=0)
        # A character has at most 6 in its encodings.
        first = max(start, len(text) - 6 * longest)
        tail = text[first:]
        begun = unfinished(tail)
        settled = len(text) if begun == len(tail) else first + begun
        for view in views(tail[:begun], self._escapes):
            # Base64 may continue on the next line.
            seen = view.text.rstrip("\r\n")
            for at in range(max(0, len(seen) - longest + 1), len(seen)):
                if seen[at:] in self._prefixes or view.text[at:] in self._prefixes:
                    settled = min(settled, first + view.span(at, at)[0])
                    break
        return settled

    def suspects(self, *texts: str) -> bool:
        """Whether texts or JSON may contain a secret; base64 always may."""
        if not self._marks:
            return False
        # A line's end after an identifier would look like wrapped base64.
        together = "\0".join(texts)
        return '"data":"' in together or bool(self._found(together))

    def _found(self, text: str) -> list[_Hit]:
        """The secrets in a text, from left to right."""
        if not self._marks or len(text) < _SHORTEST:
            return []
        # Most texts have no secret: these are not decoded as a whole.
        folded = fold(text)
        if not self._present(folded) and not self._escaped(text, folded):
            return []
        return _apart([hit for view in views(text, self._escapes) for hit in self._in_view(view)])

    def _escaped(self, text: str, folded: str) -> bool:
        """Whether a secret may be in a text only without its escapes: as much as the shortest form is around one."""
        for start, end, several in groups(text, self._escapes):
            # Before it may be a \\r, and what follows may belong to the next one, as in %2541.
            beside = (folded[max(0, start - _PART - 1) : start], folded[end : end + NEAR])
            if (several or any(map(self._parts_at, beside))) and any(
                _successive(self._parts_at(view.text), _SHORTEST - _PART)
                for view in views(text[max(0, start - NEAR) : end + NEAR], self._escapes)
            ):
                return True
        return False

    def _parts_at(self, text: str) -> list[int]:
        """The positions in a text, which is in lower case, of parts of forms."""
        if self._parts is None:
            starts = ((form, at) for form in self._marks for at in range(len(form) - _PART + 1))
            self._parts = frozenset(form[at : at + _PART] for form, at in starts)
        parts = self._parts
        return [at for at in range(len(text) - _PART + 1) if text[at : at + _PART] in parts]

    def _in_view(self, view: View) -> list[_Hit]:
        return [
            (*view.span(start, start + len(form)), self._marks[form])
            for form in self._present(view.text)
            for start in _starts(view.text, form)
        ]

    def _present(self, text: str) -> list[str]:
        """The forms in a text, which is in lower case. An alternation of all forms would be slow."""
        present = [form for form in self._short if form in text]
        if self._long:
            data = memoryview(text.encode("utf-8", "surrogatepass"))
            if not self._words.isdisjoint(data[: len(data) // _WORD * _WORD].cast("Q")):
                present += [form for form in self._long if form in text]
        return present

    def _of_bytes(self) -> "Redactor":
        """This redactor for bytes, each as a character."""
        if self._bytes is None:
            self._bytes = Redactor()
            encoded = {
                form.encode("utf-8", "surrogatepass"): mark
                for secret, mark in self._secrets.items()
                for form in forms(secret)
            }
            self._bytes._search({fold(form.decode("latin-1")): mark for form, mark in encoded.items()})
        return self._bytes

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


def _starts(text: str, form: str) -> Iterator[int]:
    at = text.find(form)
    while at >= 0:
        yield at
        at = text.find(form, at + len(form))


def _successive(positions: list[int], count: int) -> bool:
    """Whether each of ``count`` positions after one of these is one of these."""
    return any(last - first == count for first, last in zip(positions, positions[count:], strict=False))


def _apart(hits: list[_Hit]) -> list[_Hit]:
    """The hits in order, without those that overlap an earlier or longer one."""
    kept: list[_Hit] = []
    for hit in sorted(hits, key=lambda hit: (hit[0], -hit[1])):
        if not kept or hit[0] >= kept[-1][1]:
            kept.append(hit)
    return kept


def _replaced(text: str, hits: list[_Hit]) -> str:
    if not hits:
        return text
    parts: list[str] = []
    at = 0
    for start, end, mark in hits:
        parts += (text[at:start], mark)
        at = end
    return "".join((*parts, text[at:]))


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
