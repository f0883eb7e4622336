"""Requests through an official client that an application made: with its proxies, certificates, tokens and headers.

A client only carries: path and body are those of the protocol, and the answer is read as bytes. The time limits of the
client apply beside those of the provider; its retries do not, since they report nothing.
"""

import importlib
import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from ripieno.exceptions import InputError, ProviderFailure, ProviderUnreachable
from ripieno.jsonvalues import EMPTY
from ripieno.models.transport.endpoints import Endpoint
from ripieno.models.transport.http import Answer, Carrier, PooledCarrier, broken, silent

#: For each SDK, an example of its client, and the base class of its asynchronous clients.
_CLIENTS: Mapping[str, tuple[str, str, str]] = {
    "openai": ("openai.AsyncOpenAI(...)", "openai", "AsyncAPIClient"),
    "anthropic": ("anthropic.AsyncAnthropic(...)", "anthropic", "AsyncAPIClient"),
    "google": ("google.genai.Client(...)", "google.genai", "Client"),
}


def endpoint_of(provider: str, sdk: str, client: Any, **fields: Any) -> Endpoint:
    """The endpoint of a client: its address and secrets, for messages. Errors: ``InputError`` for another kind."""
    example, package, name = _CLIENTS[sdk]
    bases = [one for one in type(client).__mro__ if one.__name__ == name and one.__module__.startswith(package)]
    if not bases:
        raise InputError(
            f"The client of the provider {provider!r} is of the type {type(client).__name__}. Pass an asynchronous one "
            f"of its SDK, such as {example}."
        )
    if sdk == "google":
        client = client._api_client
        address, key = client._http_options.base_url, client.api_key
        headers = {}
    else:
        address, key = client.base_url, getattr(client, "api_key", None) or getattr(client, "auth_token", None)
        headers = {name: value for name, value in client._custom_headers.items() if isinstance(value, str)}
    key = key if isinstance(key, str) else None
    return Endpoint(provider=provider, sdk=sdk, base_url=str(address), key=key, headers=headers, **fields)


def carrier_of(endpoint: Endpoint, client: Any) -> Carrier:
    """The carrier through a client, which stays the application's to close."""
    return GoogleCarrier(endpoint, client) if endpoint.sdk == "google" else ClientCarrier(endpoint, client)


class ClientCarrier:
    """Posts mappings through a client of the SDKs of OpenAI or Anthropic, for a cloud too. It does not close it."""

    failures: tuple[type[Exception], ...] = ()

    def __init__(self, endpoint: Endpoint, client: Any = None) -> None:
        self._endpoint = endpoint
        self._client = client
        #: Options of every request.
        self._options: Mapping[str, Any] = {"max_retries": 0}

    def open(self) -> None:
        import httpx2

        self.failures = (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError)

    async def send(self, body: bytes, path: str) -> Answer:
        import httpx2

        self.open()
        sdk: Any = importlib.import_module(self._endpoint.sdk)
        failure: Exception
        try:
            response = await self._client.post(
                path,
                body=json.loads(body),
                cast_to=httpx2.Response,
                stream=True,
                stream_cls=sdk.AsyncStream[object],
                options=self._options,
            )
            return _raw(response)
        except sdk.APIStatusError as error:
            return _raw(error.response)
        except sdk.APIConnectionError as error:
            # Errors of the pool have types that ``explain`` knows.
            cause = error.__cause__
            failure = cause if isinstance(cause, httpx2.HTTPError) else self._refused(error)
        except httpx2.HTTPError:
            raise
        except Exception as error:
            failure = self._refused(error)
        raise failure

    def _refused(self, error: Exception) -> ProviderFailure:
        """The error for credentials, regions or projects that were not found, in the SDK's words."""
        return ProviderFailure(
            self._endpoint.provider,
            f"No request could be made for {self._endpoint.shown}: {str(error) or type(error).__name__}",
            hint="Check that its credentials, region and project are set.",
            category="permission",
        )

    def explain(self, error: Exception) -> ProviderUnreachable:
        import httpx2

        provider, base, reason = self._endpoint.provider, self._endpoint.shown, str(error) or type(error).__name__
        if isinstance(error, httpx2.ConnectError):
            return silent(self._endpoint, reason)
        if isinstance(error, httpx2.TimeoutException):
            words = f"{base} took too long ({type(error).__name__})."
            return ProviderUnreachable(provider, words, hint="Try again later.", category="timeout")
        # An invalid address stays invalid.
        lost = isinstance(error, httpx2.HTTPError) and not isinstance(error, httpx2.UnsupportedProtocol)
        return broken(self._endpoint, reason, retryable=lost)

    async def close(self) -> None:
        return


class GoogleCarrier(ClientCarrier):
    """Posts mappings through a client of google-genai, whose public methods would rewrite the body and the answer."""

    def open(self) -> None:
        import aiohttp

        super().open()
        self.failures = (*self.failures, aiohttp.ClientError, OSError)

    async def send(self, body: bytes, path: str) -> Answer:
        from google.genai import errors

        self.open()
        api = self._client._api_client
        request = api._build_request("post", path.lstrip("/"), json.loads(body), None)
        try:
            answer = await api._async_request_once(request, stream=True, implicit_retry=False)
        except errors.APIError as error:
            return _refusal(error)
        except self.failures:
            raise
        except Exception as error:
            failure = self._refused(error)
        else:
            return _raw(answer.response_stream)
        raise failure

    def explain(self, error: Exception) -> ProviderUnreachable:
        import aiohttp

        if isinstance(error, aiohttp.ClientError | OSError):
            return PooledCarrier(self._endpoint).explain(error)
        return super().explain(error)


def _raw(response: Any) -> Answer:
    """A response of httpx2 or aiohttp that has not been read."""
    if hasattr(response, "aiter_bytes"):
        return Answer(response.status_code, response.headers, response.aiter_bytes, response.aclose)

    async def close() -> None:
        response.close()

    return Answer(response.status, response.headers, response.content.iter_any, close)


def _refusal(error: Any) -> Answer:
    """A refusal whose body the SDK has read."""

    async def pieces() -> AsyncGenerator[bytes, None]:
        yield json.dumps(error.details).encode()

    async def close() -> None:
        return

    return Answer(error.code, getattr(error.response, "headers", EMPTY), pieces, close)
