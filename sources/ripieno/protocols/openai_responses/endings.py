"""How an answer of the Responses wire ends: why, and what it used; both directions."""

from collections.abc import Mapping
from typing import Any

from ripieno.controls import Finish
from ripieno.conversations import Usage
from ripieno.descriptors.tables import EMPTY

#: What an answer that is incomplete gives as its reason; an unknown one has cut it all the same.
_CUTS: Mapping[str, Finish] = {"content_filter": "filter"}
REASONS: Mapping[Finish, str] = {"length": "max_output_tokens", "filter": "content_filter"}


def finish_of(reason: str) -> Finish:
    """Why an answer ended, as far as the wire says it: calls and refusals are no reasons there."""
    return "stop" if reason == "completed" else _CUTS.get(reason, "length")


def usage_of(native: Mapping[str, Any]) -> Usage:
    """Usage in our words."""
    sent = native.get("input_tokens_details") or EMPTY
    made = native.get("output_tokens_details") or EMPTY
    return Usage(
        input_tokens=native.get("input_tokens") or 0,
        output_tokens=native.get("output_tokens") or 0,
        cache_read_tokens=sent.get("cached_tokens") or 0,
        cache_write_tokens=sent.get("cache_write_tokens") or 0,
        reasoning_tokens=made.get("reasoning_tokens") or 0,
    )


def usage_object(usage: Usage) -> dict[str, Any]:
    """Usage as the wire counts it."""
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }
