"""The contents of a canister: text, image, audio, document, or data of one provider."""

import dataclasses
from typing import TypeAlias

from frozendict import frozendict


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TextualContent:
    """Text. It is plain by default."""

    text: str
    mime_type: str = "text/plain"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ImageContent:
    """An image, as raw bytes."""

    data: bytes
    mime_type: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AudioContent:
    """A sound, as raw bytes."""

    data: bytes
    mime_type: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DocumentContent:
    """A document: its raw bytes, or a URL that the provider fetches. Errors: ``ValueError`` for both or neither."""

    mime_type: str
    data: bytes | None = None
    url: str | None = None

    def __post_init__(self) -> None:
        if (self.data is None) == (self.url is None):
            raise ValueError("A document has either data or a url. Give exactly one of them.")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OpaqueContent:
    """Data that one protocol requires back verbatim and in order: signed thinking, encrypted reasoning, unknown parts.

    ``data`` is the block as it was on the wire. Other protocols leave it out.
    """

    protocol: str
    kind: str
    data: frozendict[str, object]


Content: TypeAlias = TextualContent | ImageContent | AudioContent | DocumentContent | OpaqueContent


def text_of(contents: tuple[Content, ...]) -> str:
    """The textual contents, joined without separators."""
    return "".join(content.text for content in contents if isinstance(content, TextualContent))


def legible(text: str) -> str:
    """The text with lone surrogates as escapes. File names that are not UTF-8 have them; no wire can carry them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text
