"""What /metrics tells of real requests, as the official parser reads it: of one worker, of two, and without any."""

import json
import os
import pathlib
import signal
import socket
import sys
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from frozendict import frozendict
from prometheus_client.parser import text_string_to_metric_families
from starlette.requests import Request
from starlette.responses import Response

from ripieno.canisters import AssistantCanister, InvocationCanister
from ripieno.canisters.conversation import Usage
from ripieno.canisters.events import Event, play
from ripieno.jsonvalues import freeze
from ripieno.servers.http.keys import digest_of
from tests.servers.http.test_workers import Backend, Gateway, configured
from tests.skips import needs
from tests.support.command_line import PATIENCE, User
from tests.support.gateways import KINDS, Front, before, fronting, says
from tests.support.loopback_servers import serving

CHAT = KINDS["openai-chat"]
CANARY = "canary-4711"
KEY = "a-key-of-many-letters-" + CANARY
REQUESTS, ACTIVE = "ripieno_gateway_requests_total", "ripieno_gateway_active_requests"
SECONDS, FIRST = "gen_ai_server_request_duration_seconds", "gen_ai_server_time_to_first_token_seconds"
TOKENS, CALLS = "gen_ai_client_token_usage_total", "gen_ai_execute_tool_duration_seconds"
REFUSALS, DEPARTURES = "ripieno_gateway_refusals_total", "ripieno_gateway_departures_total"
RETRIES, BREAKERS = "ripieno_gateway_retries_total", "ripieno_gateway_breaker_openings_total"
LABELS = ("ripieno_wire", "gen_ai_provider_name", "gen_ai_request_model", "http_response_status_code")
USAGE = Usage(input_tokens=100, output_tokens=7)


@pytest.fixture
def backend(user: User) -> Iterator[Backend]:
    """A model that answers when it is let go."""
    with configured(user) as one:
        yield one


class Told:
    """The samples of one answer."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]

    def values(self, name: str, *labels: str) -> dict[tuple[str, ...], float]:
        """The values of a metric, by what these labels say."""
        found: dict[tuple[str, ...], float] = {}
        for sample in self.samples:
            if sample.name == name:
                key = tuple(sample.labels[label] for label in labels)
                found[key] = found.get(key, 0) + sample.value
        return found

    def one(self, name: str, **labels: str) -> float:
        """The sum of those with these labels."""
        return sum(
            sample.value
            for sample in self.samples
            if sample.name == name and labels.items() <= {**sample.labels}.items()
        )


async def scrape(front: Front, **headers: str) -> Told:
    async with front.plain() as client:
        answer = await client.get("/metrics", headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return Told(answer.text)


async def post(front: Front, path: str, body: Any, **headers: str) -> httpx2.Response:
    async with front.plain() as client:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await client.post(path, content=content, headers={"content-type": "application/json", **headers})


def asks(model: str = "small", **members: Any) -> dict[str, Any]:
    return {"model": model, "input": f"Say {CANARY}.", **members}


def chats(model: str = "small", **members: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": f"Say {CANARY}."}], **members}


def speaks(_: Any) -> list[Event]:
    return list(play([AssistantCanister.of(f"I say {CANARY}.")], finish="stop", usage=USAGE, model="m"))


async def test_requests_are_counted_under_names_that_the_operator_gave(tmp_path: pathlib.Path) -> None:
    settings = {"map": frozendict({"*": "back/small"}), "keys": frozendict({"laptop": digest_of(KEY)})}
    async with before(tmp_path, CHAT, speaks, **settings) as (front, _):
        key = {"authorization": f"Bearer {KEY}"}
        for stream in (True, False, False):
            assert (await post(front, "/v1/responses", asks(CANARY, stream=stream), **key)).status_code == 200
        assert (await post(front, "/v1/chat/completions", chats(CANARY, stream=True), **key)).status_code == 200
        assert (await post(front, "/v1/responses", b"{" + CANARY.encode(), **key)).status_code == 400
        assert (await post(front, "/v1/responses", asks())).status_code == 401
        assert (await post(front, f"/v1/{CANARY}", {}, **key)).status_code == 404
        async with front.plain() as client:
            assert (await client.get("/metrics")).status_code == 401
        told = await scrape(front, **key)
    wire, provider, model, _ = LABELS
    assert told.values(REQUESTS, *LABELS) == {
        ("openai-responses", "back", "small", "200"): 3,
        ("openai-chat", "back", "small", "200"): 1,
        ("openai-responses", "", "", "400"): 1,
        ("openai-responses", "", "", "401"): 1,
        ("", "", "", "404"): 1,
        ("", "", "", "401"): 1,
    }
    assert told.values(f"{SECONDS}_count", model, "error_type") == {("small", ""): 4, ("", "400"): 1}
    assert 0 < told.one(f"{SECONDS}_sum", gen_ai_request_model="small") < 60
    assert told.values(f"{FIRST}_count", provider, model) == {("back", "small"): 2}
    assert told.values(TOKENS, model, "gen_ai_token_type") == {("small", "input"): 400, ("small", "output"): 28}
    assert told.values(REFUSALS, "ripieno_refusal_reason") == {
        ("bad_request",): 1,
        ("invalid_api_key",): 2,
        ("not_found",): 1,
    }
    assert set(told.values(ACTIVE, wire).values()) == {0}
    for secret in (CANARY, KEY, digest_of(KEY), "laptop", "key-of-the-backend"):
        assert secret not in told.text


async def test_retries_breakers_and_failures_of_a_backend(tmp_path: pathlib.Path) -> None:
    async def fails(_: Request) -> Response:
        return Response(f"no {CANARY}", status_code=500, headers={"retry-after-ms": "1"})

    provider = {"retries": 2, "breaker": {"failures": 5, "cooldown": 600}}
    async with serving(fails) as (url, _), fronting(tmp_path, CHAT, f"{url}/v1", provider=provider) as front:
        for _ in range(3):
            answer = await post(front, "/v1/responses", asks())
        # Whoever asks a backend that is left alone reads for how long.
        assert (answer.status_code, 1 <= int(answer.headers["retry-after"]) <= 600) == (503, True)
        told = await scrape(front)
    # Three tries, then two with which it is left alone: the last try of the second request is not made.
    assert told.values(RETRIES, "gen_ai_provider_name", "gen_ai_request_model") == {("back", "small"): 4}
    assert told.values(BREAKERS, "gen_ai_provider_name") == {("back",): 1}
    assert sum(told.values(REFUSALS, "ripieno_refusal_reason").values()) == 3
    assert CANARY not in told.text


async def test_calls_that_run_here_are_counted_and_others_are_not(tmp_path: pathlib.Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "a.txt").write_text(f"{CANARY}\n")
    calls = [
        ("read_file", "a.txt"),
        ("read_file", f"{CANARY}.txt"),
        ("write_file", "b"),
        ("shell", CANARY),
        (CANARY, ""),
    ]

    def speaker(_: Any) -> list[Event]:
        said = [
            InvocationCanister(identifier=f"call_{number}", name=name, arguments=freeze({"path": path}))
            for number, (name, path) in enumerate(calls)
        ]
        return says(CHAT, [AssistantCanister(), *said])

    tools = [{"type": "function", "name": "shell", "parameters": {"type": "object"}}]
    async with before(tmp_path, CHAT, speaker, ensembles=("io",)) as (front, _):
        assert (await post(front, "/v1/responses", asks(tools=tools, stream=True))).status_code == 200
        told = await scrape(front)
    counted = told.values(f"{CALLS}_count", "gen_ai_tool_name", "error_type")
    assert counted.pop(("io.read_file", "")) == 1
    assert {tool for tool, _ in counted} == {"io.read_file"}
    assert sum(counted.values()) == 1
    assert CANARY not in told.text


async def test_where_nobody_counts_it_is_said_what_to_do(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with before(tmp_path, CHAT, speaks, metrics=False) as (front, _), front.plain() as client:
        answer = await client.get("/metrics")
        assert (answer.status_code, "metrics = false" in answer.text) == (404, True)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    async with before(tmp_path, CHAT, speaks) as (front, _), front.plain() as client:
        answer = await client.get("/metrics")
        assert (answer.status_code, "pip install 'ripieno[otel]'" in answer.text) == (404, True)
        assert (await post(front, "/v1/responses", asks())).status_code == 200


def scrape_of(gateway: Gateway) -> Told:
    status, body = gateway.ask(path="/metrics")
    assert status == 200
    return Told(body.decode())


@needs("/proc", there=sys.platform == "linux")
def test_each_of_two_workers_tells_the_sum_of_both(user: User, backend: Backend, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    with user.start("serve", "responses", "--port", "0", "--workers", "2", TMPDIR=str(folder)) as process:
        gateway = Gateway(process)
        workers = gateway.workers
        count = len(workers)
        for stopped in workers:
            # The other one answers.
            os.kill(stopped, signal.SIGSTOP)
            assert gateway.play()[0] == 200
            os.kill(stopped, signal.SIGCONT)
        # A request has ended for the gateway when its client has all of it, and a moment longer.
        while scrape_of(gateway).one(REQUESTS) < count:
            pass
        told = [scrape_of(gateway) for _ in range(20)]
        assert {one.one(REQUESTS, http_response_status_code="200") for one in told} == {count}
        assert told[0].one(TOKENS, gen_ai_token_type="input") == count
        assert told[0].one(f"{SECONDS}_bucket", le="+Inf") == told[0].one(f"{SECONDS}_count") == count
        while backend.asked.acquire(blocking=False):
            pass
        backend.go.clear()
        with socket.create_connection(("127.0.0.1", gateway.port)) as client:
            body = b'{"model": "small-1", "input": "Are you there?"}'
            head = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            client.sendall(b"POST /v1/responses HTTP/1.1\r\n" + head.encode() + body)
            assert backend.asked.acquire(timeout=PATIENCE)
            assert scrape_of(gateway).one(ACTIVE) == 1
            # Whoever is killed leaves what it had counted, and nothing under way.
            for worker in gateway.workers:
                os.kill(worker, signal.SIGKILL)
                gateway.wait_for(r"was killed by signal 9\. Another one starts in .*\.")
        backend.go.set()
        told = [scrape_of(gateway)]
        assert (told[0].one(ACTIVE), told[0].one(REQUESTS, http_response_status_code="200")) == (0, count)
        gateway.end()
    assert list(folder.iterdir()) == []
