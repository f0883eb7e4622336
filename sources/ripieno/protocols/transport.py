"""How requests reach an endpoint: an official SDK settles the headers, and the HTTP client given to it carries bytes.

============  =====================================  ==========================================
``sdk``       the client that is made                what it settles
============  =====================================  ==========================================
anthropic     ``anthropic.AsyncAnthropic``           version header, bearer key
openai        ``openai.AsyncOpenAI``                 organization headers, bearer key
============  =====================================  ==========================================

The SDKs' typed body transforms grow with the history, and their accumulators lose calls (measured), so neither is
used. They are imported when a provider is first asked, never before.
"""

import contextlib
import dataclasses
import functools
import urllib.parse
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from ripieno.descriptors.tables import EMPTY
from ripieno.exceptions import ProviderFailure, ProviderUnreachable, WireInvalidity
from ripieno.hiding import hide
from ripieno.processors import Native, Natives
from ripieno.protocols.refusals import refusal
from ripieno.protocols.splitting import EVENT_BYTES, read_object, split

#: Seconds: to connect, and between two pieces of an answer. A model may think for minutes.
CONNECT_TIMEOUT = 10.0
READ_TIMEOUT = 600.0
#: Bytes of an error's body that are read.
_ERROR_BYTES = 64 * 1024


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a provider is, and what it is told. ``key`` is None for a server that asks for none.

    ``timeout`` is how many seconds may pass between two pieces of an answer.
    """

    provider: str
    sdk: str
    base_url: str
    key: str | None = dataclasses.field(default=None, repr=False)
    headers: Mapping[str, str] = dataclasses.field(default=EMPTY, repr=False)
    timeout: float = READ_TIMEOUT

    @property
    def shown(self) -> str:
        """The address, as errors may show it: without a password or a query."""
        try:
            parts = urllib.parse.urlsplit(self.base_url)
        except ValueError:
            return "its base_url"
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def hide(self, text: str) -> str:
        """The text without this endpoint's key, and without the values of its headers."""
        return hide(text, [self.key or "", *self.headers.values()])


class HttpTransport:
    """Posts bodies to one endpoint. One connection pool, opened at the first request."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._client: Any = None
        #: For each path, what makes a request of a body.
        self._makers: dict[str, Callable[[bytes], Any]] = {}
        self._headers: dict[str, str] = {}
        self._base = endpoint.base_url.rstrip("/")

    def exchange(self, body: bytes, *, path: str, stream: bool) -> AbstractAsyncContextManager[AsyncIterator[Natives]]:
        """The answer to one request. Errors: ``ProviderUnreachable``, ``ProviderRefusal``, ``WireInvalidity``."""
        return self._streamed(body, path) if stream else self._whole(body, path)

    def _open(self) -> Any:
        if self._client is None:
            import httpx2

            timeout = httpx2.Timeout(self._endpoint.timeout, connect=CONNECT_TIMEOUT)
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64)
            # No redirects: an endpoint that moves would be followed with the key in hand.
            client = httpx2.AsyncClient(timeout=timeout, limits=limits, follow_redirects=False)
            self._headers = headers_of(self._endpoint, client)
            self._client = client
        return self._client

    @contextlib.asynccontextmanager
    async def _whole(self, body: bytes, path: str) -> AsyncGenerator[AsyncIterator[Natives], None]:
        async with self._posted(body, path) as response:
            data = await self._everything(response)
        yield _one(read_object(data, self._endpoint.provider))

    @contextlib.asynccontextmanager
    async def _streamed(self, body: bytes, path: str) -> AsyncGenerator[AsyncIterator[Natives], None]:
        provider = self._endpoint.provider
        async with self._posted(body, path) as response:
            if "json" in response.headers.get("content-type", ""):
                # A server that does not stream answers whole, or with an error: decoders know both.
                yield _one(read_object(await self._everything(response), provider))
                return
            async with (
                contextlib.aclosing(response.aiter_bytes()) as chunks,
                contextlib.aclosing(split(chunks, provider)) as natives,
            ):
                yield natives

    @contextlib.asynccontextmanager
    async def _posted(self, body: bytes, path: str) -> AsyncGenerator[Any, None]:
        """The response to a request that was not refused."""
        with self._explained():
            client = self._open()
            if path not in self._makers:
                self._makers[path] = self._maker(client, path)
            response = await client.send(self._makers[path](body), stream=True)
            try:
                if response.status_code >= 300:
                    raise await self._refusal(response)
                yield response
            finally:
                await response.aclose()

    def _maker(self, client: Any, path: str) -> Callable[[bytes], Any]:
        """Makes requests from one that the client built: building each anew takes five times as long (measured)."""
        import httpx2

        model = client.build_request("POST", self._base + path, headers=self._headers)
        model.headers.pop("content-length", None)
        return functools.partial(
            _request, httpx2.Request, model.url, httpx2.Headers(model.headers), dict(model.extensions)
        )

    async def _refusal(self, response: Any) -> ProviderFailure:
        data = b""
        async for chunk in response.aiter_bytes():
            data += chunk
            if len(data) >= _ERROR_BYTES:
                break
        text = self._endpoint.hide(data.decode("utf-8", "replace"))
        location = response.headers.get("location")
        return refusal(self._endpoint.provider, response.status_code, text, location=location)

    async def _everything(self, response: Any) -> bytes:
        """The whole body. Errors: ``WireInvalidity`` where it is too large."""
        chunks: list[bytes] = []
        size = 0
        async for chunk in response.aiter_bytes():
            size += len(chunk)
            if size > EVENT_BYTES:
                raise WireInvalidity(self._endpoint.provider, f"It sent an answer of more than {EVENT_BYTES} bytes.")
            chunks.append(chunk)
        return b"".join(chunks)

    @contextlib.contextmanager
    def _explained(self) -> Generator[None, None, None]:
        """Errors of the HTTP client, in the words of this family."""
        import httpx2

        endpoint = self._endpoint
        provider, base = endpoint.provider, endpoint.shown
        try:
            yield
        except httpx2.ConnectError as error:
            raise ProviderUnreachable(
                provider,
                f"Nothing answers at {base} ({_reason(endpoint, error)}).",
                hint="Is the server running, and is base_url right?",
            ) from error
        except httpx2.TimeoutException as error:
            raise ProviderUnreachable(
                provider, f"{base} took too long ({type(error).__name__}).", hint="Try again later."
            ) from error
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            raise ProviderUnreachable(
                provider, f"The connection to {base} failed ({_reason(endpoint, error)})."
            ) from error

    async def close(self) -> None:
        """Closes the pool."""
        client, self._client = self._client, None
        self._makers.clear()
        if client is not None:
            await client.aclose()


def _request(make: Any, url: Any, headers: Any, extensions: dict[str, Any], body: bytes) -> Any:
    return make("POST", url, headers=headers, content=body, extensions=extensions)


def _reason(endpoint: Endpoint, error: Exception) -> str:
    return endpoint.hide(str(error)) or type(error).__name__


def headers_of(endpoint: Endpoint, client: Any) -> dict[str, str]:
    """The headers of every request: the SDK's own, its credentials, and the provider's. Imports the SDK.

    The SDKs refuse to be made without a key, so a server that asks for none gets none by leaving the header out.
    Errors: ``ProviderFailure`` for a key or header that HTTP cannot carry.
    """
    key = None if endpoint.key is None else endpoint.key.strip()
    for name, value in {"api_key": key or "", **endpoint.headers}.items():
        if not value.isascii() or not value.isprintable():
            raise ProviderFailure(
                endpoint.provider,
                f"Its {name} has a character that no HTTP header can carry.",
                hint="Was it copied whole, on one line?",
            )
    settings: dict[str, Any] = {
        "api_key": key or "none",
        "base_url": endpoint.base_url,
        "http_client": client,
        "max_retries": 0,
        "default_headers": dict(endpoint.headers),
    }
    made: Any
    if endpoint.sdk == "anthropic":
        import anthropic

        made = anthropic.AsyncAnthropic(**settings)
    else:
        import openai

        made = openai.AsyncOpenAI(**settings)
    headers = {
        name: value
        for name, value in made.default_headers.items()
        # What the SDKs tell of this machine, its user did not ask them to.
        if isinstance(value, str) and not name.lower().startswith(("authorization", "x-stainless-"))
    }
    given = {name: value for name, value in endpoint.headers.items() if name.lower() == "authorization"}
    return headers | (given or ({} if key is None else {"Authorization": f"Bearer {key}"}))


async def _one(native: Native) -> AsyncGenerator[Natives, None]:
    yield (native,)
