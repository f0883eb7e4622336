"""Finish reasons and usage of the generateContent wire, both directions."""

from collections.abc import Mapping
from typing import Any

from ripieno.canisters.controls import Finish
from ripieno.canisters.conversation import NO_USAGE, Usage

_FILTERED = (
    *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "ESCALATION"),
    *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "PUP_LIMITED_DISABLED"),
)
#: The known reasons of an answer that was not given up.
FINISHES: Mapping[str, Finish] = {
    **dict.fromkeys(("STOP", "OTHER", "IMAGE_OTHER", "NO_IMAGE"), "stop"),
    # It is asked again, and continues.
    "CONTINUATION": "invocations",
    "MAX_TOKENS": "length",
    **dict.fromkeys(_FILTERED, "filter"),
}
#: Reasons of an answer that the provider gave up, each with a hint.
BROKEN: Mapping[str, str] = {
    "MALFORMED_FUNCTION_CALL": "The model wrote an invalid call. Ask again, or simplify the tool's schema.",
    "MALFORMED_RESPONSE": "The model wrote an invalid answer. Ask again.",
    "UNEXPECTED_TOOL_CALL": "The model called a tool that was not offered. Offer one, or say that there is none.",
    "TOO_MANY_TOOL_CALLS": "The model made too many calls. Allow fewer tools, or ask for less at once.",
    "MISSING_THOUGHT_SIGNATURE": "The history lacks a signature. Set signature_placeholder in its capabilities.",
}
REASONS: Mapping[Finish, str] = {"length": "MAX_TOKENS", "filter": "SAFETY"}


def usage_of(native: Mapping[str, Any]) -> Usage:
    """Usage from the wire, which counts thoughts in addition to the output; ours includes them."""
    if not native:
        return NO_USAGE
    thoughts = native.get("thoughtsTokenCount") or 0
    return Usage(
        input_tokens=(native.get("promptTokenCount") or 0) + (native.get("toolUsePromptTokenCount") or 0),
        output_tokens=(native.get("candidatesTokenCount") or 0) + thoughts,
        cache_read_tokens=native.get("cachedContentTokenCount") or 0,
        reasoning_tokens=thoughts,
    )


def usage_object(usage: Usage) -> dict[str, Any]:
    native = {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": max(0, usage.output_tokens - usage.reasoning_tokens),
        "totalTokenCount": usage.total_tokens,
    }
    if usage.cache_read_tokens:
        native["cachedContentTokenCount"] = usage.cache_read_tokens
    if usage.reasoning_tokens:
        native["thoughtsTokenCount"] = usage.reasoning_tokens
    return native
