"""What the wires of OpenAI's making say alike: errors, URLs, texts of calls, usage, and when reasoning returns."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.canisters import Canister, Content, DocumentContent, ImageContent, InvocationCanister, UserCanister
from ripieno.canisters.conversation import Usage
from ripieno.jsonvalues import EMPTY, encode
from ripieno.processors import Capabilities, Refusal
from ripieno.protocols.asking import decoded

_ERRORS = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


def error_object(refusal: Refusal) -> dict[str, Any]:
    """An error as the body of an answer has it."""
    kind = _ERRORS.get(refusal.status, "server_error" if refusal.status >= 500 else "invalid_request_error")
    return {"message": refusal.message, "type": kind, "param": refusal.parameter, "code": refusal.code}


def refuse(refusal: Refusal) -> bytes:
    """The body of an answer that is an error."""
    return encode({"error": error_object(refusal)})


def data_url(data: bytes, mime_type: str) -> str:
    """Bytes as a URL."""
    return f"data:{mime_type};base64,{base64.b64encode(data).decode()}"


def read_data_url(url: str) -> tuple[str, bytes]:
    """The kind and the bytes of such a URL. Errors: ``InputError``."""
    head, _, data = url.removeprefix("data:").partition(",")
    return head.partition(";")[0] or "text/plain", decoded(data)


def image_at(url: str) -> Content:
    """An image; one that stands elsewhere is a document that its provider fetches. Errors: ``InputError``."""
    if not url.startswith("data:"):
        return DocumentContent(url=url, mime_type="image/*")
    mime_type, data = read_data_url(url)
    return ImageContent(data=data, mime_type=mime_type)


def text_of_call(invocation: InvocationCanister, *, verbatim: bool = True) -> str:
    """The arguments of a call as text, or its free-form input. ``verbatim``: also where they cannot be read."""
    arguments: Any = invocation.arguments
    if invocation.kind == "freeform":
        return str(arguments.get("input") or "") if invocation.raw is None else invocation.raw
    if invocation.raw is None:
        return encode(arguments).decode()
    unreadable = invocation.fault is not None and not arguments
    return invocation.raw if invocation.raw.strip() and (verbatim or not unreadable) else "{}"


def replay_from(canisters: Sequence[Canister], capabilities: Capabilities, *, otherwise: str = "never") -> int:
    """The place of the first canister whose reasoning returns: it does never, always, or until the user speaks.

    ``otherwise`` is what holds where the provider's data does not say.
    """
    rule = capabilities.get("reasoning_replay", otherwise)
    if rule == "always":
        return 0
    if rule == "turn":
        for place in range(len(canisters) - 1, -1, -1):
            if type(canisters[place]) is UserCanister:
                return place
        return 0
    return len(canisters)


def usage_in(native: Mapping[str, Any], *, sent: str, made: str) -> Usage:
    """Usage in our words; ``sent`` and ``made`` are what the wire calls the tokens that go in and come out."""
    before, after = native.get(f"{sent}_details") or EMPTY, native.get(f"{made}_details") or EMPTY
    return Usage(
        input_tokens=native.get(sent) or 0,
        output_tokens=native.get(made) or 0,
        cache_read_tokens=before.get("cached_tokens") or 0,
        cache_write_tokens=before.get("cache_write_tokens") or 0,
        reasoning_tokens=after.get("reasoning_tokens") or 0,
    )


def usage_as(usage: Usage, *, sent: str, made: str) -> dict[str, Any]:
    """Usage as the wire counts it."""
    return {
        sent: usage.input_tokens,
        f"{sent}_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        made: usage.output_tokens,
        f"{made}_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }
