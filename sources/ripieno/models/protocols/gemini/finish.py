"""How an answer of the generateContent wire ends: why, and what it used; both directions."""

from collections.abc import Mapping
from typing import Any

from ripieno.canisters.controls import Finish
from ripieno.canisters.conversation import NO_USAGE, Usage

FINISHES: Mapping[str, Finish] = {
    "STOP": "stop",
    # It is asked again, and goes on.
    "CONTINUATION": "invocations",
    "MAX_TOKENS": "length",
    "SAFETY": "filter",
    "RECITATION": "filter",
    "LANGUAGE": "filter",
    "BLOCKLIST": "filter",
    "PROHIBITED_CONTENT": "filter",
    "SPII": "filter",
    "IMAGE_SAFETY": "filter",
    "IMAGE_PROHIBITED_CONTENT": "filter",
    "IMAGE_RECITATION": "filter",
    "MODEL_ARMOR": "filter",
    "ESCALATION": "filter",
    "PUP_LIMITED_DISABLED": "filter",
}
#: Reasons of an answer that the provider gave up, and what may help.
BROKEN: Mapping[str, str] = {
    "MALFORMED_FUNCTION_CALL": "The model wrote a call that is none: ask again, or make the tool's schema simpler.",
    "MALFORMED_RESPONSE": "The model wrote what is no answer: ask again.",
    "UNEXPECTED_TOOL_CALL": "The model called what it was not offered: offer a tool, or say that there is none.",
    "TOO_MANY_TOOL_CALLS": "The model called too often: allow fewer tools, or ask for less at once.",
    "MISSING_THOUGHT_SIGNATURE": "The history lacks a signature: set signature_placeholder in its capabilities.",
}
REASONS: Mapping[Finish, str] = {"length": "MAX_TOKENS", "filter": "SAFETY"}


def usage_of(native: Mapping[str, Any]) -> Usage:
    """Usage in our words; the wire counts thoughts beside the output, we count them within."""
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
    """Usage as the wire counts it."""
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
