"""Requests of every wire: what an SDK's own types say of them, and what a server reads of them."""

import contextlib
import json
from collections.abc import Mapping
from typing import Any

import anthropic.types
import openai.types.chat
import pytest
from frozendict import frozendict
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    InvocationCanister,
    ResultCanister,
    UserCanister,
)
from ripieno.contents import AudioContent, OpaqueContent, TextualContent
from ripieno.controls import Controls
from ripieno.exceptions import InputError
from ripieno.faults import Fault
from ripieno.jsonvalues import freeze
from ripieno.processors import Protocol, left_out
from ripieno.protocols.anthropic import PROTOCOL as ANTHROPIC
from ripieno.protocols.openai_chat import PROTOCOL as CHAT
from tests.guests import wire_strategies
from tests.guests.sdk_types import problems
from tests.guests.wire_losses import returned_by_anthropic, returned_by_chat, row_of
from tests.guests.wire_requesting import OFFER, asked, both, break_somewhere, laws, write


@both
@laws
@given(canisters=wire_strategies.conversations())
def test_a_server_reads_what_a_client_wrote(protocol: Protocol, canisters: tuple[Canister, ...]) -> None:
    body = write(protocol, canisters)
    returned = returned_by_anthropic if protocol is ANTHROPIC else returned_by_chat
    read = asked(protocol, body).canisters
    assert row_of(read) == returned(canisters)
    # Once more changes nothing: what is lost is lost the first time. (A gateway sends on what it was sent.)
    assert json.loads(write(protocol, read)) == json.loads(body)


@both
@laws
@given(canisters=wire_strategies.conversations(), controls=wire_strategies.controls)
def test_requests_are_what_the_sdk_says(
    protocol: Protocol, canisters: tuple[Canister, ...], controls: Controls
) -> None:
    own = [one for one in canisters if not _has_details(one)]
    body = json.loads(write(protocol, own, offer=OFFER, controls=controls, sampling=True))
    if protocol is ANTHROPIC:
        # The SDK's types say that these two are gone; where the provider's data says otherwise they are sent.
        body = {key: value for key, value in body.items() if key not in ("temperature", "top_p")}
        streaming = anthropic.types.message_create_params.MessageCreateParamsStreaming
        whole = anthropic.types.message_create_params.MessageCreateParamsNonStreaming
        assert problems(body, streaming if controls.stream else whole) == []
    else:
        hint = CompletionCreateParamsStreaming if controls.stream else CompletionCreateParamsNonStreaming
        assert problems(body, hint) == []


def _has_details(canister: Canister) -> bool:
    """Whether a canister has what only some servers of the wire know."""
    return isinstance(canister, AssistantCanister) and any(
        isinstance(content, OpaqueContent) and content.protocol == "openai-chat" for content in canister.content
    )


@pytest.mark.parametrize(
    ("hint", "good", "bad"),
    [
        (anthropic.types.MessageParam, {"role": "user", "content": "x"}, {"role": "user", "content": "x", "name": "n"}),
        (anthropic.types.ToolParam, {"name": "f", "input_schema": {"type": "object"}}, {"name": "f"}),
        (
            openai.types.chat.ChatCompletionToolParam,
            {"type": "function", "function": {"name": "f"}},
            {"type": "function", "function": {"name": "f", "schema": {}}},
        ),
        (
            openai.types.chat.ChatCompletionMessageParam,
            {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "x"}]},
            {"role": "tool", "tool_call_id": "1", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
        ),
        (
            anthropic.types.MessageParam,
            {"role": "user", "content": [{"type": "text", "text": "x"}]},
            {"role": "user", "content": [{"type": "text", "text": "x", "extra": 1}]},
        ),
    ],
)
def test_the_types_of_the_sdk_are_strict(hint: Any, good: Any, bad: Any) -> None:
    """The check itself: it must be able to fail."""
    assert problems(good, hint) == []
    assert problems(bad, hint) != []


# What is not sent.


@both
def test_what_another_protocol_alone_understands_is_never_sent(protocol: Protocol) -> None:
    other = CHAT if protocol is ANTHROPIC else ANTHROPIC
    secret = OpaqueContent(protocol=other.name, kind="thinking", data=frozendict(thinking="SECRET"))
    strange = OpaqueContent(protocol="gone", kind="x", data=frozendict(data="SECRET"))
    call = InvocationCanister(
        identifier="c1",
        name="read_file",
        opaque=freeze({other.name: {"extra": "SECRET"}, protocol.name: {"own": "MINE"}}),
    )
    canisters: list[Canister] = [
        UserCanister(content=(strange, TextualContent(text="Hi."))),
        AssistantCanister(content=(secret,)),
        call,
        ResultCanister(invocation_id="c1", content=(strange, TextualContent(text="alpha"))),
        AssistantCanister(content=(secret, strange)),
        UserCanister(content=(strange,)),
    ]
    body = write(protocol, canisters, reasoning_replay="always")
    assert b"SECRET" not in body
    assert b"MINE" in body
    # Nothing of the last two is left, and no empty message stands for them.
    assert len(json.loads(body)["messages"]) == 3
    assert left_out(canisters, protocol) == {f"{other.name} thinking": 2, "gone x": 4}


def test_contents_that_a_wire_has_no_word_for_are_named() -> None:
    sound = UserCanister(content=(AudioContent(data=b"x", mime_type="audio/wav"),))
    assert left_out([sound], ANTHROPIC) == {"AudioContent": 1}
    assert left_out([sound], CHAT) == {}
    assert json.loads(write(ANTHROPIC, [sound]))["messages"] == []


def test_arguments_that_cannot_be_read_do_not_return_to_a_server_that_parses_them() -> None:
    fault = Fault(category="validation", message="The arguments cannot be read.")
    call = InvocationCanister(identifier="c1", name="f", raw='{"a', fault=fault)
    message = json.loads(write(CHAT, [UserCanister.of("Hi."), call]))["messages"][1]
    assert message["tool_calls"][0]["function"]["arguments"] == "{}"


# Requests of clients that are wrong.


@both
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": None}, "no model"),
        ({"model": 7}, "no model"),
        ({"messages": None}, "no messages"),
        ({"messages": ["x"]}, "messages is a list of objects"),
        ({"messages": [{"role": "narrator", "content": "x"}]}, "'narrator'"),
        ({"messages": [{"role": "user", "content": 7}]}, "Content is a text or a list"),
        ({"messages": [{"role": "user", "content": [7]}]}, "is an object with a type"),
        ({"tools": {}}, "tools is a list"),
        ({"tools": [7]}, "tools is a list of objects"),
        ({"tools": [{"type": "function", "function": {}}, {}]}, "A tool has no"),
        ({"temperature": "hot"}, "temperature is a number"),
        ({"max_tokens": 0}, "max_tokens is a whole number"),
        ({"max_tokens": 1.5}, "max_tokens is a whole number"),
        ({"stream": "yes"}, "stream is true or false"),
        ({"tool_choice": 7}, "tool_choice is an object"),
        ({"tool_choice": {"type": "magic"}}, "cannot be read|'magic'"),
    ],
)
def test_a_wrong_request_is_an_error_that_says_what_is_wrong(
    protocol: Protocol, changes: Mapping[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        protocol.parse({"model": "m", "messages": [], **changes})


@both
def test_results_without_their_calls_are_errors(protocol: Protocol) -> None:
    messages = {
        "anthropic": [{"role": "user", "content": [{"type": "tool_result", "content": "x"}]}],
        "openai-chat": [{"role": "tool", "content": "x"}],
    }[protocol.name]
    with pytest.raises(InputError, match=r"tool_use_id|tool_call_id"):
        protocol.parse({"model": "m", "messages": messages})


@both
@laws
@given(data=st.data())
def test_no_request_breaks_a_server(protocol: Protocol, data: st.DataObject) -> None:
    """A request with one value of it replaced by anything is read, or refused with words."""
    body: Any = json.loads(write(protocol, data.draw(wire_strategies.conversations()), offer=OFFER))
    break_somewhere(data, body)
    with contextlib.suppress(InputError):
        assert isinstance(protocol.parse(body).model, str)
