"""What the official client of the Responses wire, unmodified, makes of the answers that our server half writes."""

import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import openai
import pytest
from openai.types.responses import Response as SdkResponse

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    InvocationCanister,
    OpaqueContent,
    TextualContent,
)
from ripieno.canisters.events import ContentSealed, ReasoningDelta, TextDelta, TurnBegan, TurnEnded, play
from ripieno.jsonvalues import thaw
from ripieno.models.protocol import Asked
from ripieno.models.protocols.openai_responses import PROTOCOL
from ripieno.models.protocols.openai_responses.items import is_made
from ripieno.testing.rehearsal.server import base_url
from tests.models.protocols import test_wires_sdk_clients as wires
from tests.models.protocols.test_wires_golden import failed, written
from tests.models.protocols.test_wires_sdk_clients import chat_client as client_at
from tests.models.protocols.test_wires_sdk_clients import paces
from tests.support.golden_wires import ANSWERS, Scenario, named, revive, usage_in
from tests.support.loopback_models import answering as answering_with
from tests.support.loopback_servers import serving

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


@scenarios
@paces
async def test_raw_stream(scenario: Scenario, slowly: bool) -> None:
    """Every event has its number and its item; each item is added, and done with what it is in the end."""
    added: dict[int, Any] = {}
    done: dict[int, Any] = {}
    argued: dict[int, str] = {}
    kinds: list[str] = []
    last: Any = None
    async with answering(scenario, slowly=slowly) as client:
        async for event in await client.responses.create(**ASK, stream=True):
            assert event.sequence_number == len(kinds)
            kinds.append(event.type)
            last = event
            if event.type == "response.output_item.added":
                assert event.output_index == len(added)
                added[event.output_index] = event.item.to_dict()
            elif event.type == "response.output_item.done":
                done[event.output_index] = event.item.to_dict()
            elif event.type.endswith((".delta", ".done", ".added")):
                where: Any = event
                assert where.item_id == added[where.output_index].get("id", "")
                assert where.output_index not in done
            if event.type in ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta"):
                argued[event.output_index] = argued.get(event.output_index, "") + event.delta
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == f"response.{STATUSES[scenario.expectation('served')['finish']]}"
    check_response(last.response, scenario)
    assert [done[place] for place in sorted(done)] == [one.to_dict() for one in last.response.output]
    assert added.keys() == done.keys()
    for place, text in argued.items():
        assert text == done[place].get("arguments", done[place].get("input"))


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


def test_whole_answers_are_what_the_sdk_says() -> None:
    for scenario in SERVED:
        expected = scenario.expectation("served")
        events = play(revive(expected["canisters"]), finish=expected["finish"], usage=usage_in(expected))
        native = json.loads(PROTOCOL.encode(events, Asked(model="m")))
        native["output"] = [one for one in native["output"] if not one["type"].startswith("acme:")]
        SdkResponse.model_validate(native)


# Reasoning of another wire is shown, and asks for nothing.


async def test_reasoning_without_an_item_is_shown_and_not_kept() -> None:
    foreign = OpaqueContent(protocol="elsewhere", kind="thinking", data=thaw({}))  # type: ignore[arg-type]
    text = TextualContent(text="Yes.")
    events = [
        TurnBegan(),
        ReasoningDelta("Hm. "),
        ReasoningDelta("Well."),
        ContentSealed(foreign),
        TextDelta("Yes."),
        ContentSealed(text),
        TurnEnded(finish="stop"),
    ]

    answer = answering_with(written(PROTOCOL, events), "text/event-stream")
    shown: list[str] = []
    async with (
        serving(answer) as (url, _),
        client_at(base_url(url, PROTOCOL)) as client,
        client.responses.stream(**ASK) as stream,
    ):
        async for event in stream:
            if event.type == "response.reasoning_summary_text.delta":
                shown.append(event.delta)
        response = await stream.get_final_response()
    assert shown == ["Hm. Well."]
    assert [one.type for one in response.output] == ["reasoning", "message"]
    returned = PROTOCOL.parse({"model": "m", "input": [one.to_dict() for one in response.output]})
    assert returned.canisters == (AssistantCanister(content=(text,)),)


def test_an_error_in_a_stream_is_in_its_events_too() -> None:
    """For programs that read events by their types: the words, and the response that failed."""
    *_, error, response = (
        json.loads(line[6:]) for line in failed(PROTOCOL, "It is gone.").split(b"\n") if line[:5] == b"data:"
    )
    assert (error["type"], error["message"], error["error"]["message"]) == ("error", "It is gone.", "It is gone.")
    assert response["response"]["error"] == {"code": "server_error", "message": "It is gone."}
