"""How an answer of the chat completions wire ends: why, and what it used; both directions."""

from collections.abc import Mapping
from typing import Any

from ripieno.controls import Finish
from ripieno.conversations import Usage
from ripieno.descriptors.tables import EMPTY

FINISHES: Mapping[str, Finish] = {
    "stop": "stop",
    "tool_calls": "invocations",
    "function_call": "invocations",
    "length": "length",
    "content_filter": "filter",
}
REASONS: Mapping[Finish, str] = {
    "stop": "stop",
    "invocations": "tool_calls",
    "length": "length",
    "filter": "content_filter",
    "terminal": "stop",
    "limit": "stop",
    "open": "tool_calls",
}


def usage_of(native: Mapping[str, Any]) -> Usage:
    """Usage in our words."""
    prompt = native.get("prompt_tokens_details") or EMPTY
    completion = native.get("completion_tokens_details") or EMPTY
    return Usage(
        input_tokens=native.get("prompt_tokens") or 0,
        output_tokens=native.get("completion_tokens") or 0,
        cache_read_tokens=prompt.get("cached_tokens") or 0,
        cache_write_tokens=prompt.get("cache_write_tokens") or 0,
        reasoning_tokens=completion.get("reasoning_tokens") or 0,
    )


def usage_object(usage: Usage) -> dict[str, Any]:
    """Usage as the wire counts it."""
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
