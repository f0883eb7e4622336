"""Makes every character of a text visible: none can hide, move the cursor, or look like another one.

Characters are escaped as in JSON (``\\n``, ``\\u202e``, two escapes beyond 16 bits). So visible JSON is still JSON with
the same value.
"""

import functools
import re
import unicodedata
from collections.abc import Iterator

from ripieno.lazy.expressions import expression

_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
#: Scripts whose letters are shown, by the first word of their names. Those with equal values may share a word.
_SCRIPTS = {
    **{name: name.lower() for name in ("LATIN", "CYRILLIC", "GREEK", "HANGUL", "DEVANAGARI", "THAI")},
    **dict.fromkeys(("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"), "east asian"),
}
#: Latin letters that are not an ASCII letter with a mark, and that look like no other letter.
_LATIN = frozenset("ßæøœđłþðÆØŒĐŁÞÐ")
#: Letters that look like Latin ones, or like punctuation. A word of only these is shown by its code points.
_LIKENESSES = frozenset(
    "АВЕЅІЈКМНОРСТУХЗБаеѕіјорсухһԁԛԝѵгпиЬьѴҮүҺԌԜӀӏΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹϳανικορυγωτηχϲ一丨丶丿二八口工ノニハロエトー"
)
#: Signs that look like no punctuation: emoji without the ornaments among them, and some others. Quotes and dashes that
#: are not ASCII are escaped: a shell reads them as letters, so that what they seem to quote or to switch off would run.
_SIGNS = expression(
    "[\U0001f300-\U0001f64f\U0001f680-\U0001f6ff\U0001f900-\U0001f9ff\U0001fa70-\U0001faff"
    "\u20ac\u00b0\u2190-\u2193\u2605\u2606\u26a0\u2705\u2713\u2714\u2717\u2718\u274c\u2764]"
)
#: An escape, whose letters are not part of the word after it; or a word.
_WORD = expression(r"\\(?:u[0-9a-fA-F]{4}|.)|[^\W_]+", re.DOTALL)
#: One character or one escape of visible text. Surrogate pairs stay together.
_PIECE = expression(r"\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|\\u[0-9a-f]{4}|\\.|.", re.DOTALL)


def visible(text: str) -> str:
    """The text in one line, in which each character is either plain or an escape.

    Escaped are control characters; characters without a shape or a cell, that reverse the direction, that are another
    form of a common character, of an unknown script, or punctuation that is not ASCII; and the letters of words that
    mix scripts, or that consist only of letters that look like Latin ones. Backslashes stay unchanged.
    """
    if text.isascii() and text.isprintable():
        return text
    shown: list[str] = []
    end = 0
    for word in _WORD.finditer(text):
        shown += map(_escaped, text[end : word.start()])
        shown += map(_escaped, word[0]) if word[0][0] == "\\" else (_word(word[0]),)
        end = word.end()
    shown += map(_escaped, text[end:])
    return "".join(shown)


def pieces(shown: str) -> Iterator[str]:
    """The indivisible pieces of visible text."""
    return (match[0] for match in _PIECE.finditer(shown))


def cells(shown: str) -> int:
    """The maximum of cells that visible text takes on a terminal: letters that may be wide count as wide."""
    return len(shown) if shown.isascii() else sum(map(_cells, shown))


def wrap(shown: str, width: int) -> list[str]:
    """Lines of at most ``width`` cells (at least 12) whose concatenation is the text. At least one line."""
    width, lines, line, used = max(width, 12), list[str](), list[str](), 0
    for piece in pieces(shown):
        size = cells(piece)
        if used + size > width:
            lines.append("".join(line))
            line, used = [], 0
        line.append(piece)
        used += size
    return [*lines, "".join(line)]


def _word(word: str) -> str:
    if word.isascii():
        return word
    scripts = {_script(character) for character in word if not character.isdecimal() or not character.isascii()}
    letters = [character for character in word if not character.isascii()]
    if len(scripts) > 1 or ("latin" not in scripts and all(character in _LIKENESSES for character in letters)):
        return "".join(map(_escaped, word))
    return "".join(character if _script(character) else _escaped(character) for character in word)


@functools.lru_cache(maxsize=4096)
def _script(character: str) -> str:
    """The script of a letter that may be shown, ``latin`` for ASCII, or "" for others."""
    if character.isascii():
        return "latin"
    if not character.isalpha() or unicodedata.bidirectional(character) != "L":
        return ""
    if unicodedata.normalize("NFKC", character) != character:
        return ""
    script = _SCRIPTS.get(unicodedata.name(character, "").partition(" ")[0], "")
    if script == "latin" and character not in _LATIN:
        base = unicodedata.normalize("NFD", character)[0]
        return script if base.isascii() else ""
    # Fillers, and the letters that compose syllables, are drawn over each other or not at all.
    return "" if script == "hangul" and not "\uac00" <= character <= "\ud7a3" else script


def _escaped(character: str) -> str:
    if character.isascii() and character.isprintable():
        return character
    if character in _SHORT:
        return _SHORT[character]
    if _SIGNS.match(character) and unicodedata.category(character) in ("So", "Sc", "Sm"):
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[index]:02x}{units[index + 1]:02x}" for index in range(0, len(units), 2))


@functools.lru_cache(maxsize=4096)
def _cells(character: str) -> int:
    return 2 if unicodedata.east_asian_width(character) in "WFA" else 1
