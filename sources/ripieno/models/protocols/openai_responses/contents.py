"""Contents as parts of Responses messages and results, and back."""

from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.canisters import Content, DocumentContent, ImageContent, OpaqueContent, TextualContent
from ripieno.exceptions import InputError
from ripieno.jsonvalues import freeze, is_table
from ripieno.models.protocols.common.openai import data_url, image_at, read_data_url
from ripieno.models.protocols.common.requests import decoded, parts_in

NAME = "openai-responses"
_TEXTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
#: The keys of a part with the data of an image or a file; a part with others becomes opaque.
_PLAIN = frozenset({"type", "detail", "image_url", "file_data", "file_url", "filename"})
_DETAILS = (None, "auto")


def parts_of(contents: Sequence[Content]) -> str | list[Mapping[str, Any]]:
    """The ``content`` of a message, empty for empty contents. One text is a string."""
    parts = [part for content in contents if (part := part_of(content)) is not None]
    return str(parts[0]["text"]) if len(parts) == 1 and is_plain_text(parts[0]) else parts


def is_plain_text(part: Mapping[str, Any]) -> bool:
    return part["type"] == "input_text" and set(part) == {"type", "text"}


def part_of(content: Content) -> Mapping[str, Any] | None:
    """The part of a content; None for an empty text and for what this wire lacks."""
    if isinstance(content, TextualContent):
        return {"type": "input_text", "text": content.text} if content.text else None
    if isinstance(content, ImageContent):
        return _image_part(data_url(content.data, content.mime_type))
    if isinstance(content, DocumentContent):
        return _document_part(content)
    if isinstance(content, OpaqueContent) and content.protocol == NAME and content.kind.startswith("input_"):
        return content.data
    return None


def _document_part(content: DocumentContent) -> Mapping[str, Any]:
    if content.data is not None:
        data = data_url(content.data, content.mime_type)
        return {"type": "input_file", "filename": "document", "file_data": data}
    if content.mime_type.startswith("image/"):
        return _image_part(str(content.url))
    return {"type": "input_file", "file_url": content.url}


def _image_part(url: str) -> Mapping[str, Any]:
    return {"type": "input_image", "detail": "auto", "image_url": url}


def contents_of(native: object) -> tuple[Content, ...]:
    """The contents of a message or result; none for null and an empty text. Errors: ``InputError``."""
    return () if native is None else tuple(_content(part) for part in parts_in(native))


def _content(part: object) -> Content:
    if not is_table(part):
        raise InputError("A part is an object with a type.")
    kind = part.get("type")
    if kind in _TEXTS:
        return TextualContent(text=str(part.get(_TEXTS[kind]) or ""))
    plain = part.keys() <= _PLAIN and part.get("detail") in _DETAILS
    url = str(part.get("image_url") or "")
    # ``detail`` is only a hint: it is dropped where the part has the image's data.
    if kind == "input_image" and url and (plain or (part.keys() <= _PLAIN and url.startswith("data:"))):
        return image_at(url)
    if plain and kind == "input_file" and part.get("file_data"):
        return _file(str(part["file_data"]))
    if plain and kind == "input_file" and part.get("file_url"):
        return DocumentContent(url=str(part["file_url"]), mime_type="application/pdf")
    if isinstance(kind, str) and kind.startswith("input_"):
        return OpaqueContent(protocol=NAME, kind=kind, data=freeze(part))
    raise InputError(f"A part has the type {kind!r}, which is not supported here.")


def _file(text: str) -> Content:
    if not text.startswith("data:"):
        return DocumentContent(data=decoded(text), mime_type="application/octet-stream")
    mime_type, data = read_data_url(text)
    return DocumentContent(data=data, mime_type=mime_type)
