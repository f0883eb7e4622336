"""What endpoints refuse over real HTTP, as one clear error each."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from ripieno.exceptions import ProviderRefusal
from tests.support.loopback_models import answering, either_way, exchange, fail, open_transport, saying
from tests.support.loopback_servers import serving

BODIES = {
    "openai": (
        b'{"error":{"message":"No such thing.","type":"invalid_request_error","param":null,"code":null}}',
        "No such thing.",
    ),
    "anthropic": (
        b'{"type":"error","error":{"type":"not_found_error","message":"model: m"},"request_id":"r"}',
        "model: m",
    ),
    "text": (b'{"error":"it is not loaded"}', "it is not loaded"),
    "detail": (b'{"detail":"Not Found"}', "Not Found"),
    "details": (b'{"detail":[{"loc":["body","messages"],"msg":"Field required","type":"missing"}]}', "Field required"),
    "object": (b'{"object":"error","message":"The model `x` does not exist.","code":404}', "does not exist"),
    "list": (
        b'[{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT"}}]',
        "API key not valid.",
    ),
    "errors": (b'{"success":false,"errors":[{"code":7003,"message":"Could not route"}]}', "Could not route"),
    "passed on": (
        b'{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"slow down"}}}',
        "Provider returned error: slow down",
    ),
    "other JSON": (b'{"what":1}', '{"what":1}'),
    "page": (b"<html><h1>Bad Gateway</h1></html>", "<h1>Bad Gateway</h1>"),
    "no text": (b"\xff\xfe\x00", "HTTP"),
    "nothing": (b"", "it gave no reason"),
    "deep": (b'{"error":' * 500 + b"1" + b"}" * 500, "HTTP"),
}


@either_way
@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 418, 429, 500, 503, 529])
async def test_every_refusal_is_one_clear_error(status: int, stream: bool) -> None:
    async def answer(request: Request) -> Response:
        return Response(BODIES[(await request.body()).decode()][0], status_code=status)

    async with serving(answer) as (url, _), open_transport(url) as transport:
        for shape, (_, words) in BODIES.items():
            with pytest.raises(ProviderRefusal) as caught:
                await exchange(transport, stream=stream, body=shape.encode())
            error = caught.value
            assert error.status == status
            assert f"Provider 'house': HTTP {status}: " in str(error)
            assert words in str(error)
            assert error.hint
            assert str(error).endswith(error.hint)


@pytest.mark.parametrize(
    ("words", "between"), [("your key is bad", ". "), ("Bad key.", " "), ("Really?", " "), ("a page\nof it", "\n")]
)
async def test_a_hint_does_not_run_into_the_words_of_the_server(words: str, between: str) -> None:
    async with serving(answering(words.encode(), "text/plain", 401)) as (url, _):
        error = await fail(url)
    assert str(error) == f"Provider 'house': HTTP 401: {words}{between}Check api_key of [providers.house]."


async def test_a_model_without_native_calls_is_told_by_the_key_to_set() -> None:
    words = b'{"error":{"message":"registry.ollama.ai/library/small:7b does not support tools","type":"api_error"}}'
    async with serving(answering(words, "application/json", 400)) as (url, _):
        error = await fail(url)
    row = '{ match = "MODEL", function_calling = false }'
    assert error.hint == f"To describe the tools in its prompt instead: models = [{row}] under [providers.house]."


@pytest.mark.parametrize(
    ("status", "body", "asks", "told"),
    [
        (
            429,
            b"{}",
            {"retry-after": "120"},
            "It requests a pause of 120 s, longer than the limit (60 s), so there was no retry.",
        ),
        (503, b"{}", {"retry-after": "5"}, "It requests a pause of 5 s."),
        # It would not have been asked again anyway.
        (
            429,
            b'{"error":{"code":"insufficient_quota","message":"Pay."}}',
            {"retry-after": "120"},
            "It requests a pause of 120 s.",
        ),
        (429, b"{}", {}, "Wait, or use another model."),
        (429, b"{}", {"retry-after-ms": "20"}, "Wait, or use another model."),
    ],
)
async def test_how_long_a_server_wants_to_be_left_alone_is_told(
    status: int, body: bytes, asks: dict[str, str], told: str
) -> None:
    async with serving(saying(lambda: Response(body, status_code=status, headers=asks))) as (url, _):
        assert str(await fail(url)).endswith(told)


async def test_a_long_error_is_read_in_part() -> None:
    sent = 0

    async def forever() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 4096
            yield b"x" * 4096
            await asyncio.sleep(0)  # Where it is told that nobody listens any more.

    async with serving(saying(lambda: StreamingResponse(forever(), status_code=500))) as (url, _):
        error = await fail(url)
    assert len(str(error)) < 1000
    assert sent < 64 * 1024 * 1024


@either_way
async def test_a_redirect_is_not_followed(stream: bool) -> None:
    async with serving(answering(b"{}")) as (elsewhere, asked_elsewhere):
        redirect = saying(lambda: RedirectResponse(f"{elsewhere}/v1", status_code=307))
        async with serving(redirect) as (url, _):
            error = await fail(url, stream=stream)
    assert isinstance(error, ProviderRefusal)
    assert f"HTTP 307: it redirects to {elsewhere}/v1" in str(error)
    assert "Set base_url" in error.hint
    assert asked_elsewhere == []
