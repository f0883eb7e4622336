"""What the official clients, unmodified, make of the answers that our server halves write."""

import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import anthropic
import openai
import pytest
from starlette.requests import Request
from starlette.responses import Response

from ripieno.canisters import AssistantCanister, Canister, InvocationCanister, OpaqueContent, TextualContent
from ripieno.canisters.events import play
from ripieno.jsonvalues import parse, thaw
from ripieno.models.protocols.anthropic import PROTOCOL as MESSAGES
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from ripieno.testing.rehearsal.server import base_url
from tests.models.protocols.test_wires_golden import paced, written
from tests.support.golden_wires import ANSWERS, Scenario, addressed, named, revive, usage_in
from tests.support.loopback_servers import serving

MESSAGES_STOPS = {"stop": "end_turn", "invocations": "tool_use", "length": "max_tokens", "filter": "refusal"}
CHAT_STOPS = {"stop": "stop", "invocations": "tool_calls", "length": "length", "filter": "content_filter"}

#: Ends of which the client of chat completions makes an error.
UNWELCOME: dict[str, type[Exception]] = {
    "length": openai.LengthFinishReasonError,
    "filter": openai.ContentFilterFinishReasonError,
}
SERVED = [one for one in ANSWERS if "canisters" in one.expected]
messages_scenarios = pytest.mark.parametrize("scenario", [one for one in SERVED if one.protocol is MESSAGES], ids=named)
chat_scenarios = pytest.mark.parametrize("scenario", [one for one in SERVED if one.protocol is CHAT], ids=named)
paces = pytest.mark.parametrize("slowly", [False, True], ids=["played", "paced"])

ASK: dict[str, Any] = {"model": "house/model", "max_tokens": 99, "messages": [{"role": "user", "content": "Hi."}]}
ASK_CHAT: dict[str, Any] = {"model": "house/model", "messages": [{"role": "user", "content": "Hi."}]}


@contextlib.asynccontextmanager
async def answering(scenario: Scenario, *, slowly: bool) -> AsyncIterator[str]:
    """A server of ours that always gives the answer of a scenario; its URL."""
    protocol, expected = scenario.protocol, scenario.expectation("served")
    canisters = revive(expected["canisters"])

    async def answer(request: Request) -> Response:
        native = parse(await request.body())
        assert isinstance(native, dict)
        asked = protocol.parse(addressed(protocol, native, stream="streamGenerateContent" in request.url.path))
        events = list(play(canisters, finish=expected["finish"], usage=usage_in(expected), model=asked.model))
        if asked.controls.stream:
            data = written(protocol, paced(events) if slowly else events)
            return Response(data, media_type="text/event-stream")
        return Response(protocol.encode(events, asked), media_type="application/json")

    async with serving(answer) as (url, _):
        yield base_url(url, protocol)


def messages_client(url: str) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0)


def chat_client(url: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0)


# The Messages wire.


def blocks(canisters: Sequence[Canister]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for canister in canisters:
        if isinstance(canister, InvocationCanister):
            own = thaw(canister.opaque.get("anthropic", {}))
            block = {"type": "tool_use", "id": canister.identifier, "name": canister.name}
            found.append({**block, "input": thaw(canister.arguments), **own})
        elif isinstance(canister, AssistantCanister):
            for content in canister.content:
                if isinstance(content, TextualContent):
                    found.append({"type": "text", "text": content.text})
                elif isinstance(content, OpaqueContent):
                    found.append(thaw(content.data))
    return found


def check_message(message: Any, scenario: Scenario) -> None:
    expected = scenario.expectation("served")
    usage = usage_in(expected)
    assert [block.to_dict() for block in message.content] == blocks(revive(expected["canisters"]))
    assert message.stop_reason == MESSAGES_STOPS[expected["finish"]]
    assert message.id.startswith("msg_")
    assert message.model in ("house/model", "m")
    counted = message.usage
    assert (counted.cache_read_input_tokens, counted.output_tokens) == (usage.cache_read_tokens, usage.output_tokens)
    assert counted.input_tokens == usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens
    assert counted.output_tokens_details.thinking_tokens == usage.reasoning_tokens


@messages_scenarios
async def test_messages_whole(scenario: Scenario) -> None:
    async with answering(scenario, slowly=False) as url, messages_client(url) as client:
        check_message(await client.messages.create(**ASK), scenario)


@messages_scenarios
@paces
async def test_messages_streamed(scenario: Scenario, slowly: bool) -> None:
    """Every event is one that the client has a class for, and the blocks come one after the other."""
    expected = scenario.expectation("served")
    text, began, ended, kinds = "", list[int](), list[int](), list[str]()
    async with answering(scenario, slowly=slowly) as url, messages_client(url) as client:
        async with client.messages.stream(**ASK) as stream:
            async for event in stream:
                kinds.append(event.type)
                if event.type == "text":
                    text += event.text
                elif event.type == "content_block_start":
                    began.append(event.index)
                elif event.type == "content_block_delta":
                    assert event.index in began
                    assert event.index not in ended
                elif event.type == "content_block_stop":
                    ended.append(event.index)
            message = await stream.get_final_message()
        assert (kinds[0], kinds[-2:]) == ("message_start", ["message_delta", "message_stop"])
        assert began == list(range(len(blocks(revive(expected["canisters"])))))
        assert sorted(ended) == began
        if expected["finish"] == "length":
            # The client takes what had come of a call that was cut for all of it: its accumulator cannot be trusted.
            assert message.stop_reason == "max_tokens"
            assert message.content[-1].to_dict()["input"] == {"path": "notes.txt"}
            return
        check_message(message, scenario)
    assert text == "".join(block["text"] for block in blocks(revive(expected["canisters"])) if block["type"] == "text")


# The chat completions wire.


def said_in(canisters: Sequence[Canister]) -> str | None:
    texts = [canister.text for canister in canisters if isinstance(canister, AssistantCanister)]
    return "".join(texts) or None


def calls_in(canisters: Sequence[Canister]) -> list[tuple[str, str, Any]]:
    calls = [canister for canister in canisters if isinstance(canister, InvocationCanister)]
    return [(one.identifier, one.name, one.raw if one.fault else thaw(one.arguments)) for one in calls]


def read_call(one: Any) -> tuple[str, str, Any]:
    try:
        arguments = json.loads(one.function.arguments)
    except ValueError:
        arguments = one.function.arguments
    return one.id, one.function.name, arguments


def check_completion(completion: Any, scenario: Scenario) -> None:
    expected = scenario.expectation("served")
    canisters, usage = revive(expected["canisters"]), usage_in(expected)
    (choice,) = completion.choices
    assert (choice.message.content or None) == said_in(canisters)
    assert [read_call(one) for one in choice.message.tool_calls or ()] == calls_in(canisters)
    assert choice.finish_reason == CHAT_STOPS[expected["finish"]]
    assert completion.id.startswith("chatcmpl-")
    assert completion.model == "house/model"
    counted = completion.usage
    assert (counted.prompt_tokens, counted.completion_tokens) == (usage.input_tokens, usage.output_tokens)
    assert counted.total_tokens == usage.total_tokens
    assert counted.prompt_tokens_details.cached_tokens == usage.cache_read_tokens
    assert counted.completion_tokens_details.reasoning_tokens == usage.reasoning_tokens


@chat_scenarios
async def test_chat_whole(scenario: Scenario) -> None:
    async with answering(scenario, slowly=False) as url, chat_client(url) as client:
        check_completion(await client.chat.completions.create(**ASK_CHAT), scenario)


@chat_scenarios
@paces
async def test_chat_streamed(scenario: Scenario, slowly: bool) -> None:
    """Every chunk has its one choice, also the one with the usage."""
    expected = scenario.expectation("served")
    text, identifiers, calls = "", set[str](), dict[int, dict[str, str]]()
    done: list[str] = []
    async with (
        answering(scenario, slowly=slowly) as url,
        chat_client(url) as client,
        client.chat.completions.stream(**ASK_CHAT, stream_options={"include_usage": True}) as stream,
    ):
        async for event in stream:
            if event.type == "chunk":
                identifiers.add(event.chunk.id)
                (choice,) = event.chunk.choices
                for one in choice.delta.tool_calls or ():
                    call = calls.setdefault(one.index, {"id": "", "name": "", "arguments": ""})
                    call["id"] += one.id or ""
                    call["name"] += (one.function and one.function.name) or ""
                    call["arguments"] += (one.function and one.function.arguments) or ""
            elif event.type == "content.delta":
                text += event.delta
            elif event.type == "tool_calls.function.arguments.done":
                done.append(event.name)
        ending = UNWELCOME.get(expected["finish"])
        if ending is None:
            check_completion(await stream.get_final_completion(), scenario)
        else:
            with pytest.raises(ending):
                await stream.get_final_completion()
    canisters = revive(expected["canisters"])
    assert (text or None) == said_in(canisters)
    assert len(identifiers) == 1
    # As most programs read it.
    assert list(calls) == list(range(len(calls)))
    for one, (identifier, name, arguments) in zip(calls.values(), calls_in(canisters), strict=True):
        assert (one["id"], one["name"]) == (identifier, name)
        sent = one["arguments"]
        assert (sent if isinstance(arguments, str) else json.loads(sent)) == arguments
    if expected["finish"] == "invocations":
        assert done == [one[1] for one in calls_in(canisters)]
