"""Arguments that are held to their schemas: what each wire says then, and that real tools are what the SDKs say."""

import json
from typing import Any

import anthropic.types
import openai.types.chat
import openai.types.responses
import pytest

from ripieno.canisters import Controls, InvocationCanister, UserCanister
from ripieno.descriptors import Policy
from ripieno.ensembles import Context, Definition, Ensemble
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import InputError
from ripieno.execution import Execution
from ripieno.jsonvalues import encode, freeze
from ripieno.models import Protocol
from ripieno.schemas import Schema
from tests.models.protocols.sdk_types import problems
from tests.schemas.test_lowering import TOOLS
from tests.support import golden_wires
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
