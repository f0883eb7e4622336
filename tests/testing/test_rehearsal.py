"""The rehearsal: a score over real HTTP, and what goes wrong there."""

import asyncio
import contextlib
import dataclasses
import os
import pathlib
import re
import signal
import socket
import zoneinfo
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import anthropic
import httpx2
import mcp
import openai
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from ripieno.assembly import assemble
from ripieno.assembly.shortcuts import prepare_ensembles
from ripieno.canisters import (
    AssistantCanister,
    Canister,
    Controls,
    InvocationCanister,
    ResultCanister,
    TextualContent,
    UserCanister,
)
from ripieno.canisters.conversation import Usage
from ripieno.conducting import conduct
from ripieno.exceptions import InputError
from ripieno.models import Protocol
from ripieno.models.protocols.anthropic import PROTOCOL as MESSAGES
from ripieno.models.protocols.gemini import PROTOCOL as GEMINI
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from ripieno.models.protocols.openai_responses import PROTOCOL as RESPONSES
from ripieno.servers.http.server import serve
from ripieno.storage.places import Places
from ripieno.testing import call, turn
from ripieno.testing.rehearsal import clock
from ripieno.testing.rehearsal.server import BODY_BYTES, base_url, create_application
from ripieno.testing.scores import Score
from ripieno.testing.wires import model_of
from tests.support.scripted_models import ensemble, tool
from tests.support.wire_requests import write

PROTOCOLS = (MESSAGES, CHAT, GEMINI)
SCORE = Score.of_turns([turn("Hello.")], name="reading")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("protocol", [*PROTOCOLS, RESPONSES], ids=lambda protocol: protocol.name)
async def test_an_answer_reports_an_estimate_of_its_tokens(protocol: Protocol, stream: bool) -> None:
    score = Score.of_turns([turn("Said. " * 100, reasoning="Thought. " * 100)])
    async with serve(create_application(score, [protocol])) as url:
        providers = {"here": {"protocol": protocol.name, "base_url": base_url(url, protocol), "api_key": "none"}}
        async with assemble({"ensembles": {"enabled": []}, "providers": providers}) as assembly:
            usages: list[Usage] = []
            for told, ensembles in (("Hi.", []), ("Hi. " * 100, []), ("Hi.", [_LONG_WINDED])):
                asked = assembly.conduct(told, model="here/m", controls=Controls(stream=stream), ensembles=ensembles)
                usages.append((await asked).usage)
    short, long, tools = usages
    assert 0 < short.input_tokens < 20
    assert 80 < long.input_tokens - short.input_tokens < 120
    assert 80 < tools.input_tokens - short.input_tokens < 150
    assert 300 < short.output_tokens < 500
    assert short.output_tokens == long.output_tokens == tools.output_tokens


_LONG_WINDED = ensemble(tool("read", schema={"type": "object", "description": "Reads. " * 50}))


async def test_both_clients_list_the_model() -> None:
    async with serve(create_application(SCORE, PROTOCOLS)) as url:
        async with openai.AsyncOpenAI(base_url=base_url(url, CHAT), api_key="none") as client:
            assert [model.id async for model in client.models.list()] == ["reading"]
        async with anthropic.AsyncAnthropic(base_url=base_url(url, MESSAGES), api_key="none") as other:
            assert [model.id async for model in other.models.list()] == ["reading"]


# What goes wrong.


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)
@pytest.mark.parametrize(
    ("body", "status", "expected"),
    [
        (b"", 400, "not strict JSON"),
        (b"[1]", 400, "not a JSON object"),
        (b'{"model": "m", "model": "m"}', 400, "not strict JSON"),
        (b'{"model": "m"}', 400, "no messages|no contents"),
        (b'{"messages": []}', 400, "no model|no contents"),
        (b'"' + b"x" * BODY_BYTES + b'"', 413, "larger than"),
    ],
    ids=["nothing", "a list", "a key twice", "no messages", "no model", "too large"],
)
async def test_bad_requests_are_refused(protocol: Protocol, body: bytes, status: int, expected: str) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(body), 65536):
            yield body[at : at + 65536]

    async with serve(create_application(SCORE, PROTOCOLS)) as url, httpx2.AsyncClient() as client:
        for content in (body, pieces()):
            answer = await client.post(target(url, protocol), content=content)
            assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
            assert re.search(expected, answer.json()["error"]["message"])


GO, LOOK = UserCanister.of("Go."), InvocationCanister(identifier="a", name="look")
SEEN = ResultCanister(invocation_id="a", content=(TextualContent(text="Seen."),))
LONG = "a" * 300
#: Conversations that strict servers refuse, and a part of the reason.
UNSOUND: list[tuple[list[Canister], str]] = [
    ([GO, LOOK], "There is no result for 'look'"),
    ([GO, LOOK, SEEN, SEEN], "second result"),
    ([GO, dataclasses.replace(LOOK, name="look up"), SEEN], "name of a tool 'look up'"),
    (
        [GO, dataclasses.replace(LOOK, identifier=LONG), dataclasses.replace(SEEN, invocation_id=LONG)],
        "identifier of a call",
    ),
    ([AssistantCanister.of("Hello."), GO], "must be the user's"),
]


@pytest.mark.parametrize("protocol", [*PROTOCOLS, RESPONSES], ids=lambda protocol: protocol.name)
async def test_what_strict_servers_refuse_is_refused(protocol: Protocol) -> None:
    for lenient in (False, True):
        application = create_application(SCORE, [protocol], lenient=lenient)
        async with serve(application) as url, httpx2.AsyncClient() as client:
            for canisters, words in UNSOUND:
                answer = await client.post(target(url, protocol), content=write(protocol, canisters))
                taken = lenient or ("user's" in words and not protocol.requirements.user_first)
                assert answer.status_code == (200 if taken else 400), answer.text
                assert taken or words in answer.json()["error"]["message"]


async def test_an_unknown_path_lists_the_routes() -> None:
    async with serve(create_application(SCORE, PROTOCOLS)) as url, httpx2.AsyncClient() as client:
        for answer, status in (
            (await client.post(url + "/v2/messages"), 404),
            (await client.get(url + "/v1/messages"), 405),
            (await client.post(url + "/v1/models"), 405),
        ):
            assert answer.status_code == status
            message = answer.json()["error"]["message"]
            assert "POST /v1/messages (anthropic), POST /v1/chat/completions (openai-chat), " in message
            assert "POST /v1beta/models/{model:path}:{method} (gemini), " in message
            assert message.endswith(", GET /v1/models.")


def test_two_protocols_at_one_route_are_refused() -> None:
    with pytest.raises(InputError, match="'openai-chat' and 'other' both answer at /v1/chat/completions"):
        create_application(SCORE, [CHAT, dataclasses.replace(CHAT, name="other")])


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)
async def test_a_score_that_fails_in_a_stream_says_so(protocol: Protocol) -> None:
    """Half of a character is not valid JSON: the answer fails in its second piece."""
    application = create_application(Score.of_turns([turn("This is said before it fails. \ud800")]), [protocol])
    async with serve(application) as url, httpx2.AsyncClient() as client:
        answer = await client.post(target(url, protocol, stream=True), json=streaming(protocol))
    assert "This is said before it f" in answer.text
    assert "The score failed: A lone surrogate" in answer.text.rsplit("data: ", 1)[-1]


# Streams that do not end by themselves.

SLOW = Score.of_turns([turn("A word, and then nothing for a minute.", pace=60)], name="slow")


class Watched:
    """An application that tells when a request has ended, however it ended."""

    def __init__(self, application: ASGIApp) -> None:
        self.application = application
        self.ended = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self.application(scope, receive, send)
        finally:
            self.ended.set()


def streaming(protocol: Protocol) -> dict[str, Any]:
    if protocol is GEMINI:
        return {"contents": [{"role": "user", "parts": [{"text": "x"}]}]}
    return {"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}], "max_tokens": 9}


def target(url: str, protocol: Protocol, *, stream: bool = False) -> str:
    """Where a client of a protocol posts to a server of ours."""
    return base_url(url, protocol) + protocol.path_for("m", stream=stream)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)
async def test_a_client_that_leaves_ends_the_stream(protocol: Protocol) -> None:
    watched = Watched(create_application(SLOW, PROTOCOLS))
    async with serve(watched) as url, httpx2.AsyncClient() as client:
        async with client.stream("POST", target(url, protocol, stream=True), json=streaming(protocol)) as answer:
            async for data in answer.aiter_bytes():
                assert data
                break
            assert not watched.ended.is_set()
        await asyncio.wait_for(watched.ended.wait(), 5)


async def test_signals_stay_with_the_program() -> None:
    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    async with serve(create_application(SCORE, PROTOCOLS)):
        assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == before


def accepted(port: int) -> Iterator[socket.socket]:
    """This process's own ends of connections to a port, where it is the server."""
    for number in os.listdir("/dev/fd"):
        # Files that are no sockets, and those that were open for listing only; listeners have no peer.
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(number))) as end:
            if end.getpeername() and end.getsockname()[1:2] == (port,):
                yield end


async def test_small_events_leave_at_once() -> None:
    """With Nagle's algorithm each event of a stream would wait until the client acknowledges the last one."""
    async with (
        serve(create_application(SLOW, [CHAT])) as url,
        httpx2.AsyncClient() as client,
        client.stream("POST", target(url, CHAT, stream=True), json=streaming(CHAT)) as answer,
    ):
        assert answer.status_code == 200
        port = int(url.rpartition(":")[2])
        (delay,) = [end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for end in accepted(port)]
    assert delay != 0


# The demo's server.


async def answers(client: mcp.Client, calls: Iterable[tuple[str, dict[str, Any]]]) -> list[tuple[str, bool]]:
    results = [await client.call_tool(name, arguments) for name, arguments in calls]
    return [("".join(getattr(one, "text", "") for one in result.content), result.is_error) for result in results]


async def test_the_clock_tells_time_and_adds_days() -> None:
    # Small systems have no database of zones.
    zone = "Asia/Kathmandu"
    calls: list[tuple[str, dict[str, Any]]] = [
        ("tell_time", {}),
        ("tell_time", {"zone": "Nowhere/Land"}),
        ("tell_time", {"zone": "../etc/passwd"}),
        ("add_days", {"date": "2028-02-28", "days": 2}),
        ("add_days", {"date": "soon", "days": 2}),
        ("add_days", {"date": "2028-02-28", "days": 10**9}),
        ("tell_time", {"zone": zone}),
    ]
    async with mcp.Client(clock.server) as client:
        *told, (text, is_error) = await answers(client, calls)
    assert [is_error for _, is_error in told] == [False, True, True, False, True, True]
    assert told[0][0].endswith("+00:00")
    assert "There is no time zone 'Nowhere/Land'" in told[1][0]
    assert told[3][0] == "2028-03-01 (Wednesday)"
    assert text.endswith("+05:45") is (zone in zoneinfo.available_timezones()) is not is_error


# Scores as models, without a server.


READING = [
    turn("I look.", calls=[call("read_file", "readme", path="README.rst")]),
    turn("It begins with {readme.line:1}"),
]


async def test_the_ten_lines(tmp_path: pathlib.Path) -> None:
    """What the module's docstring shows, with bundled tools and nothing of this user's."""
    (workspace := tmp_path / "workspace").mkdir()
    (workspace / "README.rst").write_text("Ripieno\n=======\n")
    places = Places(configuration=tmp_path / "configuration", state=tmp_path / "state")
    async with prepare_ensembles(workspace=workspace, places=places) as ensembles:
        conversation = await conduct(model_of(READING), "What is in it?", ensembles=ensembles)
    assert conversation.text == "It begins with Ripieno"
    assert conversation.finish == "stop"


async def test_a_tool_that_is_missing_or_forbidden_is_said() -> None:
    model = model_of(READING)
    expected = "Turn 1 of the score calls 'read_file', which is not offered. Offered: none."
    assert (await conduct(model, "Read.")).text == expected
    for controls in (Controls(tool_choice="none"), Controls(allowed_tools=())):
        conversation = await conduct(model, "Read.", ensembles=[ensemble(tool("read_file"))], controls=controls)
        assert conversation.text == expected


async def test_a_model_plays_a_score_from_anywhere() -> None:
    score = Score.of({"score": {"name": "short"}, "turns": [{"text": "Hello."}]})
    model = model_of(score)
    assert model.identity == "score/short"
    (canister,) = await model.converse([UserCanister(content=(TextualContent(text="Hi."),))])
    assert canister == dataclasses.replace(canister, content=(TextualContent(text="Hello."),))
