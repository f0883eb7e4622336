"""Calls while they are streamed: the short way through the decoder, how a call begins, and what a failure leaves."""

from typing import Any

import pytest
from frozendict import frozendict
from hypothesis import example, given
from hypothesis import strategies as st

from ripieno.canisters import Controls, InvocationCanister, UserCanister
from ripieno.canisters.events import (
    ArgumentsDelta,
    Event,
    InvocationBegan,
    InvocationSealed,
    TurnBegan,
    TurnEnded,
    collect,
)
from ripieno.descriptors import ProviderDescriptor
from ripieno.exceptions import InputError
from ripieno.jsonvalues import freeze
from ripieno.models import Protocol
from ripieno.models.protocol import Identifiers
from ripieno.models.protocols.anthropic import PROTOCOL as MESSAGES
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from ripieno.models.protocols.openai_responses import PROTOCOL as RESPONSES
from tests.models.protocols.listening import outcome
from tests.models.protocols.test_wires_golden import natives_of, read, written
from tests.support.wire_requests import both

# The short way.

Delta = dict[str, Any]
texts = st.sampled_from(["{", "}", "{}", " {} ", '{"a":1}', '{"a"', ":1}", "", " ", None, {"a": 1}])


@st.composite
def fragments(draw: st.DrawFn) -> Delta:
    """A fragment of one of few calls, as servers number and name them."""
    function: Delta = {"arguments": draw(texts), **draw(st.sampled_from([{}, {}, {"name": "f"}]))}
    numbers: list[Delta] = [{"index": 0}, {"index": 0}, {"index": 1}, {"index": None}, {}]
    identifiers: list[Delta] = [{}, {}, {}, {"id": "a"}, {"id": "b"}]
    return {"function": function, **draw(st.sampled_from(numbers)), **draw(st.sampled_from(identifiers))}


@st.composite
def deltas(draw: st.DrawFn) -> Delta:
    """What one chunk says: more of a call mostly."""
    match draw(st.sampled_from(["call", "call", "call", "calls", "else"])):
        case "call":
            return {"tool_calls": [draw(fragments())]}
        case "calls":
            return {"tool_calls": draw(st.lists(fragments(), max_size=2))}
        case _:
            others: list[Delta] = [{"content": "Hm. "}, {"content": ""}, {}]
            return draw(st.sampled_from(others))


def outcome_of(said: list[Delta]) -> tuple[list[Event], str]:
    chunks = [{"index": 0, "delta": delta, "finish_reason": None} for delta in said]
    end = {"index": 0, "delta": {}, "finish_reason": "tool_calls"}
    return outcome([{"choices": [one]} for one in (*chunks, end)], CHAT.decoder("house", Identifiers()))


def of_call(arguments: str, **more: Any) -> Delta:
    name = {"name": more.pop("name")} if "name" in more else {}
    return {"tool_calls": [{"function": {"arguments": arguments, **name}, **more}]}


@given(st.lists(deltas(), max_size=8))
# The index of a call is another's by the time that the call goes on.
@example(
    [
        of_call("{", index=0, id="a"),
        of_call("{", index=0, id="b"),
        of_call("{", id="a", name="f"),
        of_call("{", index=0),
    ]
)
def test_the_short_way_of_chat_leads_where_the_long_one_does(said: list[Delta]) -> None:
    """A key that says nothing keeps a delta from the short way."""
    assert outcome_of(said) == outcome_of([{**delta, "refusal": None} for delta in said])


# How a call begins.


def called(kind: Any, extras: dict[str, Any], protocol: Protocol) -> InvocationCanister:
    """A call whose free-form input is no JSON."""
    text = '*** Begin "patch" {' if kind == "freeform" else '{"a":1}'
    return InvocationCanister(
        identifier="c",
        name="f",
        arguments=freeze({"input": text} if kind == "freeform" else {"a": 1}),
        raw=text,
        kind=kind,
        opaque=freeze({protocol.name: extras} if extras else {}),
    )


def streamed(call: InvocationCanister, began: InvocationBegan) -> list[Event]:
    shown = [ArgumentsDelta(index=0, text=one) for one in call.raw or ""]
    return [TurnBegan(), began, *shown, InvocationSealed(index=0, invocation=call), TurnEnded(finish="invocations")]


@both
@pytest.mark.parametrize("kind", ["function", "freeform"])
@pytest.mark.parametrize("extras", [{}, {"caller": {"type": "direct"}}], ids=["bare", "extras"])
def test_a_call_begins_as_what_it_is(protocol: Protocol, kind: Any, extras: dict[str, Any]) -> None:
    call = called(kind, extras, protocol)
    began = InvocationBegan(index=0, identifier="c", name="f", kind=kind, opaque=call.opaque)
    data = written(protocol, streamed(call, began))
    back = read(protocol, natives_of([data]))
    (begun,) = [event for event in back if isinstance(event, InvocationBegan)]
    (sealed,) = [one for one in collect(back) if isinstance(one, InvocationCanister)]
    assert (sealed.name, sealed.arguments, sealed.opaque) == (call.name, call.arguments, call.opaque)
    assert (begun.kind, begun.opaque) == (sealed.kind, call.opaque)
    # Some wires have no free-form calls, and take their input as an argument.
    assert sealed.kind == (kind if protocol in (CHAT, RESPONSES) else "function")
    # The Responses wire says an item as it begins, as it ends, and in the whole answer.
    times = 3 if protocol is RESPONSES else 1
    assert data.count(b'"caller"') == (times if extras else 0)


def test_what_chat_learns_of_a_call_later_is_sent_later() -> None:
    call = called("function", {"function": {"signature": "s"}, "caller": "x"}, CHAT)
    began = InvocationBegan(index=0, identifier="c", name="f", opaque=freeze({"openai-chat": {"caller": "x"}}))
    data = written(CHAT, streamed(call, began))
    assert (data.count(b'"caller"'), data.count(b'"signature"')) == (1, 1)
    (sealed,) = [one for one in collect(read(CHAT, natives_of([data]))) if isinstance(one, InvocationCanister)]
    assert (sealed.opaque, sealed.raw) == (call.opaque, call.raw)


# Failures.


def test_identifiers_of_an_answer_that_failed_are_free_again() -> None:
    memory: dict[object, Any] = {}
    sent = ("a", "a", None)
    first = Identifiers((), memory)
    assert [first.unique(one) for one in sent] == ["a", "call_0_1", "call_0_2"]
    # The same question again: nothing of that answer stands in the conversation.
    again = Identifiers((), memory)
    assert [again.unique(one) for one in sent] == ["a", "call_0_1", "call_0_2"]
    # What does stand there is taken.
    later = Identifiers([UserCanister.of("Hi."), InvocationCanister(identifier="a", name="f")], memory)
    assert [later.unique(one) for one in sent] == ["call_2_0", "call_2_1", "call_2_2"]


# Sampling.


def test_whether_a_provider_takes_sampling_is_left_to_its_wire() -> None:
    def native(protocol: Protocol, **capabilities: bool) -> Any:
        house = ProviderDescriptor(name="house", protocol=protocol.name, capabilities=frozendict(capabilities))
        return protocol.controls.nativize(Controls(temperature=0.5), house.capabilities_for("m")).get("temperature")

    assert native(CHAT) == native(CHAT, sampling=True) == native(MESSAGES, sampling=True) == 0.5
    with pytest.raises(InputError, match="does not support temperature"):
        native(MESSAGES)
    with pytest.raises(InputError, match="does not support temperature"):
        native(CHAT, sampling=False)
