"""Finding lines that match a literal or a regular expression, in time linear in the text.

A model's expression must not hang the program, so Python's ``re`` is not used for matching. The engine is that of the
schemas, the same as ripgrep's. Its ECMA dialect has ASCII-only classes; they are expanded to ripgrep's meaning. It only
reports whether a text matches, not where. The more expensive an expression, the smaller the part of a long line that it
is applied to.
"""

import re
from collections.abc import Iterator

import jsonschema_rs

from ripieno.exceptions import ValidationFault
from ripieno.schemas.regexes import rate
from ripieno.toolset.arguments import encoded

#: Units of work (0.06 µs each) at a time, since the interpreter is blocked meanwhile.
_WORK = 800_000
#: Bytes of a compiled expression: a Unicode class has some ten thousand.
_SIZE = 256 * 1024
#: Units per character of text of a cheap expression.
_LIGHT = 3
_WORD = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\u200c\u200d"
_CLASSES = {"d": r"\p{Nd}", "D": r"\P{Nd}", "s": r"\p{White_Space}", "S": r"\P{White_Space}"}
#: Anchors of the whole text, and flags that end line mode: the text is then not matched before its lines.
_WHOLE = re.compile(r"\\[Az]|\(\?[a-zA-Z]*-")
#: Operations on classes, about which Python warns because their meaning may change.
_SETS = re.compile(r"\[\^?\[|--|&&|~~|\|\|")
_LINE_END = re.compile(r"(?<!\\)(?:\\\\)*\\n")


def check(pattern: str, *, literal: bool) -> None:
    """Errors: ``ValidationFault`` for a pattern that no line can match."""
    if not pattern:
        raise ValidationFault(
            "An empty pattern matches every line.", code="empty_pattern", suggestion="To list files, use find_files."
        )
    if "\0" in pattern or "\n" in pattern or (not literal and _LINE_END.search(pattern)):
        raise ValidationFault(
            "A pattern is matched within lines, so it cannot contain a line end or a NUL.",
            code="multiline",
            suggestion="Search for one of its lines, with context_lines for the lines around it.",
        )
    encoded(pattern, "pattern", "invalid_pattern")


def invalid(pattern: str, reason: str, position: int | None) -> ValidationFault:
    """The fault of an invalid regular expression. ``position`` is a character, counted from 0."""
    where = "" if position is None else f" at character {position + 1}"
    details = {} if position is None else {"position": position}
    return ValidationFault(
        f"The regular expression {pattern[:200]!r} cannot be read: {reason}{where}.",
        code="invalid_pattern",
        details=details,
        suggestion="To find these characters literally, put a backslash before each special one, or use search with "
        'type = "literal".',
    )


class Expression:
    """A compiled search. Errors: ``ValidationFault`` for an invalid or too large regular expression."""

    def __init__(self, pattern: str, *, literal: bool, case_sensitive: bool) -> None:
        self._needle = pattern.encode() if literal and case_sensitive else None
        if self._needle is not None:
            return
        escaped = re.sub(r"[\\^$.|?*+()\[\]{}/]", lambda found: f"\\{found[0]}", pattern)
        expression = escaped if literal else _widen(pattern)
        flags = "" if case_sensitive else "i"
        try:
            self._line = _compile(f"(?{flags}:{expression})" if flags else expression)
            self._text = None if _WHOLE.search(pattern) else _compile(f"(?m{flags})(?:{expression})")
        except ValueError:
            raise invalid(pattern, *explain(pattern)) from None
        units = _LIGHT if rate(pattern) == _LIGHT else rate(expression)
        self._block = _WORK // max(units, 1)

    def spots(self, data: bytes) -> Iterator[tuple[int, int, int]]:
        """The matching lines of ``data``: start and end of each, and the offset of the match in it."""
        if self._needle is not None:
            yield from self._needles(data, self._needle)
            return
        start = 0
        while start < len(data):
            end = data.rfind(b"\n", start, start + self._block) + 1
            end = end or data.find(b"\n", start + self._block) + 1 or len(data)
            text = data[start : min(end, start + self._block)].decode(errors="replace")
            if self._text is None or self._text.is_valid(text):
                yield from self._lines(data, start, end)
            start = end

    def _lines(self, data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        while start < end:
            stop = data.find(b"\n", start, end)
            stop = end if stop < 0 else stop
            if self._line.is_valid(data[start : min(stop, start + self._block)].decode(errors="replace")):
                yield start, stop, 0
            start = stop + 1

    @staticmethod
    def _needles(data: bytes, needle: bytes) -> Iterator[tuple[int, int, int]]:
        found = data.find(needle)
        while found >= 0:
            start = data.rfind(b"\n", 0, found) + 1
            stop = data.find(b"\n", found)
            stop = len(data) if stop < 0 else stop
            yield start, stop, found - start
            found = data.find(needle, stop + 1)


def _compile(expression: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(
        {"pattern": expression}, pattern_options=jsonschema_rs.RegexOptions(size_limit=_SIZE)
    )


def _widen(pattern: str) -> str:
    """The expression with ``\\d``, ``\\w`` and ``\\s`` for all of Unicode, and a dot for all of a line."""
    pieces: list[str] = []
    inside = False
    position = 0
    while position < len(pattern):
        one = pattern[position]
        if one == "\\" and position + 1 < len(pattern):
            letter = pattern[position + 1]
            if letter == "w":
                pieces.append(_WORD if inside else f"[{_WORD}]")
            elif letter == "W" and not inside:
                pieces.append(f"[^{_WORD}]")
            else:
                pieces.append(_CLASSES.get(letter, f"\\{letter}"))
            position += 2
            continue
        if inside and one == "[":
            # ECMA reads nested and POSIX classes differently.
            raise invalid(pattern, "a '[' in a class needs a backslash without ripgrep,", position)
        if inside and pattern[position : position + 2] in ("&&", "--", "~~"):
            raise invalid(pattern, "classes cannot be combined without ripgrep,", position)
        if one == "[" and not inside:
            inside = True
            # A leading bracket is a member.
            following = re.compile(r"\^?\]").match(pattern, position + 1)
            if following is not None:
                pieces.append("[" + following[0][:-1] + "\\]")
                position = following.end()
                continue
        elif one == "]":
            inside = False
        elif one == "." and not inside:
            # ECMA's dot stops at U+2028 and carriage returns, too.
            one = r"[^\n]"
        pieces.append(one)
        position += 1
    return "".join(pieces)


def explain(pattern: str) -> tuple[str, int | None]:
    """The reason and the position of a refused expression, by Python's parser, which never matches it here."""
    try:
        if not _SETS.search(pattern):
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        if isinstance(error, re.error):
            return error.msg, error.pos
    return "it is too large, or uses unsupported features such as look-around and back-references", None
