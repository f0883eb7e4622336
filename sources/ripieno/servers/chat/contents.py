"""Messages and contents as clients get them: long ones by reference, to be fetched in parts."""

import base64
import dataclasses
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from ripieno.canisters import Canister, InvocationCanister, OpaqueContent, ResultCanister, TextualContent
from ripieno.canisters.contents import Content
from ripieno.canisters.serialization import describe, serialize
from ripieno.models.reasoning import reasoning_in

#: Bytes of a content in an event or a snapshot. A longer one is fetched by its reference.
SHOWN_BYTES = 64 * 1024


def message_of(canister: Canister) -> dict[str, Any]:
    """The JSON of a canister for a client, as stored, but of what only a provider understands, only the reasoning."""
    if isinstance(canister, InvocationCanister):
        return without(serialize(canister), "version", "opaque")
    # Without contents: a large one would be encoded only to be left out.
    fields = without(serialize(dataclasses.replace(canister, content=())), "version")
    fields["content"] = [one for one in map(_kept, canister.content) if one is not None]
    if isinstance(canister, ResultCanister) and canister.error is not None:
        fields["error"] = describe(canister.error)
    return fields


def _kept(content: Content) -> dict[str, Any] | None:
    if not isinstance(content, OpaqueContent):
        return content_of(content)
    reasoning = reasoning_in(content)[:SHOWN_BYTES]
    return {"type": "reasoning", "text": reasoning} if reasoning else None


def content_of(content: Content) -> dict[str, Any] | None:
    """The JSON of a content; of a long text the beginning, with ``bytes`` and ``reference``. None for an opaque one.

    What is no text always has its reference, and its data only if it is short.
    """
    if isinstance(content, OpaqueContent):
        return None
    data = data_of(content)
    size = len(data)
    if isinstance(content, TextualContent):
        fields: dict[str, Any] = {"type": "text", "text": content.text, "mime_type": content.mime_type}
        if size > SHOWN_BYTES:
            text = data[:SHOWN_BYTES].decode("utf-8", "ignore")
            fields |= {"text": text, "bytes": size, "reference": _reference(data)}
        return fields
    kind = type(content).__name__.removesuffix("Content").lower()
    fields = {"type": kind, "mime_type": content.mime_type, **({"name": content.name} if content.name else {})}
    if content.data is None:
        return {**fields, "url": getattr(content, "url", None)}
    fields |= {"bytes": size, "reference": _reference(data)}
    return fields if size > SHOWN_BYTES else {**fields, "data": base64.b64encode(data).decode()}


def data_of(content: Content) -> bytes:
    """The bytes of a content, of a text in UTF-8; empty for an opaque one and for a URL."""
    match content:
        case TextualContent():
            return content.text.encode("utf-8", "surrogatepass")
        case OpaqueContent():
            return b""
        case _:
            return content.data or b""


def reference_of(content: Content) -> str:
    """The name of a content by what it contains: ``SIZE-DIGEST``."""
    return _reference(data_of(content))


def referenced(contents: Iterable[Content], reference: str) -> Content | None:
    """The content with this reference."""
    size, _, _ = reference.partition("-")
    if not (size.isascii() and size.isdigit() and len(size) < 16):
        return None
    # Digests only for those of this size: there may be many.
    fitting = (one for one in contents if _may_have(one, int(size)))
    return next((one for one in fitting if reference_of(one) == reference), None)


def without(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The fields but these."""
    return {name: value for name, value in fields.items() if name not in names}


def _may_have(content: Content, size: int) -> bool:
    if isinstance(content, TextualContent):
        return len(content.text) <= size <= len(content.text) * 4
    return bool(size) and len(data_of(content)) == size


def _reference(data: bytes) -> str:
    return f"{len(data)}-{hashlib.sha256(data).hexdigest()[:32]}"
