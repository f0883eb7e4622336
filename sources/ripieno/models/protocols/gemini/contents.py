"""Contents as parts of the generateContent wire, and back."""

import base64
from collections.abc import Iterable, Mapping
from typing import Any

from ripieno.canisters import AudioContent, Content, DocumentContent, ImageContent, OpaqueContent, TextualContent
from ripieno.jsonvalues import EMPTY, freeze
from ripieno.models.protocols.common.requests import decoded

NAME = "gemini"
#: The kind of an opaque content that holds what stood beside a text or some data in the same part: signatures mostly.
BESIDE = "signature"
#: The kind of one that holds what a provider wants back when it is asked to go on with an answer.
CONTINUATION = "continuation"
#: Keys of which a part has one: what it is. Any other key stands beside it.
_KINDS = (
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
)
#: The characters of base64 for URLs, which some clients send, as those of base64.
_FROM_URLS = str.maketrans("-_", "+/")
#: The kind of a file of which none is said.
_ANY = "*/*"


def parts_of(contents: Iterable[Content]) -> list[Mapping[str, Any]]:
    """The parts of contents. What stood beside a content joins its part again; empty texts are left out."""
    parts: list[Mapping[str, Any]] = []
    open_part = False  # Whether something may still join the last part.
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
    """The part of a content; None for an empty text, and for what is opaque."""
    if isinstance(content, TextualContent):
        return {"text": content.text} if content.text else None
    if isinstance(content, ImageContent | AudioContent):
        return _inline(content.data, content.mime_type)
    if isinstance(content, DocumentContent):
        if content.data is not None:
            return _inline(content.data, content.mime_type)
        # A pattern of kinds is refused.
        kind = {} if "*" in content.mime_type else {"mimeType": content.mime_type}
        return {"fileData": {**kind, "fileUri": content.url}}
    return None


def _inline(data: bytes, mime_type: str) -> dict[str, Any]:
    return {"inlineData": {"mimeType": mime_type, "data": base64.b64encode(data).decode()}}


def contents_of(part: Mapping[str, Any]) -> tuple[Content, ...]:
    """The contents of a part that is no call and no result; an empty text is none. Errors: ``InputError``.

    What stands beside a text or some data follows as a content of its own. What is not known is kept as it is.
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
        content = _linked(part[kind])
    if content is None:
        return (opaque(part, kind),) if kind else ()
    beside = beside_in(part, kind)
    return (content, opaque(beside, BESIDE)) if beside else (content,)


def kind_of(part: Mapping[str, Any]) -> str:
    """The key that says what a part is; the first one of a kind that is not known."""
    for kind in _KINDS:
        if part.get(kind) is not None:
            return kind
    return next((str(key) for key, value in part.items() if value is not None), "")


def beside_in(part: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """What stands in a part beside what it is."""
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


def _linked(file: Mapping[str, Any]) -> Content:
    return DocumentContent(url=str(file["fileUri"]), mime_type=str(file.get("mimeType") or _ANY))


def opaque(part: Mapping[str, Any], kind: str) -> OpaqueContent:
    """What is kept as it is."""
    return OpaqueContent(protocol=NAME, kind=kind, data=freeze(part))


def is_own(content: Content, kind: str) -> bool:
    """Whether a content is one of this wire's opaque ones, of that kind."""
    return isinstance(content, OpaqueContent) and content.protocol == NAME and content.kind == kind
