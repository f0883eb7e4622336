"""The contents of a canister: text, image, audio, document, or data of one provider."""

from typing import Any, TypeAlias

from frozendict import frozendict
from msgspec.structs import force_setattr

from ripieno.jsonvalues import EMPTY, freeze, is_list
from ripieno.values import Value


def freeze_fields(value: Value, *names: str) -> None:
    """Freezes fields of a new value that hold JSON; None stays. Errors: ``JsonInvalidity``."""
    for name in names:
        given = getattr(value, name)
        # The empty one is the default of most.
        if given is not EMPTY and (frozen := freeze(given)) is not given:
            force_setattr(value, name, frozen)


def tuple_fields(value: Value, *names: str) -> None:
    """Makes tuples of fields of a new value; None stays. Errors: ``TypeError`` for a text or no sequence."""
    for name in names:
        given = getattr(value, name)
        if type(given) is tuple or given is None:
            continue
        if not is_list(given):
            raise TypeError(f"{name} of {type(value).__name__} is a tuple or a list, not {type(given).__name__}.")
        force_setattr(value, name, tuple(given))


def _copy_bytes(value: Value) -> None:
    """Copies ``data`` of a new content if it is a buffer that may change."""
    data: Any = getattr(value, "data")  # noqa: B009  a field of several classes
    if type(data) in (bytearray, memoryview):
        force_setattr(value, "data", bytes(data))


class TextualContent(Value, kw_only=True):
    """Text. It is plain by default."""

    text: str
    mime_type: str = "text/plain"


class ImageContent(Value, kw_only=True):
    """An image, as raw bytes. ``name`` is that of its file, for people; models do not read it."""

    data: bytes
    mime_type: str
    name: str = ""

    def __post_init__(self) -> None:
        _copy_bytes(self)


class AudioContent(Value, kw_only=True):
    """A sound, as raw bytes. ``name`` is that of its file, for people; models do not read it."""

    data: bytes
    mime_type: str
    name: str = ""

    def __post_init__(self) -> None:
        _copy_bytes(self)


class DocumentContent(Value, kw_only=True):
    """A document: its raw bytes, or a URL that the provider fetches. Errors: ``ValueError`` for both or neither.

    ``name`` is that of its file, for people; models do not read it.
    """

    mime_type: str
    data: bytes | None = None
    url: str | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if (self.data is None) == (self.url is None):
            raise ValueError("A document has either data or a url. Give exactly one of them.")
        _copy_bytes(self)


class OpaqueContent(Value, kw_only=True):
    """Data that one protocol requires back verbatim and in order: signed thinking, encrypted reasoning, unknown parts.

    ``data`` is the block as it was on the wire. Other protocols leave it out.
    """

    protocol: str
    kind: str
    data: frozendict[str, object]

    def __post_init__(self) -> None:
        freeze_fields(self, "data")


Content: TypeAlias = TextualContent | ImageContent | AudioContent | DocumentContent | OpaqueContent


def media(data: bytes, mime_type: str) -> ImageContent | AudioContent | DocumentContent:
    """The content of bytes of a media type."""
    kinds: dict[str, type[ImageContent | AudioContent]] = {"image": ImageContent, "audio": AudioContent}
    return kinds.get(mime_type.partition("/")[0], DocumentContent)(data=data, mime_type=mime_type)


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
