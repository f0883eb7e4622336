"""Requests of the generateContent wire: what we ask, and what clients ask a server of ours."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    Controls,
    ImageContent,
    InvocationCanister,
    OpaqueContent,
    ResultCanister,
    SupervisorCanister,
    TextualContent,
    UserCanister,
)
from ripieno.exceptions import InputError
from ripieno.jsonvalues import freeze
from ripieno.models.protocols.gemini import PROTOCOL
from ripieno.models.protocols.gemini.schemas import schema_of
from tests.models.protocols.test_gemini import call, text
from tests.support.wire_requests import asked, write

# Requests.

CALLED: list[Canister] = [
    UserCanister.of("Go."),
    AssistantCanister(),
    InvocationCanister(identifier="a", name="f"),
    InvocationCanister(identifier="b", name="g"),
    ResultCanister(invocation_id="b", content=(TextualContent(text="two"),)),
    ResultCanister(invocation_id="a", content=(ImageContent(data=b"x", mime_type="image/png"),)),
]
IMAGE = {"inlineData": {"mimeType": "image/png", "data": "eA=="}}


def contents_in(canisters: Sequence[Canister], **capabilities: Any) -> list[Any]:
    contents: list[Any] = json.loads(write(PROTOCOL, canisters, **capabilities))["contents"]
    return contents


def test_images_follow_where_results_may_have_none() -> None:
    a = {"id": "a", "name": "f", "response": {"output": ""}}
    b = {"functionResponse": {"id": "b", "name": "g", "response": {"output": "two"}}}
    within = contents_in(CALLED)[-1]["parts"]
    assert within == [{"functionResponse": {**a, "parts": [IMAGE]}}, b]
    after = contents_in([*CALLED, UserCanister.of("Well?")], images_in_results=False)[-1]["parts"]
    assert after == [{"functionResponse": a}, b, IMAGE, text("Well?")]


def test_calls_of_another_model_get_a_signature_where_one_is_demanded() -> None:
    def signatures(canisters: Sequence[Canister]) -> list[Any]:
        parts = contents_in(canisters, signature_placeholder="none")[1]["parts"]
        return [part.get("thoughtSignature") for part in parts]

    assert signatures(CALLED) == ["none", None]
    spoken = AssistantCanister.of("Both.")
    assert signatures([CALLED[0], spoken, *CALLED[2:]]) == [None, "none", None]
    own = InvocationCanister(identifier="a", name="f", opaque=freeze({"gemini": {"thoughtSignature": "c2ln"}}))
    assert signatures([*CALLED[:2], own, *CALLED[3:]]) == ["c2ln", None]
    assert "thoughtSignature" not in json.dumps(contents_in(CALLED))


def test_an_answer_that_took_a_break_goes_on_with_its_token() -> None:
    token = OpaqueContent(protocol="gemini", kind="continuation", data=freeze({"continuationToken": "dG9r"}))
    begun = AssistantCanister(content=(TextualContent(text="Once "), token))
    asking = json.loads(write(PROTOCOL, [UserCanister.of("A tale."), begun]))
    question = {"role": "user", "parts": [text("A tale.")]}
    assert asking == {"contents": [question], "continuationToken": "dG9r"}
    later = json.loads(write(PROTOCOL, [UserCanister.of("A tale."), begun, AssistantCanister.of("upon.")]))
    assert later == {"contents": [question, {"role": "model", "parts": [text("Once "), text("upon.")]}]}


def test_a_supervisor_who_speaks_later_is_heard_in_its_place() -> None:
    body = json.loads(write(PROTOCOL, [SupervisorCanister.of("One."), *CALLED[:1], SupervisorCanister.of("Two.")]))
    assert body["systemInstruction"] == {"parts": [text("One.")]}
    assert body["contents"] == [{"role": "user", "parts": [text("Go."), text("[instructions]\nTwo.")]}]


def test_how_much_to_think() -> None:
    def thinking(reasoning: Any, **capabilities: Any) -> Any:
        body = write(PROTOCOL, [], controls=Controls(reasoning=reasoning), **capabilities)
        assert asked(PROTOCOL, body).controls.reasoning == reasoning
        return json.loads(body)["generationConfig"]["thinkingConfig"]

    assert thinking("none") == {"thinkingLevel": "MINIMAL"}
    assert thinking("high") == {"thinkingLevel": "HIGH", "includeThoughts": True}
    assert thinking("none", thinking_budgets=True) == {"thinkingBudget": 0}
    assert thinking("medium", thinking_budgets=True) == {"thinkingBudget": 8192, "includeThoughts": True}


# Requests of clients.


def parsed(*contents: Any, **more: Any) -> Any:
    return PROTOCOL.parse({"model": "m", "contents": list(contents), **more})


def test_calls_without_identifiers_find_their_results_by_name_and_order() -> None:
    def response(name: str, said: str) -> Any:
        return {"functionResponse": {"name": name, "response": {"result": said}}}

    canisters = parsed(
        {"parts": [text("Go.")]},
        {"role": "model", "parts": [call("f"), call("g"), call("f")]},
        {"role": "function", "parts": [response("g", "1"), response("f", "2"), response("f", "3")]},
        {"role": "model", "parts": [call("f")]},
        {"role": "user", "parts": [response("f", "4")]},
    ).canisters
    calls = [one.identifier for one in canisters if isinstance(one, InvocationCanister)]
    assert calls == ["call_1_0", "call_1_1", "call_1_2", "call_8_0"]
    results = [(one.invocation_id, one.text) for one in canisters if isinstance(one, ResultCanister)]
    assert results == [("call_1_1", "1"), ("call_1_0", "2"), ("call_1_2", "3"), ("call_8_0", "4")]
    # They are written again as they were: without identifiers, in the order of their calls.
    (_, _, again, _, _) = contents_in(canisters)
    responses = [part["functionResponse"] for part in again["parts"]]
    written = [(one["name"], one["response"]["output"], "id" in one) for one in responses]
    assert written == [("f", "2", False), ("g", "1", False), ("f", "3", False)]


@pytest.mark.parametrize(
    ("response", "said", "failed"),
    [
        ({}, "", False),
        (None, "", False),
        ({"output": {"a": 1}}, '{"a":1}', False),
        ({"result": 7}, "7", False),
        ({"rows": [1], "error": None}, '{"rows":[1],"error":null}', False),
        ({"error": "No."}, "Error: No.", True),
        ({"error": {"code": 5}, "output": "Half."}, 'Error: {"code":5}\nHalf.', True),
    ],
)
def test_results_of_any_form(response: Any, said: str, failed: bool) -> None:
    part = {"function_response": {"id": "x", "name": "f", "response": response}}
    (result,) = parsed({"role": "user", "parts": [part]}).canisters
    assert isinstance(result, ResultCanister)
    assert (result.invocation_id, result.text, result.error is not None) == ("x", said, failed)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": None}, "no model"),
        ({"contents": None}, "no contents"),
        ({"contents": ["x"]}, "contents is a list of objects"),
        ({"contents": [{"role": "narrator", "parts": []}]}, "'narrator'"),
        ({"contents": [{"parts": "x"}]}, "parts is a list of objects"),
        ({"contents": [{"parts": [{"functionResponse": {"name": "f"}}]}]}, "no call with that name lacks a result"),
        ({"contents": [{"parts": [{"functionResponse": 7}]}]}, "functionResponse is an object"),
        ({"contents": [{"role": "model", "parts": [{"functionCall": []}]}]}, "functionCall is an object"),
        ({"contents": [{"parts": [{"inlineData": {"data": "?"}}]}]}, "invalid base64"),
        ({"contents": [{"parts": [{"inlineData": 7}]}]}, "cannot be read"),
        ({"systemInstruction": "x"}, "systemInstruction is an object"),
        ({"tools": {}}, "tools is a list"),
        ({"tools": [{"functionDeclarations": [{}]}]}, "A function has no name"),
        ({"generationConfig": {"thinkingConfig": {"thinkingLevel": "HUGE"}}}, "'HUGE'"),
        ({"toolConfig": {"functionCallingConfig": {"mode": "MAGIC"}}}, "'MAGIC'"),
        ({"method": "embedContent"}, "method 'embedContent' is unknown"),
    ],
)
def test_a_wrong_request_is_an_error_that_says_what_is_wrong(changes: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        PROTOCOL.parse({"model": "m", "contents": [], **changes})


def test_schemas_of_its_own_kind() -> None:
    native = {
        "type": "OBJECT",
        "properties": {
            "type": {"type": "STRING", "format": "enum", "enum": ["a"], "nullable": True},
            "any_of": {"any_of": [{"type": "NUMBER"}, {"type": "BOOLEAN"}], "max_items": "3"},
            "free": {"type": "TYPE_UNSPECIFIED", "example": 7},
        },
        "propertyOrdering": ["type"],
    }
    assert schema_of(native) == {
        "type": "object",
        "properties": {
            "type": {"type": ["string", "null"], "format": "enum", "enum": ["a", None]},
            "any_of": {"anyOf": [{"type": "number"}, {"type": "boolean"}], "maxItems": 3},
            "free": {},
        },
    }
