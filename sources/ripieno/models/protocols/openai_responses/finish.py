"""Endings and usage of the Responses wire, both directions."""

import functools
import time
from collections.abc import Mapping
from typing import Any

from ripieno.canisters.controls import Finish
from ripieno.canisters.events import TurnEnded
from ripieno.models.protocol import Refusal
from ripieno.models.protocols.common.openai import usage_as, usage_in

_REASONS: Mapping[Finish, str] = {
    "length": "max_output_tokens",
    "filter": "content_filter",
    "limit": "max_turns",
    "cancelled": "cancelled",
    "aborted": "aborted",
    "error": "error",
}
#: Members of a response about its end, before the end.
OPEN: Mapping[str, Any] = dict.fromkeys(("completed_at", "error", "incomplete_details", "usage"))
#: Usage from the wire, and in the wire's form.
usage_of = functools.partial(usage_in, sent="input_tokens", made="output_tokens")
usage_object = functools.partial(usage_as, sent="input_tokens", made="output_tokens")


#: The known statuses of a complete answer; the wire has none for calls and refusals.
FINISHES: Mapping[str, Finish] = dict.fromkeys(("completed", "requires_action"), "stop")


def finish_of(reason: str) -> Finish:
    """The finish of an incomplete answer, by its reason."""
    return "filter" if reason == "content_filter" else "length"


def ending_of(event: TurnEnded) -> tuple[str, dict[str, Any]]:
    """The status of a response that has ended, and its members about the end."""
    members: dict[str, Any] = {**OPEN, "usage": usage_object(event.usage)}
    reason = _REASONS.get(event.finish)
    if event.finish == "limit" and event.reason:
        # A limit with a name of its own.
        reason = event.reason
    if reason is None:
        return "completed", {**members, "completed_at": int(time.time())}
    return "incomplete", {**members, "incomplete_details": {"reason": reason}}


def failure_of(refusal: Refusal) -> dict[str, Any]:
    # Clients look for these codes.
    code = refusal.code or ("rate_limit_exceeded" if refusal.status == 429 else "server_error")
    return {**OPEN, "error": {"code": code, "message": refusal.message}}
