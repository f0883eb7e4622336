"""The official clients of three wires, unmodified, through the gateway to backends of every protocol."""

import base64
import dataclasses
import json
import pathlib
from collections.abc import Sequence
from typing import Any

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
from tests.support.gateways import KINDS, Front, Kind, before, kinds, says, thought, ways
from tests.support.hosted_runs import PIXEL

NAME = "any-name"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}
IMAGE = base64.b64encode(PIXEL).decode()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a program reads of an answer, and what it sends back of it."""

    text: str
    calls: list[tuple[str, str, Any]]
    reasoning: str | None
    #: Why it ended: with a word, or with calls.
    end: str
    history: list[Any]
    tokens: int


class Chat:
    """The client of chat completions."""

    name = "openai-chat"
    ends = ("stop", "tool_calls")
    image: Sequence[Any] = (
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}"}},
    )

    def request(self, history: list[Any], **wants: Any) -> dict[str, Any]:
        tools = [
            {"type": "function", "function": {"name": one, "parameters": SCHEMA}} for one in wants.get("tools", ())
        ]
        system = [{"role": "developer", "content": wants["system"]}] if "system" in wants else []
        schema = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA, "strict": True}}
        return {
            "messages": [*system, *history],
            **({"tools": tools} if tools else {}),
            **({"response_format": schema} if "form" in wants else {}),
            **({"reasoning_effort": "low"} if "thinks" in wants else {}),
        }

    async def ask(self, front: Front, way: str, history: list[Any], **wants: Any) -> Answer:
        asks = {"model": NAME, **self.request(history, **wants)}
        async with front.openai() as client:
            if way == "raw":
                message, end, tokens = await self._accumulate(client, asks)
            elif way == "whole":
                completion = await client.chat.completions.create(**asks)
                message, end, tokens = self._read(completion)
            else:
                async with client.chat.completions.stream(**asks, stream_options={"include_usage": True}) as stream:
                    message, end, tokens = self._read(await stream.get_final_completion())
        calls = message.get("tool_calls") or []
        return Answer(
            text=message.get("content") or "",
            calls=[(one["id"], one["function"]["name"], json.loads(one["function"]["arguments"])) for one in calls],
            reasoning=message.get("reasoning_content"),
            end=end,
            history=[
                {"role": "assistant", "content": message.get("content"), **({"tool_calls": calls} if calls else {})}
            ],
            tokens=tokens,
        )

    def _read(self, completion: Any) -> tuple[dict[str, Any], str, int]:
        assert completion.model == NAME
        (choice,) = completion.choices
        return choice.message.to_dict(), choice.finish_reason, completion.usage.total_tokens

    async def _accumulate(self, client: Any, asks: dict[str, Any]) -> tuple[dict[str, Any], str, int]:
        message: dict[str, Any] = {"content": "", "reasoning_content": "", "tool_calls": []}
        end, tokens = "", 0
        stream = await client.chat.completions.create(**asks, stream=True, stream_options={"include_usage": True})
        async for chunk in stream:
            assert chunk.model == NAME
            tokens = chunk.usage.total_tokens if chunk.usage is not None else tokens
            for choice in chunk.choices:
                message["content"] += choice.delta.content or ""
                message["reasoning_content"] += choice.delta.to_dict().get("reasoning_content") or ""
                end = choice.finish_reason or end
                for one in choice.delta.tool_calls or ():
                    if one.index == len(message["tool_calls"]):
                        function = {"name": one.function.name, "arguments": ""}
                        message["tool_calls"].append({"id": one.id, "type": "function", "function": function})
                    message["tool_calls"][one.index]["function"]["arguments"] += one.function.arguments or ""
        return {key: value or None for key, value in message.items()}, end, tokens

    def results(self, answer: Answer, outputs: Sequence[str]) -> list[Any]:
        pairs = zip(answer.calls, outputs, strict=True)
        return [{"role": "tool", "tool_call_id": one, "content": output} for (one, _, _), output in pairs]


class Messages:
    """The client of the Messages wire."""

    name = "anthropic"
    ends = ("end_turn", "tool_use")
    image: Sequence[Any] = (
        {"type": "text", "text": "What is it?"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}},
    )

    def request(self, history: list[Any], **wants: Any) -> dict[str, Any]:
        tools = [{"name": one, "description": "A tool.", "input_schema": SCHEMA} for one in wants.get("tools", ())]
        return {
            "messages": history,
            "max_tokens": 4096,
            **({"system": wants["system"]} if "system" in wants else {}),
            **({"tools": tools} if tools else {}),
            **({"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}} if "form" in wants else {}),
            **({"thinking": {"type": "enabled", "budget_tokens": 1024}} if "thinks" in wants else {}),
        }

    async def ask(self, front: Front, way: str, history: list[Any], **wants: Any) -> Answer:
        asks = {"model": NAME, **self.request(history, **wants)}
        async with front.anthropic() as client:
            if way == "raw":
                content, end, tokens = await self._accumulate(client, asks)
            else:
                if way == "whole":
                    message = await client.messages.create(**asks)
                else:
                    async with client.messages.stream(**asks) as stream:
                        message = await stream.get_final_message()
                assert message.model == NAME
                content, end = [block.to_dict() for block in message.content], str(message.stop_reason)
                tokens = message.usage.output_tokens
        thinking = [block for block in content if block["type"] == "thinking"]
        assert [block["signature"] for block in thinking] == ["of-the-backend"] * len(thinking)
        return Answer(
            text="".join(block["text"] for block in content if block["type"] == "text"),
            calls=[(block["id"], block["name"], block["input"]) for block in content if block["type"] == "tool_use"],
            reasoning=thinking[0]["thinking"] if thinking else None,
            end=end,
            history=[{"role": "assistant", "content": content}],
            tokens=tokens,
        )

    async def _accumulate(self, client: Any, asks: dict[str, Any]) -> tuple[list[dict[str, Any]], str, int]:
        content: list[dict[str, Any]] = []
        arguments: dict[int, str] = {}
        end, tokens = "", 0
        members = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
        async for event in await client.messages.create(**asks, stream=True):
            if event.type == "content_block_start":
                assert event.index == len(content)
                content.append(event.content_block.to_dict())
            elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                arguments[event.index] = arguments.get(event.index, "") + event.delta.partial_json
            elif event.type == "content_block_delta":
                member = members[event.delta.type]
                content[event.index][member] = content[event.index].get(member, "") + getattr(event.delta, member)
            elif event.type == "message_delta":
                end, tokens = str(event.delta.stop_reason), event.usage.output_tokens
        for index, text in arguments.items():
            content[index]["input"] = json.loads(text)
        return content, end, tokens

    def results(self, answer: Answer, outputs: Sequence[str]) -> list[Any]:
        pairs = zip(answer.calls, outputs, strict=True)
        blocks = [{"type": "tool_result", "tool_use_id": one, "content": output} for (one, _, _), output in pairs]
        return [{"role": "user", "content": blocks}]


class Responses:
    """The client of the Responses wire."""

    name = "openai-responses"
    ends = ("completed", "completed")
    image: Sequence[Any] = (
        {"type": "input_text", "text": "What is it?"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{IMAGE}"},
    )

    def request(self, history: list[Any], **wants: Any) -> dict[str, Any]:
        tools = [function(one) if isinstance(one, str) else one for one in wants.get("tools", ())]
        schema = {"format": {"type": "json_schema", "name": "place", "schema": SCHEMA, "strict": True}}
        return {
            "input": history,
            **({"instructions": wants["system"]} if "system" in wants else {}),
            **({"tools": tools} if tools else {}),
            **({"text": schema} if "form" in wants else {}),
            **({"reasoning": {"effort": "low"}} if "thinks" in wants else {}),
        }

    async def respond(self, front: Front, way: str, history: list[Any], **wants: Any) -> Any:
        asks = {"model": NAME, **self.request(history, **wants)}
        async with front.openai() as client:
            if way == "whole":
                return await client.responses.create(**asks)
            if way == "helper":
                async with client.responses.stream(**asks) as stream:
                    return await stream.get_final_response()
            async for event in await client.responses.create(**asks, stream=True):
                last: Any = event
            assert last.type == "response.completed"
            return last.response

    async def ask(self, front: Front, way: str, history: list[Any], **wants: Any) -> Answer:
        response = await self.respond(front, way, history, **wants)
        assert response.model == NAME
        assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
        made = [one for one in response.output if one.type == "function_call"]
        thoughts = [part.text for one in response.output if one.type == "reasoning" for part in one.summary]
        return Answer(
            text=response.output_text,
            calls=[(one.call_id, one.name, json.loads(one.arguments)) for one in made],
            reasoning=thoughts[0] if thoughts else None,
            end=response.status,
            history=[one.to_dict() for one in response.output],
            tokens=response.usage.total_tokens,
        )

    def results(self, answer: Answer, outputs: Sequence[str]) -> list[Any]:
        calls = [one for one in answer.history if one["type"] in ("function_call", "custom_tool_call")]
        pairs = zip(calls, outputs, strict=True)
        return [{"type": f"{one['type']}_output", "call_id": one["call_id"], "output": output} for one, output in pairs]


def function(name: str) -> dict[str, Any]:
    return {"type": "function", "name": name, "description": "A tool.", "parameters": SCHEMA}


RESPONSES = Responses()
CLIENTS = (RESPONSES, Chat(), Messages())
GO = [{"role": "user", "content": "Go."}]


def asked_by(kind: Kind) -> list[tuple[Any, str]]:
    """The clients, and the ways in which each asks."""
    return [(client, way) for client in CLIENTS for way in ways(kind)]


@kinds
async def test_text(kind: Kind, tmp_path: pathlib.Path) -> None:
    said = "Good morning, said the gateway; and a long text follows, in pieces."
    async with before(tmp_path, kind, [turn(said)]) as (front, backend):
        for client, way in asked_by(kind):
            answer = await client.ask(front, way, GO, system="Be brief.")
            assert (answer.text, answer.calls, answer.end) == (said, [], client.ends[0]), (client.name, way)
            assert answer.tokens > 0
            asked = backend.asked.pop()
            assert asked.model == "small"
            assert asked.controls.stream is (way != "whole")
            assert asked.controls.output_tokens == 4096 or client.name != "anthropic"
            supervisor, user = asked.canisters
            assert isinstance(supervisor, SupervisorCanister)
            assert isinstance(user, UserCanister)
            assert [text_of(one.content) for one in (supervisor, user)] == ["Be brief.", "Go."]


@kinds
async def test_turns_with_results(kind: Kind, tmp_path: pathlib.Path) -> None:
    score = [
        turn("Both.", calls=[call("read", "one", path="a.txt"), call("write", "two", path="b.txt")]),
        turn(calls=[call("read", "three", path="{one.line:1}")]),
        turn("They say {one} and {two}; {three}.", expect=["one", "two", "three"]),
    ]
    calls = [[("read", {"path": "a.txt"}), ("write", {"path": "b.txt"})], [("read", {"path": "A.TXT"})], []]
    async with before(tmp_path, kind, score) as (front, backend):
        for client, way in asked_by(kind):
            history: list[Any] = list(GO)
            for number, expected in enumerate(calls):
                answer = await client.ask(front, way, history, tools=("read", "write"))
                assert [made[1:] for made in answer.calls] == expected, (client.name, way)
                assert len({identifier for identifier, _, _ in answer.calls}) == len(expected)
                assert answer.end == client.ends[number < 2]
                assert answer.text.strip() == ("Both.", "", "They say A.TXT and B.TXT; A.TXT.")[number]
                history += answer.history
                if answer.calls:
                    history += client.results(answer, [made["path"].upper() for _, _, made in answer.calls])
            assert [tool.exposed for tool in backend.asked[-1].tools] == ["read", "write"]
            results = [text_of(one.content) for one in backend.asked[-1].canisters if isinstance(one, ResultCanister)]
            assert results == ["A.TXT", "B.TXT", "A.TXT"]


async def test_identifiers_of_calls_are_the_same_in_every_way(tmp_path: pathlib.Path) -> None:
    kind = KINDS["openai-chat"]
    made = [call("read", path="a.txt"), call("write", path="b.txt"), call("read", path="c.txt")]
    async with before(tmp_path, kind, [turn(calls=made)]) as (front, _):
        answers = [await RESPONSES.ask(front, way, GO, tools=("read", "write")) for way in ways(kind)]
    assert len({tuple(identifier for identifier, _, _ in answer.calls) for answer in answers}) == 1


@kinds
async def test_images_of_the_user(kind: Kind, tmp_path: pathlib.Path) -> None:
    async with before(tmp_path, kind, [turn("A pixel.")]) as (front, backend):
        for client, way in asked_by(kind):
            answer = await client.ask(front, way, [{"role": "user", "content": client.image}])
            assert answer.text == "A pixel.", (client.name, way)
            (user,) = [one for one in backend.asked.pop().canisters if isinstance(one, UserCanister)]
            assert user.content == (TextualContent(text="What is it?"), ImageContent(data=PIXEL, mime_type="image/png"))


@kinds
async def test_reasoning(kind: Kind, tmp_path: pathlib.Path) -> None:
    """Clients of OpenAI's wires always read it, that of Messages with its signature; it returns over its own wire."""

    def speaker(_: Any) -> Any:
        return says(kind, [AssistantCanister(content=(thought(kind, "Hm."), TextualContent(text="Yes.")))])

    async with before(tmp_path, kind, speaker) as (front, backend):
        for client, way in asked_by(kind):
            answer = await client.ask(front, way, GO, thinks=True)
            shown = client.name != "anthropic" or kind.name == "anthropic"
            assert (answer.text, answer.reasoning) == ("Yes.", "Hm." if shown else None), (client.name, way)
            assert backend.asked[-1].controls.reasoning == "low"
            history = [*GO, *answer.history, {"role": "user", "content": "Go on."}]
            await client.ask(front, way, history, thinks=True)
            before_it = [one for one in backend.asked[-1].canisters if isinstance(one, AssistantCanister)]
            returned = [one for canister in before_it for one in canister.content if isinstance(one, OpaqueContent)]
            assert bool(returned) is (client.name == kind.name != "openai-chat")


@kinds
async def test_structured_output(kind: Kind, tmp_path: pathlib.Path) -> None:
    async with before(tmp_path, kind, [turn('{{"path": "a.txt"}}')]) as (front, backend):
        for client, way in asked_by(kind):
            answer = await client.ask(front, way, GO, form=True)
            assert json.loads(answer.text) == {"path": "a.txt"}, (client.name, way)
            wanted = backend.asked.pop().controls.format
            assert wanted is not None
            assert (wanted.kind, wanted.schema and wanted.schema["required"]) == ("json_schema", ("path",))


# What only the Responses wire has.


@kinds
async def test_tools_in_namespaces(kind: Kind, tmp_path: pathlib.Path) -> None:
    """Each comes back under the names that the client gave it, and is known again in its history."""
    inner = [function("read"), function("write")]
    space = {"type": "namespace", "name": "mcp__files", "description": "Files.", "tools": inner}
    score = [
        turn(calls=[call("mcp__files__read", "one", path="a.txt"), call("read", "two", path="b.txt")]),
        turn("{one} {two}", expect=["one", "two"]),
    ]
    async with before(tmp_path, kind, score) as (front, backend):
        for way in ways(kind):
            answer = await RESPONSES.ask(front, way, GO, tools=("read", space))
            made = [(one["name"], one.get("namespace")) for one in answer.history if "call_id" in one]
            assert made == [("read", "mcp__files"), ("read", None)], way
            history = [*GO, *answer.history, *RESPONSES.results(answer, ["ONE", "TWO"])]
            assert (await RESPONSES.ask(front, way, history, tools=("read", space))).text == "ONE TWO"
    assert {tool.exposed for tool in backend.asked[0].tools} == {"read", "mcp__files__read", "mcp__files__write"}


@kinds
async def test_free_form_tools(kind: Kind, tmp_path: pathlib.Path) -> None:
    """A tool that takes any text is called as such, whatever the backend knows."""
    patch = '*** Begin Patch\n"quoted" \\ and ünusual\n*** End Patch'
    tools: Sequence[Any] = ({"type": "custom", "name": "apply_patch", "description": "Patches."}, "read")
    score = [turn(calls=[call("apply_patch", "one", input=patch)]), turn("{one}", expect=["one"])]
    async with before(tmp_path, kind, score) as (front, backend):
        for way in ways(kind):
            answer = await RESPONSES.ask(front, way, GO, tools=tools)
            (made,) = [one for one in answer.history if one["type"] == "custom_tool_call"]
            assert (made["name"], made["input"]) == ("apply_patch", patch), way
            history = [*GO, *answer.history, *RESPONSES.results(answer, ["Done."])]
            assert (await RESPONSES.ask(front, way, history, tools=tools)).text == "Done."
    assert {tool.exposed for tool in backend.asked[0].tools} == {"apply_patch", "read"}
