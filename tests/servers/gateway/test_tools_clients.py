"""Tools that run in the gateway, through the clients of every wire, in front of backends of every protocol."""

import pathlib
from typing import Any

import openai
import pytest

from ripieno.testing import call, turn
from tests.support.gateways import KINDS, Front, Kind, before, ways
from tests.support.openresponses_checker import check_body, check_stream

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
