"""Messages of users: a text with attachments, as a request has them."""

import base64
import binascii
import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

from ripieno.canisters import AudioContent, DocumentContent, ImageContent, OpaqueContent, TextualContent, UserCanister
from ripieno.canisters.contents import Content
from ripieno.exceptions import RequestInvalidity
from ripieno.jsonvalues import is_list, is_table
from ripieno.values import Value

#: Characters of the name of a file.
_NAME = 255
_TYPE = re.compile(r"[a-z]+/[a-z0-9][a-z0-9.+-]{0,126}")


class ChatLimits(Value, kw_only=True):
    """The most that one owner may take: runs and readers, bytes of a request and of its text, attachments of a message.

    ``client_tools`` are those that a client declares for a run, ``client_tool_bytes`` their schemas and descriptions.
    ``upload_bytes`` are those of one uploaded file, ``waiting_bytes`` those of all uploads that no message has named.
    ``listed`` are the conversations in a list, ``held`` those of all owners that stay in memory without a reader.
    """

    runs: int = 4
    readers: int = 32
    body_bytes: int = 16 * 1024 * 1024
    text_bytes: int = 1024 * 1024
    attachments: int = 10
    client_tools: int = 64
    client_tool_bytes: int = 64 * 1024
    upload_bytes: int = 10 * 1024 * 1024
    waiting_bytes: int = 50 * 1024 * 1024
    listed: int = 1000
    held: int = 100


def read_message(
    sent: Mapping[str, Any], limits: ChatLimits, uploaded: Callable[[str], Content] | None = None
) -> UserCanister:
    """The message of ``{"text": "…", "attachments": [{"mime_type": "image/png", "data": BASE64, "name": "…"}]}``.

    An attachment ``{"reference": "…"}`` is one that was ``uploaded`` before. A name is optional. Errors:
    ``RequestInvalidity``, which names the part; those of ``uploaded``.
    """
    text = sent.get("text", "")
    if not isinstance(text, str) or len(text.encode("utf-8", "surrogatepass")) > limits.text_bytes:
        raise RequestInvalidity(f"text is a text of at most {limits.text_bytes} bytes.", parameter="text")
    attached = sent.get("attachments", [])
    if not is_list(attached) or len(attached) > limits.attachments:
        raise RequestInvalidity(f"attachments is a list of at most {limits.attachments}.", parameter="attachments")
    contents = [_content(one, f"attachments[{place}]", uploaded) for place, one in enumerate(attached)]
    if not text.strip() and not contents:
        raise RequestInvalidity("Send a text or an attachment.", parameter="text")
    return UserCanister(content=(*([TextualContent(text=text)] if text else []), *contents))


def text_of(message: UserCanister) -> str:
    """The text of a message, without its attachments."""
    return "\n".join(one.text for one in message.content if isinstance(one, TextualContent))


def _content(sent: Any, place: str, uploaded: Callable[[str], Content] | None) -> Content:
    if not is_table(sent):
        raise RequestInvalidity("An attachment is an object.", parameter=place)
    name = sent.get("name", "")
    if not isinstance(name, str) or len(name) > _NAME:
        raise RequestInvalidity(f"name is a text of at most {_NAME} characters.", parameter=f"{place}.name")
    if uploaded is not None and isinstance(reference := sent.get("reference"), str):
        found = uploaded(reference)
        return found if isinstance(found, TextualContent | OpaqueContent) else dataclasses.replace(found, name=name)
    kind, data = sent.get("mime_type"), sent.get("data")
    if not isinstance(kind, str) or not _TYPE.fullmatch(kind):
        raise RequestInvalidity("mime_type is a type such as image/png.", parameter=f"{place}.mime_type")
    try:
        raw = base64.b64decode(data if isinstance(data, str) else "", validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if not raw:
        raise RequestInvalidity("data is the content in base64.", parameter=f"{place}.data")
    if kind.startswith("image/"):
        return ImageContent(data=raw, mime_type=kind, name=name)
    return (
        AudioContent(data=raw, mime_type=kind, name=name)
        if kind.startswith("audio/")
        else DocumentContent(data=raw, mime_type=kind, name=name)
    )
