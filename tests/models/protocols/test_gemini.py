"""The generateContent wire by itself: its paths, streamed arguments, ends, and what is served."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from ripieno.canisters import AssistantCanister, InvocationCanister, OpaqueContent, UserCanister
from ripieno.canisters.controls import Finish
from ripieno.canisters.conversation import Usage
from ripieno.canisters.events import (
    ContentSealed,
    Event,
    InvocationBegan,
    InvocationSealed,
    ReasoningDelta,
    TextDelta,
    TurnBegan,
    TurnEnded,
    collect,
)
from ripieno.canisters.faults import Fault
from ripieno.exceptions import ProviderFailure, ProviderRefusal, WireInvalidity
from ripieno.jsonvalues import freeze
from ripieno.models.protocol import Identifiers, Native
from ripieno.models.protocols.gemini import PROTOCOL
from ripieno.models.protocols.gemini.decoder import steps_of
from ripieno.models.transport.endpoints import Endpoint
from ripieno.models.transport.transport import HttpTransport
from tests.models.protocols.test_wires_golden import natives_of, read, written
from tests.support.loopback_models import model_over
from tests.support.loopback_servers import serving
from tests.support.scripted_models import ensemble, tool
from tests.support.wire_requests import write

# Paths.


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("gemini-3-pro", "/models/gemini-3-pro:generateContent"),
        ("../v1/x?y#z", "/models/..%2Fv1%2Fx%3Fy%23z:generateContent"),
        ("ünlü: {model}", "/models/%C3%BCnl%C3%BC%3A%20%7Bmodel%7D:generateContent"),
    ],
)
def test_no_name_of_a_model_leads_elsewhere(name: str, path: str) -> None:
    assert PROTOCOL.path_for(name, stream=False) == path
    streamed = path.replace(":generateContent", ":streamGenerateContent?alt=sse")
    assert PROTOCOL.path_for(name, stream=True) == streamed


@pytest.mark.parametrize("form", ["events", "array", "whole"])
async def test_requests_as_they_arrive(form: str) -> None:
    """The key is in a header alone; a stream may come as one array, or as the whole answer."""
    seen: list[Request] = []
    chunks = [answer(text("Yes, ")), answer(text("indeed."), reason="STOP")]

    async def respond(request: Request) -> Response:
        seen.append(request)
        if form == "events":
            data = "".join(f"data: {json.dumps(one)}\r\n\r\n" for one in chunks)
            return Response(data, media_type="text/event-stream")
        whole = chunks if form == "array" else answer(text("Yes, indeed."), reason="STOP")
        return Response(json.dumps(whole), media_type="application/json; charset=UTF-8")

    async with serving(respond) as (url, bodies):
        endpoint = Endpoint(provider="house", sdk=PROTOCOL.sdk, base_url=f"{url}/v1beta", key="SECRET")
        transport = HttpTransport(endpoint)
        said = await model_over(transport, PROTOCOL, name="gem/x").converse([UserCanister.of("Well?")])
        await transport.close()
    assert said == (AssistantCanister.of("Yes, indeed."),)
    (request,) = seen
    assert request.scope["raw_path"] == b"/v1beta/models/gem%2Fx:streamGenerateContent"
    assert request.url.query == "alt=sse"
    assert "SECRET" not in str(request.url)
    assert request.headers["x-goog-api-key"] == "SECRET"
    assert "authorization" not in request.headers
    assert json.loads(bodies[0].body) == {"contents": [{"role": "user", "parts": [{"text": "Well?"}]}]}


# Answers.


def answer(*parts: Any, reason: str | None = None, **more: Any) -> dict[str, Any]:
    """A chunk, or a whole answer."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0, **more}
    return {"candidates": [candidate if reason is None else {**candidate, "finishReason": reason}]}


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"text": said, **more}


def call(name: str | None = None, **more: Any) -> dict[str, Any]:
    return {"functionCall": {**({} if name is None else {"name": name}), **more}}


def put(path: str, more: bool = False, *, last: bool = False, **value: Any) -> dict[str, Any]:
    """A part that puts a value into the call that is streamed."""
    partial = {"jsonPath": path, **value, **({"willContinue": True} if more else {})}
    return call(None, partialArgs=[partial], **({} if last else {"willContinue": True}))


def heard(*natives: Native) -> list[Event]:
    return read(PROTOCOL, natives)


def calls_of(events: Sequence[Event]) -> list[tuple[str, Any, str | None]]:
    sealed = [event.invocation for event in events if isinstance(event, InvocationSealed)]
    return [(one.name, dict(one.arguments), one.fault.code if one.fault else None) for one in sealed]


def test_a_whole_call_is_sealed_where_it_comes() -> None:
    decoder = PROTOCOL.decoder("house", Identifiers())
    events = list(decoder.feed(answer(text("Now. "), call("f", args={"a": 1}))))
    assert [type(event) for event in events] == [TurnBegan, TextDelta, ContentSealed, InvocationBegan, InvocationSealed]
    assert calls_of(events) == [("f", {"a": 1}, None)]


def test_arguments_that_are_streamed() -> None:
    events = heard(
        answer(call("f", id="x", args={"given": 0}, willContinue=True) | {"thoughtSignature": "c2ln"}),
        answer(put("$.text", True, stringValue="on"), put("$.text", stringValue="ce")),
        answer(put("$.list[0].a", numberValue=1.0), put("$.list[1]", nullValue="NULL_VALUE")),
        answer(put('$["it\\"s"]', boolValue=False), call("f", id="x", last=True)),
        answer(reason="STOP"),
    )
    (invocation,) = [event.invocation for event in events if isinstance(event, InvocationSealed)]
    arguments = {"given": 0, "text": "once", "list": [{"a": 1}, None], 'it"s': False}
    assert invocation.arguments == freeze(arguments)
    assert invocation.identifier == "x"
    assert invocation.opaque == freeze({"gemini": {"thoughtSignature": "c2ln"}})


def test_a_streamed_call_without_its_last_part_never_runs() -> None:
    begun = answer(call("f", willContinue=True), put("$.a", stringValue="x"))
    for reason in ("STOP", "MAX_TOKENS"):
        assert calls_of(heard(begun, answer(reason=reason))) == [("f", {}, "cut_off")]
    after = heard(begun, answer(call("g", args={"b": 2})), answer(reason="STOP"))
    assert calls_of(after) == [("f", {}, "cut_off"), ("g", {"b": 2}, None)]
    whole = heard(begun, answer(call()), answer(reason="STOP"))
    assert calls_of(whole) == [("f", {"a": "x"}, None)]


@pytest.mark.parametrize("path", ["", "a", "$", "$a", "$.", "$[x]", "$.a[", "$['a", "$..a"])
def test_places_that_there_are_not(path: str) -> None:
    with pytest.raises(ValueError, match="is not a valid path"):
        steps_of(path)
    with pytest.raises(WireInvalidity, match="cannot be read"):
        heard(answer(call("f", willContinue=True), put(path, stringValue="x")))


@pytest.mark.parametrize("paths", [["$[0]"], ["$.a[1]"], ["$.a", "$.a.b"], ["$.a[0]", "$.a.b"], ["$.a.b", "$.a[0]"]])
def test_places_that_do_not_fit(paths: list[str]) -> None:
    with pytest.raises(WireInvalidity, match="cannot be read"):
        heard(answer(call("f", willContinue=True), *(put(path, numberValue=1) for path in paths)))


def test_a_call_without_a_name() -> None:
    assert calls_of(heard(answer(call(args={"a": 1})), answer(reason="STOP"))) == [("", {"a": 1}, "name_missing")]


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("STOP", "invocations"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "filter"),
        ("RECITATION", "filter"),
        ("SPII", "filter"),
        ("OTHER", "stop"),
        ("SOMETHING_NEW", "invocations"),
    ],
)
def test_only_some_ends_allow_calls(word: str, finish: Finish) -> None:
    ended = heard(answer(call("f", args={"a": 1})), answer(reason=word))[-1]
    assert isinstance(ended, TurnEnded)
    assert (ended.finish, ended.reason) == (finish, word)


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("MALFORMED_FUNCTION_CALL", "simplify the tool's schema"),
        ("UNEXPECTED_TOOL_CALL", "Offer one"),
        ("TOO_MANY_TOOL_CALLS", "fewer tools"),
        ("MISSING_THOUGHT_SIGNATURE", "signature_placeholder"),
        ("MALFORMED_RESPONSE", "Ask again"),
    ],
)
def test_answers_that_break_off(word: str, hint: str) -> None:
    with pytest.raises(ProviderRefusal, match=rf"broke off its answer: {word} \(Because\).*{hint}"):
        heard(answer(text("Hm.")), answer(reason=word, finishMessage="Because"))


async def test_results_alone_name_their_function() -> None:
    """From an answer over the calls to the message of results, without a conversation."""
    native = answer(call("look", id="a"), call("look", id="b"), reason="STOP")
    invocations = PROTOCOL.invocations.normalize_invocations(native)
    results = await PROTOCOL.invocations.execute_invocations(invocations, [ensemble(tool("look"))])
    (message,) = PROTOCOL.invocations.nativize_results(results)
    responses = [part["functionResponse"] for part in message["parts"]]
    assert [(one["name"], one["id"]) for one in responses] == [("look", "a"), ("look", "b")]


def test_an_end_without_its_word() -> None:
    for natives in ([], [answer(text("Hi."))], [answer(text("Hi."), reason="FINISH_REASON_UNSPECIFIED")]):
        with pytest.raises(WireInvalidity, match="without its terminal event"):
            heard(*natives)


@pytest.mark.parametrize(
    "native",
    [
        {"candidates": 7},
        {"candidates": [7]},
        answer(7),
        answer({"functionCall": 7}),
        answer({"inlineData": {"data": "?"}}),
    ],
)
def test_what_cannot_be_read(native: Any) -> None:
    with pytest.raises(ProviderFailure, match="'house'"):
        heard(native, answer(reason="STOP"))


def test_usage_is_what_was_said_last() -> None:
    first = {"promptTokenCount": 5, "cachedContentTokenCount": 3, "totalTokenCount": 5}
    last = {"promptTokenCount": None, "candidatesTokenCount": 7, "thoughtsTokenCount": 2, "toolUsePromptTokenCount": 1}
    ended = heard({**answer(text("Hi.")), "usageMetadata": first}, {**answer(reason="STOP"), "usageMetadata": last})[-1]
    assert isinstance(ended, TurnEnded)
    assert ended.usage == Usage(input_tokens=6, output_tokens=9, cache_read_tokens=3, reasoning_tokens=2)


def test_what_is_not_known_is_kept() -> None:
    strange = {"hologram": {"x": 1}, "thoughtSignature": "c2ln"}
    video = {"fileData": {"fileUri": "https://example.org/v", "mimeType": "video/mp4"}, "videoMetadata": {"fps": 1}}
    canisters = collect(heard(answer(text("Look: "), strange, video), answer(text(""), reason="STOP")))
    body = json.loads(write(PROTOCOL, [UserCanister.of("Show me."), *canisters]))
    assert body["contents"][1]["parts"] == [text("Look: "), strange, video]


def test_reasoning_of_a_score_is_a_thought() -> None:
    """Where it comes in pieces, only what has not been sent follows."""
    thought = {"text": "Hm. Yes.", "thought": True, "thoughtSignature": "c2ln"}
    own = OpaqueContent(protocol="gemini", kind="thought", data=freeze(thought))
    pieces = [ReasoningDelta("Hm. "), ReasoningDelta("Yes.")]
    for sealed, parts in (([], 2), ([ContentSealed(own)], 3)):
        data = written(PROTOCOL, [TurnBegan(), *pieces, *sealed, TurnEnded(finish="stop")])
        sent = [part for one in natives_of([data]) for part in one["candidates"][0]["content"]["parts"]]
        assert "".join(part["text"] for part in sent if part.get("thought")) == "Hm. Yes."
        assert sum(bool(part.get("thought")) for part in sent) == parts
        assert [part["thoughtSignature"] for part in sent if "thoughtSignature" in part] == (["c2ln"] if sealed else [])


def test_a_call_that_must_not_run_is_served_as_one_that_never_ends() -> None:
    fault = Fault(category="validation", message="The arguments cannot be read.", code="arguments_unreadable")
    bad = InvocationCanister(identifier="x", name="f", raw='{"a', fault=fault)
    data = written(PROTOCOL, [TurnBegan(), InvocationSealed(index=0, invocation=bad), TurnEnded(finish="invocations")])
    assert calls_of(heard(*natives_of([data]))) == [("f", {}, "cut_off")]
    assert natives_of([data])[0]["candidates"][0]["content"]["parts"][0]["functionCall"]["args"] == {
        "INVALID_JSON": '{"a'
    }
