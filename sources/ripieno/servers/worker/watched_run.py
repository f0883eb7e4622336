"""A run while a worker conducts it: its last event is kept back, and its answer under way is known."""

import dataclasses
from collections.abc import Callable
from typing import Any

from ripieno.canisters.events import ConductEnded, Event, TurnBegan
from ripieno.conducting import Run
from ripieno.servers.chat.live_turn import LiveTurn
from ripieno.storage.dispatch.events import Logged


@dataclasses.dataclass(slots=True)
class WatchedRun:
    """The last event of a run, kept back until the conversation is free, and the turn under way."""

    run: Run
    take: Callable[[Logged], None]
    ended: ConductEnded | None = None
    turn: LiveTurn = dataclasses.field(default_factory=LiveTurn)
    whole: int = 0

    def __call__(self, event: Event) -> None:
        """Takes the next event of the run."""
        if isinstance(event, TurnBegan):
            self.whole = len(self.run.conversation.canisters)
        self.turn.take(event)
        if isinstance(event, ConductEnded):
            self.ended = event
        else:
            self.take(event)

    def cut(self) -> list[dict[str, Any]]:
        """The texts of an answer that was cut off, and is not in the conversation."""
        return [] if len(self.run.conversation.canisters) > self.whole else self.turn.texts()
