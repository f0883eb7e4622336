"""Shows the events of a run to people: text as it comes, one short line for each call and each result."""

import dataclasses
import re
import sys
import weakref
from typing import Literal, TextIO

from ripieno.canisters import AudioContent, DocumentContent, ImageContent, OpaqueContent, ResultCanister, TextualContent
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

#: Characters of arguments, and of a result, that a line shows.
SHOWN = 160
#: What can move a cursor, hide text or turn the direction of reading; joiners, which scripts need, stay.
DANGEROUS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
#: Ends of a run that need no word: good ones, and those that an exception tells of.
_TOLD = ("stop", "terminal", "error", "aborted")
Kind = Literal["text", "reasoning"]


def clean(text: str) -> str:
    """Text that is safe on a terminal: lines and tabs stay, what could act on the terminal becomes visible."""
    return DANGEROUS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text.replace("\r\n", "\n"))


def brief(text: str, length: int = SHOWN) -> str:
    """The first line of a text, as far as it fits, with a mark where something is left out."""
    stripped = text.strip()
    shown = stripped.partition("\n")[0].rstrip()[:length]
    return clean(shown) if shown == stripped else f"{clean(shown)} ..."


def label(content: ImageContent | AudioContent | DocumentContent | OpaqueContent) -> str:
    """What stands for a content that is no text: what it is, and how long, or where. Not safe on a terminal yet."""
    if isinstance(content, OpaqueContent):
        return f"[{content.kind}, for {content.protocol} only]"
    if content.data is None:
        return f"[{content.mime_type}, at {content.url}]"
    return f"[{content.mime_type}, {_count(len(content.data), 'byte')}]"


@dataclasses.dataclass(slots=True)
class ConsoleLine:
    """The line that a stream is in the middle of: what it shows, or None at the beginning of one."""

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

    def show(self, event: Event) -> None:  # noqa: PLR0912  one branch an event
        """Shows one event; those that only other programs want to know of show nothing."""
        match event:
            case TextDelta(text=text):
                self._line.shown = True
                self._stream("text", text)
            case ReasoningDelta(text=text):
                if not self._quiet:
                    self._stream("reasoning", text)
            case ContentSealed(content=content):
                if isinstance(content, TextualContent):
                    # What did not come as deltas is shown now.
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
            case ConductEnded(finish=finish) if finish not in _TOLD:
                self.note(f"! The run ended with {finish!r} after {_count(event.turns, 'turn')}.", "yellow")
            case _:
                pass

    def note(self, text: str, style: str = "") -> None:
        """One line beside the text, unless it is to be quiet."""
        self.end_line()
        if not self._quiet:
            _write(self._notes, f"{text}\n", style)

    def end_line(self) -> None:
        """Ends the line that was begun, if one was."""
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
    """To a terminal what is safe there; to anything else the text as it is."""
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
    # A number that nothing is said of, such as the bytes that a program wrote, says less than what was told with it.
    said = brief(event.message)
    if event.total is None and said:
        return f". {event.tool}: {said}"
    total = "" if event.total is None else f" of {event.total:g}"
    return f". {event.tool} {event.done:g}{total} {said}".rstrip()


def _result(event: ResultReady) -> str:
    result = event.result
    marks = [f"{result.report.duration_ms:.0f} ms"] if result.report.attempts else ["not run"]
    marks += [result.report.sandbox] if result.report.sandbox else []
    marks += ["early"] if event.early else []
    marks += ["discarded, because the answer was lost"] if event.discarded else []
    if result.error is not None:
        advice = brief(result.error.suggestion or "")
        said = f"{result.error.category}: {brief(result.error.message)} {advice}".rstrip()
    else:
        said = _contents(result)
    if result.report.attempts:
        return f"< {event.tool} ({', '.join(marks)}) {said}"
    # It never began, so no line has told its arguments.
    return f"x {event.tool} {_arguments(event)} ({', '.join(marks)}) {said}"


def _contents(result: ResultCanister) -> str:
    labels = " ".join(label(one) for one in result.content if not isinstance(one, TextualContent))
    return " ".join(part for part in (brief(result.text), brief(labels)) if part) or "(nothing)"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
