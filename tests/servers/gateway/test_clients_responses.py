"""The official client of the Responses wire, unmodified, through the gateway to backends of every protocol."""

import base64
import contextlib
import json
import pathlib
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import openai
import pytest
from frozendict import frozendict

from ripieno.canisters import (
    AssistantCanister,
    ImageContent,
    InvocationCanister,
    OpaqueContent,
    ResultCanister,
    SupervisorCanister,
    TextualContent,
    UserCanister,
)
from ripieno.canisters.contents import text_of
from ripieno.jsonvalues import freeze
from ripieno.testing import call, turn
from tests.support.gateways import KINDS, Backend, Front, Kind, before, kinds, says, thought
from tests.support.hosted_runs import PIXEL
from tests.support.openresponses_checker import StreamChecker, check_body

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}
READ: dict[str, Any] = {"type": "function", "name": "read", "description": "Reads.", "parameters": SCHEMA}
WRITE: dict[str, Any] = {"type": "function", "name": "write", "description": "Writes.", "parameters": SCHEMA}
WAYS = ("whole", "raw", "helper")


async def respond(client: openai.AsyncOpenAI, way: str, **ask: Any) -> Any:
    """One response, as programs ask for it."""
    ask = {"model": "any-name", "input": "Go.", **ask}
    if way == "whole":
        return await client.responses.create(**ask)
    if way == "helper":
        async with client.responses.stream(**ask) as stream:
            return await stream.get_final_response()
    last: Any = None
    async for event in await client.responses.create(**ask, stream=True):
        last = event
    assert last.type == "response.completed"
    return last.response


async def raw(front: Front, **ask: Any) -> StreamChecker:
    """A streamed response by its bytes, which are checked."""
    body = {"model": "any-name", "input": "Go.", "stream": True, **ask}
    async with front.plain() as client, client.stream("POST", "/v1/responses", json=body) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].startswith("text/event-stream")
        data = b"".join([piece async for piece in response.aiter_raw()])
    checker = StreamChecker()
    checker.write(data)
    return checker.end()


@contextlib.asynccontextmanager
async def opened(
    folder: pathlib.Path, kind: Kind, what: Any, **settings: Any
) -> AsyncGenerator[tuple[openai.AsyncOpenAI, Front, Backend], None]:
    async with before(folder, kind, what, **settings) as (front, backend), front.openai() as client:
        yield client, front, backend


def calls_of(response: Any) -> list[tuple[str, Any]]:
    return [(one.name, json.loads(one.arguments)) for one in response.output if one.type == "function_call"]


def follow(response: Any, outputs: Sequence[str]) -> list[Any]:
    """What a client sends next: the answer as it came, and the outputs of its calls."""
    said: list[Any] = [{"role": "user", "content": "Go."}, *(one.to_dict() for one in response.output)]
    calls = [one for one in response.output if one.type in ("function_call", "custom_tool_call")]
    for one, output in zip(calls, outputs, strict=True):
        said.append({"type": f"{one.type}_output", "call_id": one.call_id, "output": output})
    return said


# What is said, and what is called.


@kinds
async def test_text(kind: Kind, tmp_path: pathlib.Path) -> None:
    said = "Good morning, said the gateway; and a long text follows, in pieces."
    async with opened(tmp_path, kind, [turn(said)]) as (client, _, backend):
        for way in WAYS:
            response = await respond(client, way, input="Good morning.", instructions="Be brief.")
            assert response.output_text == said, way
            assert (response.status, response.model) == ("completed", "any-name")
            assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens > 0
            asked = backend.asked.pop()
            assert asked.model == "small"
            assert asked.controls.stream is (way != "whole")
            supervisor, user = asked.canisters
            assert isinstance(supervisor, SupervisorCanister)
            assert isinstance(user, UserCanister)
            assert [text_of(one.content) for one in (supervisor, user)] == ["Be brief.", "Good morning."]


@kinds
async def test_one_call(kind: Kind, tmp_path: pathlib.Path) -> None:
    async with opened(tmp_path, kind, [turn("I look.", calls=[call("read", path="a.txt")])]) as (client, _, backend):
        for way in WAYS:
            response = await respond(client, way, tools=[READ, WRITE])
            assert [one.type for one in response.output] == ["message", "function_call"], way
            assert response.output_text.strip() == "I look."
            assert calls_of(response) == [("read", {"path": "a.txt"})]
            assert [tool.exposed for tool in backend.asked.pop().tools] == ["read", "write"]


@kinds
async def test_parallel_calls(kind: Kind, tmp_path: pathlib.Path) -> None:
    made = [call("read", path="a.txt"), call("write", path="b.txt"), call("read", path="c.txt")]
    expected = [("read", {"path": "a.txt"}), ("write", {"path": "b.txt"}), ("read", {"path": "c.txt"})]
    async with opened(tmp_path, kind, [turn(calls=made)]) as (client, _, _):
        seen: set[tuple[str, ...]] = set()
        for way in WAYS:
            response = await respond(client, way, tools=[READ, WRITE])
            assert calls_of(response) == expected, way
            seen.add(tuple(one.call_id for one in response.output if one.type == "function_call"))
    # Identifiers are the same, whichever way it was asked for.
    ((first, second, third),) = seen
    assert len({first, second, third}) == 3


@kinds
async def test_turns_with_results(kind: Kind, tmp_path: pathlib.Path) -> None:
    score = [
        turn("Both.", calls=[call("read", "one", path="a.txt"), call("read", "two", path="b.txt")]),
        turn(calls=[call("write", "three", path="{one.line:1}")]),
        turn("They say {one} and {two}; {three}.", expect=["one", "two", "three"]),
    ]
    async with opened(tmp_path, kind, score) as (client, _, backend):
        for way in WAYS:
            said: list[Any] = [{"role": "user", "content": "What do they say?"}]
            for _ in score:
                response = await respond(client, way, input=said, tools=[READ, WRITE])
                outputs = [arguments["path"].upper() for _, arguments in calls_of(response)]
                said += follow(response, outputs)[1:]
            assert response.output_text == "They say A.TXT and B.TXT; A.TXT.", way
            results = [text_of(one.content) for one in backend.asked[-1].canisters if isinstance(one, ResultCanister)]
            assert results == ["A.TXT", "B.TXT", "A.TXT"]
    assert len(backend.asked) == 9


@kinds
async def test_images_of_the_user(kind: Kind, tmp_path: pathlib.Path) -> None:
    url = f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"
    parts = [{"type": "input_text", "text": "What is it?"}, {"type": "input_image", "image_url": url}]
    async with opened(tmp_path, kind, [turn("A pixel.")]) as (client, _, backend):
        for way in WAYS:
            response = await respond(client, way, input=[{"role": "user", "content": parts}])
            assert response.output_text == "A pixel.", way
            (user,) = [one for one in backend.asked.pop().canisters if isinstance(one, UserCanister)]
            assert user.content == (TextualContent(text="What is it?"), ImageContent(data=PIXEL, mime_type="image/png"))


@kinds
async def test_reasoning(kind: Kind, tmp_path: pathlib.Path) -> None:
    """It is shown; what the client sends back of it does no harm, and returns where it came from the same wire."""

    def speaker(asked: Any) -> Any:
        if any(isinstance(one, ResultCanister) for one in asked.canisters):
            return says(kind, [AssistantCanister.of("It is A.")])
        invocation = InvocationCanister(identifier="call_1", name="read", arguments=freeze({"path": "a.txt"}))
        return says(kind, [AssistantCanister(content=(thought(kind, "Both, then."),)), invocation])

    ask: dict[str, Any] = {"tools": [READ], "reasoning": {"effort": "high"}}
    async with opened(tmp_path, kind, speaker) as (client, front, backend):
        for way in WAYS:
            response = await respond(client, way, **ask)
            (reasoning,) = [one for one in response.output if one.type == "reasoning"]
            assert [part.text for part in reasoning.summary] == ["Both, then."], way
            assert backend.asked[-1].controls.reasoning == "high"
            again = await respond(client, way, input=follow(response, ["A"]), **ask)
            assert again.output_text == "It is A."
            history = [one for one in backend.asked[-1].canisters if isinstance(one, AssistantCanister)]
            returned = [one for canister in history for one in canister.content if isinstance(one, OpaqueContent)]
            assert bool(returned) is (kind.name == "openai-responses")
        items = (await raw(front, **ask)).response["output"]
    assert [item["type"] for item in items] == ["reasoning", "function_call"]


@kinds
async def test_structured_output(kind: Kind, tmp_path: pathlib.Path) -> None:
    text = {"format": {"type": "json_schema", "name": "place", "schema": SCHEMA, "strict": True}}
    async with opened(tmp_path, kind, [turn('{{"path": "a.txt"}}')]) as (client, _, backend):
        for way in WAYS:
            response = await respond(client, way, text=text)
            assert json.loads(response.output_text) == {"path": "a.txt"}, way
            wanted = backend.asked.pop().controls.format
            assert wanted is not None
            assert wanted.kind == "json_schema"
            assert wanted.schema is not None
            assert wanted.schema["required"] == ("path",)
            assert response.text.format.name == "place"


# Tools of other kinds.


@kinds
async def test_tools_in_namespaces(kind: Kind, tmp_path: pathlib.Path) -> None:
    """Each comes back under the names that the client gave it, and is known again in its history."""
    space = {"type": "namespace", "name": "mcp__files", "description": "Files.", "tools": [READ, WRITE]}
    tools: list[Any] = [READ, space]
    score = [
        turn(calls=[call("mcp__files__read", "one", path="a.txt"), call("read", "two", path="b.txt")]),
        turn("{one} {two}", expect=["one", "two"]),
    ]
    async with opened(tmp_path, kind, score) as (client, front, backend):
        for way in WAYS:
            response = await respond(client, way, tools=tools)
            made = [(one.name, getattr(one, "namespace", None)) for one in response.output if hasattr(one, "call_id")]
            assert made == [("read", "mcp__files"), ("read", None)], way
            again = await respond(client, way, input=follow(response, ["ONE", "TWO"]), tools=tools)
            assert again.output_text == "ONE TWO"
        items = (await raw(front, tools=tools)).response["output"]
    assert [item.get("namespace") for item in items if item["type"] == "function_call"] == ["mcp__files", None]
    assert {tool.exposed for tool in backend.asked[0].tools} == {"read", "mcp__files__read", "mcp__files__write"}


@kinds
async def test_free_form_tools(kind: Kind, tmp_path: pathlib.Path) -> None:
    """A tool that takes any text is called as such, whatever the backend knows."""
    patch = '*** Begin Patch\n"quoted" \\ and ünusual\n*** End Patch'
    tools: list[Any] = [{"type": "custom", "name": "apply_patch", "description": "Patches."}, READ]
    score = [turn(calls=[call("apply_patch", "one", input=patch)]), turn("{one}", expect=["one"])]
    async with opened(tmp_path, kind, score) as (client, front, backend):
        for way in WAYS:
            response = await respond(client, way, tools=tools)
            (made,) = [one for one in response.output if one.type == "custom_tool_call"]
            assert (made.name, made.input) == ("apply_patch", patch), way
            again = await respond(client, way, input=follow(response, ["Done."]), tools=tools)
            assert again.output_text == "Done."
        checked = await raw(front, tools=tools)
    (item,) = [item for item in checked.response["output"] if item["type"] == "custom_tool_call"]
    assert item["input"] == patch
    assert {tool.exposed for tool in backend.asked[0].tools} == {"apply_patch", "read"}


# Every stream by its bytes.


@kinds
async def test_streams_are_what_the_public_schema_says(kind: Kind, tmp_path: pathlib.Path) -> None:
    said = turn("I look at both.", calls=[call("read", path="a.txt"), call("write", path="ü")])
    async with opened(tmp_path, kind, [said]) as (_, front, _):
        checker = await raw(front, tools=[READ, WRITE])
        async with front.plain() as client:
            whole = await client.post("/v1/responses", json={"model": "m", "input": "Go.", "tools": [READ, WRITE]})
    check_body(whole.content)
    assert [item["type"] for item in checker.response["output"]] == ["message", "function_call", "function_call"]
    told = [(one["name"], json.loads(one["arguments"])) for one in checker.response["output"][1:]]
    assert told == [("read", {"path": "a.txt"}), ("write", {"path": "ü"})]
    told_whole = [one for one in whole.json()["output"] if one["type"] == "function_call"]
    assert [(one["name"], json.loads(one["arguments"])) for one in told_whole] == told


@kinds
async def test_the_accumulating_helper_tells_everything(kind: Kind, tmp_path: pathlib.Path) -> None:
    score = [turn("I look at it.", calls=[call("read", path="a.txt")])]
    text, arguments = "", ""
    tools: list[Any] = [READ]
    async with (
        opened(tmp_path, kind, score) as (client, _, _),
        client.responses.stream(model="m", input="Go.", tools=tools) as stream,
    ):
        async for event in stream:
            if event.type == "response.output_text.delta":
                text += event.delta
            elif event.type == "response.function_call_arguments.delta":
                arguments += event.delta
                assert event.snapshot == arguments
    assert text.strip() == "I look at it."
    assert json.loads(arguments) == {"path": "a.txt"}


@pytest.mark.parametrize("name", ["small", "back/small"])
async def test_a_model_is_known_by_its_names(name: str, tmp_path: pathlib.Path) -> None:
    settings: dict[str, Any] = {"map": frozendict[str, str](), "models": ("back/small",)}
    async with opened(tmp_path, KINDS["openai-chat"], [turn("Yes.")], **settings) as (client, _, backend):
        assert (await respond(client, "whole", model=name)).model == name
        assert (await client.models.retrieve(name)).id == name
        assert {one.id async for one in client.models.list()} == {"small", "back/small"}
    assert backend.asked[0].model == "small"
