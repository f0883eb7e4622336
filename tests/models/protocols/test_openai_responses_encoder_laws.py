"""Laws over streamed answers of the Responses wire: what the public schema and its grammar say of each of them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.canisters import ImageContent, ResultCanister, TextualContent
from ripieno.canisters.controls import Finish
from ripieno.canisters.conversation import Usage
from ripieno.canisters.events import (
    ArgumentsDelta,
    ContentSealed,
    Event,
    InvocationBegan,
    InvocationSealed,
    ReasoningDelta,
    ResultReady,
    TextDelta,
    TurnBegan,
    TurnEnded,
)
from ripieno.jsonvalues import encode as encode_json
from ripieno.models.protocol import Asked, Refusal
from ripieno.models.protocols.common.calls import read_invocation
from ripieno.models.protocols.openai_responses import PROTOCOL
from ripieno.models.protocols.openai_responses.encoder import Encoder
from ripieno.models.protocols.openai_responses.seed_encoder import SeedEncoder
from tests.models.protocols.test_openai_responses_encoder import streamed
from tests.models.protocols.test_wires_parameters import HONOURED, TAKEN
from tests.models.protocols.wire_strategies import details, foreign, phases, reasons, searches, thinking
from tests.support.json_strategies import objects, texts
from tests.support.openresponses_checker import check_body, check_stream

FINISHES: Sequence[Finish] = ("stop", "invocations", "length", "filter", "terminal", "limit", "open")
encoders = pytest.mark.parametrize("encoder", [Encoder, SeedEncoder])


# Answers that a decoder can give.


@st.composite
def fragments(draw: st.DrawFn, text: str) -> list[str]:
    """A text in pieces, none of them empty."""
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(text) - 1)), max_size=4)))
    pieces = [text[one:other] for one, other in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    return [piece for piece in pieces if piece]


@st.composite
def calls(draw: st.DrawFn, turn: int, index: int) -> list[list[Event]]:
    """The events of a call, and of its result where this server ran it: each in the order in which it must stand."""
    kind = draw(st.sampled_from(["function", "function", "freeform"]))
    own = draw(st.sampled_from([{}, {"id": f"fc_{turn}_{index}"}, {"namespace": "mcp__time"}]))
    text = draw(st.sampled_from(["", " ", "{", '{"a', "\n{}"]) | objects.map(lambda one: encode_json(one).decode()))
    # Some servers send the arguments as an object: then they are written differently.
    sent: Any = json.loads(text) if kind == "function" and text[-1:] == "}" and draw(st.booleans()) else text
    invocation = read_invocation(
        identifier=f"call_{turn}_{index}", name="read_file", sent=sent, kind=kind, protocol=PROTOCOL.name, extras=own
    )
    events: list[Event] = []
    if draw(st.booleans()):
        opaque = invocation.opaque
        began = InvocationBegan(
            index=index, identifier=invocation.identifier, name=invocation.name, kind=invocation.kind, opaque=opaque
        )
        shown = draw(st.sampled_from([text, text[: len(text) // 2], ""]))
        events = [began, *(ArgumentsDelta(index=index, text=piece) for piece in draw(fragments(shown)))]
    events.append(InvocationSealed(index=index, invocation=invocation))
    if draw(st.integers(0, 3)):
        return [events]
    content = draw(
        st.lists(
            st.builds(TextualContent, text=texts) | st.just(ImageContent(data=b"x", mime_type="image/png")), max_size=2
        )
    )
    result = ResultCanister(invocation_id=invocation.identifier, content=tuple(content))
    ready = ResultReady(invocation=invocation, result=result, tool="files.read_file", discarded=draw(st.booleans()))
    return [[*events, ready]]


@st.composite
def sayings(draw: st.DrawFn) -> list[Event]:
    """The events of something that is said, or thought."""
    if draw(st.booleans()):
        opaque = draw(st.one_of(foreign, thinking, details, reasons, searches, phases))
        shown = [ReasoningDelta(piece) for piece in draw(fragments(draw(texts)))]
        return [*shown, ContentSealed(opaque)]
    text = draw(texts)
    shown = [TextDelta(piece) for piece in draw(fragments(text))] if draw(st.booleans()) else []
    late = [ContentSealed(draw(phases))] if draw(st.booleans()) else []
    return [*shown, *late, ContentSealed(TextualContent(text=text))]


@st.composite
def interleaved(draw: st.DrawFn, rows: Sequence[Sequence[Event]]) -> list[Event]:
    """Several rows of events as one, each in its own order: parallel calls come so."""
    rest = [list(row) for row in rows if row]
    events: list[Event] = []
    while rest:
        row = draw(st.sampled_from(rest))
        events.append(row.pop(0))
        rest = [one for one in rest if one]
    return events


@st.composite
def answers(draw: st.DrawFn) -> list[Event]:
    """All events of an answer: of one turn, or of several of one run."""
    events: list[Event] = []
    for turn in range(draw(st.integers(1, 2))):
        events.append(TurnBegan(model="m", turn=turn + 1))
        for _ in range(draw(st.integers(0, 2))):
            events += draw(sayings())
        rows = [row for index in range(draw(st.integers(0, 3))) for row in draw(calls(turn, index))]
        events += draw(interleaved([*rows, *([draw(sayings())] if draw(st.booleans()) else [])]))
    usage = draw(st.builds(Usage, input_tokens=st.integers(0, 99), output_tokens=st.integers(0, 99)))
    return [*events, TurnEnded(finish=draw(st.sampled_from(FINISHES)), usage=usage)]


def timeless(response: Mapping[str, Any]) -> Any:
    """A response without its times, and with identifiers that tell nothing but their places."""
    token = response["id"].removeprefix("resp_")
    kept = {key: value for key, value in response.items() if key not in ("created_at", "completed_at")}
    return json.loads(json.dumps(kept).replace(token, "TOKEN").replace(token[:20], "TOKEN"))


@encoders
@given(events=answers())
def test_every_answer_is_a_stream_that_clients_can_read_and_says_what_the_whole_says(
    encoder: type[Encoder], events: list[Event]
) -> None:
    checker = streamed(events, encoder)
    whole = json.loads(PROTOCOL.variant("seed" if encoder is SeedEncoder else "").encode(events, Asked(model="m")))
    check_body(json.dumps({**whole, "status": "completed"} if whole["status"] == "requires_action" else whole).encode())
    assert timeless(whole) == timeless(checker.response)
    again = streamed(events, encoder)
    assert timeless(again.response) == timeless(checker.response)


@encoders
@given(events=answers(), data=st.data())
def test_an_answer_may_fail_anywhere(encoder: type[Encoder], events: list[Event], data: st.DataObject) -> None:
    made = encoder(Asked(model="m"))
    heard = events[: data.draw(st.integers(0, len(events) - 1))]
    code = data.draw(st.none() | st.just("backend_gone"))
    writes = [made.feed(event) for event in heard]
    writes.append(made.fail(Refusal(status=502, message="Gone.", code=code, parameter="model")))
    checker = check_stream(writes, seed=encoder is SeedEncoder)
    assert checker.response["error"] == {"code": code or "server_error", "message": "Gone."}
    (error,) = [event for event in checker.events if event["type"] == "error"]
    assert (error["message"], error["param"], error["code"] or code) == ("Gone.", "model", code or "server_error")


# Requests.

ECHOED = {
    *("temperature", "top_p", "presence_penalty", "frequency_penalty", "top_logprobs", "max_output_tokens"),
    *("max_tool_calls", "parallel_tool_calls", "metadata", "truncation", "service_tier", "user", "instructions"),
    *("safety_identifier", "prompt_cache_key"),
}
ASKED: list[Any] = [
    *((row[0], row[1]) for row in [*HONOURED[PROTOCOL.name], *TAKEN[PROTOCOL.name]]),
    ("instructions", "Be brief."),
    ("tool_choice", {"type": "mcp", "server_label": "x"}),
    ("tool_choice", {"type": "auto"}),
    ("tool_choice", {"forced_tool": {"type": "function", "name": "f"}}),
    ("tool_choice", {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]}),
    ("tool_choice", {"type": "allowed_tools", "allowed_tools": {"tools": [{"type": "function", "name": "f"}]}}),
    ("tools", [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}]),
    ("tools", [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]),
    ("tools", [{"type": "custom", "name": "patch", "format": {"type": "text"}}]),
    ("tools", [{"type": "namespace", "name": "mcp__time", "tools": [{"type": "function", "name": "now"}]}]),
    ("tools", [{"type": "mcp", "server_label": "x", "authorization": "secret", "headers": {"x-key": "secret"}}]),
    ("tools", [{"type": "web_search"}, {"type": "acme:crystal_ball"}]),
]
_JUNK = st.none() | st.booleans() | st.integers(-9, 9) | texts | st.lists(texts, max_size=2) | objects


@pytest.mark.parametrize(("key", "value"), ASKED)
def test_what_was_asked_is_repeated(key: str, value: Any) -> None:
    events = [TurnBegan(model="m"), TextDelta("Yes."), TurnEnded(finish="stop")]
    response = streamed(events, asked=Asked(model="m", native={key: value})).response
    assert key not in ECHOED or response[key] == value or value is None
    assert key != "tools" or [tool["type"] for tool in response[key]] == [tool["type"] for tool in value]
    assert "secret" not in json.dumps(response)


@given(native=st.fixed_dictionaries({}, optional=dict.fromkeys([*ECHOED, *(key for key, _ in ASKED)], _JUNK)))
def test_whatever_was_asked_the_answer_is_a_response(native: dict[str, Any]) -> None:
    asked = Asked(model="m", native=native)
    check_body(PROTOCOL.encode([TurnEnded(finish="stop")], asked))
