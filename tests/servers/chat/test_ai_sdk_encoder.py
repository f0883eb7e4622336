"""Frames of the UI message stream: any order of events, any instant of a reload, failed attempts, odd calls."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.canisters import (
    AssistantCanister,
    ImageContent,
    InvocationCanister,
    OpaqueContent,
    ResultCanister,
    TextualContent,
)
from ripieno.canisters.canisters import Canister
from ripieno.canisters.events import (
    ArgumentsDelta,
    ConductEnded,
    ContentSealed,
    Event,
    InvocationBegan,
    InvocationSealed,
    ReasoningDelta,
    ResultReady,
    TextDelta,
    TurnBegan,
    TurnEnded,
    collect,
)
from ripieno.canisters.faults import Fault
from ripieno.jsonvalues import freeze
from ripieno.servers.chat.ai_sdk.encoder import Encoder
from ripieno.servers.chat.ai_sdk.frames import Frame, Version, encoded, finish_reason
from ripieno.servers.chat.contents import message_of, reference_of
from ripieno.servers.chat.events import RunFailed
from ripieno.servers.chat.live_turn import LiveTurn
from tests.support.ai_sdk_client import Client
from tests.support.scripted_models import invoke

_IDENTIFIERS = ("a", "b", "c")
_TEXTS = st.lists(st.sampled_from(("", "x", "\n", "é", "\ud800")), max_size=4)
_VERSIONS = st.sampled_from((5, 6, 7))
_USER: dict[str, Any] = {"type": "user", "content": []}


def result_of(call: InvocationCanister, *, failed: bool, discarded: bool = False) -> ResultReady:
    error = Fault(category="execution", message="broken") if failed else None
    content = () if failed else (TextualContent(text="seen"),)
    result = ResultCanister(invocation_id=call.identifier, content=content, error=error)
    return ResultReady(invocation=call, result=result, tool="mine.look", discarded=discarded)


@st.composite
def turns(draw: st.DrawFn) -> list[Event]:
    """The events of one turn: texts and reasoning between the events of calls, and then the results."""
    identifiers = draw(st.lists(st.sampled_from(_IDENTIFIERS), unique=True, max_size=3))
    calls = [invoke("look", identifier, at=1) for identifier in identifiers]
    # The steps of each call keep their order; those of several calls are mixed.
    steps: list[list[Event]] = []
    for index, call in enumerate(calls):
        streamed = draw(st.booleans())
        began: list[Event] = [InvocationBegan(index=index, identifier=call.identifier, name="look")] * streamed
        deltas: list[Event] = [ArgumentsDelta(index=index, text=part) for part in ('{"at"', "", ": 1}")] * streamed
        steps.append([*began, *deltas, InvocationSealed(index=index, invocation=call)])
    events: list[Event] = [TurnBegan()]
    while any(steps) or draw(st.booleans()):
        kind = draw(st.sampled_from(("text", "reasoning", *(["call"] * bool(any(steps))))))
        if kind == "call":
            events.append(draw(st.sampled_from([one for one in steps if one])).pop(0))
            continue
        parts = draw(_TEXTS)
        events += [TextDelta(one) if kind == "text" else ReasoningDelta(one) for one in parts]
        if kind == "text":
            events.append(ContentSealed(TextualContent(text="".join(parts))))
        elif draw(st.booleans()):
            events.append(ContentSealed(OpaqueContent(protocol="p", kind="k", data=freeze({}))))
    results = [result_of(call, failed=draw(st.booleans())) for call in calls]
    return [*events, TurnEnded(finish="invocations"), *results]


def shown(client: Client) -> tuple[Any, ...]:
    """What a page shows: its texts, and its calls, however its parts were streamed."""
    texts = "".join(part["text"] for part in client.parts("text"))
    names = ("toolCallId", "state", "toolName", "input", "output", "errorText")
    calls = [json.dumps([part.get(name) for name in names]) for part in client.parts("dynamic-tool")]
    return texts, sorted(calls)


def played(encoder: Encoder, began: list[Frame], events: list[Event], version: int) -> Client:
    frames = list(began)
    for event in events:
        frames += encoder.take(event)
    return Client(version).take(frames)


def snapshot(messages: list[Any], turn: LiveTurn) -> dict[str, Any]:
    return {"state": "running", "messages": messages, "unfinished": [], "turn": turn.mapping(), "questions": []}


@given(st.lists(turns(), min_size=1, max_size=3), _VERSIONS, st.data())
def test_a_page_that_is_loaded_at_any_instant_shows_the_same(
    script: list[list[Event]], version: Version, data: st.DataObject
) -> None:
    end = ConductEnded(finish="stop", turns=1, calls=0)
    events = [event for turn in script for event in turn]
    first = Encoder("x", version)
    whole = played(first, list(first.replay(snapshot([_USER], LiveTurn()))), [*events, end], version)
    assert not whole.sends_again
    # The messages of the turns before, and the turn under way.
    cut = data.draw(st.integers(0, len(events)))
    messages, turn = [_USER], LiveTurn()
    current: list[Event] = []
    for event in events[:cut]:
        if isinstance(event, TurnBegan):
            messages += [message_of(one) for one in _canisters(current)]
            current.clear()
        current.append(event)
        turn.take(event)
    second = Encoder("x", version)
    again = played(second, list(second.replay(snapshot(messages, turn))), [*events[cut:], end], version)
    assert shown(again) == shown(whole)
    # Arguments that stream are streamed whole, also over the cut.
    assert {part["text"] for part in again.parts("dynamic-tool")} <= {"", '{"at": 1}'}
    assert again.message["id"] == whole.message["id"] == "x-0"


def _canisters(turn: list[Event]) -> list[Canister]:
    if not turn:
        return []
    return [*collect(turn), *(one.result for one in turn if isinstance(one, ResultReady))]


@given(turns(), turns(), _VERSIONS, st.data())
def test_a_turn_that_fails_at_any_instant_is_closed(
    failing: list[Event], turn: list[Event], version: Version, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(failing)))
    ends: list[Any] = [
        [*turn, ConductEnded(finish="stop", turns=2, calls=0)],
        [RunFailed(code="failed", message="It failed.")],
        [ConductEnded(finish="cancelled", turns=1, calls=0)],
    ]
    for rest in ends:
        encoder = Encoder("x", version)
        began = list(encoder.replay(snapshot([_USER], LiveTurn())))
        client = played(encoder, began, [*failing[:cut], *rest], version)
        assert encoder.ended
        assert not client.sends_again or client.error
        assert all(part["state"] == "done" for part in client.parts("text"))


def stream(*events: Event, version: Version = 6) -> Client:
    encoder = Encoder("x", version)
    began = list(encoder.replay(snapshot([_USER], LiveTurn())))
    end = ConductEnded(finish="stop", turns=1, calls=0)
    return played(encoder, began, [TurnBegan(), *events, TurnEnded(finish="stop"), end], version)


def test_odd_calls() -> None:
    call = invoke("look", "one")
    # The identifier is another one when the call is complete.
    client = stream(
        InvocationBegan(index=0, identifier="zero", name="look"),
        InvocationSealed(index=0, invocation=call),
        result_of(call, failed=False),
    )
    assert [part["state"] for part in client.parts("dynamic-tool")] == ["output-error", "output-available"]
    # It is only known when the call is complete.
    begun = InvocationBegan(index=0, identifier="", name="look")
    client = stream(begun, ArgumentsDelta(index=0, text="{}"), InvocationSealed(index=0, invocation=call))
    assert client.call("one")["errorText"] == "The call was not completed."
    # The arguments cannot be read: the page shows their text.
    unread = InvocationCanister(
        identifier="one", name="look", raw="{oops", fault=Fault(category="validation", message="no JSON")
    )
    client = stream(InvocationSealed(index=0, invocation=unread), result_of(unread, failed=True))
    assert client.call("one")["input"] == "{oops"
    # A second result of a call is left out.
    client = stream(
        InvocationSealed(index=0, invocation=call), result_of(call, failed=False), result_of(call, failed=True)
    )
    assert client.call("one")["output"] == "seen"


@pytest.mark.parametrize("version", [5, 6, 7])
def test_arguments_that_are_no_json_are_text(version: Version) -> None:
    call = InvocationCanister(identifier="one", name="run", arguments=freeze({"input": "ls"}), kind="freeform")
    begun = InvocationBegan(index=0, identifier="one", name="run", kind="freeform")
    client = stream(
        begun, ArgumentsDelta(index=0, text="ls"), InvocationSealed(index=0, invocation=call), version=version
    )
    assert client.call("one")["input"] == {"input": "ls"}


def test_a_picture_is_a_file_and_texts_without_deltas_are_complete() -> None:
    client = stream(
        ContentSealed(TextualContent(text="See:")), ContentSealed(ImageContent(data=b"x", mime_type="image/png"))
    )
    assert client.parts("text")[0]["text"] == "See:"
    assert client.parts("file")[0]["url"] == "data:image/png;base64,eA=="


def test_a_large_content_has_an_address() -> None:
    picture, text = ImageContent(data=b"x" * 100_000, mime_type="image/png"), TextualContent(text="y" * 100_000)
    call = invoke("look", "one")
    result = ResultReady(
        invocation=call, result=ResultCanister(invocation_id="one", content=(picture, text)), tool="mine.look"
    )
    encoder = Encoder("x", 6, "/api/chat/x/contents/")
    events = (TurnBegan(), ContentSealed(picture), InvocationSealed(index=0, invocation=call), result)
    frames = [frame for event in events for frame in encoder.take(event)]
    assert len(json.dumps(frames)) < 150_000
    (file,) = (frame for frame in frames if frame["type"] == "file")
    assert file == {
        "type": "file",
        "mediaType": "image/png",
        "url": f"/api/chat/x/contents/{reference_of(picture)}",
    }
    (output,) = (frame["output"] for frame in frames if frame["type"] == "tool-output-available")
    assert [part["url"] for part in output] == [f"/api/chat/x/contents/{reference_of(one)}" for one in (picture, text)]
    # The same after a reload, in the middle of a turn and after it.
    live = LiveTurn()
    for event in events[:-1]:
        live.take(event)
    turn = snapshot([_USER], live)
    messages = [message_of(AssistantCanister(content=(picture,)))]
    whole = snapshot([_USER, *messages], LiveTurn())
    for found in (turn, whole):
        replayed = Encoder("x", 6, "/api/chat/x/contents/").replay(found)
        assert [frame for frame in replayed if frame["type"] == "file"] == [file]


def test_only_reasons_that_the_client_knows() -> None:
    reasons = {finish_reason(one) for one in ("stop", "length", "filter", "open", "error", "cancelled", "terminal")}
    assert reasons == {"stop", "length", "content-filter", "tool-calls", "error", "other"}
    assert encoded([{"type": "error", "errorText": "\ud800"}]) == b'data: {"type":"error","errorText":"\\ud800"}\n\n'
