"""Cloud platforms that host other vendors' models, and access to each.

*azure* needs the name of a deployment in the path and the version of its API in the query; all else is the plain wire.
*bedrock* and *vertex* rewrite path and body and sign requests. Their body goes through the SDK's ``post`` as a mapping
(parsed once more than elsewhere), and the SDK finds credentials. Bedrock's event stream has a format of its own, which
``aws_frames.py`` reads.
"""

import dataclasses
import importlib.util
import urllib.parse
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from ripieno.exceptions import ProviderFailure
from ripieno.models.protocol import Natives, Protocol
from ripieno.models.transport.aws_frames import unframe
from ripieno.models.transport.breaker import Breaker
from ripieno.models.transport.clients import ClientCarrier, carrier_of
from ripieno.models.transport.cloud_names import CLOUDS, EXTRAS
from ripieno.models.transport.endpoints import Endpoint, key_of
from ripieno.models.transport.transport import HttpTransport

#: Headers that the SDKs add to single requests, besides their default headers.
_REQUEST_HEADERS = ("x-stainless-retry-count", "x-stainless-timeout", "x-stainless-read-timeout")


def reach(
    endpoint: Endpoint, protocol: Protocol, breaker: Breaker | None = None, client: Any = None
) -> tuple[HttpTransport, Protocol]:
    """The transport for an endpoint, and the protocol with the endpoint's paths; those of a ``client`` are its own.

    Errors: ``ProviderFailure`` for a cloud that is unknown or does not support this protocol.
    """
    cloud = endpoint.cloud
    carrier = None if client is None else carrier_of(endpoint, client)
    if cloud is None:
        return HttpTransport(endpoint, breaker, carrier), protocol
    if cloud not in CLOUDS:
        raise ProviderFailure(
            endpoint.provider, f"No cloud is named {cloud!r}.", hint=f"Known clouds: {', '.join(CLOUDS)}."
        )
    if protocol.sdk != CLOUDS[cloud]:
        raise ProviderFailure(
            endpoint.provider,
            f"The cloud {cloud!r} does not support the protocol {protocol.name!r}.",
            hint=f"It supports protocols whose sdk is {CLOUDS[cloud]!r}.",
        )
    if cloud == "azure":
        return HttpTransport(endpoint, breaker, carrier), protocol if carrier else _by_deployment(endpoint, protocol)
    carrier = carrier or CloudCarrier(endpoint)
    return (FramedTransport if cloud == "bedrock" else HttpTransport)(endpoint, breaker, carrier), protocol


def _by_deployment(endpoint: Endpoint, protocol: Protocol) -> Protocol:
    """The protocol with the paths of deployments. Without ``api_version``, the paths of the current API."""
    if endpoint.api_version is None:
        return dataclasses.replace(protocol, path=f"/openai/v1{protocol.path}")
    version = urllib.parse.urlencode({"api-version": endpoint.api_version})
    return dataclasses.replace(protocol, path=f"/openai/deployments/{{model}}{protocol.path}?{version}")


class FramedTransport(HttpTransport):
    """A transport for Bedrock's event stream."""

    def _split(self, pieces: AsyncIterator[bytes]) -> AsyncGenerator[Natives, None]:
        return unframe(pieces, self._endpoint.provider)


class CloudCarrier(ClientCarrier):
    """Posts through an SDK's client for a cloud, which it makes, over a pool of the SDK's kind."""

    def open(self) -> None:
        if self._client is not None:
            return
        super().open()
        import httpx2

        timeouts = self._endpoint.timeouts
        # ``Watch`` times reading: this client has no time-out for the first byte, and sets a timer for each piece.
        timeout = httpx2.Timeout(None, connect=timeouts.connect, write=timeouts.between)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64)
        # No redirects: they would receive the key.
        self._prepare(httpx2.AsyncClient(timeout=timeout, limits=limits, follow_redirects=False))

    def _prepare(self, pool: Any) -> None:
        endpoint = self._endpoint
        key = key_of(endpoint)
        module, extra = EXTRAS[endpoint.cloud or ""]
        # A given token needs no module that fetches one; an event stream always needs its parser.
        if (endpoint.cloud == "bedrock" or key is None) and not _installed(module):
            raise ProviderFailure(
                endpoint.provider,
                f"Its cloud, {endpoint.cloud}, needs the module {module}, which is not installed.",
                hint=f"Install it: pip install 'ripieno[{extra}]' (or 'anthropic[{extra}]').",
            )
        import anthropic
        from anthropic.lib.bedrock import AsyncAnthropicBedrock
        from anthropic.lib.vertex import AsyncAnthropicVertex

        settings: dict[str, Any] = {
            "http_client": pool,
            "timeout": pool.timeout,
            "max_retries": 0,
            "base_url": endpoint.base_url or None,
        }
        try:
            if endpoint.cloud == "bedrock":
                client: Any = AsyncAnthropicBedrock(api_key=key, aws_region=endpoint.region, **settings)
            else:
                places = {"region": endpoint.region, "project_id": endpoint.project}
                settings.update((name, place) for name, place in places.items() if place is not None)
                client = AsyncAnthropicVertex(access_token=key, **settings)
        except Exception as error:
            raise self._refused(error) from None
        # Remove the SDKs' headers about this machine.
        removed = (name for name in client.default_headers if name.lower().startswith("x-stainless-"))
        self._options = {
            "headers": {**dict.fromkeys((*removed, *_REQUEST_HEADERS), anthropic.omit), **endpoint.headers}
        }
        self._client = client

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
