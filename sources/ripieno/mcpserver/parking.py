"""Calls that wait for what their clients say next: each is found again by a name that nobody can guess, once."""

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any

from mcp import MCPError
from mcp_types import INVALID_PARAMS

from ripieno.mcpserver.calling import Performance

#: Calls that may wait at the same time; the tools of more are told that nobody answers.
CAPACITY = 64


class Parking:
    """The calls that wait. One that ends meanwhile keeps its result for its client."""

    def __init__(self) -> None:
        self._waiting: dict[str, Performance] = {}

    @property
    def full(self) -> bool:
        """Whether no more calls may wait."""
        if len(self._waiting) >= CAPACITY:
            self._waiting = {state: one for state, one in self._waiting.items() if not one.done}
        return len(self._waiting) >= CAPACITY

    def put(self, performance: Performance) -> str:
        """Keeps a call; gives the state that its client sends back."""
        state = secrets.token_urlsafe(24)
        self._waiting[state] = performance
        return state

    def take(self, state: str, name: str, arguments: Mapping[str, Any]) -> Performance:
        """The call that waits under this state. Errors: ``MCPError`` where none does, or it was another call."""
        performance = self._waiting.get(state)
        if performance is None or performance.invoker.exposed != name or performance.arguments != arguments:
            raise MCPError(
                code=INVALID_PARAMS,
                message="No call waits with this requestState: it was changed, used before, or it belongs to another "
                "call. Call the tool again without it.",
                data={"reason": "invalid_request_state"},
            )
        del self._waiting[state]
        return performance

    async def clear(self) -> None:
        """Cancels all calls that wait."""
        waiting, self._waiting = self._waiting, {}
        await asyncio.gather(*(one.cancel() for one in waiting.values()))
