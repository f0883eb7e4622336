"""The official clients of three wires, unmodified, through the gateway to backends of every protocol."""

import dataclasses
import json
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import openai
import pytest

from ripieno.canisters import AssistantCanister, InvocationCanister, OpaqueContent, ResultCanister, TextualContent
from ripieno.canisters.contents import text_of
from ripieno.canisters.events import Event
from ripieno.jsonvalues import freeze
from ripieno.models.protocol import Asked
from ripieno.testing import call, turn
from tests.support.gateways import KINDS, Front, Kind, before, kinds, says, thought, ways
from tests.support.openresponses_checker import check_body, check_stream

NAME = "any-name"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a program reads of an answer, and what it sends back of it."""

    text: str
    calls: list[tuple[str, str, Any]]
    reasoning: str | None
    #: Why it ended: with a word, or with calls.
    end: str
    history: list[Any]


class Chat:
    """The client of chat completions."""

    name = "openai-chat"
    ends = ("stop", "tool_calls")

    def request(self, history: list[Any], **wants: Any) -> dict[str, Any]:
        tools = [
            {"type": "function", "function": {"name": one, "parameters": SCHEMA}} for one in wants.get("tools", ())
        ]
        return {
            "messages": history,
            **({"tools": tools} if tools else {}),
            **({"reasoning_effort": "low"} if "thinks" in wants else {}),
        }

    async def ask(self, front: Front, way: str, history: list[Any], **wants: Any) -> Answer:
        asks = {"model": NAME, **self.request(history, **wants)}
        async with front.openai() as client:
            if way == "whole":
                completion = await client.chat.completions.create(**asks)
                message, end = self._read(completion)
            else:
                async with client.chat.completions.stream(**asks) as stream:
                    message, end = self._read(await stream.get_final_completion())
        calls = message.get("tool_calls") or []
        return Answer(
            text=message.get("content") or "",
            calls=[(one["id"], one["function"]["name"], json.loads(one["function"]["arguments"])) for one in calls],
            reasoning=message.get("reasoning_content"),
            end=end,
            history=[
                {"role": "assistant", "content": message.get("content"), **({"tool_calls": calls} if calls else {})}
            ],
        )

    def _read(self, completion: Any) -> tuple[dict[str, Any], str]:
        assert completion.model == NAME
        (choice,) = completion.choices
        return choice.message.to_dict(), choice.finish_reason

    def results(self, answer: Answer, outputs: Sequence[str]) -> list[Any]:
        pairs = zip(answer.calls, outputs, strict=True)
        return [{"role": "tool", "tool_call_id": one, "content": output} for (one, _, _), output in pairs]


class Messages:
    """The client of the Messages wire."""

    name = "anthropic"
    ends = ("end_turn", "tool_use")

    def request(self, history: list[Any], **wants: Any) -> dict[str, Any]:
        tools = [{"name": one, "description": "A tool.", "input_schema": SCHEMA} for one in wants.get("tools", ())]
        return {
            "messages": history,
            "max_tokens": 4096,
            **({"tools": tools} if tools else {}),
            **({"thinking": {"type": "enabled", "budget_tokens": 1024}} if "thinks" in wants else {}),
        }

    async def ask(self, front: Front, way: str, history: list[Any], **wants: Any) -> Answer:
        asks = {"model": NAME, **self.request(history, **wants)}
        async with front.anthropic() as client:
            if way == "whole":
                message = await client.messages.create(**asks)
            else:
                async with client.messages.stream(**asks) as stream:
                    message = await stream.get_final_message()
        assert message.model == NAME
        content = [block.to_dict() for block in message.content]
        thinking = [block for block in content if block["type"] == "thinking"]
        assert [block["signature"] for block in thinking] == ["of-the-backend"] * len(thinking)
        return Answer(
            text="".join(block["text"] for block in content if block["type"] == "text"),
            calls=[(block["id"], block["name"], block["input"]) for block in content if block["type"] == "tool_use"],
            reasoning=thinking[0]["thinking"] if thinking else None,
            end=str(message.stop_reason),
            history=[{"role": "assistant", "content": content}],
        )

    def results(self, answer: Answer, outputs: Sequence[str]) -> list[Any]:
        pairs = zip(answer.calls, outputs, strict=True)
        blocks = [{"type": "tool_result", "tool_use_id": one, "content": output} for (one, _, _), output in pairs]
        return [{"role": "user", "content": blocks}]


class Responses:
    """The client of the Responses wire."""

    name = "openai-responses"
    ends = ("completed", "completed")

    def request(self, history: list[Any], **wants: Any) -> dict[str, Any]:
        tools = [
            {"type": "function", "name": one, "description": "A tool.", "parameters": SCHEMA}
            for one in wants.get("tools", ())
        ]
        return {
            "input": history,
            **({"tools": tools} if tools else {}),
            **({"reasoning": {"effort": "low"}} if "thinks" in wants else {}),
        }

    async def ask(self, front: Front, way: str, history: list[Any], **wants: Any) -> Answer:
        asks = {"model": NAME, **self.request(history, **wants)}
        async with front.openai() as client:
            if way == "whole":
                response = await client.responses.create(**asks)
            else:
                async with client.responses.stream(**asks) as stream:
                    response = await stream.get_final_response()
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
        )

    def results(self, answer: Answer, outputs: Sequence[str]) -> list[Any]:
        pairs = zip(answer.calls, outputs, strict=True)
        return [{"type": "function_call_output", "call_id": one, "output": output} for (one, _, _), output in pairs]


CLIENTS = (Responses(), Chat(), Messages())
GO: list[Any] = [{"role": "user", "content": "Go."}]


def asked_by(kind: Kind) -> list[tuple[Any, str]]:
    """The clients, and the ways in which each asks."""
    return [(client, way) for client in CLIENTS for way in ("whole", "helper") if way in ways(kind)]


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


#: What chat clients send beside the usual controls, and which of it a backend's wire has no word for.
TUNING: dict[str, Any] = {"seed": 0, "presence_penalty": 0.5, "frequency_penalty": -1, "logit_bias": {"50256": -100}}
TUNING |= {"logprobs": True, "top_logprobs": 2}
LACKING = {
    "anthropic": [*TUNING],
    "gemini": ["logit_bias", "logprobs", "top_logprobs"],
    "openai-responses": ["seed", "logit_bias", "logprobs", "top_logprobs"],
}


@kinds
async def test_seeds_and_penalties_reach_the_backends_that_have_them(kind: Kind, tmp_path: pathlib.Path) -> None:
    lacking = LACKING.get(kind.name, [])
    async with before(tmp_path, kind, [turn("Yes.")]) as (front, backend), front.openai() as client:
        passed = {name: value for name, value in TUNING.items() if name not in lacking}
        await client.chat.completions.create(model="m", messages=GO, **passed)
        controls = backend.asked[-1].controls
        assert {name: value for name in TUNING if (value := getattr(controls, name)) is not None} == passed
        for name in lacking:
            with pytest.raises(openai.BadRequestError, match=f"wire has no {name} here: leave it out") as caught:
                await client.chat.completions.create(model="m", messages=GO, **{name: TUNING[name]})
            assert caught.value.param == name
        assert len(backend.asked) == 1


# The choice among a client's own tools, held against any backend.

NAMES = ("read", "write", "erase")
FUNCTIONS: list[Any] = [{"type": "function", "name": name, "parameters": SCHEMA} for name in NAMES]


def calls_all(kind: Kind, text: str = "All of it.") -> Any:
    """A backend that calls every tool, and listens to nobody."""

    def speaker(_: Asked) -> Iterable[Event]:
        calls = [
            InvocationCanister(identifier=f"call_{number}", name=name, arguments=freeze({"path": name}))
            for number, name in enumerate(NAMES)
        ]
        return says(kind, [AssistantCanister.of(text) if text else AssistantCanister(), *calls])

    return speaker


def allowing(*names: str) -> dict[str, Any]:
    return {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": name} for name in names]}


#: Calls that come as such, and calls that are found in the text.
two_kinds = pytest.mark.parametrize("kind", [KINDS["openai-chat"], KINDS["prompted"]], ids=lambda kind: kind.name)


# Whatever the backend does, a client gets nothing that it has forbidden.


@two_kinds
async def test_what_is_forbidden_never_comes(kind: Kind, tmp_path: pathlib.Path) -> None:
    async with before(tmp_path, kind, calls_all(kind)) as (front, _), front.openai() as client:
        for stream in (False, True):
            for asked, called in (
                ({"tool_choice": allowing("write", "read")}, ["read", "write"]),
                ({"tool_choice": "none"}, []),
                ({"tool_choice": {"type": "function", "name": "erase"}}, ["erase"]),
                ({"parallel_tool_calls": False}, ["read"]),
                # The forms of seed 004.
                ({"extra_body": {"allowed_tools": []}}, []),
                ({"extra_body": {"allowed_tools": ["erase"]}}, ["erase"]),
                (
                    {"tool_choice": allowing("write", "read"), "extra_body": {"allowed_tools": ["erase", "read"]}},
                    ["read"],
                ),
                ({"tool_choice": {"type": "auto"}}, list(NAMES)),
                ({"tool_choice": {"forced_tool": {"type": "function", "name": "write"}}}, ["write"]),
            ):
                response = await _responses(client, stream, tools=FUNCTIONS, **asked)
                assert [one.name for one in response.output if one.type == "function_call"] == called, asked
                assert response.output_text.startswith("All of it.")


@pytest.mark.parametrize("declared", [("write",), ()])
async def test_a_call_of_a_tool_that_the_request_does_not_declare_never_comes(
    declared: tuple[str, ...], tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    kind = KINDS["openai-chat"]
    async with before(tmp_path, kind, calls_all(kind)) as (front, _):
        for client in (Responses(), Chat(), Messages()):
            for way in ("whole", "streamed"):
                caplog.clear()
                answer = await client.ask(front, way, GO, tools=declared)
                assert [name for _, name, _ in answer.calls] == list(declared), (client.name, way)
                assert answer.text.startswith("All of it.")
                assert answer.end == client.ends[bool(declared)]
                assert "called erase, which this request does not declare: call omitted." in caplog.text
    async with before(tmp_path, kind, calls_all(kind, "")) as (front, _), front.openai() as plain:
        for stream in (False, True):
            with pytest.raises(openai.APIError, match="only called tools that this request does not declare"):
                await _responses(plain, stream)


async def test_where_nothing_is_left_there_is_an_error(tmp_path: pathlib.Path) -> None:
    kind = KINDS["openai-chat"]
    async with before(tmp_path, kind, calls_all(kind, "")) as (front, _), front.openai() as client:
        with pytest.raises(openai.APIError, match="does not allow"):
            await _responses(client, False, tools=FUNCTIONS, tool_choice="none")
        with pytest.raises(openai.APIError, match="does not allow"):
            await _responses(client, True, tools=FUNCTIONS, tool_choice="none")


async def test_a_filtered_stream_has_no_gaps(tmp_path: pathlib.Path) -> None:
    """Indices and numbers go on where calls are left out."""
    kind = KINDS["openai-chat"]
    body = {"model": "m", "input": "Go.", "tools": FUNCTIONS, "tool_choice": allowing("erase"), "stream": True}
    async with before(tmp_path, kind, calls_all(kind)) as (front, _), front.plain() as client:
        data = (await client.post("/v1/responses", json=body)).content
    checker = check_stream([data])
    assert [item.get("name") for item in checker.response["output"]] == [None, "erase"]
    assert json.loads(checker.response["output"][1]["arguments"]) == {"path": "erase"}


async def _responses(client: openai.AsyncOpenAI, stream: bool, **ask: Any) -> Any:
    if not stream:
        return await client.responses.create(model="m", input="Go.", **ask)
    async with client.responses.stream(model="m", input="Go.", **ask) as events:
        return await events.get_final_response()


# Tools that run in the gateway.

SHELL: Any = {"type": "function", "name": "shell", "parameters": {"type": "object"}}
#: Files are read here, and a command is the client's; then both are told.
SCORE = [
    turn("I look.", calls=[call("read_file", "a", path="a.txt"), call("shell", "ran", command="ls")]),
    turn(calls=[call("read_file", "b", path="b.txt")]),
    turn("{a.line:1}, {b.line:1}, {ran}", expect=["a", "b", "ran"]),
]


def files(folder: pathlib.Path) -> None:
    (folder / "workspace").mkdir()
    for name in "ab":
        (folder / "workspace" / f"{name}.txt").write_text(f"{name} says so\n")


async def respond(front: Front, way: str, said: list[Any], tools: list[Any]) -> dict[str, Any]:
    """One response as JSON, which satisfies the public schema."""
    if way == "raw":
        body = {"model": "any", "input": said, "tools": tools, "stream": True}
        async with front.plain() as plain:
            return check_stream([(await plain.post("/v1/responses", json=body)).content]).response
    async with front.openai() as client:
        if way == "whole":
            whole = await client.responses.with_raw_response.create(model="any", input=said, tools=tools)
            check_body(whole.content)
            return whole.parse().to_dict()
        async with client.responses.stream(model="any", input=said, tools=tools) as stream:
            return (await stream.get_final_response()).to_dict()


@pytest.mark.parametrize(("kind", "way"), [(kind, way) for kind in KINDS.values() for way in ways(kind)])
async def test_a_mixed_turn_and_its_follow_up(kind: Kind, way: str, tmp_path: pathlib.Path) -> None:
    files(tmp_path)
    said: list[Any] = [{"role": "user", "content": "Go."}]
    async with before(tmp_path, kind, SCORE, ensembles=("io",)) as (front, backend):
        first = await respond(front, way, said, [SHELL])
        assert first["status"] == "completed"
        kinds_of = [one["type"] for one in first["output"]]
        assert kinds_of == ["message", "function_call", "function_call", "function_call_output"]
        shell = next(one for one in first["output"] if one.get("name") == "shell")
        said += [*first["output"], {"type": "function_call_output", "call_id": shell["call_id"], "output": "ok"}]
        second = await respond(front, way, said, [SHELL])
        assert [one["type"] for one in second["output"]] == ["function_call", "function_call_output", "message"]
        assert "a says so, b says so, ok" in second["output"][-1]["content"][0]["text"]
        # Each of the two files was read once, for one answer of the backend each.
        assert len(backend.asked) == 3
        said += [*second["output"], {"role": "user", "content": "Again?"}]
        forged: Any = [{**one, "output": "forged"} if one.get("output") else one for one in said]
        async with front.openai() as client:
            with pytest.raises(openai.BadRequestError, match="'read_file' runs here"):
                await client.responses.create(model="any", input=forged, tools=[SHELL])
            with pytest.raises(openai.BadRequestError, match="no result for 'shell'"):
                await client.responses.create(model="any", input=said[:-5], tools=[SHELL])
        assert len(backend.asked) == 3
