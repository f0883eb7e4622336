"""Globs of rules and of file searches, translated for an engine whose time is linear: no pattern can hang it."""

import dataclasses
import re
import unicodedata
import urllib.parse
from collections.abc import Iterable

#: Bytes that all expressions of a matcher may have together, compiled.
_SIZE = 4 * 1024 * 1024
_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}/]")
#: The parts of a path's glob.
_PARTS = re.compile(
    r"(?P<deep>(?:\A|/)\*\*(?:/\*\*)*(?:/|\Z))|(?P<many>\*+)|(?P<one>\?)|\[(?P<members>[!^]?+.[^\]]*)\]"
    r"|(?P<brace>[{},])|\\?(?P<literal>.)",
    re.DOTALL,
)
#: ``**`` by whether a slash stands before and behind it.
_DEEP = {(False, False): ".*", (True, False): "/.*", (False, True): "(?:.*/)?", (True, True): "(?:/|/.*/)"}
#: The parts of a rule's glob, and what its wildcards stand for. Those of an approving rule never stand for a character
#: to which a shell or a path gives a meaning.
_TEXTS = re.compile(r"(?P<wildcard>\*+|\?)|(?P<literal>(?:[^\\*?]|\\.)+)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_COVERING = {"?": "[^/]", "*": "[^/]*", "**": ".*"}
_MEANING = ";|&$<>`\\\\\"'{}()!#"
_FITTING = {"?": f"[^/{_MEANING}]", "*": f"[^/{_MEANING}]*", "**": f"[^{_MEANING}]*"}
_UP = re.compile(r"(?:^|[^\w.])\.\.(?:$|[^\w.])")
_ROOT = re.compile(r"[/\\~]|[A-Za-z]:")
_SLASHES = re.compile(r"[/\\]+(?:\.[/\\]+)*")
_HERE = re.compile(r"/\.\Z")
_UNREADABLE = re.compile("[\ud800-\udfff]")


class Matcher:
    """Expressions, asked about whole texts. Errors: ``ValueError`` when they are no expressions, or too large."""

    __slots__ = ("_validator",)

    def __init__(self, expressions: Iterable[str], size: int = _SIZE) -> None:
        # Most programs never need it, and importing it takes long.
        import jsonschema_rs

        joined = "|".join(f"(?:{one})" for one in expressions)
        options = jsonschema_rs.RegexOptions(size_limit=size)
        self._validator = jsonschema_rs.Draft202012Validator(
            {"pattern": f"(?s)^(?:{joined})$"}, pattern_options=options
        )

    def __call__(self, text: str) -> bool:
        return self._validator.is_valid(text if text.isascii() else _readable(text))


def _readable(text: str) -> str:
    """Text without surrogates: bytes of a path that are no UTF-8 become U+FFFD, and so does any other one."""
    try:
        return text.encode("utf-8", "surrogateescape").decode(errors="replace")
    except UnicodeEncodeError:
        return _UNREADABLE.sub("\ufffd", text)


def translate(glob: str) -> str:
    """The regular expression of a path's glob, as ripgrep and git read it.

    ``*`` and ``?`` stop at a slash, ``**`` between slashes is any number of folders, ``[a-z]``, ``[!a-z]`` and
    ``{a,b}`` are choices, a backslash takes the next character as it is. Errors: ``ValueError`` that says what is
    wrong, and where.
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
    """A part of a choice; ``opened`` are the places of those that are not closed."""
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
    """The class of these members, with what negates it."""
    negated = text[0] in "!^"
    members = [f"\\{one}" if one in "\\]^[" else one for one in text[negated:]]
    # A hyphen at either end is itself.
    for edge in {0, len(members) - 1}:
        if members[edge] == "-":
            members[edge] = "\\-"
    return f"[{'^' if negated else ''}{''.join(members)}]"


@dataclasses.dataclass(frozen=True, slots=True)
class Glob:
    """The glob of a rule, which matches whole texts, in two degrees of strictness.

    ``beginning`` is what stands before the first wildcard. ``covering`` are matchers for the glob as written; without
    case, forms of letters, or doubled slashes; and the same behind any slash.
    """

    text: str
    beginning: str
    fitting: Matcher = dataclasses.field(compare=False, repr=False)
    covering: tuple[Matcher, Matcher, Matcher] = dataclasses.field(compare=False, repr=False)

    @classmethod
    def of(cls, text: str) -> "Glob":
        """The glob of a text, in which a backslash takes the meaning from the next character.

        ``*`` and ``?`` stop at a slash, ``**`` does not. Errors: ``ValueError`` when it is too large.
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
            # All that is below a folder is also what is right in it: ``a/**/b`` may be ``a/b``.
            loose += _escape(folded.removeprefix("/") if before in ("/", "\\") else folded)
            before = literal
        covering = (Matcher([exact]), Matcher([loose]), Matcher([f"(?:.*/)?{loose}"]))
        return cls(text, beginning, Matcher([fitting]), covering)

    def fits(self, value: object) -> bool:
        """Whether a value is certainly one that is meant.

        No text with ``..`` is, nor one with a character that is not printed or has another form; wildcards stand for
        nothing that a shell gives a meaning; and what begins at a root is meant only where that is written out.
        """
        if not isinstance(value, str) or ".." in value or "%2e" in value.casefold():
            return False
        if not value.isprintable() or unicodedata.normalize("NFKC", value) != value:
            return False
        root = _ROOT.match(value)
        return (root is None or self.beginning.startswith(root[0])) and self.fitting(value)

    def covers(self, value: object) -> bool:
        """Whether a value is, or may be, one that is meant: another way to write it is, and so is what goes up.

        A path from a root is, too, where its end is meant; and the folder itself, where all that is in it is meant.
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
            for form in (one, f"/{one}", f"{one}/")
        )


def _fold(text: str, *, start: bool = True, end: bool = True) -> str:
    """Without case, compatible forms, doubled slashes and folders that are the same; backslashes are slashes."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    folded = _SLASHES.sub("/", folded)
    folded = _HERE.sub("/", folded) if end else folded
    return folded.removeprefix("./") if start else folded
