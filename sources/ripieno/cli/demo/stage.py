"""The output of the demo, which a cassette records, so that a replay shows the same."""

import sys

from ripieno.canisters import Conversation
from ripieno.canisters.events import Event, TurnBegan
from ripieno.cli.conversations.cassettes import Cassette
from ripieno.conducting import Run
from ripieno.conducting.observers.console import Renderer
from ripieno.testing.cassettes import Recorder, Replay

#: The name of the notes in the cassette.
_STAGE = "stage"


class DemoStage:
    """Prints lines and shows runs, and records both in a cassette."""

    def __init__(self, cassette: Cassette | None) -> None:
        self.cassette = cassette
        self.forks = isinstance(cassette, Replay) and cassette.forks
        self.replay = cassette if isinstance(cassette, Replay) and not cassette.forks else None

    def _note(self, **values: object) -> None:
        if isinstance(self.cassette, Recorder):
            self.cassette.note(_STAGE, values)

    def say(self, text: str, *, error: bool = False) -> None:
        """Prints a line."""
        self._note(say=text, error=error)
        print(text, file=sys.stderr if error else sys.stdout)

    async def follow(self, run: Run) -> tuple[Conversation, list[Event]]:
        """Shows a run until it ends."""
        self._note(run=True)
        renderer = Renderer(sys.stdout)
        events: list[Event] = []
        async for event in run:
            if isinstance(event, TurnBegan):
                renderer.note(f"--- turn {sum(isinstance(one, TurnBegan) for one in events) + 1}", "bold")
            renderer.show(event)
            events.append(event)
        renderer.end_line()
        return await run, events

    def end(self, *, good: bool) -> bool:
        """Records the end."""
        self._note(end=good)
        return good


async def replay_demo(stage: DemoStage, replay: Replay) -> bool:
    """Shows a recording, and returns whether it ended well. Errors: ``ReplayDivergence``."""
    while True:
        match replay.note(_STAGE):
            case {"say": str(text), "error": bool(error)}:
                stage.say(text, error=error)
            case {"run": True}:
                await stage.follow(replay.conduct())
            case ended:
                return bool(ended == {"end": True})
