"""Grammar of text calls: the pieces of a text, the heads of forms, and the end of a call, while text streams in.

A body is fed text from its beginning and returns how far it has read. Nothing before that is passed again, so every
character is read once, however the text is cut.
"""

import enum
import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

from ripieno.values import Value

#: The JSON Schemas of callable tools' arguments, by name.
Tools: TypeAlias = Mapping[str, Mapping[str, Any]]


class Text(Value):
    """Ordinary text."""

    text: str


class Reasoning(Value):
    """The text of a form's channel for a model's analysis."""

    text: str


class Wrapping(Value):
    """Markup around calls, without meaning of its own."""

    raw: str


class TextCall(Value, kw_only=True):
    """A call. ``arguments`` is JSON, or unreadable text in its place.

    ``raw`` is the source text. If one text makes several calls, the first has all of it.
    """

    name: str
    arguments: str
    raw: str


Piece: TypeAlias = Text | Reasoning | Wrapping | TextCall


#: More text is needed to decide; no text could match.
MORE, NO = -1, -2
#: A pattern matches as much as it can; of a tuple's literals, one must match.
Element: TypeAlias = re.Pattern[str] | tuple[str, ...]
#: Gives the position of the body in a text whose opener ends at a position, or ``MORE``, or ``NO``.
Head: TypeAlias = Callable[[str, int, Tools], int]

SPACE = re.compile(r"\s*")
NAME = re.compile(r"[^\s\"'<>{}()\[\]=,;]+")
#: Maximum characters of a head.
LONGEST = 512
#: Every mark has fewer characters.
WIDEST = 64


def sequence(*elements: Element) -> Head:
    """A head of consecutive elements. The body begins with the last one."""

    def follow(text: str, at: int, _: Tools) -> int:
        start = at
        for element in elements:
            start = at
            at = literal(text, at, element) if isinstance(element, tuple) else _taken(text, at, element)
            if at < 0:
                return at
        return start

    return follow


def literal(text: str, at: int, choices: tuple[str, ...]) -> int:
    """The end of the literal at a position, or ``MORE``, or ``NO``."""
    for choice in choices:
        if text.startswith(choice, at):
            return at + len(choice)
    if len(text) - at >= WIDEST:
        return NO
    rest = text[at:]
    return MORE if any(choice.startswith(rest) for choice in choices) else NO


def _taken(text: str, at: int, pattern: re.Pattern[str]) -> int:
    match = pattern.match(text, at)
    end = at if match is None else match.end()
    if end == len(text):
        return MORE
    return NO if match is None else end


class Verdict(enum.Enum):
    """The state of a body after the text it was fed."""

    #: It continues.
    OPEN = enum.auto()
    #: It ends at the returned position.
    ENDED = enum.auto()
    #: The text is no such body.
    NONE = enum.auto()
    #: One of its strings does not end in its line.
    TORN = enum.auto()


class Body(Protocol):
    """The part of a frame after its head."""

    def feed(self, text: str, at: int, *, final: bool) -> tuple[int, Verdict]:
        """Returns how far it read from a position, and the state. ``final``: no text follows."""
        ...


class Empty:
    """An empty body: text follows the head."""

    def feed(self, text: str, at: int, *, final: bool) -> tuple[int, Verdict]:
        del text, final
        return at, Verdict.ENDED


_IN_STRING = re.compile(r'[^"\\\n]*(?:\\[^\n][^"\\\n]*)*')


class Closed:
    """JSON up to a closer outside of its strings.

    A string ends in its line; otherwise it is torn. The caller then looks for a closer inside of it; if there is none,
    the next closer counts, wherever it is.
    """

    def __init__(self, *closers: str) -> None:
        self.closers = closers
        self._stops = re.compile("|".join(map(re.escape, ('"', *closers))))
        self._closers = re.compile("|".join(map(re.escape, closers)))
        self._string = False
        self._torn = False
        self._read = 0
        #: The position of the last string in the body.
        self.string_at = 0

    def feed(self, text: str, at: int, *, final: bool) -> tuple[int, Verdict]:
        end, verdict = self._feed(text, at, final=final)
        self._read += end - at
        return end, verdict

    def _feed(self, text: str, at: int, *, final: bool) -> tuple[int, Verdict]:
        begun = at
        while True:
            if self._string and not self._torn:
                at = _end_of(_IN_STRING, text, at)
                if at == len(text) or (text[at] == "\\" and at + 1 == len(text)):
                    if not final:
                        return at, Verdict.OPEN
                    self._torn = True
                    return len(text), Verdict.TORN
                if text[at] != '"':
                    self._torn = True
                    return at, Verdict.TORN
                self._string = False
                at += 1
            stop = (self._closers if self._torn else self._stops).search(text, at)
            if stop is None:
                return beginning_of(text, at, self.closers), Verdict.OPEN
            if stop.group() != '"':
                return stop.end(), Verdict.ENDED
            self._string = True
            at = stop.end()
            self.string_at = self._read + at - begun


class Tagged:
    """Values between tags, and an end tag.

    A value may contain anything. It ends at a ``closer`` that is followed, after blanks, by one of ``following``.
    ``last``, if set, belongs to the body if it follows the ``end`` after blanks. Other text ends the body, too.
    """

    def __init__(self, *, opener: str, closer: str, end: str, following: tuple[str, ...], last: str = "") -> None:
        self._opener, self._closer, self._end, self._last = opener, closer, end, last
        self._following = following
        self._between = re.compile(f"{re.escape(opener)}|{re.escape(end)}")
        self._state = "between"

    def feed(self, text: str, at: int, *, final: bool) -> tuple[int, Verdict]:
        del final
        while True:
            if self._state == "between":
                found = self._between.search(text, at)
                if found is None:
                    return beginning_of(text, at, (self._opener, self._end)), Verdict.OPEN
                at = found.end()
                if found.group() == self._opener:
                    self._state = "value"
                elif not self._last:
                    return at, Verdict.ENDED
                else:
                    self._state = "last"
            elif self._state == "value":
                start = text.find(self._closer, at)
                if start < 0:
                    return beginning_of(text, at, (self._closer,)), Verdict.OPEN
                at = start + len(self._closer)
                self._state = "after"
            else:
                at = _end_of(SPACE, text, at)
                expected = self._following if self._state == "after" else (self._last,)
                end = literal(text, at, expected)
                if end == MORE:
                    return at, Verdict.OPEN
                if self._state == "last":
                    return at if end < 0 else end, Verdict.ENDED
                # Text between values may be the end.
                self._state = "value" if end < 0 else "between"


_JSON = re.compile(r'["\[\]{}]')
_PYTHON = re.compile(r"[\"'\[\]{}()]")
_OPENING = frozenset("[{(")
_IN_SINGLE = re.compile(r"[^'\\\n]*(?:\\[^\n][^'\\\n]*)*")
_BLANKS = re.compile(r"[ \t\r]*")


class Balanced:
    """Brackets up to the one that closes the first. Strings end in their line; brackets in strings do not count.

    ``python``: parentheses and single quotes count. ``alone``: only blanks may follow in the line. ``depth`` is the
    number of brackets that the head opened.
    """

    def __init__(self, *, depth: int = 0, python: bool = False, alone: bool = False) -> None:
        self._depth = depth
        self._tokens = _PYTHON if python else _JSON
        self._alone = alone
        self._quote = ""
        self._complete = False

    def feed(self, text: str, at: int, *, final: bool) -> tuple[int, Verdict]:
        while not self._complete:
            if self._quote:
                at = _end_of(_IN_STRING if self._quote == '"' else _IN_SINGLE, text, at)
                if at == len(text) or (text[at] == "\\" and at + 1 == len(text)):
                    return at, Verdict.OPEN
                if text[at] != self._quote:
                    return at, Verdict.NONE
                self._quote = ""
                at += 1
            token = self._tokens.search(text, at)
            if token is None:
                return len(text), Verdict.OPEN
            at = token.end()
            sign = token.group()
            if sign in _OPENING:
                self._depth += 1
            elif sign in "\"'":
                self._quote = sign
            else:
                self._depth -= 1
                self._complete = self._depth == 0
        if not self._alone:
            return at, Verdict.ENDED
        at = _end_of(_BLANKS, text, at)
        if at == len(text):
            return at, Verdict.ENDED if final else Verdict.OPEN
        return at, Verdict.ENDED if text[at] == "\n" else Verdict.NONE


class Whole:
    """A JSON object up to the end of the text, apart from ``tail`` and blanks."""

    def __init__(self, tail: str = "") -> None:
        self._object = Balanced()
        self._tail = tail
        self._complete = False

    def feed(self, text: str, at: int, *, final: bool) -> tuple[int, Verdict]:
        if not self._complete:
            at, verdict = self._object.feed(text, at, final=final)
            if verdict is not Verdict.ENDED:
                return at, verdict
            self._complete = True
        at = _end_of(SPACE, text, at)
        if self._tail and at < len(text):
            end = literal(text, at, (self._tail,))
            if end < 0:
                return at, Verdict.OPEN if end == MORE else Verdict.NONE
            self._tail = ""
            at = _end_of(SPACE, text, end)
        if at < len(text) or (final and self._tail):
            return at, Verdict.NONE
        return at, Verdict.ENDED if final else Verdict.OPEN


def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    """The end of the longest match at a position, which may be empty."""
    match = pattern.match(text, at)
    return at if match is None else match.end()


def beginning_of(text: str, at: int, markers: tuple[str, ...]) -> int:
    """The position from which the text may be the beginning of an incomplete marker."""
    longest = max(map(len, markers)) - 1
    for start in range(max(at, len(text) - longest), len(text)):
        if any(marker.startswith(text[start:]) for marker in markers):
            return start
    return len(text)
