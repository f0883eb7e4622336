"""What a text is taken apart into: what was said, what was thought, calls, and the markup around these."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

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
class Call:
    """A call. ``arguments`` is JSON, or what stood in its place and cannot be read.

    ``raw`` is the text that was the call. Where one text makes several calls, the first has all of it.
    """

    name: str
    arguments: str
    raw: str


Piece: TypeAlias = Text | Reasoning | Wrapping | Call


def source_of(piece: Piece) -> str:
    """The text that a piece was: those of all pieces, joined, are the text that was taken apart."""
    return piece.text if isinstance(piece, Text | Reasoning) else piece.raw
