"""The OpenAPI document: it has every route and every event, and what is sent fits it."""

import json
import pathlib
import typing
from typing import Any

import jsonschema
import pytest
from starlette.routing import Route

from ripieno.canisters import ImageContent, ResultCanister, TextualContent, UserCanister
from ripieno.canisters.conversation import Usage
from ripieno.canisters.events import (
    Alert,
    ArgumentsDelta,
    ConductEnded,
    ContentSealed,
    EventBase,
    ExecutionBegan,
    ExecutionProgress,
    InvocationBegan,
    InvocationSealed,
    ReasoningDelta,
    ResultReady,
    TextDelta,
    TurnBegan,
    TurnEnded,
)
from ripieno.canisters.faults import Change, Fault, Report
from ripieno.jsonvalues import freeze
from ripieno.servers.chat.application import create_application
from ripieno.servers.chat.contents import SHOWN_BYTES
from ripieno.servers.chat.event_forms import EVENTS, UNSENT
from ripieno.servers.chat.events import (
    ChatEvent,
    QuestionAnswered,
    QuestionsAsked,
    RunFailed,
    Said,
    Titled,
    sent_form,
)
from tests.servers.chat.test_application import client, signed_in
from tests.support.chat_schemas import DOCUMENT, check_event
from tests.support.chats import chatting
from tests.support.scripted_models import invoke, says, scripted

CALL = invoke("look", "one", at="sky")
LONG = TextualContent(text="x" * SHOWN_BYTES * 2)
FAILED = ResultCanister(
    invocation_id="one",
    content=(TextualContent(text="dark"), LONG, ImageContent(data=b"x", mime_type="image/png")),
    error=Fault(category="execution", message="It is dark.", details=freeze({"at": "sky"})),
    report=Report(attempts=2, retried=("network",), changes=(Change.of("FileCreated", path="a"),), sandbox="tier 1"),
)
ASKED = freeze({"kind": "client", "invocation": "one", "name": "look", "arguments": {"at": "sky"}})
EXAMPLES: list[Any] = [
    Alert(message="Look out.", details=freeze({"at": "sky"})),
    ArgumentsDelta(index=0, text="{"),
    ConductEnded(finish="stop", turns=1, calls=1, usage=Usage(input_tokens=3)),
    ContentSealed(LONG),
    ContentSealed(ImageContent(data=b"x" * SHOWN_BYTES * 2, mime_type="image/png")),
    ExecutionBegan(invocation=CALL, tool="mine.look"),
    ExecutionProgress(invocation_id="one", tool="mine.look", done=1),
    InvocationBegan(index=0, identifier="one", name="look", opaque=freeze({"a": 1})),
    InvocationSealed(index=0, invocation=CALL),
    QuestionAnswered(invocation="one", answer="approve"),
    QuestionsAsked(questions=(ASKED,)),
    ReasoningDelta("Hm."),
    ResultReady(invocation=CALL, result=FAILED, tool="mine.look", seal="secret"),
    RunFailed(code="failed", message="It failed."),
    Said(canister=UserCanister.of("Hi."), place=0),
    TextDelta("Hi."),
    Titled(title="First"),
    TurnBegan(model="scripted", turn=1),
    TurnEnded(finish="stop", usage=Usage(output_tokens=2), reason="end", turn=1),
]


async def test_every_route_is_described_and_every_description_has_a_route(tmp_path: pathlib.Path) -> None:
    async with chatting(tmp_path, scripted(says())) as chat:
        routes = [one for one in create_application(chat, authenticate=signed_in).routes if isinstance(one, Route)]
        found = {(method, one.path) for one in routes for method in (one.methods or ()) if method != "HEAD"}
        described = {(method.upper(), path) for path, one in DOCUMENT["paths"].items() for method in one}
        assert found - {("GET", "/openapi.json")} == described


def test_every_event_is_described_and_has_an_example() -> None:
    kinds = set(typing.get_args(ChatEvent))
    # By names: a class with slots is made twice.
    declared = {one.__name__ for one in EventBase.__subclasses__() if one.__module__.startswith("ripieno.")}
    assert {one.__name__ for one in kinds} == declared
    assert kinds == {*EVENTS, *UNSENT}
    assert {type(one) for one in EXAMPLES} == set(EVENTS)
    assert {one["$ref"].rpartition("/")[2] for one in DOCUMENT["components"]["schemas"]["Event"]["oneOf"]} == {
        *(kind.__name__ for kind in EVENTS),
        "Resync",
    }


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda one: type(one).__name__)
def test_an_event_as_it_is_sent_fits_and_with_another_field_does_not(event: Any) -> None:
    form = sent_form(event)
    assert form is not None
    check_event(form)
    for changed in ({**form, "more": 1}, {name: one for name, one in form.items() if name != list(form)[-1]}):
        with pytest.raises(AssertionError):
            check_event(changed)


def test_all_objects_are_closed_and_all_schemas_are_valid() -> None:
    for name, schema in DOCUMENT["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(schema)
        if name != "Event":
            assert schema["additionalProperties"] is False, name


async def test_the_document_is_public_and_the_same_for_all(tmp_path: pathlib.Path) -> None:
    async with client(tmp_path) as one:
        one.event_hooks = {}
        del one.headers["x-user"]
        answer = await one.get("/openapi.json")
        assert (answer.status_code, json.loads(answer.content)) == (200, DOCUMENT)
        assert answer.headers["content-type"] == "application/json"
