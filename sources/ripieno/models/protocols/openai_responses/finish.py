"""How an answer of the Responses wire ends: why, and what it used; both directions."""

import functools
import time
from collections.abc import Mapping
from typing import Any

from ripieno.canisters.controls import Finish
from ripieno.canisters.events import TurnEnded
from ripieno.models.protocol import Refusal
from ripieno.models.protocols.common.openai import usage_as, usage_in

#: What an answer that is incomplete gives as its reason; an unknown one has cut it all the same.
_CUTS: Mapping[str, Finish] = {"content_filter": "filter"}
_REASONS: Mapping[Finish, str] = {
    "length": "max_output_tokens",
    "filter": "content_filter",
    "limit": "max_turns",
    "cancelled": "cancelled",
    "aborted": "aborted",
    "error": "error",
}
#: Codes of failed responses that clients look for, by the status of HTTP that says the same.
_CODES: Mapping[int, str] = {429: "rate_limit_exceeded"}
#: Members of a response that tell how it ended: what they are before.
OPEN: Mapping[str, Any] = dict.fromkeys(("completed_at", "error", "incomplete_details", "usage"))
#: Usage in our words, and as the wire counts it.
usage_of = functools.partial(usage_in, sent="input_tokens", made="output_tokens")
usage_object = functools.partial(usage_as, sent="input_tokens", made="output_tokens")


def finish_of(reason: str) -> Finish:
    """Why an answer ended, as far as the wire says it: calls and refusals are no reasons there."""
    return "stop" if reason == "completed" else _CUTS.get(reason, "length")


def ending_of(event: TurnEnded) -> tuple[str, dict[str, Any]]:
    """The status of a response that has ended, and what it says of that."""
    members: dict[str, Any] = {**OPEN, "usage": usage_object(event.usage)}
    reason = _REASONS.get(event.finish)
    if event.finish == "limit" and event.reason:
        # A limit of ours that has a word of its own.
        reason = event.reason
    if reason is None:
        return "completed", {**members, "completed_at": int(time.time())}
    return "incomplete", {**members, "incomplete_details": {"reason": reason}}


def failure_of(refusal: Refusal) -> dict[str, Any]:
    """What a response says that failed."""
    code = refusal.code or _CODES.get(refusal.status, "server_error")
    return {**OPEN, "error": {"code": code, "message": refusal.message}}
