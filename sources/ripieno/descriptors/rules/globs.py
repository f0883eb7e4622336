"""Globs of rules and of file searches, translated for an engine with linear time."""

import re
import unicodedata
import urllib.parse
from collections.abc import Iterable

from ripieno.lazy.expressions import expression
from ripieno.values import Value, uncompared, unprinted

#: Bytes of all compiled expressions of a matcher.
_SIZE = 4 * 1024 * 1024
_SPECIAL = expression(r"[\\^$.|?*+()\[\]{}/]")
#: The parts of a path's glob.
_PARTS = expression(
    r"(?P<deep>(?:\A|/)\*\*(?:/\*\*)*(?:/|\Z))|(?P<many>\*+)|(?P<one>\?)|\[(?P<members>[!^]?+.[^\]]*)\]"
    r"|(?P<brace>[{},])|\\?(?P<literal>.)",
    re.DOTALL,
)
#: Any text. A dot of the engine stops at the ends of lines, with any flag (jsonschema-rs 0.61).
_ANY = r"[\s\S]*"
#: ``**`` by whether a slash is before and after it.
_DEEP = {
    (False, False): _ANY,
    (True, False): f"/{_ANY}",
    (False, True): f"(?:{_ANY}/)?",
    (True, True): f"(?:/|/{_ANY}/)",
}
#: The parts of a rule's glob, and the expressions of its wildcards. In an approving rule they never match a character
#: that has a meaning in a shell or a path.
_TEXTS = expression(r"(?P<wildcard>\*+|\?)|(?P<literal>(?:[^\\*?]|\\.)+)", re.DOTALL)
_ESCAPED = expression(r"\\(.)", re.DOTALL)
_COVERING = {"?": "[^/]", "*": "[^/]*", "**": _ANY}
_MEANING = ";|&$<>`\\\\\"'{}()!#"
_FITTING = {"?": f"[^/{_MEANING}]", "*": f"[^/{_MEANING}]*", "**": f"[^{_MEANING}]*"}
_UP = expression(r"(?:^|[^\w.])\.\.(?:$|[^\w.])")
_ROOT = expression(r"[/\\~]|[A-Za-z]:")
_SLASHES = expression(r"[/\\]+(?:\.[/\\]+)*")
_HERE = expression(r"/\.\Z")
_UNREADABLE = expression("[\ud800-\udfff]")


class Matcher:
    """Matches whole texts with expressions. Errors: ``ValueError`` for expressions that are invalid or too large."""

    __slots__ = ("_validator",)

    def __init__(self, expressions: Iterable[str], size: int = _SIZE) -> None:
        # Most programs never need it, and the import is slow.
        import jsonschema_rs

        joined = "|".join(f"(?:{one})" for one in expressions)
        options = jsonschema_rs.RegexOptions(size_limit=size)
        self._validator = jsonschema_rs.Draft202012Validator({"pattern": f"^(?:{joined})$"}, pattern_options=options)

    def __call__(self, text: str) -> bool:
        return self._validator.is_valid(text if text.isascii() else _readable(text))


def _readable(text: str) -> str:
    """Text with U+FFFD in place of surrogates, which stand for bytes of a path that are not UTF-8."""
    try:
        return text.encode("utf-8", "surrogateescape").decode(errors="replace")
    except UnicodeEncodeError:
        return _UNREADABLE.sub("\ufffd", text)


def translate(glob: str) -> str:
    """The regular expression of a path's glob, as in ripgrep and git.

    ``*`` and ``?`` do not match a slash, ``**`` between slashes is any number of folders, ``[a-z]``, ``[!a-z]`` and
    ``{a,b}`` are choices, a backslash makes the next character literal. Errors: ``ValueError`` with the position.
    """
    pieces: list[str] = []
    opened: list[int] = []
    for part in _PARTS.finditer(glob):
        text, place = part[0], part.start() + 1
        if part["deep"]:
            pieces.append(_DEEP[text[0] == "/", text[-1] == "/"])
        elif part["many"]:
            pieces.append("[^/]*")
        elif part["one"]:
            pieces.append("[^/]")
        elif part["members"]:
            pieces.append(_class(part["members"]))
        elif part["brace"]:
            pieces.append(_brace(text, place, opened))
        elif text == "[":
            raise ValueError(f"the '[' at character {place} is not closed")
        elif text == "\\":
            raise ValueError("it ends with a backslash")
        else:
            pieces.append(_escape(part["literal"]))
    if opened:
        raise ValueError(f"the '{{' at character {opened[-1]} is not closed")
    return "".join(pieces)


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text)


def _brace(character: str, place: int, opened: list[int]) -> str:
    """The expression of a character of a choice; ``opened`` has the positions of open braces."""
    if character == "{":
        opened.append(place)
        return "(?:"
    if not opened:
        if character == "}":
            raise ValueError(f"the '}}' at character {place} closes nothing")
        return ","
    if character == "}":
        opened.pop()
        return ")"
    return "|"


def _class(text: str) -> str:
    """The character class of a text in brackets, which may begin with a negation."""
    negated = text[0] in "!^"
    members = [f"\\{one}" if one in "\\]^[" else one for one in text[negated:]]
    # A hyphen at either end is literal.
    for edge in {0, len(members) - 1}:
        if members[edge] == "-":
            members[edge] = "\\-"
    return f"[{'^' if negated else ''}{''.join(members)}]"


@uncompared("fitting", "covering")
@unprinted("fitting", "covering")
class Glob(Value):
    """The glob of a rule, which matches whole texts in two ways.

    ``beginning`` is the text before the first wildcard. ``covering`` are three matchers: of the glob as written; of
    normalized texts (without case, letter forms, double slashes); and of the end of such a text, after any slash.
    """

    text: str
    beginning: str
    fitting: Matcher
    covering: tuple[Matcher, Matcher, Matcher]

    @classmethod
    def of(cls, text: str) -> "Glob":
        """The glob of a text, in which a backslash makes the next character literal.

        ``*`` and ``?`` do not match a slash, ``**`` does. Errors: ``ValueError`` if it is too large.
        """
        beginning = fitting = exact = loose = before = ""
        for part in _TEXTS.finditer(text):
            wildcard = part["wildcard"]
            if wildcard:
                fitting += _FITTING[wildcard[:2]]
                exact += _COVERING[wildcard[:2]]
                loose += _COVERING[wildcard[:2]]
                before = before[-1:] if wildcard[:2] == "**" else ""
                continue
            literal = _ESCAPED.sub(r"\1", part["literal"])
            beginning = beginning if part.start() else literal
            fitting += _escape(literal)
            exact += _escape(literal)
            folded = _fold(literal, start=not part.start(), end=part.end() == len(text))
            # ``**`` may match no folder at all: ``a/**/b`` covers ``a/b``.
            loose += _escape(folded.removeprefix("/") if before in ("/", "\\") else folded)
            before = literal
        covering = (Matcher([exact]), Matcher([loose]), Matcher([f"(?:.*/)?{loose}"]))
        return cls(text, beginning, Matcher([fitting]), covering)

    def fits(self, value: object) -> bool:
        """Whether a value certainly matches.

        A text with ``..``, or with a character that is not printable or not normalized, does not match. Wildcards
        match no character with a meaning in a shell. A path from a root matches only a glob with that root.
        """
        if not isinstance(value, str) or ".." in value or "%2e" in value.casefold():
            return False
        if not value.isprintable() or unicodedata.normalize("NFKC", value) != value:
            return False
        root = _ROOT.match(value)
        return (root is None or self.beginning.startswith(root[0])) and self.fitting(value)

    def covers(self, value: object) -> bool:
        """Whether a value matches or may match: also in another spelling, and with ``..``.

        A path from a root matches if its end does; a folder matches if everything in it does.
        """
        if not isinstance(value, str):
            return True
        plain = _fold(value)
        decoded = _fold(urllib.parse.unquote(value))
        if any(_UP.search(one) for one in (value, plain, decoded)) or "\0" in decoded:
            return True
        exact, loose, below = self.covering
        return exact(value) or any(
            (loose if _ROOT.match(one) is None else below)(form)
            for one in {plain, decoded}
            for form in (one, f"/{one}", f"{one}/", one.rstrip("/"))
        )


def ascends(value: object) -> bool:
    """Whether a value is a text with ``..`` as a part of a path, in any spelling."""
    forms = (value, _fold(value), _fold(urllib.parse.unquote(value))) if isinstance(value, str) else ()
    return any(_UP.search(one) for one in forms)


def _fold(text: str, *, start: bool = True, end: bool = True) -> str:
    """A normalized text: without case, compatible forms, double slashes and ``./``; backslashes become slashes."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    folded = _SLASHES.sub("/", folded)
    folded = _HERE.sub("/", folded) if end else folded
    return folded.removeprefix("./") if start else folded
