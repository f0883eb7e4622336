"""The frames of a UI message stream, and what they have in common with requests."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from ripieno.canisters.controls import Finish

#: The major version of the npm package ``ai``. Requests do not name it.
Version: TypeAlias = Literal[5, 6, 7]
#: A frame, as the protocol's JSON. Fields are left out rather than null, which the client refuses.
Frame: TypeAlias = dict[str, Any]
#: The end of a stream.
DONE = b"data: [DONE]\n\n"

_FINISHES: Mapping[Finish, str] = {
    "stop": "stop",
    "length": "length",
    "filter": "content-filter",
    "open": "tool-calls",
    "error": "error",
}


def finish_reason(finish: Finish) -> str:
    """The reason of a finish, of those that the client knows in every version."""
    return _FINISHES.get(finish, "other")


def message_id(identifier: str, messages: Iterable[Mapping[str, Any]]) -> str:
    """The identifier of the assistant's message that answers the last message of the user."""
    places = [place for place, message in enumerate(messages) if message["type"] == "user"]
    return f"{identifier}-{places[-1] if places else 0}"


def encoded(frames: Iterable[Frame]) -> bytes:
    """Server-sent events. ASCII: halves of surrogate pairs, as models write them, have no UTF-8."""
    return b"".join(b"data: %s\n\n" % json.dumps(frame, separators=(",", ":")).encode() for frame in frames)


def file_of(content: Mapping[str, Any], address: str) -> dict[str, Any] | None:
    """The type and the URL of a content that is no text: its data, or where they are fetched if they are long.

    ``address`` is that of the conversation's contents. None for a document of another server.
    """
    kind = content["mime_type"]
    if "data" in content:
        return {"mediaType": kind, "url": f"data:{kind};base64,{content['data']}"}
    return {"mediaType": kind, "url": f"{address}{content['reference']}"} if "reference" in content else None


def error_of(error: Mapping[str, Any]) -> str:
    """The error of a call in words, with what to do."""
    return "\n".join(str(one) for one in (error["message"], error.get("suggestion")) if one)


def output_of(contents: Iterable[Mapping[str, Any]], address: str) -> Any:
    """The output of a call: its text; with other contents, a list of all. Of long ones, it has the ``url``."""
    parts = list(contents)
    if all(part["type"] == "text" and "bytes" not in part for part in parts):
        return "\n".join(part["text"] for part in parts)
    return [
        {**part, "url": f"{address}{part['reference']}"} if "reference" in part and "data" not in part else part
        for part in parts
    ]
