"""What the demo shows, in its order: said, played, and timed; so that a recorded one is shown again as it was."""

import sys
import time
from collections.abc import Callable
from typing import TextIO

from ripieno.canisters import Conversation
from ripieno.canisters.events import Event, ExecutionBegan, ResultReady, TurnBegan
from ripieno.cli.conversations.cassettes import Cassette
from ripieno.cli.demo.workspace import Findings
from ripieno.conducting import Run
from ripieno.conducting.observers.console import Renderer
from ripieno.testing.cassettes import Recorder, Replay

#: Names of notes in the cassette: what is said and played, and the times that are shown.
_STAGE, _CLOCK = "stage", "clock"


class Stage:
    """Says lines and shows runs, and notes both in a cassette that records."""

    def __init__(self, cassette: Cassette | None) -> None:
        self.cassette = cassette
        self.forks = isinstance(cassette, Replay) and cassette.forks
        self.replay = cassette if isinstance(cassette, Replay) and not cassette.forks else None
        self._recording = cassette if isinstance(cassette, Recorder) else None

    def say(self, text: str, *, error: bool = False) -> None:
        """A line."""
        if self._recording is not None:
            self._recording.note(_STAGE, {"say": text, "error": error})
        print(text, file=sys.stderr if error else sys.stdout)

    async def follow(self, run: Run, sandboxes: dict[str, None]) -> Conversation:
        """Shows a run until it ends; ``sandboxes`` gets the names of those that its results name."""
        if self._recording is not None:
            self._recording.note(_STAGE, {"run": True})
        progress = Progress(sys.stdout, self._clock(time.perf_counter()))
        async for event in run:
            progress.show(event)
            if isinstance(event, ResultReady) and event.result.report.sandbox:
                sandboxes[event.result.report.sandbox] = None
        conversation = await run
        progress.summarize()
        return conversation

    def end(self, findings: Findings | None) -> None:
        """What was found at the end; None where nothing was played."""
        if self._recording is not None:
            found = None if findings is None else {"lines": list(findings.lines), "faults": list(findings.faults)}
            self._recording.note(_STAGE, {"end": found})

    def _clock(self, began: float) -> Callable[[], str]:
        """Says the time since then, or what it was when it was recorded."""

        def tell() -> str:
            if self.replay is not None:
                return str(self.replay.note(_CLOCK))
            shown = since(began)
            if self._recording is not None:
                self._recording.note(_CLOCK, shown)
            return shown

        return tell


async def encore(stage: Stage, replay: Replay) -> Findings | None:
    """Shows again what was recorded. Errors: ``ReplayDivergence``."""
    while True:
        match replay.note(_STAGE):
            case {"say": str(text), **rest}:
                stage.say(text, error=rest.get("error") is True)
            case {"run": True}:
                await stage.follow(replay.conduct(), {})
            case {"end": {"lines": lines, "faults": faults}}:
                return Findings(lines=[str(line) for line in lines], faults=[str(fault) for fault in faults])
            case _:
                return None


class Progress:
    """Shows a run with its clock, and counts what started early."""

    def __init__(self, stream: TextIO, clock: Callable[[], str]) -> None:
        self._stream = stream
        self._renderer = Renderer(stream)
        self._clock = clock
        self._turns = 0
        self._early: list[str] = []
        self._calls = 0
        self._failed = 0

    def show(self, event: Event) -> None:
        """Shows one event, each turn under the time at which it began."""
        if isinstance(event, TurnBegan):
            self._turns += 1
            self._renderer.note(f"--- turn {self._turns}, at {self._clock()}", "bold")
        elif isinstance(event, ExecutionBegan):
            self._calls += 1
            if event.early:
                self._early.append(event.tool)
        elif isinstance(event, ResultReady):
            self._failed += event.result.error is not None
        self._renderer.show(event)

    def summarize(self) -> None:
        """Says what it came to."""
        self._renderer.end_line()
        print(
            f"--- {self._turns} turns, {self._calls} calls, {self._clock()}; "
            f"{self._failed} failed, and was mended.\n"
            f"    Started early, while the model still spoke: {', '.join(self._early) or 'none'}.",
            file=self._stream,
        )


def since(began: float) -> str:
    """Seconds since then, as they are shown."""
    return f"{time.perf_counter() - began:.2f} s"
