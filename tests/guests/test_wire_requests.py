"""Requests of every wire: what an SDK's own types say of them, what a server reads of them, and what is kept."""

import copy
import json
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import anthropic.types
import openai.types.chat
import pytest
from frozendict import frozendict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    DocumentCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from ripieno.contents import AudioContent, Content, DocumentContent, ImageContent, OpaqueContent, TextualContent
from ripieno.controls import Controls
from ripieno.ensembles import Definition, Ensemble
from ripieno.exceptions import InputError, NameAbsence
from ripieno.faults import Fault
from ripieno.jsonvalues import encode, freeze, thaw
from ripieno.offers import Offer
from ripieno.processors import Asked, Protocol, Request, left_out
from ripieno.protocols.anthropic import PROTOCOL as ANTHROPIC
from ripieno.protocols.openai_chat import PROTOCOL as CHAT
from ripieno.protocols.pieces import KEPT
from ripieno.schemas import Schema
from tests.counts import count
from tests.guests import wire_strategies
from tests.guests.sdk_types import problems
from tests.ground.jsonstrategies import objects
from tests.ground.jsonstrategies import values as json_values

both = pytest.mark.parametrize("protocol", [ANTHROPIC, CHAT], ids=lambda protocol: protocol.name)
laws = settings(max_examples=count(2000), deadline=None, suppress_health_check=list(HealthCheck))

PATH = {"type": "object", "properties": {"path": {"type": "string", "description": "Where."}}, "required": ["path"]}
ENSEMBLE = Ensemble.of(
    "house",
    [
        Definition(name="read_file", description="Reads a file.", schema=Schema.of(PATH), hosted="caller"),
        Definition(name="list_rooms", schema=Schema.of({"type": "object"}), hosted="caller"),
        Definition(name="search_web", schema=Schema.of({"type": "object"}), hosted="provider"),
    ],
)
OFFER = Offer.of([ENSEMBLE])
NO_TOOLS = Offer(())


def write(
    protocol: Protocol,
    canisters: Sequence[Canister],
    *,
    offer: Offer = NO_TOOLS,
    controls: Controls | None = None,
    **capabilities: Any,
) -> bytes:
    """The body of a request."""
    return protocol.request(
        Request(model="m", canisters=canisters, offer=offer, controls=controls or Controls(), capabilities=capabilities)
    )


def asked(protocol: Protocol, body: bytes) -> Asked:
    """What our server half reads of a body."""
    return protocol.parse(json.loads(body))


# What a wire cannot carry in a request, and nothing else: the docstring of each protocol has the same list. Borders
# of canisters that become one message are dissolved: a conversation is compared as a row of what stands in it.

Row = list[tuple[Any, ...]]


def row_of(canisters: Sequence[Canister]) -> Row:
    """What stands in a conversation, one after the other, without the borders of canisters."""
    row: Row = []
    for canister in canisters:
        if isinstance(canister, InvocationCanister):
            row.append(("call", canister.identifier, canister.name, canister.kind, canister.arguments, canister.fault))
        elif isinstance(canister, ResultCanister):
            row.append(("result", canister.invocation_id, canister.error is not None, canister.text, *canister.content))
        elif isinstance(canister, DocumentCanister):
            row.extend(("document", canister.identifier, canister.title, content) for content in canister.content)
        else:
            row.extend((type(canister).__name__, content) for content in canister.content)
    return row


def plain(content: Content) -> Content:
    """The content without the kind of its text."""
    return TextualContent(text=content.text) if isinstance(content, TextualContent) else content


def returned_by_anthropic(canisters: Sequence[Canister]) -> Row:
    """What a server reads of a conversation that was sent over the Messages wire."""
    row: Row = []
    answers: tuple[Row, Row] = ([], [])  # Results stand before whatever else the user says.
    for canister in [*filter(_speaks_to_anthropic, canisters), None]:
        if not isinstance(canister, UserCanister | DocumentCanister | ResultCanister):
            row += answers[0] + answers[1]
            answers[0].clear()
            answers[1].clear()
        if isinstance(canister, ResultCanister):
            answers[0].append(_result_by_anthropic(canister))
        elif isinstance(canister, DocumentCanister):
            answers[1].extend(_document_by_anthropic(canister))
        elif isinstance(canister, InvocationCanister):
            row.append(("call", canister.identifier, canister.name, "function", canister.arguments, None))
        elif canister is not None:
            target = answers[1] if isinstance(canister, UserCanister) else row
            target.extend((type(canister).__name__, one) for one in _carried_by_anthropic(canister.content))
    return row


def _speaks_to_anthropic(canister: Canister) -> bool:
    """Whether anything is left of a canister: one that says nothing is no canister there."""
    return isinstance(canister, InvocationCanister | ResultCanister) or bool(_carried_by_anthropic(canister.content))


def _carried_by_anthropic(contents: Sequence[Content]) -> list[Content]:
    return [
        plain(one)
        for one in contents
        if not isinstance(one, AudioContent)
        and not (isinstance(one, TextualContent) and not one.text)
        and not (isinstance(one, OpaqueContent) and one.protocol != "anthropic")
    ]


def _result_by_anthropic(result: ResultCanister) -> tuple[Any, ...]:
    carried = [
        TextualContent(text="[AudioContent left out]") if isinstance(one, AudioContent) else plain(one)
        for one in result.content
        if not isinstance(one, OpaqueContent)
    ]
    text = "".join(one.text for one in carried if isinstance(one, TextualContent))
    others = [one for one in carried if not isinstance(one, TextualContent)]
    if result.error is not None:
        # What failed stands first, and all texts are one.
        said = result.error.text() + (f"\n{text}" if text else "")
        return ("result", result.invocation_id, True, said, *others)
    if not others:
        carried = [TextualContent(text=text)]
    return ("result", result.invocation_id, False, text, *(one for one in carried if one != TextualContent(text="")))


def _document_by_anthropic(canister: DocumentCanister) -> Row:
    about = ("document", canister.identifier, canister.title)
    return [
        ("UserCanister", one) if isinstance(one, ImageContent) else (*about, one)
        for one in _carried_by_anthropic(canister.content)
    ]


def returned_by_chat(canisters: Sequence[Canister]) -> Row:
    """What a server reads of a conversation that was sent over the chat completions wire."""
    row: Row = []
    said: list[str] = []
    opaque: list[OpaqueContent] = []
    calls: Row = []
    results: Row = []
    images: Row = []
    others: Row = []
    for canister in [*filter(_speaks_to_chat, canisters), None]:
        if canister is None or isinstance(canister, AssistantCanister | InvocationCanister):
            row += results + images + others
            results, images, others = [], [], []
        if canister is None or not isinstance(canister, AssistantCanister | InvocationCanister):
            row += [("AssistantCanister", one) for one in _merged(opaque)]
            row += [("AssistantCanister", TextualContent(text="".join(said)))] if any(said) else []
            row += calls
            said, opaque, calls = [], [], []
        if isinstance(canister, InvocationCanister):
            call = ("call", canister.identifier, canister.name, canister.kind, canister.arguments, None)
            calls.append(call)
        elif isinstance(canister, AssistantCanister):
            said += [one.text for one in canister.content if isinstance(one, TextualContent)]
            opaque += [one for one in canister.content if isinstance(one, OpaqueContent)]
        elif isinstance(canister, ResultCanister):
            results.append(_result_by_chat(canister))
            images += [("UserCanister", one) for one in canister.content if isinstance(one, ImageContent)]
        elif isinstance(canister, DocumentCanister):
            others += _document_by_chat(canister)
        elif canister is not None:
            others += [(type(canister).__name__, one) for one in _carried_by_chat(canister.content)]
    return row


def _speaks_to_chat(canister: Canister) -> bool:
    """Whether anything is left of a canister: one that says nothing is no canister there."""
    if isinstance(canister, AssistantCanister):
        return bool(canister.text) or any(
            isinstance(one, OpaqueContent) and one.protocol == "openai-chat" for one in canister.content
        )
    named = isinstance(canister, InvocationCanister | ResultCanister | DocumentCanister)
    return named or bool(_carried_by_chat(canister.content))


def _merged(contents: Sequence[OpaqueContent]) -> list[OpaqueContent]:
    """All reasoning of a message is one; another protocol's is left out."""
    own: list[Any] = [detail for one in contents if one.protocol == "openai-chat" for detail in _details(one)]
    data = freeze({"reasoning_details": own})
    return [OpaqueContent(protocol="openai-chat", kind="reasoning", data=data)] if own else []


def _details(content: OpaqueContent) -> Sequence[Any]:
    details = content.data["reasoning_details"]
    assert isinstance(details, tuple)
    return details


def _carried_by_chat(contents: Sequence[Content]) -> list[Content]:
    carried: list[Content] = []
    for one in contents:
        if isinstance(one, OpaqueContent) or (isinstance(one, TextualContent) and not one.text):
            continue
        if isinstance(one, DocumentContent) and one.url is not None and not one.mime_type.startswith("image/"):
            carried.append(TextualContent(text=f"[document at {one.url}]"))
        else:
            carried.append(plain(one))
    return carried


def _document_by_chat(canister: DocumentCanister) -> Row:
    title = f": {canister.title}" if canister.title else ""
    contents = list(canister.content)
    heading = f"[document {canister.identifier}{title}]\n"
    if contents and isinstance(contents[0], TextualContent):
        heading += contents.pop(0).text  # type: ignore[union-attr]
    return [("UserCanister", one) for one in _carried_by_chat([TextualContent(text=heading), *contents])]


def _result_by_chat(result: ResultCanister) -> tuple[Any, ...]:
    images = sum(isinstance(one, ImageContent) for one in result.content)
    lines = [result.text] if result.text else []
    if images:
        lines.append(f"[{images} image{'' if images == 1 else 's'} in the next message]")
    lines += ["[AudioContent left out]" for one in result.content if isinstance(one, AudioContent)]
    text = "\n".join(lines)
    return ("result", result.invocation_id, False, text, *([TextualContent(text=text)] if text else []))


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
@given(canisters=wire_strategies.conversations(), rule=st.sampled_from(["never", "turn", "always"]))
def test_what_was_said_is_said_again_in_the_same_bytes(
    protocol: Protocol, canisters: tuple[Canister, ...], rule: str
) -> None:
    """A run's memory makes a request quicker, never different."""
    memory: dict[object, Any] = {}
    for end in range(1, len(canisters) + 1):
        capabilities = {"reasoning_replay": rule}
        remembered = Request(
            model="m",
            canisters=canisters[:end],
            offer=NO_TOOLS,
            controls=Controls(),
            capabilities=capabilities,
            memory=memory,
        )
        assert protocol.request(remembered) == write(
            protocol, pickle.loads(pickle.dumps(canisters[:end])), **capabilities
        )


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


# Tools and controls.


def test_tools_are_what_the_sdk_says() -> None:
    native = json.loads(write(ANTHROPIC, [UserCanister.of("Hi.")], offer=OFFER))["tools"]
    assert problems(native, list[anthropic.types.ToolParam]) == []
    assert native == [
        {"name": "list_rooms", "input_schema": {"type": "object"}},
        {"name": "read_file", "description": "Reads a file.", "input_schema": PATH},
    ]
    chat = json.loads(write(CHAT, [UserCanister.of("Hi.")], offer=OFFER))["tools"]
    assert problems(chat, list[openai.types.chat.ChatCompletionToolParam]) == []
    assert [tool["function"]["name"] for tool in chat] == ["list_rooms", "read_file"]
    assert chat[1]["function"]["parameters"] == PATH


@both
def test_tools_are_offered_read_and_offered_again(protocol: Protocol) -> None:
    body = write(protocol, [UserCanister.of("Hi.")], offer=OFFER)
    tools = asked(protocol, body).tools
    assert [(tool.name, tool.exposed, tool.description, tool.hosted) for tool in tools] == [
        ("list_rooms", "list_rooms", "", "caller"),
        ("read_file", "read_file", "Reads a file.", "caller"),
    ]
    assert thaw(tools[1].schema.mapping) == PATH
    again = write(protocol, [UserCanister.of("Hi.")], offer=Offer.of([Ensemble.of("client", tools)]))
    assert json.loads(again) == json.loads(body)
    assert [dict(one) for one in protocol.invocations.prepare_tools(OFFER)] == [
        dict(one) for one in protocol.invocations.prepare_tools([ENSEMBLE])
    ]
    assert json.loads(encode(list(protocol.invocations.prepare_tools(OFFER)))) == json.loads(body)["tools"]


@both
def test_an_offer_of_nothing_sends_no_tools(protocol: Protocol) -> None:
    hosted = Offer(tuple(invoker for invoker in OFFER.invokers if invoker.hosted == "provider"))
    for offer in (NO_TOOLS, hosted):
        body = json.loads(write(protocol, [UserCanister.of("Hi.")], offer=offer, controls=Controls(tool_choice="auto")))
        assert not {"tools", "tool_choice", "parallel_tool_calls"} & body.keys()


@both
@laws
@given(controls=wire_strategies.controls)
def test_controls_are_read_as_they_were_written(protocol: Protocol, controls: Controls) -> None:
    body = write(protocol, [UserCanister.of("Hi.")], offer=OFFER, controls=controls, sampling=True)
    read = asked(protocol, body).controls
    expected = controls
    if protocol is ANTHROPIC:
        # A number is required there; nobody may call in parallel what nobody may call, and one word is not sent.
        read = Controls(**{**_fields(read), "output_tokens": controls.output_tokens})
        if controls.tool_choice == "none":
            expected = Controls(**{**_fields(expected), "parallel": None})
        elif controls.tool_choice is None and controls.parallel is not None:
            expected = Controls(**{**_fields(expected), "tool_choice": "auto"})
    assert read == expected


def _fields(controls: Controls) -> dict[str, Any]:
    return {name: getattr(controls, name) for name in Controls.__dataclass_fields__}


def test_the_choice_among_tools_in_the_words_of_each_wire() -> None:
    def choices(**fields: Any) -> tuple[Any, Any]:
        bodies = [
            json.loads(write(one, [], offer=OFFER, controls=Controls(**fields), allowed_tools=True))
            for one in (ANTHROPIC, CHAT)
        ]
        return bodies[0].get("tool_choice"), bodies[1].get("tool_choice")

    function = {"type": "function", "function": {"name": "read_file"}}
    assert choices() == (None, None)
    assert choices(tool_choice="auto") == ({"type": "auto"}, "auto")
    assert choices(tool_choice="none") == ({"type": "none"}, "none")
    assert choices(tool_choice="required") == ({"type": "any"}, "required")
    assert choices(tool_choice="read_file") == ({"type": "tool", "name": "read_file"}, function)
    assert choices(parallel=False)[0] == {"type": "auto", "disable_parallel_tool_use": True}
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [function]}}
    assert choices(allowed_tools=("read_file",)) == (None, allowed)
    assert choices(allowed_tools=()) == ({"type": "none"}, "none")


def test_allowed_tools_are_read() -> None:
    controls = Controls(allowed_tools=("read_file",), tool_choice="required")
    body = write(CHAT, [UserCanister.of("Hi.")], offer=OFFER, controls=controls, allowed_tools=True)
    read = asked(CHAT, body).controls
    assert (read.allowed_tools, read.tool_choice) == (("read_file",), "required")
    plain_words = json.loads(write(CHAT, [UserCanister.of("Hi.")], offer=OFFER, controls=controls))
    assert plain_words["tool_choice"] == "required"


@both
def test_controls_that_a_model_does_not_take(protocol: Protocol) -> None:
    with pytest.raises(InputError, match=r"takes no temperature or top_p.*sampling = true"):
        write(protocol, [], controls=Controls(temperature=0.5, top_p=0.5), sampling=False)
    with pytest.raises(InputError, match=r"cannot be made to call a tool.*tool_choice = true"):
        write(protocol, [], offer=OFFER, controls=Controls(tool_choice="required"), tool_choice=False)
    with pytest.raises(NameAbsence, match=r"no offered tool named 'read_fil'.*'read_file'"):
        write(protocol, [], offer=OFFER, controls=Controls(tool_choice="read_fil"))
    relaxed = json.loads(
        write(protocol, [], offer=OFFER, controls=Controls(tool_choice="required").relaxed(), tool_choice=False)
    )
    assert relaxed["tool_choice"] in ("auto", {"type": "auto"})


def test_the_number_of_tokens_has_the_word_that_the_provider_knows() -> None:
    assert json.loads(write(ANTHROPIC, []))["max_tokens"] == 8192
    assert json.loads(write(ANTHROPIC, [], output_tokens=100))["max_tokens"] == 100
    few = Controls(output_tokens=7)
    assert json.loads(write(ANTHROPIC, [], controls=few, output_tokens=100))["max_tokens"] == 7
    assert "max_completion_tokens" not in json.loads(write(CHAT, []))
    assert json.loads(write(CHAT, [], controls=few))["max_completion_tokens"] == 7
    assert json.loads(write(CHAT, [], controls=few, output_tokens_parameter="max_tokens"))["max_tokens"] == 7


def test_efforts_that_only_servers_know_become_the_nearest_word() -> None:
    for word, ours in {"minimal": "low", "xhigh": "high", "max": "high"}.items():
        assert CHAT.parse({"model": "m", "messages": [], "reasoning_effort": word}).controls.reasoning == ours
        effort = {"model": "m", "messages": [], "output_config": {"effort": word}}
        assert ANTHROPIC.parse(effort).controls.reasoning == ours


# Encoded once.


CONVERSATION: tuple[Canister, ...] = (
    SupervisorCanister.of("Be brief."),
    UserCanister.of("Look."),
    AssistantCanister(
        content=(
            OpaqueContent(
                protocol="openai-chat",
                kind="reasoning",
                data=freeze({"reasoning_content": "Hm.", "extra_content": {"a": 1}}),
            ),
            TextualContent(text="I look."),
        )
    ),
    InvocationCanister(identifier="c1", name="read_file", arguments=frozendict(path="a"), raw='{ "path":"a" }'),
    ResultCanister(invocation_id="c1", content=(TextualContent(text="alpha"),)),
    DocumentCanister(content=(TextualContent(text="x"),), identifier="d"),
    UserCanister.of("And?"),
)


def fresh() -> tuple[Canister, ...]:
    """The conversation, never encoded: the kept pieces are no part of a canister's value."""
    canisters: tuple[Canister, ...] = pickle.loads(pickle.dumps(CONVERSATION))
    assert not any(hasattr(canister, "encoding") for canister in canisters)
    assert canisters == CONVERSATION
    return canisters


def kept(canisters: Sequence[Canister]) -> list[Any]:
    """The pieces that canisters keep."""
    return [canister.encoding for canister in canisters if hasattr(canister, "encoding")]


@both
def test_a_canister_is_encoded_once(protocol: Protocol) -> None:
    canisters = fresh()
    body = write(protocol, canisters)
    pieces = kept(canisters)
    leading = protocol is ANTHROPIC  # The leading supervisor stands in a key of its own there.
    assert len(pieces) == len(canisters) - leading
    assert write(protocol, canisters) == body
    assert all(one is other for one, other in zip(kept(canisters), pieces, strict=True))
    # What is added is encoded; what was there is not touched.
    longer = (*canisters, AssistantCanister.of("alpha"), UserCanister.of("Thanks."))
    write(protocol, longer)
    assert all(one is other for one, other in zip(kept(canisters), pieces, strict=True))
    assert all(key == protocol.name for key, _ in pieces)
    assert all(type(data) is bytes for _, data in pieces)


def test_another_wire_and_another_capability_encode_anew() -> None:
    canisters = fresh()
    first = write(CHAT, canisters)
    assert b"Hm." not in first
    assert b'"extra_content":{"a":1}' in first
    pieces = kept(canisters)
    replayed = write(CHAT, canisters, reasoning_replay="always")
    assert b'"reasoning_content":"Hm."' in replayed
    assert [one is other for one, other in zip(kept(canisters), pieces, strict=True)] == [
        not isinstance(canister, AssistantCanister) for canister in canisters
    ]
    assert write(CHAT, canisters) == first
    over = write(ANTHROPIC, canisters)
    assert over == write(ANTHROPIC, fresh())
    assert write(CHAT, canisters) == first


def test_reasoning_returns_until_the_user_speaks_again() -> None:
    canisters = fresh()
    assert b"Hm." not in write(CHAT, canisters, reasoning_replay="turn")
    assert b"Hm." in write(CHAT, canisters[:5], reasoning_replay="turn")
    assert b"Hm." in write(CHAT, canisters[2:5], reasoning_replay="turn")
    assert b"Hm." not in write(CHAT, canisters[:5], reasoning_replay="never")


@both
def test_nothing_large_is_kept(protocol: Protocol) -> None:
    small, large = UserCanister.of("x" * (KEPT - 200)), UserCanister.of("x" * KEPT)
    bodies = [write(protocol, [small, large]) for _ in range(2)]
    assert bodies[0] == bodies[1]
    assert len(small.encoding[1]) <= KEPT
    assert not hasattr(large, "encoding")
    assert not hasattr(copy.copy(small), "encoding")
    assert not hasattr(copy.deepcopy(small), "encoding")


@both
def test_the_bytes_of_tools_are_the_same_in_every_turn(protocol: Protocol) -> None:
    ensembles = [
        Ensemble.of(name, [Definition(name=tool, schema=Schema.of(PATH)) for tool in tools], prefix=name)
        for name, tools in {"b": ["z", "a"], "a": ["m"]}.items()
    ]

    def tools_in(body: bytes) -> bytes:
        start = body.index(b'"tools":[')
        return body[start : body.index(b"]", body.rindex(b'"required"'))]

    offer = Offer.of(ensembles)
    first = tools_in(write(protocol, [UserCanister.of("Hi.")], offer=offer))
    assert tools_in(write(protocol, [UserCanister.of("Hello.")], offer=offer)) == first
    # Another offer of the same invokers encodes none of them again.
    again = Offer.of(ensembles)
    encodings = [invoker.encodings[protocol.name] for invoker in offer.invokers]
    assert tools_in(write(protocol, [UserCanister.of("Hi.")], offer=again)) == first
    assert all(one is invoker.encodings[protocol.name] for one, invoker in zip(encodings, again.invokers, strict=True))
    names = [tool.name for tool in asked(protocol, write(protocol, [], offer=offer)).tools]
    assert names == list(offer.names)


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
    canisters = [
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
    try:
        asked = protocol.parse(body)
    except InputError as error:
        assert str(error)
    else:
        assert isinstance(asked.model, str)


def break_somewhere(data: st.DataObject, value: Any) -> None:
    """Replaces, drops or adds one value, somewhere in a JSON value."""
    for _ in range(20):
        keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        if isinstance(value[key], dict | list) and value[key] and data.draw(st.booleans()):
            value = value[key]
            continue
        value[key] = data.draw(json_values | objects)
        return
