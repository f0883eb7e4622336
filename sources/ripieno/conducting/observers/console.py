"""Shows the events of a run to people: text as it comes, one short line for each call and each result."""

import contextlib
import dataclasses
import sys
import weakref
from collections.abc import Generator
from typing import Literal, TextIO

from ripieno.canisters import TextualContent
from ripieno.canisters.display import brief, clean, count, label
from ripieno.canisters.events import (
    Alert,
    ConductEnded,
    ConfirmationRequested,
    ContentSealed,
    Event,
    ExecutionBegan,
    ExecutionProgress,
    InvocationBegan,
    ReasoningDelta,
    ResultReady,
    TextDelta,
    TurnEnded,
)
from ripieno.jsonvalues import canonical

#: Finishes of a run that are not shown: good ones, and those for which an exception is raised.
_SILENT = ("stop", "terminal", "error", "aborted")
Kind = Literal["text", "reasoning"]


@dataclasses.dataclass(slots=True)
class ConsoleLine:
    """The unfinished line of a stream: the kind of its text, or None at the beginning of a line."""

    kind: Kind | None = None
    #: Whether deltas have shown the content that is sealed next.
    shown: bool = False


class Renderer:
    """Shows events. The model's text goes to one stream, everything else to another, or to the same one.

    ``quiet`` leaves everything but the text out. Colour is for terminals only.
    """

    def __init__(
        self, text: TextIO, notes: TextIO | None = None, *, quiet: bool = False, line: ConsoleLine | None = None
    ) -> None:
        self._text = text
        self._notes = text if notes is None else notes
        self._quiet = quiet
        self._line = line or ConsoleLine()
        self._holders = 0
        self._held: list[Event] = []

    @contextlib.contextmanager
    def held(self) -> Generator[None]:
        """Ends the line, and shows what comes inside the block after it: a question stays the last thing that is seen.

        Blocks may overlap.
        """
        self.end_line()
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            if not self._holders:
                events, self._held = self._held, []
                for event in events:
                    self.show(event)

    def show(self, event: Event) -> None:  # noqa: PLR0912  one branch an event
        """Shows one event. Events that are only for programs show nothing."""
        if self._holders:
            if not isinstance(event, ExecutionProgress):  # It is out of date afterwards.
                self._held.append(event)
            return
        match event:
            case TextDelta(text=text):
                self._line.shown = True
                self._stream("text", text)
            case ReasoningDelta(text=text):
                if not self._quiet:
                    self._stream("reasoning", text)
            case ContentSealed(content=content):
                if isinstance(content, TextualContent):
                    # Text that did not come as deltas.
                    if not self._line.shown:
                        self._stream("text", content.text)
                    self._line.shown = False
            case InvocationBegan() | TurnEnded():
                self.end_line()
            case ConfirmationRequested():
                self.note(f"? {event.tool} wants to run ({event.reason})", "yellow")
            case ExecutionBegan():
                self.note(f"> {event.tool} {_arguments(event)}{' (early)' if event.early else ''}", "cyan")
            case ExecutionProgress():
                self.note(_progress(event), "dim")
            case ResultReady():
                self.note(_result(event), "red" if event.result.error is not None else "green")
            case Alert():
                self.note(f"! {f'{event.tool}: ' if event.tool else ''}{clean(event.message)}", "yellow")
            case ConductEnded(finish="open"):
                self.note("! The run waits for you.", "yellow")
            case ConductEnded(finish=finish) if finish not in _SILENT:
                # A run that is continued can end before the model is asked.
                after = f" after {count(event.turns, 'turn')}" if event.turns else ""
                self.note(f"! The run ended with {finish!r}{after}.", "yellow")
            case _:
                pass

    def note(self, text: str, style: str = "") -> None:
        """Shows one line beside the text, unless quiet."""
        self.end_line()
        if not self._quiet:
            _write(self._notes, f"{text}\n", style)

    def end_line(self) -> None:
        """Ends the unfinished line, if there is one."""
        if self._line.kind is not None:
            _write(self._text if self._line.kind == "text" else self._notes, "\n")
            self._line.kind = None

    def _stream(self, kind: Kind, text: str) -> None:
        if not text:
            return
        if self._line.kind != kind:
            self.end_line()
        _write(self._text if kind == "text" else self._notes, text, "" if kind == "text" else "dim")
        self._line.kind = None if text.endswith("\n") else kind


_LINES: weakref.WeakKeyDictionary[TextIO, ConsoleLine] = weakref.WeakKeyDictionary()


def show(event: Event, file: TextIO | None = None) -> None:
    """Shows an event of a run on a stream, standard output by default: plain text, colour on a terminal only."""
    stream = sys.stdout if file is None else file
    Renderer(stream, line=_LINES.setdefault(stream, ConsoleLine())).show(event)


def _write(stream: TextIO, text: str, style: str = "") -> None:
    """Writes safe text to a terminal, and unchanged text to any other stream."""
    if stream.isatty():
        text = clean(text)
        if style:
            from rich.console import Console

            Console(file=stream, soft_wrap=True).print(text, style=style, end="", markup=False, highlight=False)
            stream.flush()
            return
    try:
        stream.write(text)
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def _arguments(event: ExecutionBegan | ResultReady) -> str:
    return brief(canonical(event.invocation.arguments).decode())


def _progress(event: ExecutionProgress) -> str:
    # Without a total, the message says more than the number, such as the bytes that a program wrote.
    message = brief(event.message)
    if event.total is None and message:
        return f". {event.tool}: {message}"
    total = "" if event.total is None else f" of {event.total:g}"
    return f". {event.tool} {event.done:g}{total} {message}".rstrip()


def _result(event: ResultReady) -> str:
    result = event.result
    # It began in a program that has ended.
    lost = not result.report.attempts and result.error is not None and result.error.category == "outcome_unknown"
    began = bool(result.report.attempts) or lost
    cached = result.report.cached
    time = "interrupted" if lost else f"{result.report.duration_ms:.0f} ms"
    marks = [time if began else "cached" if cached else "not run"]
    marks += [result.report.sandbox] if result.report.sandbox else []
    marks += ["early"] if event.early else []
    marks += ["discarded, because the answer was lost"] if event.discarded else []
    if result.error is not None:
        advice = brief(result.error.suggestion or "")
        text = f"{result.error.category}: {brief(result.error.message)} {advice}".rstrip()
    else:
        labels = " ".join(label(one) for one in result.content if not isinstance(one, TextualContent))
        text = " ".join(part for part in (brief(result.text), brief(labels)) if part) or "(nothing)"
    if began:
        return f"< {event.tool} ({', '.join(marks)}) {text}"
    # It never began, so no earlier line has its arguments.
    return f"{'<' if cached else 'x'} {event.tool} {_arguments(event)} ({', '.join(marks)}) {text}"
