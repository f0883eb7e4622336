"""A request with its redirects, each of which is checked like a request."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Mapping

from frozendict import frozendict

from ripieno.exceptions import (
    InputError,
    NetworkFault,
    OutcomeUnknownFault,
    PermissionFault,
    TimeoutFault,
    ToolFault,
    ValidationFault,
)
from ripieno.origins.http.client.allowed_hosts import Limits, Reach
from ripieno.origins.http.client.connection import Attempt, Connector, Resolver, explain, resolve
from ripieno.origins.http.client.decompression import ACCEPTED, Body
from ripieno.origins.http.client.headers import METHODS, SAFE, Headers, check_headers, for_another_origin, without_body
from ripieno.origins.http.client.urls import Url
from ripieno.storage.redaction import NO_SECRETS, Redactor, redact_logs
from ripieno.values import Value, unprinted

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_NO_HEADERS: frozendict[str, Headers] = frozendict()
_LOGGERS = ("httpx2", "httpcore2.connection", "httpcore2.http11")


@unprinted("url", "body", "credentials", "redactor")
class Request(Value, kw_only=True):
    """A request. ``credentials`` are headers by the only origin that receives them; ``redactor`` knows their values.

    The values may be in the target, too. No message and no log about the request contains them.
    """

    method: str = "GET"
    url: Url
    headers: Headers = ()
    body: bytes | None = None
    credentials: Mapping[str, Headers] = _NO_HEADERS
    redactor: Redactor = NO_SECRETS
    follow: bool = True


class Hop(Value, kw_only=True):
    """A followed redirect: its status and its destination."""

    status: int
    url: Url


class Fetched(Value, kw_only=True):
    """A response. ``headers`` have lower-case names; ``url`` is its source after all redirects."""

    method: str
    url: Url
    status: int
    reason: str
    headers: frozendict[str, str]
    body: bytes
    hops: tuple[Hop, ...] = ()


class Fetcher:
    """Sends requests within one reach. Each has its own connections, closed at its end."""

    def __init__(
        self,
        reach: Reach,
        *,
        limits: Limits = Limits(),  # noqa: B008  frozen
        resolver: Resolver = resolve,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._limits = limits
        self._connector = Connector(reach, limits, resolver, context)

    async def fetch(self, request: Request) -> Fetched:
        """The response, of any status.

        Errors: ``ValidationFault`` for an invalid request; ``PermissionFault`` for a refused host; ``NetworkFault``,
        ``TimeoutFault`` and ``ResourceFault`` for other failures; ``OutcomeUnknownFault`` instead of all these if the
        request may have changed something.
        """
        redact_logs(_LOGGERS, request.redactor)
        acted = [False]
        fault: ToolFault
        try:
            async with asyncio.timeout(self._limits.whole):
                return await self._follow(request, acted)
        except TimeoutError:
            fault = TimeoutFault(f"{request.url.host} did not finish within {self._limits.whole:g} s.", code="whole")
        except ToolFault as error:
            fault = error
        raise _redacted(fault, request, acted=acted[0])

    async def _follow(self, request: Request, acted: list[bool]) -> Fetched:
        method, url, headers, body = request.method, request.url, _checked(request), request.body
        hops: list[Hop] = []
        while True:
            own = request.credentials.get(url.origin, ())
            taken = {name.lower() for name, _ in own}
            sent = (
                ("Accept-Encoding", ACCEPTED),
                *((name, value) for name, value in headers if name.lower() not in taken),
                *own,
            )
            attempt = Attempt(method=method, url=url, headers=sent, body=body)
            try:
                async with self._connector.open(attempt) as response:
                    there = response.headers.get("location")
                    if response.status_code not in _REDIRECTS or there is None or not request.follow:
                        return await self._read(attempt, response, hops)
                    # The body of a redirect is not read.
                    status = response.status_code
            finally:
                acted[0] = acted[0] or (attempt.sent and method not in SAFE)
            former, url = url, _destination(url, status, there, len(hops), self._limits.redirects)
            hops.append(Hop(status=status, url=url))
            if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
                method, body, headers = "GET", None, without_body(headers)
            if url.origin != former.origin:
                headers = for_another_origin(headers)

    async def _read(self, attempt: Attempt, response: object, hops: list[Hop]) -> Fetched:
        import httpx2

        assert isinstance(response, httpx2.Response)
        data = b""
        if attempt.method != "HEAD" and response.status_code not in (204, 304):
            body = Body(response.headers.get("content-encoding", ""), self._limits.size)
            try:
                async with contextlib.aclosing(self._pieces(attempt.url, response)) as pieces:
                    async for piece in pieces:
                        body.feed(piece)
            except httpx2.TransportError as error:
                raise explain(attempt.url, error) from None
            data = body.finish()
        return Fetched(
            method=attempt.method,
            url=attempt.url,
            status=response.status_code,
            reason=response.reason_phrase,
            headers=frozendict({name.lower(): value for name, value in response.headers.items()}),
            body=data,
            hops=tuple(hops),
        )

    async def _pieces(self, url: Url, response: object) -> AsyncGenerator[bytes, None]:
        """The pieces of a body as received, each within its time limit."""
        import httpx2

        assert isinstance(response, httpx2.Response)
        async with contextlib.aclosing(response.aiter_raw()) as chunks:
            while True:
                try:
                    async with asyncio.timeout(self._limits.between):
                        chunk = await anext(chunks)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    raise TimeoutFault(
                        f"{url.host} paused for {self._limits.between:g} s in the middle of its answer.", code="between"
                    ) from None
                yield chunk


def _checked(request: Request) -> Headers:
    """The headers of a request. Errors: ``ValidationFault``."""
    if request.method not in METHODS:
        raise ValidationFault(f"{request.method[:20]!r} is not a supported method.", code="invalid_method")
    try:
        for own in request.credentials.values():
            check_headers(own)
        return check_headers(request.headers)
    except InputError as error:
        raise ValidationFault(f"The request was not sent: {error}.", code="invalid_header") from None


def _destination(url: Url, status: int, location: str, count: int, most: int) -> Url:
    """The destination of a redirect. Errors: ``NetworkFault``, ``PermissionFault``."""
    if count >= most:
        raise NetworkFault(f"{url.host} redirected more than {most} times.", code="redirects")
    try:
        if not location.isascii() or not location.isprintable() or " " in location or "\\" in location:
            raise InputError("it has characters that are invalid in a URL")
        there = url.join(location)
    except InputError as error:
        raise NetworkFault(
            f"{url.host} answered {status} with a redirect that cannot be followed: {error}.", code="redirect"
        ) from None
    if (url.scheme, there.scheme) == ("https", "http"):
        raise PermissionFault(
            f"{url.host} answered {status} with a redirect from https to {there.origin}, which is not encrypted; it "
            "was not followed.",
            code="redirect_not_allowed",
        )
    return there


def _redacted(fault: ToolFault, request: Request, *, acted: bool) -> ToolFault:
    """The fault without secrets; an ``OutcomeUnknownFault`` if the request may have acted."""
    message = request.redactor.text(fault.message)
    # The cause of a fault may hold the request.
    fault.__context__ = fault.__cause__ = None
    if acted:
        return OutcomeUnknownFault(
            f"{message} The {request.method} had been sent and may have taken effect.",
            code=fault.code,
            details=fault.details,
            suggestion="Check whether it took effect before you repeat it.",
        )
    fault.message, fault.args = message, (message,)
    return fault
