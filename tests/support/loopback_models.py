"""Transports and models over loopback servers, and their errors."""

import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from ripieno.descriptors import RetryPolicy
from ripieno.exceptions import ProviderFailure
from ripieno.models import Model, Protocol, Provider
from ripieno.models.protocol import Transport
from ripieno.models.protocols.anthropic import PROTOCOL as ANTHROPIC
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from ripieno.models.transport.endpoints import Endpoint
from ripieno.models.transport.transport import HttpTransport
from tests.support.golden_wires import SCENARIOS
from tests.support.loopback_servers import Answerer

KEY = "sk-SECRET-0123456789"
both = pytest.mark.parametrize("protocol", [ANTHROPIC, CHAT], ids=lambda protocol: protocol.name)
either_way = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def endpoint(url: str, protocol: Protocol = CHAT, **fields: Any) -> Endpoint:
    """An endpoint named house."""
    return Endpoint(**{"provider": "house", "sdk": protocol.sdk, "base_url": url, "key": KEY, **fields})


@contextlib.asynccontextmanager
async def open_transport(url: str, protocol: Protocol = CHAT, **fields: Any) -> AsyncIterator[HttpTransport]:
    """A transport, closed at the end."""
    transport = HttpTransport(endpoint(url, protocol, **fields))
    try:
        yield transport
    finally:
        await transport.close()


async def exchange(
    transport: HttpTransport, *, stream: bool = True, path: str = "/chat/completions", body: bytes = b"{}"
) -> list[Any]:
    """The native events of one exchange."""
    async with transport.exchange(body, path=path, stream=stream) as natives:
        return [native async for batch in natives for native in batch]


async def fail(url: str, *, stream: bool = True, protocol: Protocol = CHAT, **fields: Any) -> ProviderFailure:
    """The error of an exchange, checked for secrets."""
    async with open_transport(url, protocol, **fields) as transport:
        with pytest.raises(ProviderFailure) as caught:
            await exchange(transport, stream=stream)
    error = caught.value
    assert error.provider == "house"
    assert "Provider 'house': " in str(error)
    for shown in (str(error), repr(error), repr(vars(error)), error.hint):
        assert KEY not in shown
    return error


def model_over(transport: Transport, protocol: Protocol, *, name: str = "m", retries: int = 0, **capable: Any) -> Model:
    """A model of the provider house. Its transport is the test's to close."""
    provider = Provider(
        name="house",
        protocol=protocol,
        transport=transport,
        capabilities=lambda _: capable,
        retry=RetryPolicy(max_retries=retries),
    )
    return Model(provider=provider, name=name)


def converse(url: str, protocol: Protocol, **capabilities: Any) -> tuple[HttpTransport, Model]:
    """A model behind an endpoint."""
    transport = HttpTransport(endpoint(url, protocol))
    return transport, model_over(transport, protocol, **capabilities)


def saying(*answers: Callable[[], Response]) -> Answerer:
    """One answer after the other; the last one stays."""
    left = itertools.chain(answers, itertools.repeat(answers[-1]))

    async def answer(_: Request) -> Response:
        return next(left)()

    return answer


def answering(content: bytes, kind: str = "application/json", status: int = 200) -> Answerer:
    """A server with one fixed answer."""
    return saying(lambda: Response(content, status_code=status, media_type=kind))


def golden(protocol: Protocol, kind: str) -> bytes:
    """A plain answer of this wire."""
    return next(one for one in SCENARIOS if one.protocol is protocol and one.name == "plain_text").data(kind)
