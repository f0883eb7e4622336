"""Requests of every wire: what an SDK's own types say of them, and what a server reads of them."""

import contextlib
import dataclasses
import functools
import json
from collections.abc import Mapping
from typing import Any

import anthropic.types
import pytest
from frozendict import frozendict
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)
from openai.types.responses.response_create_params import (
    ResponseCreateParamsNonStreaming,
    ResponseCreateParamsStreaming,
)

from ripieno.canisters import (
    AssistantCanister,
    AudioContent,
    Canister,
    Controls,
    DocumentContent,
    ImageContent,
    InvocationCanister,
    OpaqueContent,
    ResultCanister,
    SupervisorCanister,
    TextualContent,
    UserCanister,
)
from ripieno.canisters.faults import Fault
from ripieno.exceptions import InputError
from ripieno.jsonvalues import encode, freeze
from ripieno.models import Protocol
from ripieno.models.model import left_out
from ripieno.models.protocols.anthropic import PROTOCOL as ANTHROPIC
from ripieno.models.protocols.common.calls import read_arguments
from ripieno.models.protocols.gemini import PROTOCOL as GEMINI
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from ripieno.models.protocols.openai_responses import PROTOCOL as RESPONSES
from tests.models.protocols import wire_strategies
from tests.models.protocols.sdk_types import GENERATE_CONTENT, model_problems, problems
from tests.models.protocols.wire_losses import RETURNED, row_of
from tests.support.golden_wires import addressed, messages_in
from tests.support.wire_requests import OFFER, asked, both, break_somewhere, write

PARAMETERS: Mapping[str, tuple[Any, Any]] = {
    "anthropic": (
        anthropic.types.message_create_params.MessageCreateParamsStreaming,
        anthropic.types.message_create_params.MessageCreateParamsNonStreaming,
    ),
    "openai-chat": (CompletionCreateParamsStreaming, CompletionCreateParamsNonStreaming),
    "openai-responses": (ResponseCreateParamsStreaming, ResponseCreateParamsNonStreaming),
}
of_messages = pytest.mark.parametrize("protocol", [ANTHROPIC, CHAT], ids=lambda protocol: protocol.name)


@both
@given(canisters=wire_strategies.conversations())
def test_a_server_reads_what_a_client_wrote(protocol: Protocol, canisters: tuple[Canister, ...]) -> None:
    body = write(protocol, canisters)
    returned = RETURNED[protocol.name]
    read = asked(protocol, body).canisters
    assert row_of(read) == returned(canisters)
    # Once more changes nothing: what is lost is lost the first time. (A gateway sends on what it was sent.)
    assert json.loads(write(protocol, read)) == json.loads(body)


@both
@given(canisters=wire_strategies.conversations(), controls=wire_strategies.controls)
def test_requests_are_what_the_sdk_says(
    protocol: Protocol, canisters: tuple[Canister, ...], controls: Controls
) -> None:
    own = [one for one in canisters if not _has_details(one)]
    if protocol is RESPONSES:
        controls = dataclasses.replace(controls, stop=None)  # There is no word for it.
    body = json.loads(write(protocol, own, offer=OFFER, controls=controls, sampling=True))
    if protocol is GEMINI:
        assert model_problems(body, GENERATE_CONTENT) == []
        return
    if protocol is ANTHROPIC:
        # The SDK's types say that these two are gone; where the provider's data says otherwise they are sent.
        body = {key: value for key, value in body.items() if key not in ("temperature", "top_p")}
    streaming, whole = PARAMETERS[protocol.name]
    assert problems(body, streaming if controls.stream else whole) == []


def _has_details(canister: Canister) -> bool:
    """Whether a canister has what only some servers of the wire know."""
    return isinstance(canister, AssistantCanister) and any(
        isinstance(content, OpaqueContent) and content.protocol == "openai-chat" for content in canister.content
    )


def test_the_types_of_the_sdk_are_strict() -> None:
    """The check itself: it must be able to fail."""
    hint, part = anthropic.types.MessageParam, {"type": "text", "text": "x"}
    assert problems({"role": "user", "content": [part]}, hint) == []
    for bad in (
        {"content": "x"},
        {"role": "user", "content": "x", "name": "n"},
        {"role": "user", "content": [{**part, "x": 1}]},
    ):
        assert problems(bad, hint) != []


# What is not sent.


@both
def test_what_another_protocol_alone_understands_is_never_sent(protocol: Protocol) -> None:
    other = CHAT if protocol is not CHAT else ANTHROPIC
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
    assert len(messages_in(protocol, json.loads(body))) == 3
    assert left_out(canisters, protocol) == {f"{other.name} thinking": 2, "gone x": 4}


def test_contents_that_a_wire_has_no_word_for_are_named() -> None:
    sound = UserCanister(content=(AudioContent(data=b"x", mime_type="audio/wav"),))
    assert left_out([sound], ANTHROPIC) == {"AudioContent": 1}
    assert left_out([sound], CHAT) == {}
    assert json.loads(write(ANTHROPIC, [sound]))["messages"] == []


# Requests of clients that are wrong. Those of wires with other keys have tests of their own.


#: Images of both wires with invalid base64.
BROKEN = [
    {"type": "image", "source": {"type": "base64", "data": "?"}},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,?"}},
]


@of_messages
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": None}, "no model"),
        ({"messages": None}, "no messages"),
        ({"messages": ["x"]}, "messages is a list of objects"),
        ({"messages": [{"role": "narrator", "content": "x"}]}, "'narrator'"),
        ({"messages": [{"role": "user", "content": 7}]}, "Content is a text or a list"),
        ({"messages": [{"role": "user", "content": [7]}]}, "is an object with a type"),
        ({"tools": {}}, "tools is a list"),
        ({"tools": [7]}, "tools is a list of objects"),
        ({"tools": [{"type": "function", "function": {}}, {}]}, "A tool has no"),
        ({"tool_choice": 7}, "tool_choice is an object"),
        ({"tool_choice": {"type": "magic"}}, "cannot be read|'magic'"),
        ({"reasoning_effort": "huge", "output_config": {"effort": "huge"}}, "'huge'"),
        ({"messages": [{"role": "user", "content": BROKEN}]}, "invalid base64|is not supported here"),
        ({"messages": [{"role": "user", "content": BROKEN[::-1]}]}, "invalid base64"),
    ],
)
def test_a_wrong_request_is_an_error_that_says_what_is_wrong(
    protocol: Protocol, changes: Mapping[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        protocol.parse({"model": "m", "messages": [], **changes})


@of_messages
def test_results_without_their_calls_are_errors(protocol: Protocol) -> None:
    messages = {
        "anthropic": [{"role": "user", "content": [{"type": "tool_result", "content": "x"}]}],
        "openai-chat": [{"role": "tool", "content": "x"}],
    }[protocol.name]
    with pytest.raises(InputError, match=r"tool_use_id|tool_call_id"):
        protocol.parse({"model": "m", "messages": messages})


@both
@given(data=st.data())
def test_no_request_breaks_a_server(protocol: Protocol, data: st.DataObject) -> None:
    """A request with one value of it replaced by anything is read, or refused with words."""
    body: Any = json.loads(write(protocol, data.draw(wire_strategies.conversations()), offer=OFFER))
    break_somewhere(data, body)
    with contextlib.suppress(InputError):
        assert isinstance(protocol.parse(addressed(protocol, body)).model, str)


# What else clients and callers give.


@both
def test_results_alone(protocol: Protocol) -> None:
    """The messages that carry results, as a caller without a conversation gets them."""
    image = ImageContent(data=b"x", mime_type="image/png")
    results = [
        ResultCanister(invocation_id="c1", content=(TextualContent(text="alpha"),)),
        ResultCanister(invocation_id="c2", content=(image,), error=Fault(category="execution", message="No.")),
    ]
    native = json.loads(encode(list(protocol.invocations.nativize_results(results))))
    # What a cache should keep depends on the whole conversation.
    assert native == messages_in(protocol, json.loads(write(protocol, results, cache_breakpoints=False)))
    assert len(native) == {CHAT.name: 3, RESPONSES.name: 2}.get(protocol.name, 1)
    assert protocol.invocations.nativize_results([]) == []


def test_reasoning_of_one_message_is_one() -> None:
    """Two members of one name would lose one of them."""

    thought = functools.partial(wire_strategies.opaque, "openai-chat", "reasoning")
    first = thought(reasoning_content="One. ", reasoning_details=[{"a": 1}], extra_content={"a": 1}, reasoning="x")
    second = thought(reasoning_content="Two.", reasoning_details=[{"b": 2}], extra_content={"b": 2}, reasoning=["y"])
    call = InvocationCanister(identifier="c1", name="read_file")
    canisters: list[Canister] = [
        UserCanister.of("Hi."),
        AssistantCanister(content=(first,)),
        call,
        AssistantCanister(content=(second,)),
    ]
    body = write(CHAT, canisters, reasoning_replay="always")
    assert body.count(b'"reasoning_content"') == 1
    message = json.loads(body)["messages"][1]
    assert message["reasoning_content"] == "One. Two."
    assert message["reasoning_details"] == [{"a": 1}, {"b": 2}]
    assert message["extra_content"] == {"a": 1, "b": 2}
    assert message["reasoning"] == ["y"]
    assert message["content"] == ""
    assert write(CHAT, [AssistantCanister(content=(first, second))], reasoning_replay="always").count(b"Two.") == 1


def test_histories_of_chat_clients() -> None:
    data = "data:text/plain;base64,YWxwaGE="
    messages: list[Any] = [
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": [{"type": "file", "file": {"filename": "a.txt", "file_data": data}}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]},
        {"role": "assistant", "content": None, "refusal": "No."},
        {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}]},
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": [{"type": "text", "text": "al"}, {"type": "text", "text": "pha"}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": ""},
    ]
    assert CHAT.parse({"model": "m", "messages": messages}).canisters == (
        SupervisorCanister.of("Be brief."),
        UserCanister(content=(DocumentContent(data=b"alpha", mime_type="text/plain"),)),
        UserCanister(content=(DocumentContent(url="https://example.org/a.png", mime_type="image/*"),)),
        AssistantCanister.of("No."),
        AssistantCanister(),
        InvocationCanister(identifier="c1", name="f", raw="{}"),
        ResultCanister(invocation_id="c1", content=(TextualContent(text="alpha"),)),
        ResultCanister(invocation_id="c1"),
    )


def test_histories_of_messages_clients() -> None:
    odd = {"type": "document", "source": {"type": "content", "content": "x"}}
    held = {"type": "image", "source": {"type": "file", "file_id": "f"}}
    messages: list[Any] = [
        {"role": "user", "content": [odd, held, {"type": "image", "source": {"type": "url", "url": "https://a/b"}}]},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1"}]},
    ]
    native = {"model": "m", "system": "Be brief.", "messages": messages}
    assert ANTHROPIC.parse(native).canisters == (
        SupervisorCanister.of("Be brief."),
        UserCanister(
            content=(
                OpaqueContent(protocol="anthropic", kind="document", data=freeze(odd)),
                OpaqueContent(protocol="anthropic", kind="image", data=freeze(held)),
                DocumentContent(url="https://a/b", mime_type="image/*"),
            )
        ),
        AssistantCanister(),
        ResultCanister(invocation_id="c1"),
    )


def test_the_message_about_unreadable_arguments_is_one_sentence() -> None:
    _, fault = read_arguments('{"a":NaN}')
    assert fault is not None
    assert fault.message == "The arguments cannot be read: NaN is not JSON."


@both
def test_a_part_of_an_answer_is_refused(protocol: Protocol) -> None:
    """Not read as an answer without calls."""
    native: Any = {
        "anthropic": {"type": "tool_use", "id": "c", "name": "f", "input": {}},
        "openai-chat": {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]},
        "openai-responses": {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        "gemini": {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
    }[protocol.name]
    with pytest.raises(InputError, match=r"no complete answer: it has no '.*Give the whole body"):
        protocol.invocations.normalize_invocations(native)


@both
@pytest.mark.parametrize(
    ("sent", "why"),
    [("[1]", "an array"), ("7", "a number"), ('"x"', "a text"), ("true", "a boolean"), ("null", "null")],
)
def test_arguments_that_are_no_object(protocol: Protocol, sent: str, why: str) -> None:
    native: Any = {
        "anthropic": {"content": [{"type": "tool_use", "id": "c", "name": "f", "input": sent}]},
        "openai-chat": {
            "choices": [{"message": {"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": sent}}]}}]
        },
        "openai-responses": {"output": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": sent}]},
        "gemini": {"candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": sent}}]}}]},
    }[protocol.name]
    (invocation,) = protocol.invocations.normalize_invocations(native)
    assert invocation.fault is not None
    assert f"they are {why}, not an object." in invocation.fault.message
    assert invocation.raw == sent
