"""What a review of the gateway found: names in paths, slashes, contexts of connections, costs, and words for others."""

import asyncio
import json
import pathlib
from typing import Any

import pytest
from frozendict import frozendict
from starlette.requests import Request as Asked
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ripieno.canisters import Canister, InvocationCanister, ResultCanister, TextualContent, UserCanister
from ripieno.canisters.events import Event, TextDelta, TurnBegan, TurnEnded
from ripieno.cli.common.observers import observed
from ripieno.conducting.observers.logs import FIELDS
from ripieno.exceptions import InputError
from ripieno.models import Protocol
from ripieno.models.protocols.anthropic import PROTOCOL as ANTHROPIC
from ripieno.models.protocols.common.encoding import Calls
from ripieno.models.protocols.gemini import PROTOCOL as GEMINI
from ripieno.models.protocols.openai_responses import PROTOCOL as RESPONSES
from ripieno.servers.http.server import serve
from ripieno.testing import call, turn
from tests.servers.gateway.test_metrics import CANARY, CHAT, asks, post, speaks
from tests.servers.http.test_server import open_narrow
from tests.support.gateways import before, fronting
from tests.support.loopback_servers import serving as loopback

BROKEN = """
[ensemble]
name = "broken"
module = "./broken.py"

[defaults]
effect = "read"
on_error = "abort"

[[invokers]]
name = "look"
description = "Looks."
"""


async def test_models_may_have_colons_and_are_found_by_name(tmp_path: pathlib.Path) -> None:
    async with before(tmp_path, CHAT, speaks, models=("back/llama3:8b",)) as (front, _), front.openai() as client:
        names = {"llama3:8b", "back/llama3:8b"}
        assert names <= {one.id async for one in client.models.list()}
        for name in names:
            assert (await client.models.retrieve(name)).id == name
            assert (await client.responses.create(model=name, input="Hi.")).model == name
        native = {"contents": [{"role": "user", "parts": [{"text": "Hi."}]}]}
        assert (await post(front, "/v1/models/llama3:8b:generateContent", native)).status_code == 200


async def test_a_slash_at_the_end_sends_nobody_elsewhere(tmp_path: pathlib.Path) -> None:
    async with before(tmp_path, CHAT, speaks) as (front, _):
        answer = await post(front, "/v1/responses/", asks())
    assert answer.status_code == 404
    assert "location" not in answer.headers


async def test_no_request_has_the_context_of_another_one_of_its_connection() -> None:
    seen: list[str] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(FIELDS.get().get("request", ""))
        FIELDS.set({"request": scope["path"]})
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    async with serve(application) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        # So large that the connection reads on while its request is played.
        for path, size in (("/one", 2**20), ("/two", 0), ("/three", 0)):
            writer.write(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {size}\r\n\r\n".encode() + b"x" * size)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        writer.close()
    assert seen == ["", "", ""]


SEEN = (TextualContent(text="Seen."),)


class Counting(list[Canister]):
    """Counts how often anything in it is looked at."""

    looks = 0

    def __getitem__(self, index: Any) -> Any:
        self.looks += 1
        return super().__getitem__(index)


def pairs(count: int, *, first: int = 0) -> list[Canister]:
    numbers = range(first, first + count)
    calls: list[Canister] = [
        InvocationCanister(identifier=f"c{one}", name="look", arguments=frozendict(), timestamp=1.0) for one in numbers
    ]
    return [*calls, *(ResultCanister(invocation_id=f"c{one}", content=SEEN) for one in numbers)]


def test_the_last_call_before_a_result_is_its_own() -> None:
    one, two = (InvocationCanister(identifier="c", name=name, arguments=frozendict()) for name in ("one", "two"))
    result = ResultCanister(invocation_id="c", content=SEEN)
    canisters = [one, result, two, result, result]
    calls = Calls(canisters)
    assert [calls.find("c", place) for place in (1, 3, 4)] == [(0, one), (2, two), (2, two)]
    assert Calls(canisters).find("c", 4) == (2, two)
    assert Calls(canisters).find("nothing", 4) is None
    assert Calls(canisters).find("c", 0) is None


@pytest.mark.parametrize("protocol", [RESPONSES, GEMINI], ids=lambda one: one.name)
def test_no_history_is_looked_through_for_each_of_its_results(protocol: Protocol) -> None:
    """A client may send as many as fit into a request, and others wait meanwhile."""
    canisters = Counting([UserCanister.of("Go."), *pairs(1000)])
    protocol.messages.nativize(canisters, frozendict())
    assert canisters.looks <= 4 * len(canisters)


@pytest.mark.parametrize("block", [{}, {"cache_control": {"type": "ephemeral"}}, {"type": ""}, {"type": 7}])
def test_a_block_without_a_type_is_refused(block: dict[str, Any]) -> None:
    result = {"type": "tool_result", "tool_use_id": "c", "content": [block]}
    for content in ([block], [result]):
        native = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": content}]}
        with pytest.raises(InputError, match="type"):
            ANTHROPIC.parse(native)


async def test_who_takes_an_answer_drop_by_drop_keeps_no_place(tmp_path: pathlib.Path) -> None:
    def endless(_: object) -> list[Event]:
        return [TurnBegan(model="m"), *(TextDelta("x" * 8192) for _ in range(2000)), TurnEnded(finish="stop")]

    async with before(tmp_path, CHAT, endless, seconds=0.5, concurrency=1) as (front, _):
        reader, writer = await open_narrow(int(front.url.rpartition(":")[2]))
        body = json.dumps(asks(stream=True)).encode()
        head = "POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        await reader.readexactly(20)
        async with asyncio.timeout(20):
            while (await post(front, "/v1/responses", asks("nobody"))).status_code == 503:
                await reader.read(100)
        writer.close()


async def test_words_of_a_tool_that_failed_are_for_the_operator_and_so_is_what_it_cost(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "configuration" / "ensembles"
    folder.mkdir(parents=True)
    (folder / "broken.toml").write_text(BROKEN)
    (folder / "broken.py").write_text(f"def look(context, arguments):\n    raise RuntimeError('{CANARY}')\n")
    script = [turn(calls=[call("look")]) for _ in range(2)]
    async with before(tmp_path, CHAT, script, ensembles=("broken",)) as (front, _):
        with observed("json"):
            answers = [await post(front, "/v1/responses", asks(stream=stream)) for stream in (False, True)]
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert answers[0].status_code == 500
    assert answers[0].json()["error"]["code"] == "tool_failed"
    assert all(CANARY not in one.text and "The log of the server" in one.text for one in answers)
    assert sum(CANARY in line.get("exception", "") for line in lines) == 2
    ends = [line for line in lines if line.get("status") == 500]
    assert [line["level"] for line in ends] == ["warning", "warning"]
    assert all(line["input_tokens"] > 0 and line["output_tokens"] > 0 for line in ends)


@pytest.mark.parametrize(("status", "told"), [(401, True), (403, True), (404, True), (429, True), (500, False)])
async def test_the_operator_is_told_why_an_endpoint_serves_nobody(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, status: int, told: bool
) -> None:
    async def refuses(_: Asked) -> Response:
        return Response(json.dumps({"error": {"message": "The account is closed."}}), status_code=status)

    async with loopback(refuses) as (url, _), fronting(tmp_path, CHAT, f"{url}/v1") as front:
        await post(front, "/v1/responses", asks())
    assert ("The account is closed." in caplog.text) == told
