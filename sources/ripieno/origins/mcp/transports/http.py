"""A server behind a URL: streamable HTTP, or the SSE transport of old servers. Imports the HTTP client.

The SDK's transport ends as a whole when one request cannot be sent (measured). So its HTTP client gets a transport that
answers such a request itself, with an error.
"""

import asyncio
import contextlib
import secrets
import urllib.parse
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx2

from ripieno.exceptions import PermissionFault, ToolFault
from ripieno.jsonvalues import is_table
from ripieno.origins.mcp.oauth.named_addresses import fetch_named
from ripieno.origins.mcp.oauth.person import Person, SignInNeeded, SignInUnwanted
from ripieno.origins.mcp.oauth.tokens import TokenStore
from ripieno.origins.mcp.peers import Loss, Peer
from ripieno.origins.mcp.settings import ServerSettings
from ripieno.origins.mcp.text import clean
from ripieno.origins.mcp.transports.framing import LINE_LIMIT, PARSE_ERROR, UNUSABLE, VALUES, Values, failure
from ripieno.storage.redaction import Redactor, redact_logs

#: Seconds to connect and to send; a call has its own deadline.
CONNECT_TIMEOUT = 10.0
SEND_TIMEOUT = 30.0
#: Seconds in which calls in progress may still end when the server is lost.
DRAIN = 10.0
#: The SDK's errors for an answer that can never arrive (JSON-RPC's implementation-defined errors).
_CONNECTION_CLOSED = -32000
_LOST = ("Connection closed", "SSE stream ")
_INTERNAL_ERROR = -32603
#: A mark that a server cannot know, and so not forge.
_MARK = f"ripieno-{secrets.token_hex(8)}"
_SIGN_IN = "sign in"
#: Characters shown of the reason for a missing token.
_SHOWN = 500
#: Headers of one connection.
_HOP = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "content-encoding", "accept-encoding", "keep-alive"}
)
_UNAVAILABLE = frozenset({502, 503, 504})
_SESSION = "mcp-session-id"
#: The loggers of the libraries that carry the requests.
_LOGGERS = (
    *("httpx2", "httpcore2.connection", "httpcore2.http11", "httpcore2.proxy", "httpcore2.socks", "client"),
    *("mcp.client.streamable_http", "mcp.client.auth.oauth2", "mcp.client.client", "mcp.shared.jsonrpc_dispatcher"),
)


class AuthorizationFailure(Exception):
    """An authorization server cannot be contacted; the text is the reason."""


class Remote(Peer):
    """The state of the server behind a URL."""

    def __init__(self, ensemble: str, settings: ServerSettings, hidden: Iterable[str]) -> None:
        super().__init__(ensemble)
        self._url = settings.url or ""
        self._sse = settings.transport == "sse"
        #: Statuses that the SDK or the authorization handles.
        self.handled = frozenset({404}) if settings.oauth is None else frozenset({401, 403, 404})
        self._redactor = Redactor()
        self.conceal(*hidden)
        self._credentials = settings.oauth
        self._identified = any(name.lower() == "authorization" for name in settings.headers)
        #: Whether it requires authorization, and whether with an OAuth token.
        self.unauthorized = self.challenged = False
        #: The reason for a missing token, to follow "the MCP server"; and whether a sign-in helps.
        self.closed: str | None = None
        self.sign_in = False
        self.client: httpx2.AsyncClient | None = None
        #: The last refusing answer, in words.
        self.refusal: str | None = None
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def carrier(self) -> str:
        return "sse" if self._sse else "http"

    @property
    def place(self) -> str:
        parts = urllib.parse.urlsplit(self._url)
        return f"Its URL: {parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def advice(self) -> str:
        login = f"ripieno login {self.ensemble}"
        if self.sign_in:
            return f"Run: {login}"
        if not self.unauthorized or self._credentials is not None:
            return ""
        if self._identified:
            return "It does not accept the Authorization set under headers: check whether it is still valid."
        key = 'headers = { Authorization = "Bearer {env:NAME}" }'
        advice = f"If it requires a key: set {key} under [connection], and the variable."
        oauth = 'oauth = { grant = "authorization_code" }'
        sign_in = f"\nIf it requires a sign-in: set {oauth} under [connection], and run: {login}"
        return advice + sign_in if self.challenged else advice

    def transport(self) -> AbstractAsyncContextManager[Any]:
        client = self.client
        if client is None:
            raise RuntimeError("There is no HTTP client yet.")
        if self._sse:
            from ripieno.origins.mcp.transports.sse import exchange

            return exchange(self, client, self._url)
        from mcp.client.streamable_http import streamable_http_client

        return streamable_http_client(self._url, http_client=client, max_sse_event_size=LINE_LIMIT)

    def loss(self, code: int, message: str, data: object) -> Loss | None:
        """Errors, for a call that needs a sign-in first: ``PermissionFault``."""
        if is_table(data) and data.get(_MARK) == _SIGN_IN:
            text = f"The server of {self.ensemble!r} {message}. Nothing was sent."
            raise PermissionFault(text, code="sign_in_needed", suggestion=f"Run: ripieno login {self.ensemble}")
        if is_table(data) and _MARK in data:
            return "unsent" if data[_MARK] == "unsent" else "unknown"
        cut = code == PARSE_ERROR and (message.startswith("Failed to parse") or message == UNUSABLE)
        return "unknown" if cut or (code == _CONNECTION_CLOSED and message.startswith(_LOST)) else None

    async def ending(self) -> str:
        return self._reason or "broke the connection"

    async def explain(self, reason: str | None = None) -> str:
        if self.closed is not None:
            reason = self.closed
        elif reason is not None and self.refusal is not None:
            # The error may be made of the refusal.
            reason = self.refusal if self.refusal in reason else f"{self.refusal} ({reason})"
        return await super().explain(reason)

    async def settled(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN):
                await self._idle.wait()

    def conceal(self, *values: str) -> None:
        """Hides further values, like those of headers, also in logs."""
        self._redactor.learn(part for value in values for part in value.split())
        redact_logs(_LOGGERS, self._redactor)

    def hide(self, text: str) -> str:
        """The text without the values of headers and tokens, and without terminal controls."""
        return clean(self._redactor.text(text))[0]

    def leads_to(self, url: httpx2.URL) -> bool:
        """Whether a URL is the server's, and not another authorization server's."""
        return _origin(httpx2.URL(self._url)) == _origin(url)

    def is_issuer(self, url: httpx2.URL) -> bool:
        """Whether a URL is that of the configured authorization server, which may be anywhere."""
        issuer = None if self._credentials is None else self._credentials.issuer
        return issuer is not None and _origin(httpx2.URL(issuer)) == _origin(url)

    async def fetch(self, request: httpx2.Request) -> httpx2.Response:
        """The answer from an address that the server names. Errors: ``AuthorizationFailure``."""
        place = request.url.copy_with(query=None)
        headers = tuple((name, value) for name, value in request.headers.items() if name not in _HOP)
        body = await request.aread()
        try:
            fetched = await fetch_named(
                request.method, str(request.url), headers, body, server=self._url, seconds=SEND_TIMEOUT
            )
        except PermissionFault as fault:
            raise AuthorizationFailure(f"no token was requested from {place}: {fault.message}") from None
        except ToolFault as fault:
            raise AuthorizationFailure(f"{place} cannot be reached ({self.hide(fault.message)})") from None
        kept = {name: value for name, value in fetched.headers.items() if name not in _HOP}
        return httpx2.Response(fetched.status, headers=kept, content=fetched.body, request=request)

    def begin(self) -> None:
        """Counts a request that has an answer."""
        self._calls += 1
        self._idle.clear()

    def end(self) -> None:
        """Counts the end of its answer, or its loss."""
        self._calls -= 1
        if not self._calls:
            self._idle.set()


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends requests, each of which gets an answer, and updates the remote's state."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._inner = httpx2.AsyncHTTPTransport(limits=httpx2.Limits(max_connections=None))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        remote = self._remote
        if not remote.leads_to(request.url):
            return await self._elsewhere(request)
        if remote.ended.is_set() and request.method == "DELETE":
            return httpx2.Response(503, request=request)  # The session has already ended.
        counted = request.method == "POST" and request.headers.get("mcp-method") != "subscriptions/listen"
        if counted:
            remote.begin()
        ended = remote.end if counted else _nothing
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.TransportError as error:
            ended()
            return self._failed(request, error)
        except BaseException:
            ended()
            raise
        refused = self._compressed(request, response) or self._refused(request, response)
        if refused is not None:
            ended()
            await response.aclose()
            return refused
        stream = response.stream
        # The one stream of an old server has the answers to all requests; each is bounded separately.
        shared = remote.carrier == "sse" and request.method == "GET"
        if isinstance(stream, httpx2.AsyncByteStream) and not shared:
            # An event stream may be endless; the reader of events bounds each.
            events = _kind(response).startswith("text/event-stream")
            response.stream = _Bounded(stream, ended, events=events)
        else:
            ended()
        return response

    async def _elsewhere(self, request: httpx2.Request) -> httpx2.Response:
        """The answer of an authorization server, which does not affect the remote's state."""
        if not self._remote.is_issuer(request.url):
            return await self._remote.fetch(request)
        try:
            async with asyncio.timeout(SEND_TIMEOUT):
                response = await self._inner.handle_async_request(request)
        except (httpx2.TransportError, TimeoutError) as error:
            what = f"{request.url.copy_with(query=None)} cannot be reached ({str(error) or type(error).__name__})."
            raise AuthorizationFailure(what) from error
        refused = self._compressed(request, response)
        if refused is not None:
            await response.aclose()
            return refused
        stream = response.stream
        if isinstance(stream, httpx2.AsyncByteStream):
            response.stream = _Bounded(stream, _nothing, events=False)
        return response

    def _failed(self, request: httpx2.Request, error: httpx2.TransportError) -> httpx2.Response:
        unsent = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)
        what = self._remote.hide(str(error)) or type(error).__name__
        message = f"cannot be reached ({what})" if unsent else f"broke the connection ({what})"
        if request.method != "POST":
            raise error
        if unsent:
            self._remote.give_up(message)
        return _answer(request, 503, f"The server {message}.", "unsent" if unsent else "unknown")

    def _compressed(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response | None:
        """An error in place of a compressed answer, of which a MiB may become a GiB (measured)."""
        encoding = response.headers.get("content-encoding", "identity").lower()
        if encoding == "identity":
            return None
        message = self._remote.hide(f"The server answered compressed ({encoding[:20]}), which was not requested.")
        return _answer(request, 502, message, "unknown")

    def _refused(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response | None:
        """Updates the remote's state from a status. Returns an error in place of an uninformative answer."""
        status = response.status_code
        if status < 400 or request.method != "POST":
            return None
        refusal = self._remote.refusal = self._remote.hide(f"answered {status} {response.reason_phrase}".rstrip())
        challenge: str = response.headers.get("www-authenticate", "")
        self._remote.unauthorized = status == 401
        self._remote.challenged = status == 401 and challenge.lower().startswith("bearer")
        if status == 404 and self._remote.carrier == "sse":
            self._remote.give_up("does not know its session (answered 404)")
            return _answer(request, status, "The server does not know its session.", "unsent")
        if status == 404 and _SESSION in request.headers:
            self._remote.give_up("has ended its session")
        elif status in _UNAVAILABLE:
            self._remote.give_up(refusal)
        # Handled statuses, and answers with an error of the protocol, stay unchanged.
        if status in self._remote.handled or _kind(response).startswith("application/json"):
            return None
        return _answer(request, status, f"The server {refusal}.", "unknown" if status >= 500 else None)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Bounded(httpx2.AsyncByteStream):
    """A body that ends where it becomes too large or breaks; its reader finds it cut."""

    def __init__(self, inner: httpx2.AsyncByteStream, ended: Callable[[], None], *, events: bool) -> None:
        self._inner = inner
        self._ended = ended
        self._limit = None if events else LINE_LIMIT
        self._values = Values(events=events)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        with contextlib.suppress(httpx2.TransportError):
            async for chunk in self._inner:
                size += len(chunk)
                if (self._limit is not None and size > self._limit) or self._values.feed(chunk) > VALUES:
                    return
                yield chunk

    async def aclose(self) -> None:
        ended, self._ended = self._ended, _nothing
        ended()
        await self._inner.aclose()


class _Client(httpx2.AsyncClient):
    """Answers a request itself if there is no token for it."""

    def __init__(self, remote: Remote, **settings: Any) -> None:
        super().__init__(**settings)
        self._remote = remote

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        remote = self._remote
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError:
            raise
        except Exception as error:
            remote.sign_in = isinstance(error, SignInNeeded)
            message = " ".join(remote.hide(str(error)).split())[:_SHOWN].rstrip(".") or type(error).__name__
            remote.closed = message if remote.sign_in else f"gave no access: {message}"
            if isinstance(error, SignInUnwanted):
                remote.closed = "does not require a sign-in. Remove oauth from [connection]"
            if request.method != "POST":
                raise
            return _answer(request, 401, message, _SIGN_IN if remote.sign_in else None)
        remote.closed, remote.sign_in = None, False
        return response


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _kind(response: httpx2.Response) -> str:
    kind: str = response.headers.get("content-type", "")
    return kind.lower()


def _answer(request: httpx2.Request, status: int, message: str, loss: str | None) -> httpx2.Response:
    """An error of the protocol, as the SDK reads it; the SDK adds the request's identifier."""
    code = _CONNECTION_CLOSED if loss else _INTERNAL_ERROR
    content = failure(None, code, message, {"data": {_MARK: loss}} if loss else {})
    return httpx2.Response(status, headers={"content-type": "application/json"}, content=content, request=request)


def _nothing() -> None:
    return


@contextlib.asynccontextmanager
async def reach(
    settings: ServerSettings,
    headers: Mapping[str, str],
    secret: str,
    *,
    ensemble: str,
    store: TokenStore,
    person: Person | None = None,
) -> AsyncGenerator[Remote, None]:
    """The server behind the URL of these settings, with its HTTP client. Sends nothing yet. After ``import_sdk``.

    ``secret`` is that of its OAuth client, if any. ``person`` signs in, if necessary.
    """
    remote = Remote(ensemble, settings, [*headers.values(), secret])
    timeout = httpx2.Timeout(SEND_TIMEOUT, connect=CONNECT_TIMEOUT, read=None)
    sent = httpx2.Headers(dict(headers))
    sent["accept-encoding"] = "identity"
    client = _Client(remote, transport=GuardedTransport(remote), headers=sent, timeout=timeout, follow_redirects=False)
    if settings.oauth is not None:
        from ripieno.origins.mcp.oauth.provider import authorize

        client.auth = authorize(
            settings.url or "", settings.oauth, secret, store, person=person, conceal=remote.conceal
        )
    async with client:
        remote.client = client
        yield remote
