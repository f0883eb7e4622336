"""Connections to endpoints: one pool for each, with errors translated.

Most endpoints use aiohttp, whose parser is not written in Python: a request costs a quarter of what it costs through
the SDKs' client (measured: 0.24 against 0.95 ms), and all data that has arrived is one piece.
"""

import base64
import io
import ipaddress
import ssl
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any
from typing import Protocol as Contract

from ripieno.exceptions import ProviderFailure, ProviderUnreachable
from ripieno.models.transport.endpoints import Endpoint, headers_of
from ripieno.values import Value

#: Maximum bytes of one header of an answer.
_HEADER_BYTES = 64 * 1024
#: Bytes from which a body is read in pieces while it is sent.
_LARGE = 512 * 1024
#: Seconds that an idle connection is kept: less than servers keep it, since a request on a closed one is lost.
_KEPT = 4.0


class Answer(Value):
    """An endpoint's answer, from its headers on. The names of ``headers`` are case-insensitive."""

    #: The HTTP status.
    status: int
    headers: Mapping[str, str]
    #: Gives the body as it arrives.
    pieces: Callable[[], AsyncIterator[bytes]]
    #: Disconnects, unless the body is complete: then the connection is back in its pool.
    close: Callable[[], Awaitable[None]]


class Carrier(Contract):
    """Carries requests to one endpoint."""

    #: The exceptions of a failed request.
    failures: tuple[type[Exception], ...]

    def open(self) -> None:
        """Imports libraries and creates the pool. Errors: ``ProviderFailure``."""

    async def send(self, body: bytes, path: str) -> Answer:
        """Posts a body. Errors: ``failures``, ``ProviderFailure``."""
        ...

    def explain(self, error: Exception) -> ProviderUnreachable:
        """The error of this package for one of ``failures``."""
        ...

    async def close(self) -> None:
        """Closes the pool."""


class Absence(ProviderUnreachable):
    """Nothing listens at an address of this machine. The failure is immediate, so retries cost nothing."""


def silent(
    endpoint: Endpoint, reason: str, kind: type[ProviderUnreachable] = ProviderUnreachable
) -> ProviderUnreachable:
    hint = "Check that the server is running and that base_url is right."
    return kind(endpoint.provider, f"Nothing answers at {endpoint.shown} ({reason}).", hint=hint)


def broken(endpoint: Endpoint, reason: str, *, retryable: bool) -> ProviderUnreachable:
    message = f"The connection to {endpoint.shown} failed ({reason})."
    return ProviderUnreachable(endpoint.provider, message, retryable=retryable)


class PooledCarrier:
    """One pool, created at the first request."""

    failures: tuple[type[Exception], ...] = ()

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._session: Any = None
        self._proxy: str | None = None
        base, mark, query = endpoint.base_url.partition("?")
        self._base = base.rstrip("/")
        self._query = mark + query
        #: The URL for each path.
        self._urls: dict[str, Any] = {}

    def open(self) -> None:
        if self._session is not None:
            return
        import aiohttp

        self.failures = (aiohttp.ClientError, OSError, ValueError)
        headers = headers_of(self._endpoint)
        parts = urllib.parse.urlsplit(self._base)
        if parts.username is not None:
            # A name and a password in the address have priority over a key.
            login = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
            headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
            headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
            self._base = urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        self._proxy = self._proxy_for(parts.scheme, parts.hostname or "")
        timeouts = self._endpoint.timeouts
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEPT, ssl=_trusted(parts.scheme)),
            # ``Watch`` times reading: this client has no time-out for the first byte.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=timeouts.connect),
            headers=headers,
            # No header about this machine, no cookies.
            skip_auto_headers=("User-Agent",),
            cookie_jar=aiohttp.DummyCookieJar(),
            max_line_size=_HEADER_BYTES,
            max_field_size=_HEADER_BYTES,
        )

    async def send(self, body: bytes, path: str) -> Answer:
        self.open()
        if path not in self._urls:
            self._urls[path] = self._url(path)
        data = body if len(body) < _LARGE else io.BytesIO(body)
        # No redirects: they would receive the key.
        response = await self._session.post(self._urls[path], data=data, allow_redirects=False, proxy=self._proxy)

        async def close() -> None:
            response.close()

        return Answer(response.status, response.headers, response.content.iter_any, close)

    def _url(self, path: str) -> Any:
        import yarl

        query = self._query.replace("?", "&", 1) if "?" in path else self._query
        return yarl.URL(self._base + path + query, encoded=True)

    def _proxy_for(self, scheme: str, host: str) -> str | None:
        """The proxy for the endpoint, from the environment. Errors: ``ProviderFailure``."""
        from urllib.request import getproxies, proxy_bypass  # It imports an HTTP client and a parser of mail.

        proxies = getproxies()
        proxy = proxies.get(scheme) or proxies.get("all")
        if proxy is None or proxy_bypass(host):
            return None
        kind = urllib.parse.urlsplit(proxy if "://" in proxy else f"http://{proxy}").scheme
        if kind not in ("http", "https"):
            raise ProviderFailure(
                self._endpoint.provider,
                f"The environment sets a proxy of the unsupported kind {kind!r} for {self._endpoint.shown}.",
                hint="Use an HTTP proxy, or list the host in NO_PROXY.",
            )
        return proxy if "://" in proxy else f"http://{proxy}"

    def explain(self, error: Exception) -> ProviderUnreachable:
        import aiohttp

        provider, base, reason = self._endpoint.provider, self._endpoint.shown, str(error) or type(error).__name__
        if isinstance(error, aiohttp.ServerTimeoutError | TimeoutError):
            words = f"{base} took too long: no connection was made within {self._endpoint.timeouts.connect:g} s."
            return ProviderUnreachable(provider, words, hint="Try again later.", category="timeout")
        if isinstance(error, aiohttp.ClientConnectorError):
            reason = str(error.os_error) or reason
            kind = Absence if _is_here(urllib.parse.urlsplit(self._base).hostname or "") else ProviderUnreachable
            return silent(self._endpoint, reason, kind)
        # An invalid address stays invalid.
        return broken(self._endpoint, reason, retryable=not isinstance(error, ValueError))

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _trusted(scheme: str) -> Any:
    """The trusted certificate authorities: those that the SDKs trust."""
    if scheme != "https":
        return True
    import httpx2

    context: ssl.SSLContext = httpx2.create_ssl_context()
    return context
