"""Stop reasons and usage of the Messages wire, both directions."""

from collections.abc import Mapping
from typing import Any

from ripieno.canisters.controls import Finish
from ripieno.canisters.conversation import NO_USAGE, Usage
from ripieno.jsonvalues import EMPTY

#: The known reasons.
FINISHES: Mapping[str, Finish] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "invocations",
    # The provider's own tools pause: it is asked again, with its answer so far.
    "pause_turn": "invocations",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "filter",
}
#: Any other finish is ``end_turn``.
REASONS: Mapping[Finish, str] = {
    "invocations": "tool_use",
    "length": "max_tokens",
    "filter": "refusal",
    "open": "tool_use",
}


def usage_of(native: Mapping[str, Any]) -> Usage:
    """Usage from the wire, which counts cached tokens in addition to input tokens; ours includes them."""
    if not native:
        return NO_USAGE
    read = native.get("cache_read_input_tokens") or 0
    written = native.get("cache_creation_input_tokens") or 0
    details = native.get("output_tokens_details") or EMPTY
    return Usage(
        input_tokens=(native.get("input_tokens") or 0) + read + written,
        output_tokens=native.get("output_tokens") or 0,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=details.get("thinking_tokens") or 0,
    )


def usage_object(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": max(0, usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens),
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }
