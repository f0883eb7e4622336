"""Events: what is sealed becomes canisters, canisters become events, and every event has a form for wires."""

import dataclasses
import json
import typing
from typing import Any

import pytest
from frozendict import frozendict
from hypothesis import given
from hypothesis import strategies as st

from ripieno.canisters import AssistantCanister, Canister, InvocationCanister, ResultCanister, TextualContent, events
from ripieno.canisters.conversation import Usage
from ripieno.canisters.events import (
    Alert,
    ArgumentsDelta,
    ConductEnded,
    ConfirmationRequested,
    ContentSealed,
    Event,
    ExecutionBegan,
    ExecutionProgress,
    InvocationBegan,
    InvocationSealed,
    ReasoningDelta,
    ResultReady,
    TextDelta,
    TurnBegan,
    TurnEnded,
    collect,
    play,
)
from tests.support.canister_strategies import contents, invocations, usages

INVOCATION = InvocationCanister(identifier="a", name="look", arguments=frozendict({"path": "x"}))
RESULT = ResultCanister(invocation_id="a", content=(TextualContent(text="seen"),))
ONE_OF_EACH: tuple[Event, ...] = (
    TurnBegan(model="m", turn=1),
    TextDelta("t"),
    ReasoningDelta("r"),
    ContentSealed(TextualContent(text="t")),
    InvocationBegan(index=0, identifier="a", name="look"),
    ArgumentsDelta(index=0, text="{"),
    InvocationSealed(index=0, invocation=INVOCATION),
    TurnEnded(finish="invocations", usage=Usage(input_tokens=1), reason="tool_use", turn=1),
    Alert(message="m", tool="mine.look", details=frozendict({"n": 1})),
    ConfirmationRequested(invocation=INVOCATION, tool="mine.look", effect="write", reason="r"),
    ExecutionBegan(invocation=INVOCATION, tool="mine.look", early=True),
    ExecutionProgress(invocation_id="a", tool="mine.look", done=1, total=2.5),
    ResultReady(invocation=INVOCATION, result=RESULT, tool="mine.look"),
    ConductEnded(finish="stop", turns=2, calls=1),
)


#: Messages in the one form that ``collect`` gives.
whole_messages = st.lists(
    contents.map(ContentSealed) | invocations.map(lambda one: InvocationSealed(index=0, invocation=one)), max_size=6
).map(collect)


@given(whole_messages, usages)
def test_collecting_undoes_playing(message: tuple[Canister, ...], usage: Usage) -> None:
    played = list(play(message, finish="invocations", usage=usage, model="m"))
    assert collect(played) == message
    assert played[0] == TurnBegan(model="m")
    assert played[-1] == TurnEnded(finish="invocations", usage=usage)
    indices = [event.index for event in played if isinstance(event, InvocationSealed)]
    assert indices == list(range(len(indices)))


@given(st.lists(st.sampled_from(ONE_OF_EACH), max_size=12))
def test_playing_what_was_collected_seals_the_same_in_order(streamed: list[Event]) -> None:
    sealed = [event for event in streamed if isinstance(event, ContentSealed | InvocationSealed)]
    message = collect(streamed)
    assert isinstance(message[0], AssistantCanister)
    again = [event for event in play(message, finish="stop") if isinstance(event, ContentSealed | InvocationSealed)]
    assert [dataclasses.replace(one, index=0) if isinstance(one, InvocationSealed) else one for one in again] == sealed


def test_there_is_an_example_of_every_event() -> None:
    assert {type(event) for event in ONE_OF_EACH} == set(typing.get_args(Event))


@pytest.mark.parametrize("event", ONE_OF_EACH, ids=lambda one: type(one).__name__)
def test_an_event_is_frozen_and_has_a_form_for_wires(event: Any) -> None:
    mapping = event.mapping()
    assert mapping["type"] == type(event).__name__
    assert set(mapping) == {"type", *(field.name for field in dataclasses.fields(event))}
    assert json.loads(json.dumps(mapping)) == mapping
    with pytest.raises(AttributeError):
        setattr(event, dataclasses.fields(event)[0].name, None)
    assert not hasattr(event, "__dict__")


def test_the_form_of_an_event_has_what_is_in_it() -> None:
    assert TextDelta("Hi.").mapping() == {"type": "TextDelta", "text": "Hi."}
    assert ContentSealed(TextualContent(text="Hi.")).mapping()["content"] == {"type": "text", "text": "Hi."}
    mapping: Any = ResultReady(invocation=INVOCATION, result=RESULT, tool="mine.look").mapping()
    assert mapping["invocation"]["arguments"] == {"path": "x"}
    assert mapping["result"]["content"] == [{"type": "text", "text": "seen"}]
    assert mapping["early"] is False
    assert events.TurnEnded(finish="stop", usage=Usage(input_tokens=2)).mapping()["usage"] == {"input_tokens": 2}
