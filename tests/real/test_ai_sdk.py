"""The npm package ``ai`` in its versions 5, 6 and 7, as a front end of a chat: whole rounds in Node."""

import asyncio
import contextlib
import json
import pathlib
import shutil
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from ripieno.canisters.events import ArgumentsDelta, InvocationBegan, InvocationSealed, TurnBegan, TurnEnded
from ripieno.ensembles import Context
from ripieno.servers.chat.ai_sdk.application import create_application
from ripieno.servers.chat.ai_sdk.frames import Version
from ripieno.servers.http.server import serve
from tests.real.installing import front_end
from tests.support.chats import chatting
from tests.support.scripted_models import Blocking, invoke, invokes, says, scripted, tool

_ROUNDS = pathlib.Path(__file__).with_name("ai_sdk_rounds.mjs")


async def signed_in(request: Request) -> str | None:
    return request.headers.get("x-user")


@contextlib.asynccontextmanager
async def server(folder: pathlib.Path, version: Version) -> AsyncGenerator[str, None]:
    blocking = Blocking(value="waited")

    async def look(context: Context, arguments: dict[str, Any]) -> str:
        context.progress(1, 2, "half")
        return "seen"

    async def go(_: Request) -> Response:
        blocking.go.set()
        return Response(status_code=204)

    model = scripted(
        [
            TurnBegan(),
            *says("I look.")[1:3],
            InvocationBegan(index=0, identifier="look", name="look"),
            ArgumentsDelta(index=0, text='{"at": '),
            ArgumentsDelta(index=0, text='"a"}'),
            InvocationSealed(index=0, invocation=invoke("look", at="a")),
            TurnEnded(finish="invocations"),
        ],
        says("Seen."),
        invokes(invoke("write", "approve", text="a")),
        says("Written."),
        invokes(invoke("write", "deny", text="b")),
        says("Written."),
        invokes(invoke("where")),
        says("Home."),
        [*says("I wait.")[:3], *invokes(invoke("wait"))[1:]],
        says("Waited."),
        [TurnBegan(), *says("Half")[1:2], RuntimeError("an internal detail")],
    )
    tools = (tool("look", look), tool("write", effect="write"), tool("where", hosted="caller"), tool("wait", blocking))
    async with chatting(folder, model, *tools) as chat:
        application = create_application(chat, authenticate=signed_in, version=version)
        routes = [Route("/go", go, methods=["POST"]), Mount("/api", application)]
        async with serve(Starlette(routes=routes)) as url:
            yield url


@pytest.mark.parametrize("version", [5, 6, 7])
async def test_whole_rounds(tmp_path: pathlib.Path, version: Version) -> None:
    modules, node = front_end(version), shutil.which("node")
    assert node is not None
    async with server(tmp_path, version) as url:
        argv = (node, str(_ROUNDS), str(modules), str(version), url)
        process = await asyncio.create_subprocess_exec(
            *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        try:
            async with asyncio.timeout(60):
                output, errors = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
    assert process.returncode == 0, errors.decode()
    found = json.loads(output)
    calls = {
        part["toolCallId"]: part
        for message in found["messages"]
        for part in message["parts"]
        if part["type"] == "dynamic-tool"
    }
    assert (calls["look"]["output"], calls["look"]["input"]) == ("seen", {"at": "a"})
    assert calls["approve"]["output"] == "write"
    assert calls["deny"]["state"] == ("output-error" if version == 5 else "output-denied")
    assert calls["where"]["output"] == {"at": "home"}
    assert [part["data"]["message"] for part in found["seen"] if part["type"] == "data-progress"] == ["half"]
    # Each round has one message of the user and one of the assistant.
    assert [message["role"] for message in found["messages"]] == ["user", "assistant"] * 5
    assert len({message["id"] for message in found["messages"]}) == 10
    (resumed,) = found["resumed"]
    assert resumed["id"] == found["messages"][-1]["id"]
    assert [part["text"] for part in resumed["parts"] if part["type"] == "text"] == ["I wait.", "Waited."]
    assert [part["output"] for part in resumed["parts"] if part["type"] == "dynamic-tool"] == ["waited"]
    # No request but these: eight of the rounds, two resumed streams, and one that fails.
    assert found["requests"] == 11
    assert found["status"] == "error"
    assert "internal detail" not in found["error"]
