"""How a form begins, recognised as it comes: each element is there, may still come, or cannot."""

import re
from collections.abc import Callable
from typing import TypeAlias

from ripieno.protocols.texts.pieces import Tools

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
