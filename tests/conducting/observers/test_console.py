"""Events on the console: their lines, and no control sequences on a terminal."""

import io
import re
from typing import Any

import pytest
from frozendict import frozendict
from hypothesis import given
from hypothesis import strategies as st

from ripieno.canisters import ImageContent, InvocationCanister, ResultCanister, TextualContent
from ripieno.canisters.display import SHOWN, brief, clean
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
    TurnBegan,
    TurnEnded,
)
from ripieno.canisters.faults import Fault, Report
from ripieno.conducting.observers.console import Renderer, show

INVOCATION = InvocationCanister(identifier="call_1", name="read_file", arguments=frozendict(path="a.txt"))


def result(text: str = "", error: Fault | None = None, attempts: int = 1, *, cached: bool = False) -> ResultReady:
    content = (TextualContent(text=text),) if text else ()
    report = Report(duration_ms=12.3, attempts=attempts, cached=cached)
    canister = ResultCanister(invocation_id="call_1", content=content, error=error, report=report)
    return ResultReady(invocation=INVOCATION, result=canister, tool="io.read_file")


def test_what_comes_during_a_question_is_shown_after_the_last_one() -> None:
    stream = io.StringIO()
    renderer = Renderer(stream)
    renderer.show(TextDelta("I write"))
    with renderer.held():
        with renderer.held():
            assert stream.getvalue() == "I write\n"
            renderer.show(ExecutionProgress(invocation_id="call_1", tool="a.b", done=1))
            renderer.show(result("one"))
        renderer.show(result("two"))
        assert stream.getvalue() == "I write\n"
    assert stream.getvalue() == "I write\n< io.read_file (12 ms) one\n< io.read_file (12 ms) two\n"


def shown(*events: Event) -> str:
    stream = io.StringIO()
    for event in events:
        show(event, stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (TurnBegan(model="m", turn=1), ""),
        (InvocationBegan(index=0, identifier="call_1", name="read_file"), ""),
        (ExecutionBegan(invocation=INVOCATION, tool="io.read_file"), '> io.read_file {"path":"a.txt"}\n'),
        (
            ExecutionBegan(invocation=INVOCATION, tool="io.read_file", early=True),
            '> io.read_file {"path":"a.txt"} (early)\n',
        ),
        (result("one\ntwo\n"), "< io.read_file (12 ms) one ...\n"),
        (result("one\n"), "< io.read_file (12 ms) one\n"),
        (result(), "< io.read_file (12 ms) (nothing)\n"),
        (
            result(error=Fault(category="denied", message="No."), attempts=0),
            'x io.read_file {"path":"a.txt"} (not run) denied: No.\n',
        ),
        (result("one\n", attempts=0, cached=True), '< io.read_file {"path":"a.txt"} (cached) one\n'),
        (
            result(error=Fault(category="outcome_unknown", message="It ended."), attempts=0),
            "< io.read_file (interrupted) outcome_unknown: It ended.\n",
        ),
        (ExecutionProgress(invocation_id="call_1", tool="a.b", done=1, total=3, message="half"), ". a.b 1 of 3 half\n"),
        (ExecutionProgress(invocation_id="call_1", tool="a.b", done=0.5), ". a.b 0.5\n"),
        (ExecutionProgress(invocation_id="call_1", tool="a.b", done=8, message="partial"), ". a.b: partial\n"),
        (Alert(message="Lost."), "! Lost.\n"),
        (Alert(message="Lost.", tool="a.b"), "! a.b: Lost.\n"),
        (
            ConfirmationRequested(invocation=INVOCATION, tool="a.b", effect="write", reason="its effect is write"),
            "? a.b wants to run (its effect is write)\n",
        ),
        (ConductEnded(finish="stop", turns=1, calls=0), ""),
        (ConductEnded(finish="limit", turns=1, calls=0), "! The run ended with 'limit' after 1 turn.\n"),
        (ConductEnded(finish="open", turns=3, calls=1), "! The run waits for you.\n"),
        (ConductEnded(finish="cancelled", turns=0, calls=1), "! The run ended with 'cancelled'.\n"),
        (ContentSealed(ImageContent(data=b"x", mime_type="image/png")), ""),
    ],
)
def test_each_event_has_its_line(event: Event, line: str) -> None:
    assert shown(event) == line


def test_text_streams_and_lines_begin_at_their_beginning() -> None:
    text = shown(
        ReasoningDelta("Let me "),
        ReasoningDelta("see."),
        TextDelta("I lo"),
        TextDelta("ok."),
        ContentSealed(TextualContent(text="I look.")),
        ExecutionBegan(invocation=INVOCATION, tool="io.read_file"),
        TurnEnded(finish="invocations"),
        result("one"),
        TextDelta("It says one.\n"),
        ContentSealed(TextualContent(text="It says one.\n")),
        TurnEnded(finish="stop"),
        ConductEnded(finish="stop", turns=2, calls=1),
    )
    assert text == 'Let me see.\nI look.\n> io.read_file {"path":"a.txt"}\n< io.read_file (12 ms) one\nIt says one.\n'


def test_a_whole_answer_is_shown_once() -> None:
    sealed = ContentSealed(TextualContent(text="Hello."))
    opaque = ContentSealed(ImageContent(data=b"", mime_type="image/png"))
    assert shown(sealed, TurnEnded(finish="stop")) == "Hello.\n"
    assert shown(TextDelta("Hello."), opaque, sealed, TurnEnded(finish="stop")) == "Hello.\n"


def test_streams_are_kept_apart() -> None:
    one, two = io.StringIO(), io.StringIO()
    show(TextDelta("a"), one)
    show(Alert(message="b"), two)
    show(Alert(message="c"), one)
    assert (one.getvalue(), two.getvalue()) == ("a\n! c\n", "! b\n")


def test_notes_may_go_elsewhere_or_nowhere() -> None:
    text, notes = io.StringIO(), io.StringIO()
    quiet = io.StringIO()
    for renderer in (Renderer(text, notes), Renderer(quiet, quiet=True)):
        for event in (ReasoningDelta("Hm."), TextDelta("a"), result("x"), TextDelta("b"), TurnEnded(finish="stop")):
            renderer.show(event)
    assert (text.getvalue(), notes.getvalue()) == ("a\nb\n", "Hm.\n< io.read_file (12 ms) x\n")
    assert quiet.getvalue() == "a\nb\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_is_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    show(result("x" * 100), terminal)
    assert "\x1b[32m" in terminal.getvalue()
    assert terminal.getvalue().count("\n") == 1
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    show(result("[bold]x[/bold]"), plain)
    assert plain.getvalue() == "< io.read_file (12 ms) [bold]x[/bold]\n"


def test_a_stream_that_lacks_a_character_gets_its_escape() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", newline="")
    show(TextDelta("Grüße\n"), stream)
    assert raw.getvalue() == b"Gr\\xfc\\xdfe\n"


ESCAPES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@given(st.text())
def test_nothing_that_a_model_says_acts_on_a_terminal(text: str) -> None:
    terminal = Terminal()
    events: list[Any] = [TextDelta(text), TurnEnded(finish="stop"), result(text), Alert(message=text)]
    for event in events:
        Renderer(terminal).show(event)
    allowed = re.sub("\x1b\\[[0-9;]*m", "", terminal.getvalue())
    assert not ESCAPES.search(allowed)
    assert len(brief(text)) <= SHOWN * 10 + 4
    assert "\n" not in brief(text)
    assert clean(clean(text)) == clean(text)


@pytest.mark.parametrize(
    "text", ["naïve café", "日本語", "👩\u200d👩\u200d👧", "\u0645\u06cc\u200c\u062e\u0648", "a\tb\nc", "10\u00a0€"]
)
def test_what_people_write_stays_as_it_is(text: str) -> None:
    assert clean(text) == text
