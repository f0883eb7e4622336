"""What a canister carries: text, image, audio, document, or what only one provider understands."""

import dataclasses
from typing import TypeAlias

from frozendict import frozendict


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TextualContent:
    """Text: plain, unless ``mime_type`` says otherwise."""

    text: str
    mime_type: str = "text/plain"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ImageContent:
    """An image: its bytes, not encoded."""

    data: bytes
    mime_type: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AudioContent:
    """A sound: its bytes, not encoded."""

    data: bytes
    mime_type: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DocumentContent:
    """A document: its bytes, or a URL that the provider fetches. Exactly one of the two is given.

    Errors: ``ValueError`` when both or neither are given.
    """

    mime_type: str
    data: bytes | None = None
    url: str | None = None

    def __post_init__(self) -> None:
        if (self.data is None) == (self.url is None):
            raise ValueError("A document has either data or a url: give exactly one of them.")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OpaqueContent:
    """What one protocol must get back verbatim and in order: signed thinking, encrypted reasoning, unknown parts.

    ``data`` is the block as it stood on the wire. Sent over another protocol it is left out.
    """

    protocol: str
    kind: str
    data: frozendict[str, object]


Content: TypeAlias = TextualContent | ImageContent | AudioContent | DocumentContent | OpaqueContent


def text_of(contents: tuple[Content, ...]) -> str:
    """The textual contents, joined as they stand."""
    return "".join(content.text for content in contents if isinstance(content, TextualContent))


def legible(text: str) -> str:
    """The same text, with halves of characters shown as escapes.

    Names of files that are not UTF-8 come with them, and no wire can carry them.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text
