"""The official client of chat completions, unmodified, through the gateway to backends of every protocol."""

import base64
import json
import pathlib
from typing import Any

import openai

from ripieno.canisters import (
    AssistantCanister,
    ImageContent,
    ResultCanister,
    SupervisorCanister,
    TextualContent,
    UserCanister,
)
from ripieno.canisters.contents import text_of
from ripieno.testing import call, turn
from tests.support.gateways import Kind, before, kinds, says, thought
from tests.support.hosted_runs import PIXEL

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}
TOOLS: list[Any] = [{"type": "function", "function": {"name": "read", "parameters": SCHEMA}}]
WAYS = ("whole", "raw", "helper")


async def complete(client: openai.AsyncOpenAI, way: str, **ask: Any) -> dict[str, Any]:
    """The message of one completion, its reason and its usage, as programs read them."""
    ask = {"model": "any-name", "messages": [{"role": "user", "content": "Go."}], **ask}
    if way == "raw":
        return await _accumulate(client, ask)
    if way == "whole":
        completion = await client.chat.completions.create(**ask)
    else:
        ask["stream_options"] = {"include_usage": True}
        async with client.chat.completions.stream(**ask) as stream:
            completion = await stream.get_final_completion()
    assert completion.model == "any-name"
    (choice,) = completion.choices
    assert completion.usage is not None
    message = choice.message.to_dict()
    return {
        "content": message.get("content") or "",
        "reasoning": message.get("reasoning_content"),
        "calls": [(one.id, one.function.name, one.function.arguments) for one in choice.message.tool_calls or ()],
        "reason": choice.finish_reason,
        "tokens": completion.usage.total_tokens,
    }


async def _accumulate(client: openai.AsyncOpenAI, ask: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"content": "", "reasoning": None, "calls": [], "reason": None, "tokens": 0}
    calls: list[list[str]] = []
    ask["stream_options"] = {"include_usage": True}
    async for chunk in await client.chat.completions.create(**ask, stream=True):
        assert chunk.model == "any-name"
        if chunk.usage is not None:
            found["tokens"] = chunk.usage.total_tokens
        for choice in chunk.choices:
            delta = choice.delta
            found["content"] += delta.content or ""
            if thoughts := delta.to_dict().get("reasoning_content"):
                found["reasoning"] = (found["reasoning"] or "") + str(thoughts)
            found["reason"] = choice.finish_reason or found["reason"]
            for one in delta.tool_calls or ():
                assert one.index <= len(calls)
                if one.index == len(calls):
                    calls.append(["", "", ""])
                made = one.function
                assert made is not None
                pieces = (one.id or "", made.name or "", made.arguments or "")
                calls[one.index] = [was + piece for was, piece in zip(calls[one.index], pieces, strict=True)]
    found["calls"] = [tuple(one) for one in calls]
    return found


def arguments_of(found: dict[str, Any]) -> list[Any]:
    return [json.loads(arguments) for _, _, arguments in found["calls"]]


@kinds
async def test_text(kind: Kind, tmp_path: pathlib.Path) -> None:
    said = "Good morning, said the gateway; and a long text follows, in pieces."
    messages = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Good morning."}]
    async with before(tmp_path, kind, [turn(said)]) as (front, backend), front.openai() as client:
        for way in WAYS:
            found = await complete(client, way, messages=messages)
            assert (found["content"], found["reason"], found["calls"]) == (said, "stop", []), way
            assert found["tokens"] > 0
            asked = backend.asked.pop()
            assert asked.model == "small"
            assert asked.controls.stream is (way != "whole")
            supervisor, user = asked.canisters
            assert isinstance(supervisor, SupervisorCanister)
            assert isinstance(user, UserCanister)
            assert [text_of(one.content) for one in (supervisor, user)] == ["Be brief.", "Good morning."]


@kinds
async def test_calls(kind: Kind, tmp_path: pathlib.Path) -> None:
    made = [call("read", path="a.txt"), call("read", path="b.txt")]
    async with before(tmp_path, kind, [turn("I look.", calls=made)]) as (front, _), front.openai() as client:
        for way in WAYS:
            found = await complete(client, way, tools=TOOLS)
            assert found["content"].strip() == "I look.", way
            assert found["reason"] == "tool_calls"
            assert arguments_of(found) == [{"path": "a.txt"}, {"path": "b.txt"}]
            assert {name for _, name, _ in found["calls"]} == {"read"}
            assert len({identifier for identifier, _, _ in found["calls"]}) == 2


@kinds
async def test_turns_with_results(kind: Kind, tmp_path: pathlib.Path) -> None:
    score = [
        turn("Both.", calls=[call("read", "one", path="a.txt"), call("read", "two", path="b.txt")]),
        turn(calls=[call("read", "three", path="{one.line:1}")]),
        turn("They say {one} and {two}; {three}.", expect=["one", "two", "three"]),
    ]
    async with before(tmp_path, kind, score) as (front, backend), front.openai() as client:
        for way in WAYS:
            messages: list[Any] = [{"role": "user", "content": "What do they say?"}]
            for _ in score:
                found = await complete(client, way, messages=messages, tools=TOOLS)
                calls = [
                    {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}
                    for identifier, name, arguments in found["calls"]
                ]
                messages.append(
                    {"role": "assistant", "content": found["content"], **({"tool_calls": calls} if calls else {})}
                )
                for identifier, _, arguments in found["calls"]:
                    output = json.loads(arguments)["path"].upper()
                    messages.append({"role": "tool", "tool_call_id": identifier, "content": output})
            assert messages[-1] == {"role": "assistant", "content": "They say A.TXT and B.TXT; A.TXT."}, way
            results = [text_of(one.content) for one in backend.asked[-1].canisters if isinstance(one, ResultCanister)]
            assert results == ["A.TXT", "B.TXT", "A.TXT"]


@kinds
async def test_images_of_the_user(kind: Kind, tmp_path: pathlib.Path) -> None:
    url = f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"
    parts = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": url}}]
    async with before(tmp_path, kind, [turn("A pixel.")]) as (front, backend), front.openai() as client:
        for way in WAYS:
            found = await complete(client, way, messages=[{"role": "user", "content": parts}])
            assert found["content"] == "A pixel.", way
            (user,) = [one for one in backend.asked.pop().canisters if isinstance(one, UserCanister)]
            assert user.content == (TextualContent(text="What is it?"), ImageContent(data=PIXEL, mime_type="image/png"))


@kinds
async def test_reasoning(kind: Kind, tmp_path: pathlib.Path) -> None:
    """It is shown in the field that most servers of this wire have for it."""

    def speaker(_: Any) -> Any:
        return says(kind, [AssistantCanister(content=(thought(kind, "Hm."), TextualContent(text="Yes.")))])

    async with before(tmp_path, kind, speaker) as (front, backend), front.openai() as client:
        for way in WAYS:
            found = await complete(client, way, reasoning_effort="low")
            assert (found["content"], found["reasoning"]) == ("Yes.", "Hm."), way
            assert backend.asked.pop().controls.reasoning == "low"


@kinds
async def test_structured_output(kind: Kind, tmp_path: pathlib.Path) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA, "strict": True}}
    async with before(tmp_path, kind, [turn('{{"path": "a.txt"}}')]) as (front, backend), front.openai() as client:
        for way in WAYS:
            found = await complete(client, way, response_format=form)
            assert json.loads(found["content"]) == {"path": "a.txt"}, way
            wanted = backend.asked.pop().controls.format
            assert wanted is not None
            assert wanted.schema is not None
            assert wanted.schema["required"] == ("path",)
