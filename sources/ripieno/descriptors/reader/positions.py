"""Positions of keys in TOML or JSON text: a second scan, made only if there is a problem to report.

The standard library's parser records no positions. This scanner accepts more than TOML allows, and agrees with the
parser on everything that the parser accepts; values are skipped. JSON text is scanned by the same rules: ``:``
replaces ``=``, and an object is an inline table that may span lines.
"""

import bisect
import json as jsonlib
import re
import tomllib
from typing import NoReturn, TypeAlias

from ripieno.lazy.expressions import expression

#: The names of keys and the indexes of elements that lead to a value.
Path: TypeAlias = tuple[str | int, ...]

_BLANK = expression(r"(?:[ \t\r\n,]|#[^\n]*+)*+")
_SPACE = expression(r"[ \t]*+")
_BARE = expression(r"[A-Za-z0-9_-]++")
_QUOTED = expression(r'"(?:[^"\\\n]|\\.)*+"|\'[^\'\n]*+\'')
_STRING = expression(
    r'"""(?:[^"\\]|\\[\s\S]|""?(?!"))*+"{3,5}'
    r"|'''(?:[^']|''?(?!'))*+'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*+"'
    r"|'[^'\n]*+'"
)
_SCALAR = expression(r"[^,\]}#\r\n\"'\[{]++")


class ScanFailure(ValueError):
    """The text is malformed or exceeds a bound; ``line`` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


class Positions:
    """The line of every key path of one text. A path has the names of keys and the indexes of elements.

    Malformed text is scanned up to the error. ``parts`` bounds the parts of one key, and ``depth`` the nesting, by
    brackets or by keys; exceeding one is a ``ScanFailure``, and so is malformed text if ``strict``.
    """

    def __init__(
        self, text: str, *, json: bool = False, parts: int = 1_000, depth: int = 100, strict: bool = False
    ) -> None:
        self._text = text
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._parts = parts
        self._depth = depth
        self._json = json
        self._at = 0
        #: Positions of paths that are written, and of those that are only implied, as ``a`` is by ``[a.b]``.
        self._written: dict[Path, int] = {}
        self._implied: dict[Path, int] = {}
        #: The number of elements of each array of tables so far.
        self._counts: dict[Path, int] = {}
        self.failure: ScanFailure | None = None
        try:
            if json:
                self._skip(_BLANK)
                self._value((), 0)
            else:
                self._document()
        except ScanFailure as failure:
            if strict:
                raise
            self.failure = failure

    def __contains__(self, path: Path) -> bool:
        """Whether exactly this path is written or implied."""
        return path in self._written or path in self._implied

    def find(self, path: Path) -> tuple[int, str] | None:
        """Line number and line of a path, or of its nearest ancestor in the text."""
        for length in range(len(path), 0, -1):
            at = self._written.get(path[:length], self._implied.get(path[:length]))
            if at is not None:
                return self.line(at)
        return None

    def line(self, at: int) -> tuple[int, str]:
        """Line number, from 1, and line of a character."""
        number = bisect.bisect_right(self._starts, at)
        end = self._text.find("\n", at)
        return number, self._text[self._starts[number - 1] : len(self._text) if end < 0 else end].rstrip("\r")

    def _fail(self, message: str) -> NoReturn:
        raise ScanFailure(message, bisect.bisect_right(self._starts, self._at))

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match.group()

    def _take(self, token: str) -> bool:
        if not self._text.startswith(token, self._at):
            return False
        self._at += len(token)
        return True

    def _document(self) -> None:
        table: Path = ()
        self._skip(_BLANK)
        while self._at < len(self._text):
            start = self._at
            if self._take("["):
                several = self._take("[")
                table = self._header(self._key(), several, start)
                if not self._take("]]" if several else "]"):
                    self._fail("a table's name is not closed")
            else:
                self._entry(table, 0)
            self._skip(_BLANK)

    def _header(self, key: tuple[str, ...], several: bool, start: int) -> Path:
        """The path of a table that is opened by its name; earlier parts may name arrays of tables."""
        path: Path = ()
        for position, part in enumerate(key):
            path = (*path, part)
            if several and position == len(key) - 1:
                self._counts[path] = self._counts.get(path, 0) + 1
            self._implied.setdefault(path, start)
            if path in self._counts:
                path = (*path, self._counts[path] - 1)
                self._implied.setdefault(path, start)
        self._written[path] = start
        self._bound(len(path))
        return path

    def _entry(self, table: Path, depth: int) -> None:
        """One ``key = value``."""
        start = self._at
        path = table
        for part in self._key():
            path = (*path, part)
            self._implied.setdefault(path, start)
        self._written[path] = start
        self._bound(len(path))
        if not (self._take("=") or self._take(":")):
            self._fail("a key has no value")
        self._skip(_BLANK if depth else _SPACE)
        self._value(path, depth)

    def _key(self) -> tuple[str, ...]:
        parts: list[str] = []
        while True:
            self._skip(_SPACE)
            quoted = self._skip(_QUOTED)
            part = _unquote(quoted, self._json) if quoted else self._skip(_BARE)
            if part is None or not (part or quoted):
                self._fail("a key was expected")
            parts.append(part)
            if len(parts) > self._parts:
                self._fail(f"a key has more than {self._parts} parts")
            self._skip(_SPACE)
            if not self._take("."):
                return tuple(parts)

    def _bound(self, depth: int) -> None:
        if depth > self._depth:
            self._fail(f"values are nested more than {self._depth} deep")

    def _value(self, path: Path, depth: int) -> None:
        self._bound(depth)
        if self._take("["):
            index = 0
            self._skip(_BLANK)
            while not self._take("]"):
                self._written[(*path, index)] = self._at
                self._value((*path, index), depth + 1)
                index += 1
                self._skip(_BLANK)
        elif self._take("{"):
            self._skip(_BLANK)
            while not self._take("}"):
                self._entry(path, depth + 1)
                self._skip(_BLANK)
        elif not (self._skip(_STRING) or self._skip(_SCALAR)):
            self._fail("a value was expected")


def _unquote(quoted: str, json: bool) -> str | None:
    """The text of a quoted key; None if it is malformed."""
    try:
        return str(jsonlib.loads(quoted) if json else tomllib.loads(f"k={quoted}")["k"])
    except ValueError:
        return None
