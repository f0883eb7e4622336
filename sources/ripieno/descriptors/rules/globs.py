"""Globs over texts of arguments, matched in time that grows with the text alone, in two degrees of strictness."""

import dataclasses
import re
import unicodedata
import urllib.parse
from collections.abc import Iterable, Sequence

#: What a wildcard of an approving pattern never stands for: a shell or a path gives it a meaning of its own.
_MEANING = frozenset(";|&$<>`\\\"'{}()!#")
_UP = re.compile(r"(?:^|[^\w.])\.\.(?:$|[^\w.])")
_ROOT = re.compile(r"[/\\~]|[A-Za-z]:")
_SLASHES = re.compile(r"[/\\]+(?:\.[/\\]+)*")
_HERE = re.compile(r"/\.\Z")


@dataclasses.dataclass(frozen=True, slots=True)
class Token:
    """A character, or, with none, a wildcard: ``many`` for any number, ``deep`` for slashes too."""

    character: str = ""
    many: bool = False
    deep: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Glob:
    """Matches whole texts. ``tokens`` as written, ``folded`` without case, forms of letters, or doubled slashes."""

    tokens: tuple[Token, ...]
    folded: tuple[Token, ...]

    @classmethod
    def of(cls, text: str) -> "Glob":
        """The glob of a text in which a backslash takes the meaning from the next character."""
        tokens = tuple(_tokens(text))
        return cls(tokens, tuple(_folded(tokens)))

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
        if root and "".join(token.character for token in self.tokens[: len(root[0])]) != root[0]:
            return False
        return _match(self.tokens, value, _MEANING)

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
        if _match(self.tokens, value):
            return True
        return any(
            _match(self.folded, form, ends=_ROOT.match(one) is not None)
            for one in {plain, decoded}
            for form in (one, f"/{one}", f"{one}/")
        )


def _tokens(text: str) -> Iterable[Token]:
    """Neighbouring stars are one wildcard, a deep one if there is more than one."""
    position = 0
    while position < len(text):
        character = text[position]
        if character == "*":
            stars = len(text[position:]) - len(text[position:].lstrip("*"))
            yield Token(many=True, deep=stars > 1)
            position += stars
            continue
        if character == "\\":
            position += 1
            character = text[position]
            yield Token(character)
        else:
            yield Token() if character == "?" else Token(character)
        position += 1


def _folded(tokens: Sequence[Token]) -> Iterable[Token]:
    """Characters that stand together are folded together."""
    literal = ""
    for index, token in enumerate(tokens):
        if token.character:
            literal += token.character
            if index + 1 < len(tokens) and tokens[index + 1].character:
                continue
            before = index - len(literal)
            beyond = before > 0 and tokens[before].deep and tokens[before - 1].character in ("/", "\\")
            folded = _fold(literal, start=index + 1 == len(literal), end=index + 1 == len(tokens))
            # All that is below a folder is also what is right in it: ``a/**/b`` may be ``a/b``.
            yield from map(Token, folded.removeprefix("/") if beyond else folded)
            literal = ""
        else:
            yield token


def _fold(text: str, *, start: bool = True, end: bool = True) -> str:
    """Without case, compatible forms, doubled slashes and folders that are the same; backslashes are slashes."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    folded = _SLASHES.sub("/", folded)
    folded = _HERE.sub("/", folded) if end else folded
    return folded.removeprefix("./") if start else folded


def _match(tokens: Sequence[Token], text: str, never: frozenset[str] = frozenset(), *, ends: bool = False) -> bool:
    """Follows all ways through the tokens at once, one bit each; ``never`` is what no wildcard stands for.

    With ``ends`` it is enough that what follows one of the slashes matches.
    """
    stars = sum(1 << index for index, token in enumerate(tokens) if token.many)
    known: dict[str, tuple[int, int]] = {}
    start = state = 1 | (stars & 1) << 1
    for character in text:
        masks = known.get(character)
        if masks is None:
            masks = known[character] = _masks(tokens, character, never)
        stay, go = masks
        state = (state & stay) | (state & go) << 1
        state |= (state & stars) << 1
        if ends and character == "/":
            state |= start
        if not state and not ends:
            return False
    return bool(state >> len(tokens) & 1)


def _masks(tokens: Sequence[Token], character: str, never: frozenset[str]) -> tuple[int, int]:
    """The wildcards that take a character and stay, and the tokens that it leads on from."""
    stay = go = 0
    for index, token in enumerate(tokens):
        if token.character:
            go |= (token.character == character) << index
        elif character not in never and (token.deep or character != "/"):
            if token.many:
                stay |= 1 << index
            else:
                go |= 1 << index
    return stay, go
