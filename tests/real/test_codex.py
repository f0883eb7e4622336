"""A coding agent that speaks only the Responses API, in front of a model that speaks only chat completions."""

import contextlib
import dataclasses
import json
import pathlib
from collections.abc import AsyncGenerator, Iterable
from typing import Any

import pytest
import tomli_w
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from ripieno.canisters import ImageContent, ResultCanister, UserCanister
from ripieno.testing import call, turn
from ripieno.testing.scores.turns import Turn
from tests.real.coding import Agent, Done, Gateway, serving_responses
from tests.real.installing import coding_agent
from tests.support.command_line import User
from tests.support.gateways import KINDS, Backend, rehearsing
from tests.support.hosted_runs import PIXEL
from tests.support.loopback_servers import Answerer, serving

CHAT = KINDS["openai-chat"]
TASK = "Write proof.txt with the shell, and add 17 and 25."
COMMAND = "printf 'made by the shell' > proof.txt; cat proof.txt"
#: A name that the agent knows: it has a free-form tool for it.
KNOWN = "gpt-5.5"
#: One that it has other tools for, which it declares in an item of the input: one of them runs scripts.
NEWEST = "gpt-6-sol"
BAND = """
[ensemble]
name = "band"
module = "./band.py"

[defaults]
effect = "read"

[[invokers]]
name = "tune"
description = "Says what an instrument gives."
[invokers.arguments]
type = "object"
required = ["instrument"]
properties = { instrument = { type = "string" } }
"""
TUNE = """
def tune(context, arguments):
    return f"The {arguments['instrument']} gives {221 * 2} Hz."
"""


@pytest.fixture(scope="session")
def program() -> pathlib.Path:
    return coding_agent()


@pytest.fixture
def agent(program: pathlib.Path, tmp_path: pathlib.Path) -> Agent:
    return Agent(program=program, folder=tmp_path)


def configure(user: User, url: str, **tables: Any) -> None:
    """The user's model is at this URL. ``tables`` are more of the configuration; ``provider`` adds to the model's."""
    given = tables.pop("provider", {})
    provider = {"protocol": CHAT.name, "base_url": url, "api_key": "none", "retries": 0, **given}
    user.configure(tomli_w.dumps({"providers": {"local": provider}, **tables}))


@contextlib.asynccontextmanager
async def fronted(
    user: User, score: Iterable[Turn], *options: str, **tables: Any
) -> AsyncGenerator[tuple[Gateway, Backend], None]:
    """The gateway's command in front of a model that plays a score."""
    async with rehearsing(CHAT, score) as backend:
        configure(user, backend.url, **tables)
        with serving_responses(user, *options) as gateway:
            yield gateway, backend


def heard(backend: Backend) -> list[str]:
    """The results of calls, as the model was told them last."""
    return [one.text for one in backend.asked[-1].canisters if isinstance(one, ResultCanister)]


async def test_its_shell_and_its_servers(agent: Agent, user: User) -> None:
    score = [
        turn("I write it.", calls=[call("exec_command", "ran", cmd=COMMAND)]),
        turn(calls=[call("mcp__kind__add", "sum", a=17, b=25), call("exec_command", "size", cmd="wc -c proof.txt")]),
        turn("It says: {ran}; its size: {size}; the sum: {sum}", expect=["ran", "size", "sum"]),
    ]
    async with fronted(user, score) as (gateway, backend):
        done = await agent.do(TASK, gateway.url)
    assert done.code == 0, done.told
    assert (agent.workspace / "proof.txt").read_text() == "made by the shell"
    assert [(one["name"], one.get("namespace")) for one in done.calls] == [
        ("exec_command", None),
        ("add", "mcp__kind"),
        ("exec_command", None),
    ]
    for part in ("made by the shell; its size:", "17 proof.txt", "the sum: Wall time:", '{"result":42}'):
        assert part in done.said
    assert len(backend.asked) == 3


async def test_on_a_websocket(agent: Agent, user: User) -> None:
    score = [
        turn("I write it.", calls=[call("exec_command", "ran", cmd=COMMAND)]),
        turn("It says: {ran}", expect=["ran"]),
    ]
    async with fronted(user, score) as (gateway, backend):
        done = await dataclasses.replace(agent, sockets=True).do(TASK, gateway.url)
    assert done.code == 0, done.told
    assert done.said.endswith("made by the shell")
    # It neither connected again nor went on without a socket, and no request was made to warm up.
    assert "econnect" not in done.told
    assert "alling back" not in done.told
    assert len(backend.asked) == 2


async def test_calls_that_the_model_leaves_in_its_text(agent: Agent, user: User) -> None:
    shell = f"<function=exec_command>\n<parameter=cmd>\n{COMMAND}\n</parameter>\n</function>"
    add = '<tool_call>\n{{"name": "mcp__kind__add", "arguments": {{"a": 17, "b": 25}}}}\n</tool_call>'
    score = [turn(f"I write it.\n\n{shell}"), turn(add), turn("Both are done.")]
    async with fronted(user, score, provider={"capabilities": {"text_calls": True}}) as (gateway, backend):
        done = await agent.do(TASK, gateway.url)
    assert done.code == 0, done.told
    assert done.said == "Both are done."
    assert (agent.workspace / "proof.txt").read_text() == "made by the shell"
    ran, added = heard(backend)
    assert ran.endswith("made by the shell")
    assert added.endswith('{"result":42}')
    # What people see of it has no markup in it.
    assert "I write it." in done.told
    assert "function=" not in done.told
    assert "tool_call" not in done.told


async def test_a_hosted_search_is_left_out(agent: Agent, user: User) -> None:
    score = [turn(calls=[call("exec_command", "ran", cmd=COMMAND)]), turn("It says: {ran}", expect=["ran"])]
    async with fronted(user, score) as (gateway, backend):
        done = await agent.do(TASK, gateway.url, web_search="live")
    assert done.code == 0, done.told
    assert done.said.endswith("made by the shell")
    assert "web_search" not in {tool.exposed for tool in backend.asked[0].tools}
    # The log breaks its lines at the width of a terminal.
    assert " ".join(gateway.log.split()).count("A client requested a tool of the kind 'web_search', which is not") == 1


async def test_a_hosted_search_is_refused_where_that_is_strict(agent: Agent, user: User) -> None:
    async with fronted(user, [turn("Never said.")], "--strict") as (gateway, backend):
        done = await agent.do(TASK, gateway.url, web_search="live")
    assert done.code == 1
    assert "There is no binding here for a tool of the kind 'web_search': leave it out of the tools." in done.told
    assert done.said == ""
    assert backend.asked == []


async def test_a_free_form_tool(agent: Agent, user: User) -> None:
    agent.workspace.mkdir()
    file = agent.workspace / "score.txt"
    file.write_text("forte\npiano\n")
    patch = "*** Begin Patch\n*** Update File: score.txt\n@@\n forte\n-piano\n+fortissimo\n*** End Patch"
    score = [turn(calls=[call("apply_patch", "patch", input=patch)]), turn("It said: {patch}", expect=["patch"])]
    async with fronted(user, score) as (gateway, backend):
        done = await agent.do("Make it louder.", gateway.url, model=KNOWN)
    assert done.code == 0, done.told
    assert file.read_text() == "forte\nfortissimo\n"
    (called,) = done.calls
    assert (called["type"], called["name"], called["input"]) == ("custom_tool_call", "apply_patch", patch)
    assert "M score.txt" in done.said
    # The model knows only functions, and was told what the text must look like.
    (tool,) = [one for one in backend.asked[0].tools if one.exposed == "apply_patch"]
    assert b"begin_patch: " in tool.schema.encoded


async def test_tools_that_it_declares_in_the_conversation(agent: Agent, user: User) -> None:
    script = f"const done = await tools.exec_command({{cmd: {json.dumps(COMMAND)}}}); text(done.output);"
    # Braces of a score are doubled.
    written = script.replace("{", "{{").replace("}", "}}")
    score = [turn(calls=[call("functions__exec", "ran", input=written)]), turn("It says: {ran}", expect=["ran"])]
    async with fronted(user, score) as (gateway, _):
        done = await agent.do(TASK, gateway.url, model=NEWEST)
    assert done.code == 0, done.told
    assert (agent.workspace / "proof.txt").read_text() == "made by the shell"
    (called,) = done.calls
    assert (called["type"], called["namespace"], called["name"]) == ("custom_tool_call", "functions", "exec")
    assert done.said.endswith("made by the shell")


async def test_an_image(agent: Agent, user: User) -> None:
    agent.workspace.mkdir()
    (agent.workspace / "dot.png").write_bytes(PIXEL)
    score = [turn(calls=[call("view_image", "seen", path="dot.png")]), turn("It is a dot.", expect=["seen"])]
    async with fronted(user, score) as (gateway, backend):
        done = await agent.do("What is in dot.png?", gateway.url)
    assert done.code == 0, done.told
    assert done.said == "It is a dot."
    # A tool's message has only text on this wire: the image stands in the next one.
    last = backend.asked[-1].canisters[-1]
    assert isinstance(last, UserCanister)
    assert [type(one) for one in last.content] == [ImageContent]


async def test_tools_that_run_in_the_gateway(agent: Agent, user: User) -> None:
    user.ensemble("band", BAND).with_name("band.py").write_text(TUNE)
    score = [
        turn("I write it.", calls=[call("exec_command", "ran", cmd=COMMAND)]),
        turn("I listen.", calls=[call("tune", "note", instrument="oboe")]),
        turn("It says: {ran}. {note}", expect=["ran", "note"]),
    ]
    served = {"ensembles": ["band"], "show_calls": False}
    async with fronted(user, score, gateway=served) as (gateway, backend):
        done = await agent.do(TASK, gateway.url)
    assert done.code == 0, done.told
    assert "made by the shell. The oboe gives 442 Hz." in done.said
    # The agent knows only its own tool, and was asked for nothing else.
    assert [one["name"] for one in done.calls] == ["exec_command"]
    assert "tune" not in done.told
    assert len(backend.asked) == 3


async def end_badly(agent: Agent, user: User, answer: Answerer) -> Done:
    """The end of a task whose model answers its one request in that way."""
    async with serving(answer) as (url, asked):
        configure(user, f"{url}/v1")
        with serving_responses(user) as gateway:
            done = await agent.do(TASK, gateway.url)
    assert (done.code, len(asked)) == (1, 1)
    return done


REFUSALS = {
    # It tells the status alone, whatever the body says.
    "busy": (429, {"message": "Too many players."}, "429 Too Many Requests"),
    "broken": (500, {"message": "The roof is on fire."}, "502 Bad Gateway: HTTP 500: The roof is on fire."),
    "key": (401, {"message": "A wrong key."}, "502 Bad Gateway: HTTP 401: A wrong key."),
    "long": (
        400,
        {"message": "This model's maximum context length is 8192 tokens.", "code": "context_length_exceeded"},
        "ran out of room in the model's context window",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_model_that_refuses(name: str, agent: Agent, user: User) -> None:
    status, error, words = REFUSALS[name]

    async def refuse(_: Request) -> Response:
        return JSONResponse({"error": error}, status)

    done = await end_badly(agent, user, refuse)
    assert words in done.told
    assert done.said == ""


async def test_a_model_that_fails_in_the_middle(agent: Agent, user: User) -> None:
    chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 0, "model": "small"}
    begun = {**chunk, "choices": [{"index": 0, "delta": {"content": "I wri"}, "finish_reason": None}]}
    lines = [f"data: {json.dumps(one)}\n\n" for one in (begun, {"error": {"message": "The roof is on fire."}})]

    async def fail(_: Request) -> Response:
        return StreamingResponse(iter(lines), media_type="text/event-stream")

    assert "The roof is on fire." in (await end_badly(agent, user, fail)).told
