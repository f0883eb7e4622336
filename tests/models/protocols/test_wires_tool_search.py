"""Searchable tools on the wires that have a search of their own: what is declared, and that our own search is not."""

import json
from typing import Any

import anthropic.types
import pytest
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming

from ripieno.assembly import assemble
from ripieno.canisters import Controls, UserCanister
from ripieno.ensembles.offers import Offer
from ripieno.models import Model, Protocol
from ripieno.models.protocols.anthropic import PROTOCOL as MESSAGES
from ripieno.models.protocols.gemini import PROTOCOL as GEMINI
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from ripieno.models.protocols.openai_responses import PROTOCOL as RESPONSES
from ripieno.servers.http.server import serve
from ripieno.testing import call, turn
from ripieno.testing.rehearsal.server import base_url, create_application
from ripieno.testing.scores import Score
from tests.models.protocols.sdk_types import problems
from tests.support.scripted_models import ensemble, tool
from tests.support.wire_requests import write

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def offer() -> Offer:
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
    native = body(protocol, offer(), tool_search=True)
    assert problems(native, kind) == []
    searchable, sent, last = native["tools"]
    assert (searchable["name"], searchable["defer_loading"]) == ("get_weather", True)
    assert sent["name"] == "look"
    assert "defer_loading" not in sent
    # Where caches are marked, the last one has the mark: it is one that is loaded.
    assert {key: last[key] for key in search} == search
    # The definition is whole: it is the same tool.
    plain = body(protocol, Offer(offer().everything))["tools"]
    assert {key: searchable[key] for key in searchable if key != "defer_loading"} == plain[0]


@pytest.mark.parametrize("protocol", [MESSAGES, CHAT, RESPONSES, GEMINI], ids=lambda one: one.name)
def test_without_it_or_without_searchable_tools_nothing_is_different(protocol: Protocol) -> None:
    text = json.dumps(body(protocol, offer())["tools"])
    assert "search_tools" in text
    assert "get_weather" not in text
    whole = Offer(offer().everything)
    assert body(protocol, whole, tool_search=True) == body(protocol, whole)
    if protocol in (CHAT, GEMINI):
        assert body(protocol, offer(), tool_search=True) == body(protocol, offer())


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
            found = offer().searchable[0].ensemble
            conversation = await assembly.conduct("Is it raining?", model=model, ensembles=[found])
    assert conversation.text == "Rain in Wien"
