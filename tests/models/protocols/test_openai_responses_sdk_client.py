"""What the official client of the Responses wire, unmodified, makes of the answers that our server half writes."""

import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import openai
import pytest

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    InvocationCanister,
    OpaqueContent,
    TextualContent,
)
from ripieno.jsonvalues import thaw
from ripieno.models.protocols.openai_responses import PROTOCOL
from ripieno.models.protocols.openai_responses.items import is_made
from tests.models.protocols import test_wires_sdk_clients as wires
from tests.models.protocols.test_wires_sdk_clients import chat_client as client_at
from tests.support.golden_wires import ANSWERS, Scenario, named, revive, usage_in

STATUSES = {"stop": "completed", "invocations": "completed", "length": "incomplete", "filter": "incomplete"}
REASONS = {"length": "max_output_tokens", "filter": "content_filter"}
SERVED = [one for one in ANSWERS if "canisters" in one.expected and one.protocol is PROTOCOL]
scenarios = pytest.mark.parametrize("scenario", SERVED, ids=named)
ASK: dict[str, Any] = {"model": "house/model", "input": "Hi."}


@contextlib.asynccontextmanager
async def answering(scenario: Scenario, *, slowly: bool = False) -> AsyncIterator[openai.AsyncOpenAI]:
    """A client of a server of ours that always gives the answer of a scenario."""
    async with wires.answering(scenario, slowly=slowly) as url, client_at(url) as client:
        yield client


def items(canisters: Sequence[Canister]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    beside: dict[str, Any] = {}
    for canister in canisters:
        if isinstance(canister, InvocationCanister):
            own: Any = thaw(canister.opaque.get(PROTOCOL.name, {}))
            kind = "function_call" if canister.kind == "function" else "custom_tool_call"
            sent = canister.raw if canister.raw and canister.raw.strip() else json.dumps(thaw(canister.arguments))
            status = "incomplete" if canister.fault is not None else "completed"
            found.append((kind, canister.identifier, canister.name, spaced(sent), status, own))
        elif isinstance(canister, AssistantCanister):
            for content in canister.content:
                if isinstance(content, TextualContent):
                    found.append(("message", content.text, beside))
                    beside = {}
                elif isinstance(content, OpaqueContent) and content.kind == "message":
                    beside = {key: value for key, value in content.data.items() if key != "type"}
                elif isinstance(content, OpaqueContent):
                    found.append((content.kind, thaw(content.data)))
    return found


def spaced(text: str) -> Any:
    """Arguments without regard to their blanks, where they are JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def read_items(response: Any) -> list[tuple[Any, ...]]:
    """The items of the client's, as it would send them back."""
    found: list[tuple[Any, ...]] = []
    for one in response.output:
        item = {key: value for key, value in one.to_dict().items() if key not in ("parsed_arguments", "parsed")}
        own = {key: value for key, value in item.items() if key in ("id", "phase", "caller", "namespace")}
        if is_made(own.get("id")):
            del own["id"]
        if item["type"] == "message":
            (part,) = item["content"]
            found.append(("message", part["text"], own))
        elif item["type"] in ("function_call", "custom_tool_call"):
            sent = item.get("arguments", item.get("input"))
            found.append((item["type"], item["call_id"], item["name"], spaced(sent), item["status"], own))
        else:
            found.append((item["type"], item))
    return found


def check_response(response: Any, scenario: Scenario) -> None:
    expected = scenario.expectation("served")
    usage = usage_in(expected)
    assert read_items(response) == items(revive(expected["canisters"]))
    assert response.status == STATUSES[expected["finish"]]
    reason = REASONS.get(expected["finish"])
    assert (response.incomplete_details and response.incomplete_details.reason) == reason
    assert response.id.startswith("resp_")
    assert response.model == "house/model"
    counted = response.usage
    assert (counted.input_tokens, counted.output_tokens) == (usage.input_tokens, usage.output_tokens)
    assert counted.total_tokens == usage.total_tokens
    assert counted.input_tokens_details.cached_tokens == usage.cache_read_tokens
    assert counted.input_tokens_details.cache_write_tokens == usage.cache_write_tokens
    assert counted.output_tokens_details.reasoning_tokens == usage.reasoning_tokens


@scenarios
async def test_whole(scenario: Scenario) -> None:
    async with answering(scenario) as client:
        check_response(await client.responses.create(**ASK), scenario)


# The client has no class for a stranger's item.
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@scenarios
async def test_helper(scenario: Scenario) -> None:
    expected = scenario.expectation("served")
    text = ""
    last: Any = None
    async with answering(scenario, slowly=True) as client, client.responses.stream(**ASK) as stream:
        async for event in stream:
            last = event
            if event.type == "response.output_text.delta":
                text += event.delta
        if expected["finish"] in REASONS:
            # The client knows no end but one.
            with pytest.raises(RuntimeError, match=r"response\.completed"):
                await stream.get_final_response()
            check_response(last.response, scenario)
            return
        response = await stream.get_final_response()
        check_response(response, scenario)
    assert text == response.output_text
    # What the client would send back is what our server half reads as the same canisters.
    returned = PROTOCOL.parse({"model": "m", "input": [one.to_dict() for one in response.output]})
    # Of a call that was cut off, a history does not say so.
    statuses = ("completed", "incomplete")
    again, said = (
        [tuple(part for part in one if part not in statuses) for one in items(canisters)]
        for canisters in (returned.canisters, revive(expected["canisters"]))
    )
    assert again == said


# Reasoning of another wire is shown, and asks for nothing.
