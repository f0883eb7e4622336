"""Tools on each wire: arguments that are held to their schemas, and searchable tools where the wire has a search."""

import json
from typing import Any

import anthropic.types
import openai.types.chat
import openai.types.responses
import pytest
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming

from ripieno.assembly import assemble
from ripieno.canisters import Controls, InvocationCanister, UserCanister
from ripieno.descriptors import Policy
from ripieno.ensembles import Context, Definition, Ensemble
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import InputError
from ripieno.execution import Execution
from ripieno.jsonvalues import encode, freeze
from ripieno.models import Model, Protocol
from ripieno.models.protocols.anthropic import PROTOCOL as MESSAGES
from ripieno.models.protocols.gemini import PROTOCOL as GEMINI
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from ripieno.models.protocols.openai_responses import PROTOCOL as RESPONSES
from ripieno.schemas import Schema
from ripieno.servers.http.server import serve
from ripieno.testing import call, turn
from ripieno.testing.rehearsal.server import base_url, create_application
from ripieno.testing.scores import Score
from tests.models.protocols.sdk_types import problems
from tests.schemas.test_lowering import TOOLS
from tests.support import golden_wires
from tests.support.scripted_models import ensemble, tool
from tests.support.wire_requests import write

SDK: dict[str, Any] = {
    "anthropic": anthropic.types.ToolParam,
    "openai-chat": openai.types.chat.ChatCompletionToolParam,
    "openai-responses": openai.types.responses.FunctionToolParam,
}
TREE = {"type": "object", "properties": {"below": {"type": "array", "items": {"$ref": "#"}}}}
FLAT = {"type": "object", "properties": {"path": {"type": "string"}, "line": {"type": "integer"}}, "required": ["path"]}


def offer(**schemas: dict[str, Any]) -> Offer:
    definitions = [
        Definition(name=name, schema=Schema.of(schema), description="It.") for name, schema in schemas.items()
    ]
    return Offer.of([Ensemble.of("house", definitions)])


def tools(protocol: Protocol, offered: Offer, controls: Controls, **capabilities: Any) -> list[dict[str, Any]]:
    body = json.loads(write(protocol, [UserCanister.of("Hi.")], offer=offered, controls=controls, **capabilities))
    found: list[dict[str, Any]] = body["tools"]
    return found


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", SDK)
def test_real_tools_are_what_the_sdks_say(name: str, strict: bool) -> None:
    protocol = golden_wires.PROTOCOLS[name]
    sent = json.loads(encode(list(protocol.invocations.prepare_tools(offer(**TOOLS), strict=strict))))
    assert len(sent) == len(TOOLS) >= 200
    assert problems(sent, list[SDK[name]]) == []


@pytest.mark.parametrize("name", SDK)
def test_strict_has_the_word_of_each_wire_and_only_where_it_can_be(name: str) -> None:
    protocol = golden_wires.PROTOCOLS[name]
    offered = offer(flat=FLAT, tree=TREE, free={"type": "object", "additionalProperties": True})
    sent = tools(protocol, offered, Controls(strict=True), strict=True)
    words = {one["name"]: one.get("strict") for one in (tool.get("function", tool) for tool in sent)}
    absent = False if name == "openai-responses" else None
    assert words == {"flat": True, "free": absent, "tree": absent if name == "anthropic" else True}
    plain = tools(protocol, offered, Controls(), strict=True)
    assert {one.get("function", one).get("strict") for one in plain} == {absent}
    assert tools(protocol, offered, Controls(strict=True), strict=True) == sent


@pytest.mark.parametrize("name", golden_wires.PROTOCOLS)
def test_a_model_that_cannot_be_strict_is_not_asked_to(name: str) -> None:
    with pytest.raises(InputError, match=r"leave strict out, or set strict = true in the provider's capabilities"):
        tools(golden_wires.PROTOCOLS[name], offer(flat=FLAT), Controls(strict=True))


@pytest.mark.parametrize("name", SDK)
async def test_what_a_strict_model_sends_is_what_the_tool_gets(name: str, caplog: pytest.LogCaptureFixture) -> None:
    got: list[dict[str, Any]] = []

    async def look(context: Context, arguments: dict[str, Any]) -> str:
        got.append(arguments)
        return "Seen."

    whole = {
        "type": "object",
        "properties": {**FLAT["properties"], "tags": {"type": "object", "additionalProperties": {"type": "string"}}},
        "required": ["path"],
    }
    whole["properties"]["line"] = {"type": "integer", "default": 7}
    definition = Definition(name="look", schema=Schema.of(whole), invocable=look, policy=Policy(effect="read"))
    house = Ensemble.of("house", [definition])
    protocol = golden_wires.PROTOCOLS[name]
    sent = {"path": "a", "line": None, "tags": [{"key": "k", "value": "v"}]}
    if name == "anthropic":
        del sent["line"]  # What may be absent stays so there.
    changed = [name for name in ("line", "tags") if name in sent]
    said = json.loads(encode(protocol.invocations.lowered(house.invokers["look"], strict=True).schema))
    assert Schema.of(said).validate(sent) == ()
    call = InvocationCanister(identifier="c", name="look", arguments=freeze(sent))
    with caplog.at_level("DEBUG", logger="ripieno.execution"):
        result = await Execution().execute(call, ensembles=[house])
    assert result.text == "Seen."
    assert got == [{"path": "a", "line": 7, "tags": {"k": "v"}}]
    assert [record.message for record in caplog.records if record.name == "ripieno.execution.preparation"] == [
        f"Arguments of house.look were coerced to its schema: {', '.join(changed)}"
    ]


# Searchable tools.

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def searchable_offer() -> Offer:
    def weather(context: Any, arguments: dict[str, Any]) -> str:
        return f"Rain in {arguments['city']}"

    return Offer.of([ensemble(tool("look"), tool("get_weather", weather, schema=CITY, tool_search=True))])


def body(protocol: Protocol, found: Offer, **capabilities: Any) -> dict[str, Any]:
    said = [UserCanister.of("Is it raining?")]
    native: dict[str, Any] = json.loads(
        write(protocol, said, offer=found, controls=Controls(stream=False), **capabilities)
    )
    return native


@pytest.mark.parametrize(
    ("protocol", "kind", "search"),
    [
        (
            MESSAGES,
            anthropic.types.message_create_params.MessageCreateParamsNonStreaming,
            {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
        ),
        (RESPONSES, ResponseCreateParamsNonStreaming, {"type": "tool_search", "execution": "server"}),
    ],
    ids=("anthropic", "openai-responses"),
)
def test_the_providers_search_takes_the_place_of_ours(protocol: Protocol, kind: Any, search: dict[str, Any]) -> None:
    native = body(protocol, searchable_offer(), tool_search=True)
    assert problems(native, kind) == []
    searchable, sent, last = native["tools"]
    assert (searchable["name"], searchable["defer_loading"]) == ("get_weather", True)
    assert sent["name"] == "look"
    assert "defer_loading" not in sent
    # Where caches are marked, the last one has the mark: it is one that is loaded.
    assert {key: last[key] for key in search} == search
    # The definition is whole: it is the same tool.
    plain = body(protocol, Offer(searchable_offer().everything))["tools"]
    assert {key: searchable[key] for key in searchable if key != "defer_loading"} == plain[0]


@pytest.mark.parametrize("protocol", [MESSAGES, CHAT, RESPONSES, GEMINI], ids=lambda one: one.name)
def test_without_it_or_without_searchable_tools_nothing_is_different(protocol: Protocol) -> None:
    text = json.dumps(body(protocol, searchable_offer())["tools"])
    assert "search_tools" in text
    assert "get_weather" not in text
    whole = Offer(searchable_offer().everything)
    assert body(protocol, whole, tool_search=True) == body(protocol, whole)
    if protocol in (CHAT, GEMINI):
        assert body(protocol, searchable_offer(), tool_search=True) == body(protocol, searchable_offer())


@pytest.mark.parametrize("protocol", [MESSAGES, RESPONSES], ids=lambda one: one.name)
async def test_a_tool_that_the_provider_found_is_called_by_its_name(protocol: Protocol) -> None:
    score = Score.of_turns([turn("", calls=[call("get_weather", "it", city="Wien")]), turn("{it}")])
    async with serve(create_application(score, [protocol])) as url:
        provider = {
            "protocol": protocol.name,
            "base_url": base_url(url, protocol),
            "api_key": "none",
            "capabilities": {"tool_search": True},
        }
        async with assemble({"providers": {"house": provider}, "ensembles": {"enabled": []}}) as assembly:
            model: Model = assembly.access_model("house/m")
            found = searchable_offer().searchable[0].ensemble
            conversation = await assembly.conduct("Is it raining?", model=model, ensembles=[found])
    assert conversation.text == "Rain in Wien"
