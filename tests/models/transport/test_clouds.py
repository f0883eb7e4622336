"""Clouds between us and the models: real signatures, real event streams and their frames, on the loopback interface."""

import asyncio
import base64
import contextlib
import importlib.util
import json
import struct
import zlib
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import anthropic
import openai
import pytest
from anthropic.lib.bedrock._stream_decoder import AWSEventStreamDecoder
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ripieno.canisters import AssistantCanister, Canister, Controls, UserCanister
from ripieno.descriptors.timeouts import Timeouts
from ripieno.exceptions import ProviderFailure, ProviderRefusal, ProviderUnreachable, WireInvalidity
from ripieno.models import Model, Protocol
from ripieno.models.protocols.anthropic import PROTOCOL as ANTHROPIC
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from ripieno.models.transport.aws_frames import unframe
from ripieno.models.transport.clouds import reach
from tests.models.protocols.test_wires_golden import natives_of
from tests.support.loopback_models import KEY, answering, either_way, endpoint, golden, model_over
from tests.support.loopback_servers import chunked, serving, talking, until_eof

HI = [UserCanister.of("Hi.")]
ACCESS, SECRET, SESSION = "AKIDEXAMPLE0000000", "aws-secret-access-key-0123456789", "aws-session-token-0123456789"
EVENT_STREAM = "application/vnd.amazon.eventstream"
answer_messages = answering(golden(ANTHROPIC, "json"))
answer_chat = answering(golden(CHAT, "json"))


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials as the cloud's own chain finds them first, and no other place to look."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": ACCESS,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_SESSION_TOKEN": SESSION,
        "AWS_CONFIG_FILE": "/nonexistent",
        "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(name, raising=False)


def model_at(url: str, cloud: str, *, protocol: Protocol = ANTHROPIC, retries: int = 0, **fields: Any) -> Model:
    reached = reach(endpoint(url, protocol, cloud=cloud, **{"key": None, **fields}), protocol)
    return model_over(*reached, name="claude:m-1", retries=retries, output_tokens=99)


async def ask(model: Model, *, stream: bool) -> str:
    try:
        said: tuple[Canister, ...] = await model.converse(HI, controls=Controls(stream=stream))
    finally:
        await model.provider.transport.close()
    assert isinstance(said[0], AssistantCanister)
    return said[0].text


# Amazon's.


def frame(payload: bytes, **headers: str) -> bytes:
    """One frame of an event stream, as its format has it: lengths, headers of strings, and two checksums."""
    head = b"".join(
        struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", 7, len(value)) + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack("!II", 16 + len(head) + len(payload), len(head))
    message = prelude + struct.pack("!I", zlib.crc32(prelude)) + head + payload
    return message + struct.pack("!I", zlib.crc32(message))


def event_frame(native: Mapping[str, Any]) -> bytes:
    payload = json.dumps({"bytes": base64.b64encode(json.dumps(native).encode()).decode()}).encode()
    return frame(payload, **{":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"})


def exception_frame(kind: str, message: str) -> bytes:
    payload = json.dumps({"message": message}).encode()
    return frame(
        payload, **{":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    )


def frames() -> bytes:
    return b"".join(map(event_frame, natives_of([golden(ANTHROPIC, "sse")])))


def signature_of(request: Request, body: bytes, region: str) -> str:
    """The signature that this request should have, made anew from what came."""
    given = dict(field.partition("=")[::2] for field in request.headers["authorization"].split(" ", 1)[1].split(", "))
    signed = {name: request.headers[name] for name in given["SignedHeaders"].split(";") if name != "host"}
    again = AWSRequest(method="POST", url=str(request.url), data=body, headers=signed)
    again.context["timestamp"] = request.headers["x-amz-date"]
    signer = SigV4Auth(Credentials(ACCESS, SECRET, SESSION), "bedrock", region)
    text = signer.string_to_sign(again, signer.canonical_request(again))
    assert given["Signature"] == signer.signature(text, again)
    return given["Credential"]


@either_way
async def test_bedrock_signs_and_unframes(stream: bool) -> None:
    seen: list[tuple[str, dict[str, Any]]] = []

    async def answer(request: Request) -> Response:
        body = await request.body()
        assert signature_of(request, body, "eu-test-1").startswith(f"{ACCESS}/")
        assert request.headers["x-amz-security-token"] == SESSION
        seen.append((request.scope["raw_path"].decode(), json.loads(body)))
        if not stream:
            return Response(golden(ANTHROPIC, "json"), media_type="application/json")
        data = frames()
        return StreamingResponse(
            iter([data[place : place + 7] for place in range(0, len(data), 7)]), media_type=EVENT_STREAM
        )

    async with serving(answer) as (url, _):
        model = model_at(url, "bedrock", region="eu-test-1", headers={"anthropic-beta": "b-1,b-2"})
        assert (await ask(model, stream=stream)).startswith("The sky is blue.")
    ((path, body),) = seen
    assert path == f"/model/claude:m-1/invoke{'-with-response-stream' if stream else ''}"
    assert body["anthropic_version"] == "2026-10-21"
    assert body["anthropic_beta"] == ["b-1", "b-2"]
    assert not {"model", "stream"} & body.keys()
    said = {"type": "text", "text": "Hi.", "cache_control": {"type": "ephemeral"}}
    assert body["messages"] == [{"role": "user", "content": [said]}]


async def test_bedrock_takes_a_key_instead_of_a_signature() -> None:
    async with serving(answer_messages) as (url, asked):
        await ask(model_at(url, "bedrock", region="eu-test-2", key=KEY), stream=False)
    assert asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert not [name for name in asked[0].headers if name.startswith("x-stainless")]


@pytest.mark.parametrize(
    ("kind", "category", "retryable"),
    [
        ("throttlingException", "quota", True),
        ("serviceUnavailableException", "network", True),
        ("modelTimeoutException", "timeout", True),
        ("internalServerException", "network", True),
        ("modelStreamErrorException", "network", True),
        ("validationException", "validation", False),
    ],
)
async def test_bedrock_may_fail_in_its_stream(kind: str, category: str, retryable: bool) -> None:
    async with serving(answering(exception_frame(kind, "Wait a bit."), EVENT_STREAM)) as (url, asked):
        with pytest.raises(ProviderRefusal, match=r"Wait a bit\.") as caught:
            await ask(model_at(url, "bedrock", region="eu-test-1", retries=1), stream=True)
    assert (caught.value.category, caught.value.retryable) == (category, retryable)
    assert len(asked) == 1 + retryable


async def test_bedrock_is_read_without_what_is_private_of_its_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its streams, which read a response of their own, are the only other way that it has."""
    monkeypatch.setattr(anthropic.AsyncAnthropicBedrock, "_make_sse_decoder", lambda _: None)

    async with serving(answering(frames(), EVENT_STREAM)) as (url, _):
        said = await ask(model_at(url, "bedrock", region="eu-test-1"), stream=True)
    assert said.startswith("The sky is blue.")


@either_way
async def test_a_cloud_is_timed_as_others_are(stream: bool) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if stream:
            writer.write(chunked(frames()[:100], kind=EVENT_STREAM, end=False))
        await until_eof(reader)

    async with talking(talk) as (url, all_gone):
        model = model_at(url, "bedrock", region="eu-test-1", timeouts=Timeouts(first_byte=0.5, between=0.5))
        with pytest.raises(ProviderUnreachable, match=r"took too long.* within 0\.5 s"):
            await ask(model, stream=stream)
        await all_gone()


async def test_bedrock_without_credentials_or_region(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProviderFailure, match="region") as caught:
        await ask(model_at("", "bedrock"), stream=True)
    assert caught.value.category == "permission"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    async with serving(answer_messages) as (url, asked):
        with pytest.raises(ProviderFailure, match="Could not resolve AWS credentials"):
            await ask(model_at(url, "bedrock", region="eu-test-3"), stream=True)
    assert asked == []


# Google's.


@either_way
async def test_vertex_has_the_model_in_its_path(stream: bool) -> None:
    streamed = answering(golden(ANTHROPIC, "sse"), "text/event-stream")
    async with serving(streamed if stream else answer_messages) as (url, asked):
        model = model_at(f"{url}/v1", "vertex", region="europe-west1", project="house-1", key=KEY)
        assert (await ask(model, stream=stream)).startswith("The sky is blue.")
    (request,) = asked
    verb = "streamRawPredict" if stream else "rawPredict"
    assert request.path == (
        f"/v1/projects/house-1/locations/europe-west1/publishers/anthropic/models/claude:m-1:{verb}"
    )
    assert request.headers["authorization"] == f"Bearer {KEY}"
    body = json.loads(request.body)
    assert body["anthropic_version"] == "2026-10-21"
    assert "model" not in body


async def test_vertex_without_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "nothing.json"))
    async with serving(answer_messages) as (url, asked):
        with pytest.raises(ProviderFailure, match=r"nothing\.json") as caught:
            await ask(model_at(url, "vertex", region="europe-west1", project="house-1"), stream=True)
    assert caught.value.category == "permission"
    assert asked == []


# Microsoft's.


@pytest.mark.parametrize("version", ["2024-10-21", None])
async def test_azure_is_asked_where_its_own_client_asks(version: str | None) -> None:
    seen: list[tuple[str, str, str | None]] = []

    async def answer(request: Request) -> Response:
        seen.append((request.scope["raw_path"].decode(), request.url.query, request.headers.get("api-key")))
        assert "authorization" not in request.headers or version is None
        return Response(golden(CHAT, "json"), media_type="application/json")

    async with serving(answer) as (url, _):
        model = model_at(url, "azure", protocol=CHAT, api_version=version, key=KEY)
        assert (await ask(model, stream=False)).startswith("The sky is blue.")
        if version is not None:
            async with openai.AsyncAzureOpenAI(
                azure_endpoint=url, azure_deployment="claude:m-1", api_version=version, api_key=KEY
            ) as client:
                await client.chat.completions.create(model="claude:m-1", messages=[{"role": "user", "content": "Hi."}])
            ours, theirs = seen
            assert ours[0].replace("%3A", ":") == theirs[0].replace("%3A", ":")
            assert ours[1:] == theirs[1:]
    path = "/openai/v1/chat/completions" if version is None else "/openai/deployments/claude%3Am-1/chat/completions"
    assert seen[0] == (path, "" if version is None else "api-version=2024-10-21", KEY)


async def test_azure_takes_a_token_of_its_directory() -> None:
    async with serving(answer_chat) as (url, asked):
        headers = {"Authorization": "Bearer directory-token"}
        await ask(model_at(url, "azure", protocol=CHAT, api_version="v", headers=headers), stream=False)
    assert asked[0].headers["authorization"] == "Bearer directory-token"
    assert "api-key" not in asked[0].headers


# What is wrong with a description.


@pytest.mark.parametrize(
    ("cloud", "protocol", "words"),
    [
        ("nimbus", CHAT, "No cloud is named 'nimbus'"),
        ("bedrock", CHAT, "does not support"),
        ("azure", ANTHROPIC, "does not support"),
    ],
)
def test_a_cloud_that_does_not_fit(cloud: str, protocol: Protocol, words: str) -> None:
    with pytest.raises(ProviderFailure, match=words):
        reach(endpoint("http://127.0.0.1", protocol, cloud=cloud), protocol)


@pytest.mark.parametrize(
    ("cloud", "module", "extra"), [("bedrock", "boto3", "bedrock"), ("vertex", "google.auth", "vertex")]
)
async def test_what_is_missing_is_named(cloud: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == module else find(name))
    with pytest.raises(ProviderFailure, match=module) as caught:
        await ask(model_at("http://127.0.0.1:9", cloud, region="r", project="p"), stream=True)
    assert f"pip install 'ripieno[{extra}]'" in caught.value.hint


# Amazon's frames: what stands in them, whatever is wrong with them.


async def pieces_of(data: bytes, size: int) -> AsyncGenerator[bytes, None]:
    for place in range(0, len(data), size):
        yield data[place : place + size]


@pytest.mark.parametrize("size", [1, 7, 100_000])
async def test_frames_are_the_events_of_the_sdks_own_decoder(size: int) -> None:
    """Should either of the two change, they part here."""
    skipped = event_frame({"no": "type"}) + frame(b"{}", **{":event-type": "other", ":message-type": "event"})
    data = frames() + skipped + exception_frame("throttlingException", "Wait a bit.")
    theirs = AWSEventStreamDecoder().aiter_bytes(pieces_of(data, size))
    expected = [event.json() async for event in theirs]
    ours = [native async for natives in unframe(pieces_of(data, size), "house") for native in natives]
    assert len(ours) > 3
    assert ours == expected
    assert ours[-1] == {"type": "error", "error": {"type": "throttlingException", "message": "Wait a bit."}}


async def test_an_error_may_stand_in_a_frames_headers() -> None:
    data = frame(b"", **{":message-type": "error", ":error-code": "modelTimeoutException", ":error-message": "Late."})
    (native,) = [native async for natives in unframe(pieces_of(data, 9), "house") for native in natives]
    assert native == {"type": "error", "error": {"type": "modelTimeoutException", "message": "Late."}}


async def test_no_damage_goes_unseen() -> None:
    """Any byte that is another is an error, or an event that never ends; and what came before it was there."""
    good, bad = event_frame({"type": "ping"}), event_frame({"type": "message_stop"})
    for place in range(len(bad)):
        data = good + bad[:place] + bytes([bad[place] ^ 0x55]) + bad[place + 1 :]
        seen: list[Mapping[str, Any]] = []
        with contextlib.suppress(WireInvalidity):
            async for natives in unframe(pieces_of(data, len(data)), "house"):
                seen += natives
        assert seen == [{"type": "ping"}], place


@pytest.mark.parametrize(
    "payload", [b"", b"[]", b"{}", b'{"bytes": 7}', b'{"bytes": "?"}', b'{"bytes": "Ww=="}', b'{"bytes": "W10="}']
)
async def test_frames_without_an_event_in_them(payload: bytes) -> None:
    data = frame(payload, **{":event-type": "chunk", ":message-type": "event"})
    with pytest.raises(WireInvalidity, match="frames that cannot be read"):
        _ = [natives async for natives in unframe(pieces_of(data, 50), "house")]


async def test_a_botocore_that_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("botocore.eventstream.EventStreamBuffer")
    with pytest.raises(ProviderFailure, match="EventStreamBuffer") as caught:
        _ = [natives async for natives in unframe(pieces_of(frames(), 50), "house")]
    assert "ripieno[bedrock]" in caught.value.hint
