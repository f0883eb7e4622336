"""The official client of the Messages wire, unmodified, through the gateway to backends of every protocol."""

import base64
import json
import pathlib
from typing import Any

import anthropic

from ripieno.canisters import (
    AssistantCanister,
    ImageContent,
    OpaqueContent,
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
TOOLS: list[Any] = [{"name": "read", "description": "Reads.", "input_schema": SCHEMA}]
WAYS = ("whole", "raw", "helper")


async def ask_for(client: anthropic.AsyncAnthropic, way: str, **ask: Any) -> tuple[list[dict[str, Any]], str]:
    """The content of one message and why it ended, as programs read them."""
    ask = {"model": "any-name", "max_tokens": 999, "messages": [{"role": "user", "content": "Go."}], **ask}
    if way == "raw":
        return await _accumulate(client, ask)
    if way == "whole":
        message = await client.messages.create(**ask)
    else:
        async with client.messages.stream(**ask) as stream:
            message = await stream.get_final_message()
    assert message.model == "any-name"
    assert message.usage.input_tokens > 0 or message.usage.output_tokens >= 0
    return [block.to_dict() for block in message.content], str(message.stop_reason)


async def _accumulate(client: anthropic.AsyncAnthropic, ask: dict[str, Any]) -> tuple[list[dict[str, Any]], str]:
    content: list[dict[str, Any]] = []
    arguments: dict[int, str] = {}
    stop = ""
    async for event in await client.messages.create(**ask, stream=True):
        if event.type == "content_block_start":
            assert event.index == len(content)
            content.append(event.content_block.to_dict())
        elif event.type == "content_block_delta":
            delta: Any = event.delta
            if delta.type == "text_delta":
                content[event.index]["text"] += delta.text
            elif delta.type == "input_json_delta":
                arguments[event.index] = arguments.get(event.index, "") + delta.partial_json
            elif delta.type == "thinking_delta":
                content[event.index]["thinking"] += delta.thinking
            elif delta.type == "signature_delta":
                content[event.index]["signature"] = delta.signature
        elif event.type == "message_delta":
            stop = str(event.delta.stop_reason)
    for index, text in arguments.items():
        content[index]["input"] = json.loads(text)
    return content, stop


def plain(content: list[dict[str, Any]]) -> list[Any]:
    """What was said and called."""
    return [block["text"].strip() if block["type"] == "text" else (block["name"], block["input"]) for block in content]


@kinds
async def test_text(kind: Kind, tmp_path: pathlib.Path) -> None:
    said = "Good morning, said the gateway; and a long text follows, in pieces."
    async with before(tmp_path, kind, [turn(said)]) as (front, backend), front.anthropic() as client:
        for way in WAYS:
            content, stop = await ask_for(client, way, system="Be brief.")
            assert ([block["text"] for block in content], stop) == ([said], "end_turn"), way
            asked = backend.asked.pop()
            assert asked.model == "small"
            assert asked.controls.stream is (way != "whole")
            assert asked.controls.output_tokens == 999
            supervisor, user = asked.canisters
            assert isinstance(supervisor, SupervisorCanister)
            assert isinstance(user, UserCanister)
            assert [text_of(one.content) for one in (supervisor, user)] == ["Be brief.", "Go."]


@kinds
async def test_calls(kind: Kind, tmp_path: pathlib.Path) -> None:
    made = [call("read", path="a.txt"), call("read", path="b.txt")]
    async with before(tmp_path, kind, [turn("I look.", calls=made)]) as (front, _), front.anthropic() as client:
        for way in WAYS:
            content, stop = await ask_for(client, way, tools=TOOLS)
            assert plain(content) == ["I look.", ("read", {"path": "a.txt"}), ("read", {"path": "b.txt"})], way
            assert stop == "tool_use"
            assert len({block["id"] for block in content[1:]}) == 2


@kinds
async def test_turns_with_results(kind: Kind, tmp_path: pathlib.Path) -> None:
    score = [
        turn("Both.", calls=[call("read", "one", path="a.txt"), call("read", "two", path="b.txt")]),
        turn(calls=[call("read", "three", path="{one.line:1}")]),
        turn("They say {one} and {two}; {three}.", expect=["one", "two", "three"]),
    ]
    async with before(tmp_path, kind, score) as (front, backend), front.anthropic() as client:
        for way in WAYS:
            messages: list[Any] = [{"role": "user", "content": "What do they say?"}]
            for _ in score:
                content, stop = await ask_for(client, way, messages=messages, tools=TOOLS)
                messages.append({"role": "assistant", "content": content})
                if stop == "tool_use":
                    results = [
                        {"type": "tool_result", "tool_use_id": one["id"], "content": one["input"]["path"].upper()}
                        for one in content
                        if one["type"] == "tool_use"
                    ]
                    messages.append({"role": "user", "content": results})
            assert plain(messages[-1]["content"]) == ["They say A.TXT and B.TXT; A.TXT."], way
            heard = [text_of(one.content) for one in backend.asked[-1].canisters if isinstance(one, ResultCanister)]
            assert heard == ["A.TXT", "B.TXT", "A.TXT"]


@kinds
async def test_images_of_the_user(kind: Kind, tmp_path: pathlib.Path) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PIXEL).decode()}
    parts = [{"type": "text", "text": "What is it?"}, {"type": "image", "source": source}]
    async with before(tmp_path, kind, [turn("A pixel.")]) as (front, backend), front.anthropic() as client:
        for way in WAYS:
            content, _ = await ask_for(client, way, messages=[{"role": "user", "content": parts}])
            assert plain(content) == ["A pixel."], way
            (user,) = [one for one in backend.asked.pop().canisters if isinstance(one, UserCanister)]
            assert user.content == (TextualContent(text="What is it?"), ImageContent(data=PIXEL, mime_type="image/png"))


@kinds
async def test_reasoning(kind: Kind, tmp_path: pathlib.Path) -> None:
    """What a backend of this wire has thought comes through, signed, and returns; that of others is left out."""

    def speaker(_: Any) -> Any:
        return says(kind, [AssistantCanister(content=(thought(kind, "Hm."), TextualContent(text="Yes.")))])

    ours = kind.name == "anthropic"
    block = {"type": "thinking", "thinking": "Hm.", "signature": "of-the-backend"}
    async with before(tmp_path, kind, speaker) as (front, backend), front.anthropic() as client:
        for way in WAYS:
            thinking = {"type": "enabled", "budget_tokens": 1024}
            content, _ = await ask_for(client, way, thinking=thinking, max_tokens=4096)
            assert content[:-1] == ([block] if ours else []), way
            assert plain(content[-1:]) == ["Yes."]
            assert backend.asked[-1].controls.reasoning == "low"
            messages = [
                {"role": "user", "content": "Go."},
                {"role": "assistant", "content": content},
                {"role": "user", "content": "Go on."},
            ]
            await ask_for(client, way, messages=messages)
            (history,) = [one for one in backend.asked[-1].canisters if isinstance(one, AssistantCanister)]
            assert any(isinstance(one, OpaqueContent) for one in history.content) is ours


@kinds
async def test_structured_output(kind: Kind, tmp_path: pathlib.Path) -> None:
    form = {"format": {"type": "json_schema", "schema": SCHEMA}}
    async with before(tmp_path, kind, [turn('{{"path": "a.txt"}}')]) as (front, backend), front.anthropic() as client:
        for way in WAYS:
            content, _ = await ask_for(client, way, output_config=form)
            assert json.loads(content[0]["text"]) == {"path": "a.txt"}, way
            wanted = backend.asked.pop().controls.format
            assert wanted is not None
            assert wanted.schema is not None
            assert wanted.schema["required"] == ("path",)
