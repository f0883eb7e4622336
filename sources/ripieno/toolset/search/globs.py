"""Globs as ripgrep and git read them, in an engine whose time is linear: nobody's pattern can hang a search.

``*`` and ``?`` stop at a slash, ``**`` between slashes is any number of folders, ``[a-z]``, ``[!a-z]`` and ``{a,b}``
are choices, a backslash takes the next character as it is.
"""

import functools
import re
from collections.abc import Iterable

import jsonschema_rs

from ripieno.exceptions import ValidationFault

#: Characters of a glob, bytes that it may have when compiled, and all of a file's together.
_LENGTH, _SIZE, _TOGETHER = 1000, 256 * 1024, 4 * 1024 * 1024
_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}/&~#-]")
_DEEP = re.compile(r"(\A|/)\*\*(?:/\*\*)*(/|\Z)")


class Matcher:
    """Expressions of ``translate``, asked about whole paths. Errors: ``ValueError`` when they are too large."""

    __slots__ = ("_validator",)

    def __init__(self, expressions: Iterable[str]) -> None:
        joined = "|".join(f"(?:{one})" for one in expressions)
        options = jsonschema_rs.RegexOptions(size_limit=_TOGETHER)
        self._validator = jsonschema_rs.Draft202012Validator(
            {"pattern": f"(?s)^(?:{joined})$"}, pattern_options=options
        )

    def __call__(self, path: str) -> bool:
        return self._validator.is_valid(readable(path))


def readable(path: str) -> str:
    """A name for what takes real text only: bytes that are no UTF-8 are U+FFFD."""
    return path if path.isascii() else path.encode("utf-8", "surrogateescape").decode(errors="replace")


@functools.lru_cache(maxsize=256)
def matcher(glob: str, *, names: bool) -> Matcher:
    """Whether a path fits: all of it, or with ``names``, for a glob without slashes, its last name.

    Errors: ``ValidationFault`` that says where the glob is broken.
    """
    check(glob)
    expression = translate(glob.strip("/"))
    if names and "/" not in glob:
        expression = f"(?:.*/)?{expression}"
    return Matcher([expression])


def check(glob: str) -> None:
    """Errors: ``ValidationFault`` for what is no glob."""
    try:
        if not glob.strip("/"):
            raise ValueError("it is empty")
        if len(glob) > _LENGTH:
            raise ValueError(f"it has more than {_LENGTH} characters")
        if "\0" in glob or "\n" in glob:
            raise ValueError("no path has a NUL or a line end")
        glob.encode()
        translate(glob.strip("/"))
        options = jsonschema_rs.RegexOptions(size_limit=_SIZE)
        jsonschema_rs.Draft202012Validator({"pattern": f"(?s)^(?:{translate(glob)})$"}, pattern_options=options)
    except ValueError as error:
        reason = str(error) if type(error) is ValueError else "it is too large or has a range that is none"
        raise ValidationFault(
            f"The glob {glob[:200]!r} cannot be read: {reason}.",
            code="invalid_glob",
            suggestion="Globs are like '*.py', 'src/**/*.{js,ts}' or 'test_[a-z]*'; a backslash takes what follows it.",
        ) from None


def translate(glob: str) -> str:
    """The regular expression of a glob. Errors: ``ValueError`` that says what is wrong, and where."""
    pieces: list[str] = []
    position = 0
    open_braces: list[int] = []
    while position < len(glob):
        deep = _DEEP.match(glob, position)
        if deep is not None:
            pieces.append(_deep(deep.group(1), deep.group(2), first=position == 0))
            position = deep.end()
            continue
        character = glob[position]
        position += 1
        if character == "*":
            pieces.append("[^/]*" if pieces[-1:] != ["[^/]*"] else "")
        elif character == "?":
            pieces.append("[^/]")
        elif character == "[":
            piece, position = _class(glob, position)
            pieces.append(piece)
        elif character in "{},":
            pieces.append(_brace(character, position, open_braces))
        elif character == "\\" and position == len(glob):
            raise ValueError("it ends with a backslash")
        else:
            if character == "\\":
                character = glob[position]
                position += 1
            pieces.append(_escape(character))
    if open_braces:
        raise ValueError(f"the '{{' at character {open_braces[-1]} is not closed")
    return "".join(pieces)


def _deep(before: str, after: str, *, first: bool) -> str:
    """``**`` between slashes or ends."""
    if not after:
        return ".*" if first and not before else "/.*"
    return "(?:.*/)?" if first and not before else "(?:/|/.*/)"


def _brace(character: str, position: int, opened: list[int]) -> str:
    """A part of a choice; ``opened`` are the positions of those that are not closed."""
    if character == "{":
        opened.append(position)
        return "(?:"
    if not opened:
        if character == "}":
            raise ValueError(f"the '}}' at character {position} closes nothing")
        return ","
    if character == "}":
        opened.pop()
        return ")"
    return "|"


def _escape(character: str) -> str:
    return f"\\{character}" if _SPECIAL.match(character) and character not in "&~#-" else character


def _class(glob: str, start: int) -> tuple[str, int]:
    """The class whose first character is at ``start``, and where it has ended."""
    negated = glob[start : start + 1] in ("!", "^")
    position = start + negated
    end = glob.find("]", position + 1)
    if end < 0:
        raise ValueError(f"the '[' at character {start} is not closed")
    members = [f"\\{one}" if one in "\\]^[" else one for one in glob[position:end]]
    # A hyphen at either end is itself.
    for edge in {0, len(members) - 1}:
        if members[edge] == "-":
            members[edge] = "\\-"
    return f"[{'^' if negated else ''}{''.join(members)}]", end + 1
