"""Official clients of an application carry the requests: the real ones, whole and streamed, on loopback."""

import contextlib
import dataclasses
import json
import socket
from collections.abc import AsyncGenerator, Callable
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from google import genai

import ripieno
from ripieno.canisters import Controls
from ripieno.exceptions import InputError, NameAbsence, ProviderRefusal, ProviderUnreachable
from ripieno.models import Protocol
from ripieno.models.protocols.anthropic import PROTOCOL as ANTHROPIC
from ripieno.models.protocols.gemini import PROTOCOL as GEMINI
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from ripieno.models.protocols.openai_responses import PROTOCOL as RESPONSES
from tests.support.golden_wires import SCENARIOS
from tests.support.loopback_models import KEY, answering, either_way
from tests.support.loopback_servers import serving

HEADERS = {"X-Team": "cellar"}


def chat(url: str) -> contextlib.AbstractAsyncContextManager[Any]:
    return openai.AsyncOpenAI(api_key=KEY, base_url=f"{url}/v1", default_headers=HEADERS, max_retries=3)


def azure(url: str) -> contextlib.AbstractAsyncContextManager[Any]:
    settings: dict[str, Any] = {"azure_endpoint": url, "api_version": "2024-10-21", "max_retries": 3}
    return openai.AsyncAzureOpenAI(api_key=KEY, default_headers=HEADERS, **settings)


def messages(url: str) -> contextlib.AbstractAsyncContextManager[Any]:
    return anthropic.AsyncAnthropic(api_key=KEY, base_url=url, default_headers=HEADERS, max_retries=3)


@contextlib.asynccontextmanager
async def gemini(url: str) -> AsyncGenerator[Any, None]:
    client = genai.Client(api_key=KEY, http_options={"base_url": url, "headers": HEADERS})
    async with client.aio:
        yield client


@contextlib.asynccontextmanager
async def gemini_over_httpx(url: str) -> AsyncGenerator[Any, None]:
    async with httpx2.AsyncClient() as pool:
        options: Any = {"base_url": url, "headers": HEADERS, "httpx_async_client": pool}
        yield genai.Client(api_key=KEY, http_options=options)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kind:
    """A client of a provider, and the path and the header of the key that it sends."""

    provider: str
    protocol: Protocol
    made: Callable[[str], contextlib.AbstractAsyncContextManager[Any]]
    path: str
    header: str


KINDS = (
    Kind(provider="openai", protocol=CHAT, made=chat, path="/v1/chat/completions", header="authorization"),
    Kind(provider="openai-responses", protocol=RESPONSES, made=chat, path="/v1/responses", header="authorization"),
    Kind(
        provider="azure-openai",
        protocol=CHAT,
        made=azure,
        path="/openai/deployments/m/chat/completions",
        header="api-key",
    ),
    Kind(provider="anthropic", protocol=ANTHROPIC, made=messages, path="/v1/messages", header="authorization"),
    Kind(provider="gemini", protocol=GEMINI, made=gemini, path="/v1/models/m:", header="x-goog-api-key"),
    Kind(provider="gemini", protocol=GEMINI, made=gemini_over_httpx, path="/v1/models/m:", header="x-goog-api-key"),
)
kinds = pytest.mark.parametrize("kind", KINDS, ids=[f"{one.provider}-{one.made.__name__}" for one in KINDS])
# The SDK extends a class of its HTTP client, which that client discourages.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning")


@pytest.fixture(autouse=True)
def without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)


async def conduct(provider: str, client: Any, *, stream: bool) -> ripieno.Conversation:
    configuration: dict[str, Any] = {"ensembles": {"enabled": []}, "providers": {provider: {"retries": 0}}}
    async with ripieno.assemble(configuration, clients={provider: client}) as assembly:
        return await assembly.conduct("Hi.", model=f"{provider}/m", controls=Controls(stream=stream))


@kinds
@either_way
async def test_a_client_carries_the_requests_of_its_provider(kind: Kind, stream: bool) -> None:
    plain = next(one for one in SCENARIOS if one.protocol is kind.protocol and one.name == "plain_text")
    media = "text/event-stream" if stream else "application/json"
    answer = answering(plain.data("sse" if stream else "json"), media)
    async with serving(answer) as (url, asked), kind.made(url) as client:
        first = await conduct(kind.provider, client, stream=stream)
        # It is the application's: still open.
        again = await conduct(kind.provider, client, stream=stream)
    assert first.text == again.text != ""
    assert len(asked) == 2
    for one in asked:
        assert one.path.startswith(kind.path)
        assert KEY in one.headers[kind.header]
        assert one.headers["x-team"] == "cellar"
        assert json.loads(one.body)


@kinds
async def test_a_refusal_is_read_and_not_repeated(kind: Kind) -> None:
    body = json.dumps({"error": {"code": 429, "message": f"Too many with {KEY}.", "status": "RESOURCE_EXHAUSTED"}})
    async with serving(answering(body.encode(), status=429)) as (url, asked), kind.made(url) as client:
        with pytest.raises(ProviderRefusal) as caught:
            await conduct(kind.provider, client, stream=True)
    assert caught.value.status == 429
    assert "Too many with" in str(caught.value)
    assert KEY not in f"{caught.value}{vars(caught.value)}"
    assert len(asked) == 1


@kinds
async def test_no_one_listens(kind: Kind) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # Not listened to.
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        async with kind.made(url) as client:
            with pytest.raises(ProviderUnreachable, match=f"Nothing answers at {url}"):
                await conduct(kind.provider, client, stream=True)


@pytest.mark.parametrize(
    ("provider", "client", "example"),
    [
        ("openai", openai.OpenAI(api_key=KEY), "openai.AsyncOpenAI"),
        ("anthropic", openai.AsyncOpenAI(api_key=KEY), "anthropic.AsyncAnthropic"),
        ("gemini", object(), "google.genai.Client"),
    ],
    ids=["synchronous", "another_sdk", "no_client"],
)
async def test_another_kind_is_refused(
    provider: str, client: contextlib.AbstractContextManager[Any], example: str
) -> None:
    with pytest.raises(InputError) as caught:
        await conduct(provider, client, stream=True)
    assert type(client).__name__ in str(caught.value)
    assert example in str(caught.value)


def test_a_client_of_an_unknown_provider_is_refused() -> None:
    with pytest.raises(NameAbsence, match="opanai"):
        ripieno.assemble({"ensembles": {"enabled": []}}, clients={"opanai": object()})
