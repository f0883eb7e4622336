"""Contents as blocks of the Messages wire, and back."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.canisters import Content, DocumentContent, ImageContent, OpaqueContent, TextualContent
from ripieno.exceptions import InputError
from ripieno.jsonvalues import freeze, is_table
from ripieno.models.protocols.common.requests import decoded, parts_in

NAME = "anthropic"


def blocks_of(contents: Sequence[Content]) -> list[Mapping[str, Any]]:
    """The blocks of contents in a request, without those that this wire lacks or refuses."""
    return [block for content in contents if not is_blank(content) and (block := block_of(content)) is not None]


def is_blank(content: Content) -> bool:
    """Whether it is a blank text, which answers may contain and requests may not."""
    return isinstance(content, TextualContent) and not content.text.strip()


def block_of(content: Content) -> Mapping[str, Any] | None:
    """The block of a content; None for an empty text and for what this wire lacks."""
    if isinstance(content, TextualContent):
        return {"type": "text", "text": content.text} if content.text else None
    if isinstance(content, ImageContent):
        return {"type": "image", "source": _encoded(content.data, content.mime_type)}
    if isinstance(content, DocumentContent):
        kind = "image" if content.mime_type.startswith("image/") else "document"
        return {"type": kind, "source": _document_source(content)}
    if isinstance(content, OpaqueContent) and content.protocol == NAME:
        return content.data
    return None


def _encoded(data: bytes, mime_type: str) -> dict[str, Any]:
    return {"type": "base64", "media_type": mime_type, "data": base64.b64encode(data).decode()}


def _document_source(content: DocumentContent) -> dict[str, Any]:
    if content.data is None:
        return {"type": "url", "url": content.url}
    if content.mime_type.startswith("text/"):
        return text_source(content.data.decode("utf-8", "replace"))
    return _encoded(content.data, content.mime_type)


def text_source(text: str) -> dict[str, Any]:
    return {"type": "text", "media_type": "text/plain", "data": text}


def contents_of(native: object) -> tuple[Content, ...]:
    """The contents of a message or result; none for an empty text. Errors: ``InputError``."""
    return () if native is None else tuple(content_of(block) for block in parts_in(native, "blocks"))


def content_of(block: object) -> Content:
    """The content of a block; an unknown block becomes opaque. Errors: ``InputError``."""
    if not is_table(block):
        raise InputError(f"A block is an object with a type, not {type(block).__name__}.")
    kind = block.get("type")
    if not isinstance(kind, str) or not kind:
        raise InputError("A block is an object with a type; one has none.")
    if kind == "text":
        return TextualContent(text=str(block.get("text") or ""))
    source = block.get("source")
    if is_table(source) and kind in ("image", "document"):
        found = _from_source(source, image=kind == "image")
        if found is not None:
            return found
    return opaque(block)


def _from_source(source: Mapping[str, Any], *, image: bool) -> Content | None:
    """An image or a document; an image at a URL is a document that the provider fetches."""
    kind = source.get("type")
    if kind == "base64":
        data, mime_type = decoded(source.get("data"), "A block"), source.get("media_type")
        if image:
            return ImageContent(data=data, mime_type=str(mime_type or "image/*"))
        return DocumentContent(data=data, mime_type=str(mime_type or "application/octet-stream"))
    if kind == "url":
        return DocumentContent(url=str(source.get("url")), mime_type="image/*" if image else "application/pdf")
    if kind == "text" and not image:
        return DocumentContent(data=str(source.get("data") or "").encode(), mime_type="text/plain")
    return None


def opaque(block: Mapping[str, Any]) -> OpaqueContent:
    kept = {name: value for name, value in block.items() if name != "cache_control"}
    return OpaqueContent(protocol=NAME, kind=str(block.get("type")), data=freeze(kept))
