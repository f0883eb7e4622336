"""What the official clients make of requests that fail, before the first token and in the middle of an answer."""

import contextlib
import pathlib
import socket
from collections.abc import AsyncGenerator
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from frozendict import frozendict
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Mount

from ripieno.canisters import AssistantCanister
from ripieno.descriptors import GatewayDescriptor
from ripieno.models.protocol import Refusal
from ripieno.servers.gateway.application import create_application as gateway
from ripieno.servers.http.keys import digest_of
from ripieno.servers.http.listeners import bind
from ripieno.servers.http.server import serve
from ripieno.testing import turn
from ripieno.testing.rehearsal.server import base_url, create_application
from ripieno.testing.scores import Score
from tests.support.gateways import KINDS, Front, Kind, before, fronting, kinds, read, says
from tests.support.loopback_servers import serving
from tests.support.openresponses_checker import StreamChecker

SAID: Any = [{"role": "user", "content": "Go."}]


async def _responses(front: Front, stream: bool, **settings: Any) -> Any:
    async with front.openai(**settings) as client:
        if not stream:
            return await client.responses.create(model="m", input="Go.")
        async with client.responses.stream(model="m", input="Go.") as events:
            return await events.get_final_response()


async def _chat(front: Front, stream: bool, **settings: Any) -> Any:
    async with front.openai(**settings) as client:
        if not stream:
            return await client.chat.completions.create(model="m", messages=SAID)
        async with client.chat.completions.stream(model="m", messages=SAID) as events:
            return await events.get_final_completion()


async def _messages(front: Front, stream: bool, **settings: Any) -> Any:
    async with front.anthropic(**settings) as client:
        if not stream:
            return await client.messages.create(model="m", max_tokens=99, messages=SAID)
        async with client.messages.stream(model="m", max_tokens=99, messages=SAID) as events:
            return await events.get_final_message()


#: Each way of asking, and where its client has its exceptions.
CLIENTS: dict[str, tuple[Any, Any]] = {
    "responses": (_responses, openai),
    "chat": (_chat, openai),
    "messages": (_messages, anthropic),
}


async def fails(front: Front, name: str, words: str, **settings: Any) -> list[Any]:
    """The exceptions of all clients, each asked for whole and streamed; all are of that class, and have these words.

    Whoever sees one can name its request to whoever runs the gateway.
    """
    caught: list[Any] = []
    for ask, library in CLIENTS.values():
        for stream in (False, True):
            with pytest.raises(getattr(library, name), match=words) as raised:
                await ask(front, stream, **settings)
            caught.append(raised.value)
    assert all(one.request_id.startswith("req_") for one in caught if isinstance(one, openai.APIStatusError))
    assert all(one.request_id.startswith("req_") for one in caught if isinstance(one, anthropic.APIStatusError))
    return caught


@contextlib.asynccontextmanager
async def refusing(
    folder: pathlib.Path,
    kind: Kind,
    status: int,
    *,
    words: str = "Words of the backend.",
    headers: dict[str, str] | None = None,
) -> AsyncGenerator[Front, None]:
    """A gateway in front of a backend that refuses everything, in the form of its wire."""

    async def answer(_: Request) -> Response:
        body = kind.protocol.refuse(Refusal(status=status, message=words))
        return Response(body, status_code=status, media_type="application/json", headers=headers)

    async with (
        serving(answer) as (url, _),
        fronting(folder, kind, base_url(url, kind.protocol), provider={"breaker": {"failures": 0}}) as front,
    ):
        yield front


# Before the first token.

#: What a backend answers, and what it is to clients of the gateway. Whose key is not taken there is the gateway's.
STATUSES = {
    400: ("BadRequestError", 400),
    401: ("InternalServerError", 502),
    403: ("InternalServerError", 502),
    404: ("InternalServerError", 502),
    422: ("UnprocessableEntityError", 422),
    429: ("RateLimitError", 429),
    500: ("InternalServerError", 502),
    503: ("InternalServerError", 502),
}


@kinds
async def test_a_refusal_of_the_backend_is_the_error_of_the_client(kind: Kind, tmp_path: pathlib.Path) -> None:
    # How a status is passed on does not depend on the backend; how it is read does.
    for status, (name, told) in STATUSES.items() if kind.name == "openai-chat" else [(429, STATUSES[429])]:
        headers = {"retry-after": "7"} if status in (429, 503) else None
        async with refusing(tmp_path, kind, status, headers=headers) as front:
            for error in await fails(front, name, "Words of the backend"):
                assert error.status_code == told, status
                assert "key-of-the-backend" not in str(error)
                if status == 429:
                    assert error.response.headers["retry-after"] == "7"


async def test_the_log_has_the_reason_of_a_refused_request_once(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with refusing(tmp_path, KINDS["openai-chat"], 400, words="Unknown parameter: top_q.") as front:
        with pytest.raises(openai.BadRequestError):
            await _responses(front, False)
    assert [
        one.getMessage().count("Unknown parameter: top_q.") for one in caplog.records if "top_q" in one.getMessage()
    ] == [1]


async def test_a_conversation_that_is_too_long_says_so_as_clients_look_for_it(tmp_path: pathlib.Path) -> None:
    words = "This model's maximum context length is 10 tokens."
    async with refusing(tmp_path, KINDS["openai-chat"], 400, words=words) as front:
        with pytest.raises(openai.BadRequestError) as caught:
            await _responses(front, True)
        assert caught.value.code == "context_length_exceeded"


@kinds
async def test_a_backend_that_is_not_there(kind: Kind, tmp_path: pathlib.Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = base_url(f"http://127.0.0.1:{taken.getsockname()[1]}", kind.protocol)
        async with fronting(tmp_path, kind, url, provider={"breaker": {"failures": 0}}) as front:
            for error in await fails(front, "InternalServerError", "Nothing answers at the endpoint"):
                assert error.status_code == 502
                assert not any(part in str(error) for part in ("127.0.0.1", str(taken.getsockname()[1])))


async def test_a_server_of_this_machine_is_asked_as_soon_as_it_is_there(tmp_path: pathlib.Path) -> None:
    """It is no reason to leave it alone that somebody has yet to start it."""
    kind, provider = KINDS["openai-chat"], {"breaker": {"failures": 1, "cooldown": 600}}
    async with contextlib.AsyncExitStack() as stack:
        # Bound and not listening: nothing answers, and no other program gets the port.
        place = stack.enter_context(bind("127.0.0.1", 0)).getsockname()
        url = f"http://127.0.0.1:{place[1]}/v1"
        front = await stack.enter_async_context(fronting(tmp_path, kind, url, provider=provider))
        for error in await fails(front, "InternalServerError", "Nothing answers at"):
            assert error.status_code == 502
        rehearsed = create_application(Score.of_turns([turn("Here I am.")]), [kind.protocol])
        async with serve(rehearsed, port=place[1]):
            for ask, _ in CLIENTS.values():
                await ask(front, False)


async def test_a_model_that_nobody_knows(tmp_path: pathlib.Path) -> None:
    settings: dict[str, Any] = {"map": frozendict[str, str](), "models": ("back/small",)}
    async with before(tmp_path, KINDS["openai-chat"], [turn("Never.")], **settings) as (front, backend):
        for error in await fails(front, "NotFoundError", "There is no model 'm'|no model named 'm'"):
            assert error.status_code == 404
            if isinstance(error, openai.APIError):
                assert error.code == "model_not_found"
                assert error.param == "model"
    assert backend.asked == []


async def test_a_key_that_is_wrong(tmp_path: pathlib.Path) -> None:
    keys = frozendict({"laptop": digest_of("a-key-of-many-letters")})
    async with before(tmp_path, KINDS["openai-chat"], [turn("Yes.")], keys=keys) as (front, backend):
        for error in await fails(front, "AuthenticationError", "key is missing or wrong"):
            assert error.status_code == 401
        async with front.plain() as client:
            answer = await client.post("/v1beta/models/m:generateContent", json={})
        assert (answer.status_code, answer.json()["error"]["status"]) == (401, "UNAUTHENTICATED")
        assert backend.asked == []
        for ask, _ in CLIENTS.values():
            await ask(front, True, api_key="a-key-of-many-letters")
    assert len(backend.asked) == 3


# In the middle of an answer.


@contextlib.asynccontextmanager
async def breaking(folder: pathlib.Path, kind: Kind, how: str) -> AsyncGenerator[Front, None]:
    """A gateway in front of a backend whose answers break off after the first words."""

    async def answer(request: Request) -> Response:
        asked = read(kind, request.url.path, await request.body())
        encoder = kind.protocol.encoder(asked)
        events = says(kind, [AssistantCanister.of("Let me see.")])[:-1]
        data = b"".join(map(encoder.feed, events))

        async def pieces() -> AsyncGenerator[bytes, None]:
            yield data
            if how == "error":
                yield encoder.fail(Refusal(status=500, message="It is gone."))
            elif how == "cut":
                raise ConnectionResetError

        return StreamingResponse(pieces(), media_type="text/event-stream")

    async with serving(answer) as (url, _), fronting(folder, kind, base_url(url, kind.protocol)) as front:
        yield front


async def test_it_may_stand_below_another_application(tmp_path: pathlib.Path) -> None:
    keys = frozendict({"laptop": digest_of("a-key-of-many-letters")})
    async with before(tmp_path, KINDS["openai-chat"], [turn("Hi.")], keys=keys) as (front, _):
        settings = GatewayDescriptor(models=("back/small",), keys=keys)
        whole = Starlette(routes=[Mount("/ai", gateway(front.assembly, settings=settings))])
        async with serve(whole) as url, httpx2.AsyncClient(base_url=url, verify=False) as client:
            assert (await client.get("/ai/healthz")).status_code == 200
            refused = await client.post("/ai/v1/messages", json={})
            assert (refused.status_code, refused.json()["type"]) == (401, "error")
            lost = await client.get("/ai/nope", headers={"x-api-key": "a-key-of-many-letters"})
            assert (lost.status_code, "POST /ai/v1/messages" in lost.text) == (404, True)
        async with (
            serve(whole) as url,
            openai.AsyncOpenAI(base_url=f"{url}/ai/v1", api_key="a-key-of-many-letters") as official,
        ):
            assert (await official.responses.create(model="small", input="Hi.")).output_text == "Hi."


async def _listen(client: openai.AsyncOpenAI, told: list[str]) -> None:
    async for event in await client.responses.create(model="m", input="Go.", stream=True):
        if event.type == "response.output_text.delta":
            told.append(event.delta)


@kinds
@pytest.mark.parametrize("how", ["error", "cut", "ended"])
async def test_an_answer_that_breaks_off_is_the_error_of_the_client(
    kind: Kind, how: str, tmp_path: pathlib.Path
) -> None:
    words = "It is gone" if how == "error" else ".+"
    async with breaking(tmp_path, kind, how) as front:
        async with front.openai() as client:
            told: list[str] = []
            with pytest.raises(openai.APIError, match=words):
                await _listen(client, told)
            assert told == ["Let me see."]
            with pytest.raises(openai.APIError, match=words):
                await _responses(front, True)
            with pytest.raises(openai.APIError, match=words):
                await _chat(front, True)
        with pytest.raises(anthropic.APIStatusError, match=words):
            await _messages(front, True)
        body = {"model": "m", "input": "Go.", "stream": True}
        async with front.plain() as plain:
            data = (await plain.post("/v1/responses", json=body)).content
    checker = StreamChecker()
    checker.write(data)
    assert [event["type"] for event in checker.events[-2:]] == ["error", "response.failed"]
    assert checker.response["error"]["message"]
