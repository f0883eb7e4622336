"""What carries bytes to an endpoint and back: one pool of connections, and its errors in our words.

Most endpoints are asked through aiohttp, whose parser is not written in Python: a request costs a quarter of what it
costs through the client of the SDKs (measured: 0.24 against 0.95 ms), and what has come by then is one piece.
"""

import base64
import io
import ipaddress
import ssl
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Mapping
from typing import Any
from typing import Protocol as Contract

from ripieno.exceptions import ProviderFailure, ProviderUnreachable
from ripieno.models.transport.endpoints import Endpoint, headers_of

#: Bytes of one header of an answer.
_HEADER_BYTES = 64 * 1024
#: Bytes from which on a body is read in pieces while it is sent.
_LARGE = 512 * 1024
#: Seconds that a connection is kept for the next request: less than servers keep theirs, which would lose it.
_KEPT = 4.0


class Answer(Contract):
    """What an endpoint answers, from its headers on. ``headers`` are found by their names in lower case."""

    @property
    def status(self) -> int:
        """That of HTTP."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Those of the answer."""
        ...

    def pieces(self) -> AsyncIterator[bytes]:
        """The body, as it comes."""
        ...

    async def close(self) -> None:
        """Hangs up, unless the body has come to its end."""
        ...


class Carrier(Contract):
    """Carries requests to one endpoint."""

    #: What it raises when it fails.
    failures: tuple[type[Exception], ...]

    def open(self) -> None:
        """Imports what it needs, and makes the pool. Errors: ``ProviderFailure``."""
        ...

    async def send(self, body: bytes, path: str) -> Answer:
        """Posts a body. Errors: ``failures``, ``ProviderFailure``."""
        ...

    def explain(self, error: Exception) -> ProviderUnreachable:
        """What one of the failures means."""
        ...

    async def close(self) -> None:
        """Closes the pool."""
        ...


class Absence(ProviderUnreachable):
    """Nothing listens at an address of this machine. It is said at once, so that asking again costs nothing."""


def silent(
    endpoint: Endpoint, reason: str, kind: type[ProviderUnreachable] = ProviderUnreachable
) -> ProviderUnreachable:
    """Nothing answers at an endpoint."""
    hint = "Is the server running, and is base_url right?"
    return kind(endpoint.provider, f"Nothing answers at {endpoint.shown} ({reason}).", hint=hint)


def broken(endpoint: Endpoint, reason: str, *, retryable: bool) -> ProviderUnreachable:
    """A connection to an endpoint was lost, or there could be none."""
    message = f"The connection to {endpoint.shown} failed ({reason})."
    return ProviderUnreachable(endpoint.provider, message, retryable=retryable)


class PooledCarrier:
    """One pool, opened at the first request."""

    failures: tuple[type[Exception], ...] = ()

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._session: Any = None
        self._proxy: str | None = None
        base, mark, query = endpoint.base_url.partition("?")
        self._base = base.rstrip("/")
        self._query = mark + query
        #: For each path, where it posts.
        self._urls: dict[str, Any] = {}

    def open(self) -> None:
        """Imports the SDK for its headers, and makes the pool. Errors: ``ProviderFailure``."""
        if self._session is not None:
            return
        import aiohttp

        self.failures = (aiohttp.ClientError, OSError, ValueError)
        headers = headers_of(self._endpoint)
        parts = urllib.parse.urlsplit(self._base)
        if parts.username is not None:
            # A name and a password in the address go before a key.
            said = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
            headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
            headers["Authorization"] = f"Basic {base64.b64encode(said.encode()).decode()}"
            self._base = urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        self._proxy = self._proxy_for(parts.scheme, parts.hostname or "")
        timeouts = self._endpoint.timeouts
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEPT, ssl=_trusted(parts.scheme)),
            # Reading is timed by a watch of ours: this client knows no first byte.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=timeouts.connect),
            headers=headers,
            # Nobody is told what this runs on; and nothing is remembered of an answer.
            skip_auto_headers=("User-Agent",),
            cookie_jar=aiohttp.DummyCookieJar(),
            max_line_size=_HEADER_BYTES,
            max_field_size=_HEADER_BYTES,
        )

    async def send(self, body: bytes, path: str) -> Answer:
        """Posts a body."""
        self.open()
        if path not in self._urls:
            self._urls[path] = self._url(path)
        data = body if len(body) < _LARGE else io.BytesIO(body)
        # No redirects: an endpoint that moves would be followed with the key in hand.
        return _Pooled(await self._session.post(self._urls[path], data=data, allow_redirects=False, proxy=self._proxy))

    def _url(self, path: str) -> Any:
        import yarl

        query = self._query.replace("?", "&", 1) if "?" in path else self._query
        return yarl.URL(self._base + path + query, encoded=True)

    def _proxy_for(self, scheme: str, host: str) -> str | None:
        """What stands between us and the endpoint, as the environment has it. Errors: ``ProviderFailure``."""
        proxies = urllib.request.getproxies()
        proxy = proxies.get(scheme) or proxies.get("all")
        if proxy is None or urllib.request.proxy_bypass(host):
            return None
        kind = urllib.parse.urlsplit(proxy if "://" in proxy else f"http://{proxy}").scheme
        if kind not in ("http", "https"):
            raise ProviderFailure(
                self._endpoint.provider,
                f"The environment names a proxy of the kind {kind!r} for {self._endpoint.shown}.",
                hint="Only HTTP proxies can be used; NO_PROXY names hosts that need none.",
            )
        return proxy if "://" in proxy else f"http://{proxy}"

    def explain(self, error: Exception) -> ProviderUnreachable:
        """What an error of the client means."""
        import aiohttp

        provider, base, reason = self._endpoint.provider, self._endpoint.shown, str(error) or type(error).__name__
        if isinstance(error, aiohttp.ServerTimeoutError | TimeoutError):
            words = f"{base} took too long: no connection was made within {self._endpoint.timeouts.connect:g} s."
            return ProviderUnreachable(provider, words, hint="Try again later.", category="timeout")
        if isinstance(error, aiohttp.ClientConnectorError):
            reason = str(error.os_error) or reason
            kind = Absence if _is_here(urllib.parse.urlsplit(self._base).hostname or "") else ProviderUnreachable
            return silent(self._endpoint, reason, kind)
        # An address that is none will not become one.
        return broken(self._endpoint, reason, retryable=not isinstance(error, ValueError))

    async def close(self) -> None:
        """Closes the pool."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


class _Pooled:
    """An answer from the pool."""

    __slots__ = ("_response", "headers", "status")

    def __init__(self, response: Any) -> None:
        self._response = response
        self.status: int = response.status
        self.headers: Mapping[str, str] = response.headers

    def pieces(self) -> AsyncIterator[bytes]:
        """The body, as it comes."""
        found: AsyncIterator[bytes] = self._response.content.iter_any()
        return found

    async def close(self) -> None:
        """Hangs up, unless the body has come to its end: then the connection is back in its pool."""
        self._response.close()


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _trusted(scheme: str) -> Any:
    """The authorities that are trusted: the same that the SDKs trust."""
    if scheme != "https":
        return True
    import httpx2

    context: ssl.SSLContext = httpx2.create_ssl_context()
    return context
