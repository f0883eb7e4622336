"""Keys are nowhere but on the wire: in no message, no representation, no chain of exceptions, and no log."""

import asyncio
import base64
import json
import logging
import urllib.parse
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from ripieno.canisters import UserCanister
from ripieno.canisters.events import Event
from ripieno.descriptors.timeouts import Timeouts
from ripieno.exceptions import ProviderFailure
from ripieno.models import Model, Protocol
from ripieno.models.protocols.anthropic import PROTOCOL as ANTHROPIC
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from ripieno.models.transport.clouds import reach
from tests.support.loopback_models import both, endpoint, golden, model_over
from tests.support.loopback_servers import chunked, serving, talking, until_eof

KEY = "sk-SECRET-/+0123456789=="
TOKEN = "header-SECRET-value"
PASSWORD = "url-SECRET-pass/word"
QUERY = "query-SECRET-0123456789"
SESSION = "session-SECRET-0123456789"
BASIC = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
SECRETS = [KEY, TOKEN, PASSWORD, QUERY, SESSION, BASIC]
FORMS = [form for secret in SECRETS for form in (secret, urllib.parse.quote(secret, safe=""), json.dumps(secret)[1:-1])]
Answer = Callable[[Request], Awaitable[Response]]


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Everything that anybody logs, down to the last detail; in the end none of it has a secret."""
    with caplog.at_level(logging.DEBUG):
        yield caplog
    for record in caplog.get_records("call"):
        for form in FORMS:
            assert form not in record.getMessage(), record.name
            assert form not in repr(record.args), record.name


def model_at(url: str, protocol: Protocol = CHAT, *, retries: int = 0, password: bool = True, **fields: Any) -> Model:
    """A model whose endpoint has a secret in every place that may have one; a password goes before the key."""
    person = f"me:{urllib.parse.quote(PASSWORD, safe='')}@" if password else ""
    place = f"http://{person}{url.removeprefix('http://')}/v1?key={QUERY}"
    settings = {"key": KEY, "headers": {"X-Token": TOKEN}, **fields}
    return model_over(*reach(endpoint(place, protocol, **settings), protocol), retries=retries, output_tokens=9)


def everything_in(error: BaseException | None) -> Iterator[str]:
    """What anybody can be shown of an error, and of all that is chained to it."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield from (str(one), repr(one), repr(one.args))
        for name, value in vars(one).items():
            yield f"{name} {value!r}"
            # A request knows its headers, and shows them to whoever asks.
            yield f"{name} {getattr(value, 'headers', '')!r} {getattr(value, 'url', '')}"
        waiting += (one.__cause__, one.__context__)


async def failure(model: Model) -> ProviderFailure:
    """The error of one turn, in which there is no secret."""
    alerts: list[Event] = []

    async def listen() -> None:
        async for event in model.stream([UserCanister.of("Hi.")]):
            alerts.append(event)

    try:
        with pytest.raises(ProviderFailure) as caught:
            await listen()
    finally:
        await model.provider.transport.close()
    for shown in (*everything_in(caught.value), repr(alerts), repr(model)):
        for form in FORMS:
            assert form not in shown, shown
    return caught.value


def echoed(request: Request) -> str:
    """All secrets that came, in the words of a careless server."""
    assert request.headers["x-token"] == TOKEN
    assert urllib.parse.parse_qs(request.url.query)["key"] == [QUERY]
    given = [PASSWORD] if request.headers.get("authorization", "").startswith("Basic ") else []
    return " ".join([*request.headers.values(), str(request.url), *given])


def refusing(status: int, **settings: Any) -> Answer:
    async def answer(request: Request) -> Response:
        said = echoed(request)
        escaped = "".join(f"\\u{ord(character):04x}" for character in KEY)
        body = f'{{"error":{{"message":{json.dumps(said)},"detail":"{escaped}","keys":[{{"{escaped}":1}}]}}}}'
        # Names and values of headers are logged by what is beneath us.
        headers = {"x-echo": said, "location": f"http://elsewhere.example/?key={KEY}&token={TOKEN}", **settings}
        return Response(body, status_code=status, headers=headers)

    return answer


@both
@pytest.mark.parametrize("password", [False, True])
@pytest.mark.parametrize("status", [307, 400, 401, 503])
async def test_a_refusal_that_says_everything_it_was_told(protocol: Protocol, status: int, password: bool) -> None:
    async with serving(refusing(status, **{"retry-after-ms": "1"})) as (url, asked):
        error = await failure(model_at(url, protocol, retries=1, password=password))
    assert "[hidden]" in str(error)
    assert len(asked) == 1 + (status == 503)
    # It was on the wire, all the same.
    assert asked[0].headers["authorization"] == (f"Basic {BASIC}" if password else f"Bearer {KEY}")
    assert asked[0].path == f"/v1{protocol.path}"


@pytest.mark.parametrize("kind", ["text/html", "text/event-stream", "application/json"])
async def test_an_answer_that_is_none_and_says_everything(kind: str) -> None:
    async def answer(request: Request) -> Response:
        page = f"data: <p>{echoed(request)[-100:]}" if kind != "application/json" else f"<p>{KEY} {TOKEN}"
        return Response(f"{page}\n\n", media_type=kind)

    async with serving(answer) as (url, _):
        assert "<p>" in str(await failure(model_at(url)))


async def test_an_error_in_a_stream_that_says_everything() -> None:
    async def answer(request: Request) -> Response:
        error = {"type": "error", "error": {"type": "authentication_error", "message": echoed(request)}}
        return Response(f"event: error\ndata: {json.dumps(error)}\n\n", media_type="text/event-stream")

    async with serving(answer) as (url, _):
        assert "[hidden]" in str(await failure(model_at(url, ANTHROPIC)))


@pytest.mark.parametrize(
    "said",
    [
        b"",
        chunked(b"data: {", end=False),
        b"HTTP/1.1 200 OK\r\n" + KEY.encode() + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n: " + TOKEN.encode() + b"\r\n\r\n",
        KEY.encode() + b"\r\n\r\n",
    ],
    ids=["nothing", "half", "no header", "a nameless header", "no HTTP"],
)
async def test_a_connection_that_breaks(said: bytes) -> None:
    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        await writer.drain()
        writer.write_eof()

    async with talking(talk) as (url, _):
        await failure(model_at(url))


async def test_silence_and_nobody() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await until_eof(reader)

    async with talking(talk) as (url, _):
        await failure(model_at(url, timeouts=Timeouts(first_byte=0.2)))
    await failure(model_at(url))


async def test_a_signature_and_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE0000000",
        "AWS_SECRET_ACCESS_KEY": "never-logged",
        "AWS_SESSION_TOKEN": SESSION,
    }.items():
        monkeypatch.setenv(name, value)

    async def answer(request: Request) -> Response:
        assert request.headers["x-amz-security-token"] == SESSION
        return Response(b'{"message":"no"}', status_code=403)

    async with serving(answer) as (url, asked):
        model = model_at(url, ANTHROPIC, cloud="bedrock", region="eu-secret-1", key=None)
        assert "HTTP 403: no" in str(await failure(model))
    assert len(asked) == 1


async def test_what_goes_well_is_as_silent(logged: pytest.LogCaptureFixture) -> None:
    async def answer(request: Request) -> Response:
        return Response(
            golden(CHAT, "sse"), media_type="text/event-stream", headers={"x-echo": request.headers["authorization"]}
        )

    async with serving(answer) as (url, _):
        model = model_at(url)
        await model.converse([UserCanister.of("Hi.")])
        # What a library says of a request, whichever of them does, and however it was told.
        for name in ("aiohttp.client", "httpx2", "httpcore2.http11", "openai._base_client"):
            logging.getLogger(name).debug(
                "POST %s with %r", f"{url}/v1?key={QUERY}", {"authorization": f"Bearer {KEY}"}
            )
        await model.provider.transport.close()
    lines = [record.getMessage() for record in logged.get_records("call") if record.getMessage().startswith("POST")]
    assert len(lines) == 4
    assert all(line.count("[hidden]") == 2 for line in lines)
