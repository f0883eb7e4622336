"""What is logged and traced of real requests: one line for each, calls for whoever debugs, spans; never contents."""

import json
import logging
import pathlib
import re
import socket
from collections.abc import Mapping
from typing import Any

import httpx2
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from starlette.requests import Request
from starlette.responses import Response

from ripieno.canisters.events import ConductEnded, Event, TurnBegan, TurnEnded
from ripieno.cli.common.observers import LogFormat, observed
from ripieno.descriptors.names import spelled
from ripieno.servers.http.keys import digest_of
from ripieno.testing import call, turn
from tests.conducting.observers.test_tracing import Observed
from tests.servers.gateway.test_metrics import CANARY, CHAT, KEY, asks, chats, post, speaks
from tests.support.command_line import User
from tests.support.gateways import before, fronting, rehearsing
from tests.support.loopback_servers import serving

#: A name that would clear a screen, begin a line of its own, and be long.
WILD = "look\x1b[2J\nERROR forged\u202e" + "x" * 200
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else writes what is logged: commands that ran in this process leave their handlers."""
    root = logging.getLogger()
    own = [handler for handler in root.handlers if type(handler).__module__.startswith("_pytest")]
    monkeypatch.setattr(root, "handlers", own)


def chunk(**delta: Any) -> dict[str, Any]:
    return {"model": "small", "choices": [{"index": 0, "delta": delta}]}


def fragment(*, name: str | None = None, arguments: str | None = None, index: int = 0) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    given = {key: value for key, value in function.items() if value is not None}
    return chunk(tool_calls=[{"index": index, "function": given}])


def streamed(*chunks: Mapping[str, Any], finish: str = "tool_calls") -> Response:
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": {"prompt_tokens": 3}}
    text = "".join(f"data: {json.dumps(one)}\n\n" for one in (*chunks, last))
    return Response(text + "data: [DONE]\n\n", media_type="text/event-stream")


async def test_one_line_for_each_request(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = {"authorization": f"Bearer {KEY}"}
    async with before(tmp_path, CHAT, speaks, keys={"laptop": digest_of(KEY)}) as (front, _):
        with observed("json"):
            assert (await post(front, "/v1/responses", asks(CANARY, stream=True), **key)).status_code == 200
            assert (await post(front, "/v1/chat/completions", chats(CANARY), **key)).status_code == 200
            assert (await post(front, "/v1/responses", asks(tool_choice=CANARY), **key)).status_code == 400
            assert (await post(front, f"/v1/{CANARY}", {})).status_code == 401
        assert (await post(front, "/v1/responses", asks(), **key)).status_code == 200
    text = capsys.readouterr().err
    told = [json.loads(line) for line in text.splitlines()]
    names = ("wire", "model", "status", "input_tokens", "output_tokens", "caller")
    assert [tuple(one[name] for name in names) for one in told] == [
        ("openai-responses", "back/small", 200, 100, 7, "laptop"),
        ("openai-chat", "back/small", 200, 100, 7, "laptop"),
        ("openai-responses", "", 400, 0, 0, "laptop"),
        ("", "", 401, 0, 0, ""),
    ]
    assert [one["reason"] for one in told] == ["", "", "tool_choice", "invalid_api_key"]
    assert {one["level"] for one in told} == {"info"}
    assert all(0 <= one["milliseconds"] < 60_000 for one in told)
    assert told[0]["message"].startswith("openai-responses back/small: 200 in ")
    assert told[0]["message"].endswith(" ms, 100 tokens in, 7 out, for laptop.")
    assert CANARY not in text


async def test_whoever_runs_it_is_told_why_nothing_is_answered(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        async with fronting(tmp_path, CHAT, url) as front:
            with observed("text"):
                assert (await post(front, "/v1/responses", asks(CANARY))).status_code == 502
                assert (await post(front, "/responses", asks(CANARY))).status_code == 404
    first, second, third = capsys.readouterr().err.splitlines()
    assert re.search(rf" WARNING \[req_[0-9a-f]{{24}}\] back: Nothing answers at {url}", first)
    assert "] openai-responses back/small: 502 in" in second
    assert re.search(r" INFO \[req_[0-9a-f]{24}\] - -: 404 \(nothing at /responses\) in", third)


async def test_an_answer_and_all_lines_of_its_request_have_one_identifier(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "a.txt").write_text(CANARY)
    answers: list[httpx2.Response] = []
    script = [turn(calls=[call("read_file", path="a.txt")]), turn("Done.")]
    with observed("json") as watchers:
        settings: dict[str, Any] = {"ensembles": ("io",), "watchers": watchers}
        async with before(tmp_path, CHAT, [*script, turn("Later.")], **settings) as (front, _):
            answers.append(await post(front, "/v1/responses", asks(stream=True)))
            answers.append(await post(front, "/v1/messages", {}))
            answers.append(await post(front, "/nowhere", {}))
            answers.append(await post(front, "/v1/responses", asks(), **{"x-request-id": "balancer:0042"}))
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    names = [one.headers["x-request-id"] for one in answers]
    assert [one.headers["request-id"] for one in answers] == names
    assert len({*names}) == 4
    assert names[3] == "balancer:0042"
    statuses = [[line.get("status") for line in lines if line["request"] == name][-1] for name in names]
    assert statuses == [one.status_code for one in answers] == [200, 400, 404, 200]
    tools = [line["tool"] for line in lines if line["request"] == names[0] and "tool" in line]
    assert tools == ["io.read_file"]
    assert {line["request"] for line in lines} == {*names}


@pytest.mark.parametrize("name", ["short", "x" * 65, "with a space", 'quoted"', ""])
async def test_an_identifier_is_only_taken_where_it_can_be_one(tmp_path: pathlib.Path, name: str) -> None:
    async with before(tmp_path, CHAT, speaks) as (front, _):
        answer = await post(front, "/v1/responses", asks(), **{"x-request-id": name})
    assert re.fullmatch("req_[0-9a-f]{24}", answer.headers["x-request-id"])


async def test_debugging_tells_calls_by_name_index_and_bytes(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = f'{{"secret": "{CANARY}', '-ü"}'

    async def answers(_: Request) -> Response:
        early = (fragment(arguments=first), fragment(arguments=second[:-2]), fragment(name=WILD))
        return streamed(*early, fragment(arguments=second[-2:]), fragment(name="read", arguments="{}", index=1))

    tools = [{"type": "function", "name": name, "parameters": {"type": "object"}} for name in ("read", "look")]
    history = [
        {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": json.dumps({"a": CANARY})},
        {"type": "function_call_output", "call_id": "call_1", "output": CANARY},
    ]
    said = asks(stream=True, tools=tools) | {"input": [{"role": "user", "content": CANARY}, *history]}
    async with serving(answers) as (url, _), fronting(tmp_path, CHAT, f"{url}/v1") as front:
        with observed("json", debug=True):
            assert (await post(front, "/v1/responses", said)).status_code == 200
    text = capsys.readouterr().err
    told = [json.loads(line) for line in text.splitlines()]
    early = len(first.encode())
    whole = early + len(second.encode())
    wild = spelled(WILD)
    assert [(one["message"], one.get("bytes")) for one in told if one["level"] == "debug"] == [
        ("The input has the call read (call_1).", None),
        ("The input has a result of call_1.", None),
        (f"Arguments wait for the name of their call (index 0, {early} bytes).", early),
        (f"Arguments wait for the name of their call (index 0, {whole - early - 2} bytes).", whole - early - 2),
        (f"Arguments that waited for the name {wild} are sent on ({whole - 2} bytes).", whole - 2),
        # The other one is not declared, and does not reach the client.
        ("The call read begins (index 0).", None),
        ("The call read is complete (index 0, 2 bytes of arguments).", 2),
    ]
    (warning,) = [one["message"] for one in told if one["level"] == "warning"]
    assert warning.endswith(f"called {wild}, which this request does not declare: call omitted.")
    assert CANARY not in text


@pytest.mark.parametrize("form", ["text", "json"])
async def test_no_name_forges_a_line_or_acts_on_a_terminal(
    form: LogFormat, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def answers(_: Request) -> Response:
        return streamed(fragment(name=WILD, arguments="{}"))

    said: Any = [
        {"role": "user", "content": "Go."},
        {"type": "function_call", "call_id": WILD, "name": WILD, "arguments": "{}"},
        {"type": "function_call_output", "call_id": WILD, "output": "x"},
    ]
    tools = [{"type": "function", "name": "look", "parameters": {"type": "object"}}]
    async with serving(answers) as (url, _), fronting(tmp_path, CHAT, f"{url}/v1") as front:
        with observed(form, debug=True):
            for more in ({}, {"tool_choice": "none"}, {"parallel_tool_calls": False}):
                await post(front, "/v1/responses", asks(WILD, stream=True, tools=tools, **more) | {"input": said})
            await post(front, "/v1/responses", asks(WILD, tools=[{"type": WILD}]))
    text = capsys.readouterr().err
    assert "look" in text
    assert not any(line.startswith("ERROR") for line in text.splitlines())
    assert max(map(len, text.splitlines())) < 800
    assert text.replace("\n", "").isprintable()
    assert text.isascii()


def test_names_are_cut_and_plain_ones_stay() -> None:
    assert spelled("io.read_file") == "io.read_file"
    assert spelled("a\nb\x1b\u202e\U0001f600") == r"a\nb\x1b\u202e\U0001f600"
    assert spelled("x" * 65) == "x" * 64 + "..."


class Traced(Observed):
    """What collects spans, and events as watchers are told them."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[tuple[str, str, list[Event]]] = []

    def watch(self, conversation: str, model: str) -> Any:
        events: list[Event] = []
        self.runs.append((conversation, model, events))
        return events.append


@pytest.fixture
def traced() -> Traced:
    return Traced()


async def ask(tmp_path: pathlib.Path, traced: Traced, url: str, body: Any, **settings: Any) -> int:
    """The status of one request, which has a parent, to a gateway whose runs and translations are watched."""
    async with fronting(tmp_path, CHAT, url, watchers=(traced.telemetry, traced.watch), **settings) as front:
        headers = {"traceparent": PARENT, "baggage": f"user={CANARY}"}
        return (await post(front, "/v1/responses", body, **headers)).status_code


def check_parent(spans: Mapping[str, ReadableSpan]) -> None:
    agent = spans["invoke_agent"]
    assert agent.parent is not None
    assert agent.context is not None
    assert f"{agent.parent.trace_id:032x}-{agent.parent.span_id:016x}" == PARENT[3:-3]
    for name, span in spans.items():
        if name != "invoke_agent":
            assert span.parent is not None
            assert (span.parent.span_id, span.context.trace_id) == (agent.context.span_id, agent.parent.trace_id)  # type: ignore[union-attr]


@pytest.mark.parametrize("stream", [True, False])
async def test_what_is_only_translated_is_watched_as_a_run(
    stream: bool, tmp_path: pathlib.Path, traced: Traced
) -> None:
    async with rehearsing(CHAT, [turn(f"I say {CANARY}.", calls=[call("look", where=CANARY)])]) as backend:
        tools = [{"type": "function", "name": "look", "parameters": {"type": "object"}}]
        assert await ask(tmp_path, traced, backend.url, asks(stream=stream, tools=tools)) == 200
    ((conversation, model, events),) = traced.runs
    assert (model, len(conversation)) == ("back/small", 32)
    assert events[0] == TurnBegan(model="back/small", turn=1)
    ended, last = events[-2:]
    assert isinstance(ended, TurnEnded)
    assert (ended.turn, ended.finish) == (1, "invocations")
    assert last == ConductEnded(finish="invocations", turns=1, calls=0, usage=ended.usage)
    assert set(traced.spans) == {"invoke_agent", "chat small"}
    check_parent(traced.spans)
    assert CANARY not in str([span.to_json() for span in traced.spans.values()])


async def test_what_runs_here_is_watched_once(tmp_path: pathlib.Path, traced: Traced) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "a.txt").write_text(CANARY)
    async with rehearsing(CHAT, [turn(calls=[call("read_file", path="a.txt")]), turn("Done.")]) as backend:
        assert await ask(tmp_path, traced, backend.url, asks(), ensembles=("io",)) == 200
    ((_, model, events),) = traced.runs
    assert model == "back/small"
    assert events[-1].mapping()["calls"] == 1
    assert set(traced.spans) == {"invoke_agent", "chat small", "execute_tool io.read_file"}
    check_parent(traced.spans)
    assert CANARY not in str([span.to_json() for span in traced.spans.values()])


async def test_what_fails_is_watched_to_its_end(tmp_path: pathlib.Path, traced: Traced) -> None:
    async def fails(_: Request) -> Response:
        return Response(CANARY, status_code=500)

    async with serving(fails) as (url, _):
        assert await ask(tmp_path, traced, f"{url}/v1", asks()) == 502
    ((_, _, events),) = traced.runs
    assert events == [ConductEnded(finish="error", turns=0, calls=0)]
    assert dict(traced.spans["invoke_agent"].attributes or {})["error.type"] == "error"


async def test_a_watcher_that_fails_fails_alone(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    def watch(conversation: str, model: str) -> Any:
        def take(event: Event) -> None:
            raise ValueError("It cannot.")

        return take

    async with before(tmp_path, CHAT, [turn("Hi.")], watchers=[watch]) as (front, _):
        assert (await post(front, "/v1/responses", asks())).status_code == 200
    assert "A watcher failed." in caplog.text


def test_the_command_logs_one_line_for_a_translated_request(user: User) -> None:
    from tests.servers.http.test_workers import Gateway, configured

    with (
        configured(user),
        user.start("serve", "responses", "--port", "0", "--log-format", "json", "--debug") as process,
    ):
        gateway = Gateway(process)
        assert gateway.play()[0] == 200
        gateway.wait_for('"status": 200.*\n')
        said = gateway.end()
    assert "A run begins" not in said
    # What is for people is in the log as well, and nobody says again what the log says.
    assert [json.loads(line)["message"] for line in said.splitlines()] == ["The server has ended."]
    assert logging.getLogger("ripieno").handlers == []
