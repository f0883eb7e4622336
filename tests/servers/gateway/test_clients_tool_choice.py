"""What clients say of the choice among their tools, through the gateway: held against any backend."""

import json
import pathlib
from collections.abc import Iterable
from typing import Any

import openai
import pytest

from ripieno.canisters import AssistantCanister, InvocationCanister
from ripieno.canisters.events import Event
from ripieno.jsonvalues import freeze
from ripieno.models.protocol import Asked
from tests.support.gateways import KINDS, Kind, before, says
from tests.support.openresponses_checker import check_stream

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"path": {"type": "string"}}}
NAMES = ("read", "write", "erase")
TOOLS: list[Any] = [{"type": "function", "name": name, "parameters": SCHEMA} for name in NAMES]


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
                ({"parallel_tool_calls": False}, ["read"]),
            ):
                response = await _responses(client, stream, tools=TOOLS, **asked)
                assert [one.name for one in response.output if one.type == "function_call"] == called, asked
                assert response.output_text.startswith("All of it.")


async def test_where_nothing_is_left_there_is_an_error(tmp_path: pathlib.Path) -> None:
    kind = KINDS["openai-chat"]
    async with before(tmp_path, kind, calls_all(kind, "")) as (front, _), front.openai() as client:
        with pytest.raises(openai.APIError, match="does not allow"):
            await _responses(client, False, tools=TOOLS, tool_choice="none")
        with pytest.raises(openai.APIError, match="does not allow"):
            await _responses(client, True, tools=TOOLS, tool_choice="none")


async def test_a_filtered_stream_has_no_gaps(tmp_path: pathlib.Path) -> None:
    """Indices and numbers go on where calls are left out."""
    kind = KINDS["openai-chat"]
    body = {"model": "m", "input": "Go.", "tools": TOOLS, "tool_choice": allowing("erase"), "stream": True}
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
