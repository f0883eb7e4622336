"""Contents as parts of chat completions messages, and back."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.canisters import AudioContent, Content, DocumentContent, ImageContent, TextualContent
from ripieno.exceptions import InputError
from ripieno.jsonvalues import is_table
from ripieno.models.protocols.common.openai import data_url, image_at, read_data_url
from ripieno.models.protocols.common.requests import decoded, parts_in
from ripieno.models.protocols.openai_chat.invocations import image_part

_AUDIO_FORMATS = {"audio/mpeg": "mp3", "audio/mp3": "mp3", "audio/x-wav": "wav", "audio/wave": "wav"}
_AUDIO_TYPES = {"mp3": "audio/mpeg"}


def parts_of(contents: Sequence[Content]) -> str | list[Mapping[str, Any]]:
    """The ``content`` of a message, empty for empty contents. One text is a string, which every server accepts.

    Empty texts beside other parts are left out, since some servers refuse them.
    """
    if len(contents) == 1 and isinstance(contents[0], TextualContent):
        return contents[0].text
    parts = [part for content in contents if (part := _part(content)) is not None]
    return str(parts[0]["text"]) if len(parts) == 1 and parts[0]["type"] == "text" else parts


def _part(content: Content) -> Mapping[str, Any] | None:
    """The part of a content; None for an empty text and for opaque content."""
    if isinstance(content, TextualContent):
        return {"type": "text", "text": content.text} if content.text else None
    if isinstance(content, ImageContent):
        return image_part(content)
    if isinstance(content, AudioContent):
        kind = _AUDIO_FORMATS.get(content.mime_type) or content.mime_type.removeprefix("audio/")
        data = base64.b64encode(content.data).decode()
        return {"type": "input_audio", "input_audio": {"data": data, "format": kind}}
    return _document_part(content) if isinstance(content, DocumentContent) else None


def _document_part(content: DocumentContent) -> Mapping[str, Any]:
    if content.data is not None:
        file = {"filename": "document", "file_data": data_url(content.data, content.mime_type)}
        return {"type": "file", "file": file}
    if content.mime_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": content.url}}
    return {"type": "text", "text": f"[document at {content.url}]"}


def contents_of(native: object) -> tuple[Content, ...]:
    """The contents of a message; none for null and an empty text. Errors: ``InputError``."""
    return () if native is None else tuple(_content(part) for part in parts_in(native))


def _content(part: object) -> Content:
    if not is_table(part):
        raise InputError("A part is an object with a type.")
    kind = part.get("type")
    inner = part.get(str(kind))
    if kind in ("text", "refusal"):
        return TextualContent(text=str(inner or ""))
    if is_table(inner):
        if kind == "image_url":
            return image_at(str(inner.get("url") or ""))
        if kind == "input_audio":
            form = str(inner.get("format") or "")
            return AudioContent(data=decoded(inner.get("data")), mime_type=_AUDIO_TYPES.get(form) or f"audio/{form}")
        if kind == "file" and "file_data" in inner:
            mime_type, data = read_data_url(str(inner["file_data"]))
            return DocumentContent(data=data, mime_type=mime_type)
    raise InputError(f"A part has the type {kind!r}, which is not supported here.")
