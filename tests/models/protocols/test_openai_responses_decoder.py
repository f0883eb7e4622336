"""Answers of the Responses wire: when calls are sealed, what never runs, and what our server half makes of it."""

import contextlib
import functools
from typing import Any

import pytest
from frozendict import frozendict
from hypothesis import given
from hypothesis import strategies as st

from ripieno.canisters import AssistantCanister, OpaqueContent, TextualContent
from ripieno.canisters.events import (
    ArgumentsDelta,
    ContentSealed,
    Event,
    InvocationBegan,
    InvocationSealed,
    ReasoningDelta,
    TextDelta,
    TurnEnded,
    collect,
)
from ripieno.exceptions import ProviderFailure, ProviderRefusal, WireInvalidity
from ripieno.models.protocol import Identifiers, Native
from ripieno.models.protocols.common.decoder import AnswerDecoder
from ripieno.models.protocols.openai_responses import PROTOCOL
from ripieno.models.protocols.openai_responses.decoder import Decoder
from tests.models.protocols.listening import Listening, outcome
from tests.models.protocols.test_openai_responses_requests import THOUGHT
from tests.models.protocols.test_wires_golden import natives_of, written

NAME = PROTOCOL.name


def listening(*natives: Native) -> Listening:
    return Listening(PROTOCOL).hear(*natives)


def sealed(heard: Listening) -> list[tuple[str, Any, str | None]]:
    """Names, arguments and faults of the calls that are sealed."""
    return [(one.name, dict(one.arguments), one.fault.code if one.fault else None) for one in heard.calls]


def ended(status: str = "completed", **response: Any) -> Native:
    return {"type": f"response.{status}", "response": {"status": status, **response}}


def added(place: int, **item: Any) -> Native:
    return {"type": "response.output_item.added", "output_index": place, "item": item}


def done(place: int, **item: Any) -> Native:
    return {"type": "response.output_item.done", "output_index": place, "item": item}


def function(name: str, arguments: object = "", **item: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": f"call_{name}", "name": name, "arguments": arguments, **item}


def more(place: int, text: object) -> Native:
    return {"type": "response.function_call_arguments.delta", "output_index": place, "delta": text}


def test_a_call_is_sealed_where_its_item_is_done() -> None:
    heard = listening(added(0, **function("f")), more(0, '{"a":1}'))
    assert sealed(heard) == []  # Not when its JSON parses.
    heard.hear({"type": "response.function_call_arguments.done", "output_index": 0, "arguments": '{"a":1}'})
    assert sealed(heard) == []
    heard.hear(done(0, **function("f", '{"a":1}', status="completed")))
    assert sealed(heard) == [("f", {"a": 1}, None)]
    # One without arguments, too, where it says itself that it is complete.
    assert sealed(listening(done(0, **function("f", "{}", status="completed")))) == [("f", {}, None)]


@pytest.mark.parametrize("text", ["", "{}", '{"a'])
def test_a_call_that_may_have_been_cut_waits_for_what_comes_next(text: str) -> None:
    heard = listening(done(0, **function("f", text)))
    assert sealed(heard) == []
    cut = listening(done(0, **function("f", text)))
    cut.end(ended("incomplete", incomplete_details={"reason": "max_output_tokens"}))
    assert sealed(cut) == [("f", {}, "cut_off")]
    heard.hear(done(1, **function("g", '{"b":2}')))
    assert [name for name, _, _ in sealed(heard)] == ["f", "g"]


@pytest.mark.parametrize("status", ["in_progress", "incomplete"])
@pytest.mark.parametrize("reason", ["completed", "incomplete"])
def test_an_item_that_is_not_complete_never_runs(status: str, reason: str) -> None:
    heard = listening(done(0, **function("f", '{"a":1}', status=status)))
    assert sealed(heard) == []
    heard.end(ended(reason))
    assert sealed(heard) == [("f", {}, "cut_off")]
    (whole,) = PROTOCOL.invocations.normalize_invocations({"output": [function("f", '{"a":1}', status=status)]})
    assert whole.fault is not None
    assert whole.fault.code == "cut_off"


def test_how_an_item_began_says_nothing_of_its_end() -> None:
    heard = listening(added(0, **function("f", status="in_progress")), done(0, **function("f", '{"a":1}')))
    assert sealed(heard) == [("f", {"a": 1}, None)]


def test_an_open_call_is_cut_by_the_end_that_cuts() -> None:
    heard = listening(added(0, **function("f")), more(0, '{"a":1}'))
    assert heard.end(ended("incomplete", incomplete_details={"reason": "content_filter"})).finish == "filter"
    assert sealed(heard) == [("f", {}, "cut_off")]
    # An end that nobody knows has cut, too.
    other = listening(added(0, **function("f")), more(0, '{"a":1}'))
    assert other.end(ended("incomplete", incomplete_details={"reason": "steered"})).finish == "length"
    assert sealed(other) == [("f", {}, "cut_off")]


def test_reasoning_that_never_ends_does_not_return() -> None:
    partial = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "half"}
    heard = listening(added(0, **partial), done(1, **function("f", "{}", status="completed")))
    heard.end(ended())
    assert not [event for event in heard.events if isinstance(event, ContentSealed)]
    unfinished = listening(done(0, **partial, status="incomplete"))
    unfinished.end(ended("incomplete"))
    assert collect(unfinished.events) == (AssistantCanister(),)


def test_summaries_are_paragraphs() -> None:
    def summary(number: int, text: str) -> list[Native]:
        where = {"item_id": "rs_1", "output_index": 0, "summary_index": number}
        return [
            {"type": "response.reasoning_summary_part.added", **where, "part": {"type": "summary_text", "text": ""}},
            {"type": "response.reasoning_summary_text.delta", **where, "delta": text},
        ]

    thought = {**THOUGHT, "summary": [{"type": "summary_text", "text": text} for text in ("One.", "Two.")]}
    heard = listening(added(0, **THOUGHT), *summary(0, "One."), *summary(1, "Two."), done(0, **thought))
    shown = [event.text for event in heard.events if isinstance(event, ReasoningDelta)]
    assert "".join(shown) == "One.\n\nTwo."
    # Without its fragments it is shown when it is whole.
    whole = listening(added(0, **THOUGHT), done(0, **thought))
    assert [event.text for event in whole.events if isinstance(event, ReasoningDelta)] == ["One.", "Two."]


def test_a_call_begins_after_what_was_said_before_it() -> None:
    message = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
    said = {**message, "content": [{"type": "output_text", "text": "First."}]}
    heard = listening(added(0, **message), added(1, **function("f")), more(1, '{"a"'))
    assert not [event for event in heard.events if isinstance(event, InvocationBegan)]
    heard.hear(done(0, **said), more(1, ":1}"), done(1, **function("f", '{"a":1}')))
    kinds = [type(event) for event in heard.events[1:]]
    assert kinds == [TextDelta, ContentSealed, InvocationBegan, ArgumentsDelta, ArgumentsDelta, InvocationSealed]


def test_fragments_of_one_text_where_the_item_says_more() -> None:
    """The whole item is what counts; what had not been shown of it is shown then."""
    where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    said = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "One two."}],
    }
    heard = listening({"type": "response.output_text.delta", **where, "delta": "One "}, done(0, **said))
    assert [event.text for event in heard.events if isinstance(event, TextDelta)] == ["One ", "two."]
    # A part that had no fragments comes with its end.
    late = listening({"type": "response.output_text.done", **where, "text": "All."})
    late.end(ended())
    assert collect(late.events) == (AssistantCanister.of("All."),)


@pytest.mark.parametrize(
    ("native", "words"),
    [
        ({"type": "error", "code": "x", "message": "Gone."}, "Gone"),
        ({"type": "error", "error": {"message": "Gone."}}, "Gone"),
        ({"type": "response.failed", "response": {"status": "failed", "error": {"message": "Gone."}}}, "Gone"),
        ({"type": "response.failed"}, "'failed' without a reason"),
        ({"type": "response.cancelled", "response": {"status": "cancelled", "error": None}}, "'cancelled'"),
        ({"object": "response", "status": "failed", "error": {"message": "Gone."}}, "Gone"),
    ],
)
def test_errors_come_in_many_forms(native: Native, words: str) -> None:
    with pytest.raises(ProviderRefusal, match=words):
        listening(native)


@pytest.mark.parametrize("status", ["queued", "in_progress", None])
def test_an_answer_that_is_not_over_is_no_answer(status: str | None) -> None:
    native = {"object": "response", "status": status, "output": [function("f", "{}")]}
    with pytest.raises(WireInvalidity, match="without its terminal event"):
        list(PROTOCOL.decoder("house", Identifiers()).play(native))


def test_words_that_nobody_knows_are_passed_over() -> None:
    heard = listening(
        {"type": "response.queued", "response": {"model": "m"}},
        {"type": "acme:trace_event", "anything": 1},
        {"type": "response.output_text.annotation.added", "annotation": {}},
        {"type": "response.mcp_call_arguments.delta", "item_id": "mcp_1", "output_index": 0, "delta": "{"},
    )
    assert heard.end(ended()).finish == "stop"
    assert collect(heard.events) == (AssistantCanister(),)


def test_shapes_that_the_wire_does_not_allow_are_errors_with_a_name() -> None:
    for native in (added(0), {"type": "response.output_item.done"}, {**more(0, 7), "output_index": []}):
        with contextlib.suppress(ProviderFailure):
            listening(native).end(ended())
    with pytest.raises(WireInvalidity, match=r"'response.output_item.added' that cannot be read"):
        listening(added(0))


def test_a_phase_stands_in_the_message_from_its_beginning() -> None:
    beside = OpaqueContent(protocol=NAME, kind="message", data=frozendict(type="message", phase="final_answer"))
    events: list[Event] = [ContentSealed(beside), TextDelta("Yes."), ContentSealed(TextualContent(text="Yes."))]
    natives = natives_of([written(PROTOCOL, [*events, TurnEnded(finish="stop")])])
    items = [one["item"] for one in natives if "item" in one]
    assert [item["phase"] for item in items] == ["final_answer", "final_answer"]


# The short way through the decoder.

_WHERE = st.fixed_dictionaries(
    {}, optional={"output_index": st.sampled_from([0, 1]), "item_id": st.sampled_from(["a", "b"])}
)
_PIECES = st.sampled_from(["On", "e ", "{", "}", "", None, {"a": 1}])


@st.composite
def streamed(draw: st.DrawFn) -> list[Native]:
    """Pieces of few items, as servers number and name them: more of the same mostly."""
    natives: list[Native] = []
    for _ in range(draw(st.integers(0, 8))):
        kind = draw(st.sampled_from(["text", "text", "call", "call", "begin", "end"]))
        where = draw(_WHERE)
        if kind in ("begin", "end"):
            item = function(draw(st.sampled_from(["f", "g"])), id=where.get("item_id"))
            word = "added" if kind == "begin" else "done"
            natives.append({"type": f"response.output_item.{word}", "item": item, **where})
            continue
        part = draw(st.sampled_from([{}, {"content_index": 0}, {"content_index": 1}])) if kind == "text" else {}
        word = "response.output_text" if kind == "text" else "response.function_call_arguments"
        native = {"type": f"{word}.delta", **where, **part, "delta": draw(_PIECES)}
        natives += [native] * draw(st.integers(1, 3))
    return natives


@given(streamed())
def test_the_short_way_leads_where_the_long_one_does(natives: list[Native]) -> None:
    whole = [*natives, {"type": "response.completed"}]
    short, long = (Decoder("house", Identifiers()) for _ in range(2))
    assert outcome(whole, short) == outcome(whole, long, functools.partial(AnswerDecoder.feed, long))
