"""Answers to requests for a compaction: the newest messages of the user, and one sealed item."""

import time
from collections.abc import Sequence
from typing import Any

from ripieno.canisters import Canister, UserCanister
from ripieno.canisters.conversation import Usage
from ripieno.jsonvalues import encode
from ripieno.models.protocol import COMPACTION, Asked
from ripieno.models.protocols.openai_responses.contents import parts_of
from ripieno.models.protocols.openai_responses.echo import new_token
from ripieno.models.protocols.openai_responses.finish import usage_object
from ripieno.models.protocols.openai_responses.items import made_identifier

#: Bytes of the user's messages that stay as they are. Older ones are only in the summary.
_KEPT = 64 * 1024


def compacted(asked: Asked, sealed: str, usage: Usage) -> bytes:
    """The body of the answer, with a sealed text."""
    token = new_token()
    items: list[dict[str, Any]] = [
        {
            "type": "message",
            "id": made_identifier("msg", token, place),
            "status": "completed",
            "role": "user",
            "content": content,
        }
        for place, content in enumerate(_newest(asked.canisters))
    ]
    items.append({"type": COMPACTION, "id": made_identifier("cmp", token, len(items)), "encrypted_content": sealed})
    return encode(
        {
            "id": f"resp_{token}",
            "object": "response.compaction",
            "created_at": int(time.time()),
            "output": items,
            "usage": usage_object(usage),
        }
    )


def _newest(canisters: Sequence[Canister]) -> Sequence[list[Any]]:
    """The parts of the user's newest messages, in order."""
    kept: list[list[Any]] = []
    left = _KEPT
    for canister in reversed(canisters):
        if isinstance(canister, UserCanister):
            given = parts_of(canister.content)
            parts = [{"type": "input_text", "text": given}] if isinstance(given, str) else given
            left -= len(encode(parts))
            if left < 0:
                break
            if parts:
                kept.append(list(parts))
    return kept[::-1]
