"""Contents as parts of the generateContent wire, and back."""

import base64
from collections.abc import Iterable, Mapping
from typing import Any

from ripieno.canisters import AudioContent, Content, DocumentContent, ImageContent, OpaqueContent, TextualContent
from ripieno.jsonvalues import EMPTY, freeze
from ripieno.models.protocols.common.requests import decoded

NAME = "gemini"
#: The kind of an opaque content with what accompanied a text or data in its part, usually a signature.
BESIDE = "signature"
#: The kind of an opaque content with the provider's token for continuing an answer.
CONTINUATION = "continuation"
#: Keys that define a part; it has one of them. Other keys accompany it.
_KINDS = (
    *("text", "inlineData", "fileData", "functionCall", "functionResponse"),
    *("executableCode", "codeExecutionResult", "toolCall", "toolResponse"),
)
#: Maps base64 for URLs, which some clients send, to plain base64.
_FROM_URLS = str.maketrans("-_", "+/")


def parts_of(contents: Iterable[Content]) -> list[Mapping[str, Any]]:
    """The parts of contents. Accompanying keys rejoin their part; empty texts are left out."""
    parts: list[Mapping[str, Any]] = []
    open_part = False  # Whether keys may still join the last part.
    for content in contents:
        if not isinstance(content, OpaqueContent):
            part = part_of(content)
            open_part = part is not None
            if part is not None:
                parts.append(part)
        elif content.protocol != NAME or content.kind == CONTINUATION:
            continue
        elif content.kind == BESIDE and "text" not in content.data:
            if open_part:
                parts[-1] = {**parts[-1], **content.data}
            else:
                parts.append({"text": "", **content.data})
            open_part = False
        else:
            parts.append(content.data)
            open_part = False
    return parts


def part_of(content: Content) -> Mapping[str, Any] | None:
    """The part of a content; None for an empty text and for opaque content."""
    if isinstance(content, TextualContent):
        return {"text": content.text} if content.text else None
    if isinstance(content, ImageContent | AudioContent):
        return _inline(content.data, content.mime_type)
    if isinstance(content, DocumentContent):
        if content.data is not None:
            return _inline(content.data, content.mime_type)
        # The wire refuses a pattern of kinds.
        kind = {} if "*" in content.mime_type else {"mimeType": content.mime_type}
        return {"fileData": {**kind, "fileUri": content.url}}
    return None


def _inline(data: bytes, mime_type: str) -> dict[str, Any]:
    return {"inlineData": {"mimeType": mime_type, "data": base64.b64encode(data).decode()}}


def contents_of(part: Mapping[str, Any]) -> tuple[Content, ...]:
    """The contents of a part that is neither call nor result; none for an empty text. Errors: ``InputError``.

    Keys that accompany a text or data follow as a content of their own. An unknown part becomes opaque.
    """
    content: Content | None = None
    kind = kind_of(part)
    if part.get("thought"):
        silent = part.get("text") == "" and part.keys() <= {"text", "thought"}
        return () if silent else (opaque(part, "thought"),)
    if kind == "text":
        text, beside = str(part["text"]), beside_in(part, kind)
        if not text:
            return (opaque({"text": "", **beside}, BESIDE),) if beside else ()
        content = TextualContent(text=text)
    elif kind == "inlineData":
        content = _held(part[kind])
    elif kind == "fileData":
        file = part[kind]
        content = DocumentContent(url=str(file["fileUri"]), mime_type=str(file.get("mimeType") or "*/*"))
    if content is None:
        return (opaque(part, kind),) if kind else ()
    beside = beside_in(part, kind)
    return (content, opaque(beside, BESIDE)) if beside else (content,)


def kind_of(part: Mapping[str, Any]) -> str:
    """The key that defines a part; for an unknown part its first key."""
    for kind in _KINDS:
        if part.get(kind) is not None:
            return kind
    return next((str(key) for key, value in part.items() if value is not None), "")


def beside_in(part: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """The keys that accompany a part's defining key."""
    if len(part) == 1:
        return EMPTY
    return {key: value for key, value in part.items() if key != kind and value is not None}


def _held(blob: Mapping[str, Any]) -> Content:
    mime_type = str(blob.get("mimeType") or "application/octet-stream")
    text = blob.get("data") or ""
    data = decoded(str(text).translate(_FROM_URLS))
    if mime_type.startswith("image/"):
        return ImageContent(data=data, mime_type=mime_type)
    if mime_type.startswith("audio/"):
        return AudioContent(data=data, mime_type=mime_type)
    return DocumentContent(data=data, mime_type=mime_type)


def opaque(part: Mapping[str, Any], kind: str) -> OpaqueContent:
    return OpaqueContent(protocol=NAME, kind=kind, data=freeze(part))


def is_own(content: Content, kind: str) -> bool:
    """Whether a content is an opaque one of this wire and kind."""
    return isinstance(content, OpaqueContent) and content.protocol == NAME and content.kind == kind
