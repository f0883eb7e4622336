"""Where a call ends, found as it comes: every character is looked at once, whatever it is cut into.

A body is fed text from where it begins, and says how far it has read: nothing before that is shown to it again.

What a text is taken apart into: what was said, what was thought, calls, and the markup around these.

How a form begins, recognised as it comes: each element is there, may still come, or cannot.
"""

import dataclasses
import enum
import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

#: The tools that may be called: the JSON Schema of their arguments, by name.
Tools: TypeAlias = Mapping[str, Mapping[str, Any]]


@dataclasses.dataclass(frozen=True, slots=True)
class Text:
    """What is no call."""

    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Reasoning:
    """What a form has a place of its own for: the channel of a model's analysis."""

    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Wrapping:
    """Markup that stands around calls, and says nothing by itself."""

    raw: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TextCall:
    """A call. ``arguments`` is JSON, or what stood in its place and cannot be read.

    ``raw`` is the text that was the call. Where one text makes several calls, the first has all of it.
    """

    name: str
    arguments: str
    raw: str


Piece: TypeAlias = Text | Reasoning | Wrapping | TextCall


def source_of(piece: Piece) -> str:
    """The text that a piece was: those of all pieces, joined, are the text that was taken apart."""
    return piece.text if isinstance(piece, Text | Reasoning) else piece.raw


#: More text is needed to tell; and no text could make it fit.
MORE, NO = -1, -2
#: A pattern takes as much as it can; of literals one must stand there.
Element: TypeAlias = re.Pattern[str] | tuple[str, ...]
#: Where the body begins in a text whose opener ends at a place; or ``MORE``, or ``NO``.
Head: TypeAlias = Callable[[str, int, Tools], int]

SPACE = re.compile(r"\s*")
NAME = re.compile(r"[^\s\"'<>{}()\[\]=,;]+")
#: Characters of a head: beyond these it is none.
LONGEST = 512
#: Characters that no mark has.
WIDEST = 64


def sequence(*elements: Element) -> Head:
    """The head of these elements, one after the other. The body begins with the last of them."""

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
    """The end of the one of these texts that stands there; ``MORE``, or ``NO``."""
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
    """What a body says of the text it was fed."""

    #: It goes on.
    OPEN = enum.auto()
    #: It ends there.
    ENDED = enum.auto()
    #: It is none.
    NONE = enum.auto()
    #: A string of it is broken: it was to end in its line.
    TORN = enum.auto()


class Body(Protocol):
    """The rest of a frame, after its head."""

    def feed(self, text: str, at: int, *, final: bool) -> tuple[int, Verdict]:
        """How far the text was read from a place on, and what that came to. ``final``: nothing follows."""
        ...


class Empty:
    """Nothing: what follows the head is text again."""

    def feed(self, text: str, at: int, *, final: bool) -> tuple[int, Verdict]:
        del text, final
        return at, Verdict.ENDED


_IN_STRING = re.compile(r'[^"\\\n]*(?:\\[^\n][^"\\\n]*)*')


class Closed:
    """JSON, up to a closer that stands in none of its strings.

    A string ends in its line. One that does not is torn: whoever holds the frame looks for a closer in it; where there
    is none, the next one closes, wherever it stands.
    """

    def __init__(self, *closers: str) -> None:
        self.closers = closers
        self._stops = re.compile("|".join(map(re.escape, ('"', *closers))))
        self._closers = re.compile("|".join(map(re.escape, closers)))
        self._string = False
        self._torn = False
        self._read = 0
        #: Where the last string began, counted from the beginning of the body.
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
    """Values between tags, then an end.

    A value may have anything in it. It ends at a ``closer`` after which, blanks aside, comes one of ``following``.
    After the ``end``, blanks aside, ``last`` must come, where there is one.
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
                    return (at, Verdict.NONE) if end < 0 else (end, Verdict.ENDED)
                # What is read between values may be the end of it.
                self._state = "value" if end < 0 else "between"


_JSON = re.compile(r'["\[\]{}]')
_PYTHON = re.compile(r"[\"'\[\]{}()]")
_OPENING = frozenset("[{(")
_IN_SINGLE = re.compile(r"[^'\\\n]*(?:\\[^\n][^'\\\n]*)*")
_BLANKS = re.compile(r"[ \t\r]*")


class Balanced:
    """Brackets, up to the one that closes the first. Strings end in their line; brackets in them do not count.

    ``python``: parentheses and single quotes count. ``alone``: nothing but blanks follows in its line. ``depth`` is how
    many brackets the head has opened.
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
    """A JSON object that is all there is to the end of the text, but for ``tail`` and blanks."""

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
    """Where the longest match ends; the pattern matches nothing, too."""
    match = pattern.match(text, at)
    return at if match is None else match.end()


def beginning_of(text: str, at: int, markers: tuple[str, ...]) -> int:
    """The place from which on the text may be the beginning of a marker that goes on."""
    longest = max(map(len, markers)) - 1
    for start in range(max(at, len(text) - longest), len(text)):
        if any(marker.startswith(text[start:]) for marker in markers):
            return start
    return len(text)
