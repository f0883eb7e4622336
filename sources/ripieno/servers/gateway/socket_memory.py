"""The memory of a WebSocket: its latest response, which the next request may continue."""

from typing import Any

from ripieno.jsonvalues import encode, parse
from ripieno.models.protocol import Refusal
from ripieno.servers.http.bodies import DEPTH, in_turn
from ripieno.servers.http.limits import MemoryBudget, Refused, Reservation

_UNKNOWN = Refusal(
    status=400,
    code="previous_response_not_found",
    message="The previous response is not the latest one of this WebSocket, and nothing else is kept. Send the whole "
    "conversation.",
    parameter="previous_response_id",
)


class SocketMemory:
    """The latest response, with its whole conversation as JSON, so that its size is known. At most ``most`` bytes."""

    def __init__(self, budget: MemoryBudget, most: int) -> None:
        self._budget = budget
        self._most = most
        self._identifier: str | None = None
        self._items = b""

    def has(self, identifier: object) -> bool:
        """Whether this is the latest response."""
        return isinstance(identifier, str) and identifier == self._identifier

    async def find(self, identifier: object, reservation: Reservation) -> list[Any]:
        """The items of the conversation up to this response, whose memory is reserved. Errors: ``Refused``."""
        if not self.has(identifier):
            raise Refused(_UNKNOWN)
        data = self._items
        reservation.add(len(data))
        found: Any = await in_turn(lambda: parse(data, max_bytes=self._most, max_depth=DEPTH * 2), len(data))
        return list(found)

    def keep(self, identifier: str, items: list[Any]) -> None:
        """Replaces it. A conversation that is too large for the limits is not kept."""
        self.close()
        data = encode(items)
        if len(data) > self._most:
            return
        try:
            self._budget.take(len(data))
        except Refused:
            return
        self._identifier, self._items = identifier, data

    def forget(self, identifier: object) -> None:
        """Forgets a response that could not be continued."""
        if identifier == self._identifier:
            self.close()

    def close(self) -> None:
        """Forgets all."""
        self._budget.give(len(self._items))
        self._identifier, self._items = None, b""
