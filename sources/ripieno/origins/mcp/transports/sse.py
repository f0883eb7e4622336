"""A transport for old servers: posted requests, and all answers in one stream of events. Imports the SDK.

The SDK's own ends silently when one post is refused, and waits forever for an endpoint elsewhere (measured).
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any, Protocol

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from ripieno.jsonvalues import is_table
from ripieno.origins.mcp.transports.framing import LINE_LIMIT
from ripieno.origins.mcp.transports.lines import Incoming, Outgoing, Transport

#: Redirects followed for one request.
REDIRECTS = 5
#: Seconds to wait for a post before the next starts in parallel, since some servers answer late.
ORDER = 1.0
#: Events that are not messages; this many end the connection.
REFUSALS = 1000
#: Characters shown of foreign text.
_SHOWN = 300
_EVENTS = "text/event-stream"
_INTERNAL_ERROR = -32603


class EventServer(Protocol):
    """The parts of ``Remote`` that this transport needs."""

    ensemble: str
    challenged: bool

    def give_up(self, reason: str) -> None:
        """Stops reading."""
        ...

    def hide(self, text: str) -> str:
        """The text without secrets and terminal controls."""
        ...


class Refusal(Exception):
    """There is no connection; the text is the reason, to follow "the MCP server"."""


class _Wire:
    """Messages as lines: out as posts, in as events."""

    def __init__(self, server: EventServer, client: httpx2.AsyncClient, endpoint: httpx2.URL) -> None:
        self.ensemble = server.ensemble
        self._server = server
        self._client = client
        self._endpoint = endpoint
        self._arriving: MemoryObjectSendStream[bytes]
        self._lines: MemoryObjectReceiveStream[bytes]
        self._arriving, self._lines = anyio.create_memory_object_stream[bytes](0)
        self._leaving: MemoryObjectSendStream[bytes]
        self._messages: MemoryObjectReceiveStream[bytes]
        self._leaving, self._messages = anyio.create_memory_object_stream[bytes](0)
        self._posts: set[asyncio.Task[None]] = set()
        self._refused = 0
        self._closed = False

    async def read_line(self) -> bytes | None:
        """The data of the next message, or the failure of a post; None at the end."""
        if self._closed:
            return None
        try:
            return await self._lines.receive()
        except anyio.EndOfStream:
            return None

    async def write(self, data: bytes) -> None:
        await self._leaving.send(data)

    def refuse(self, what: str) -> None:
        self._refused += 1
        if self._refused == REFUSALS:
            self.give_up(f"sent {REFUSALS} events that are not messages; the last was {what}")

    def give_up(self, reason: str) -> None:
        self._closed = True
        self._server.give_up(reason)

    async def pump(self, events: AsyncIterator[httpx2.ServerSentEvent]) -> None:
        """Passes the messages among the events on, until the stream ends."""
        with self._arriving:
            try:
                async for event in events:
                    if event.event == "message" and event.data.strip():
                        await self._arriving.send(event.data.encode())
            except httpx2.TransportError as error:
                self._server.give_up(f"broke the connection ({_shown(self._server, str(error))})")

    async def post(self) -> None:
        """Posts the messages that are written, in their order."""
        async for data in self._messages:
            post = asyncio.create_task(self._post(data), name=f"post to {self.ensemble}")
            self._posts.add(post)
            post.add_done_callback(self._posts.discard)
            await asyncio.wait((post,), timeout=ORDER)

    async def close(self) -> None:
        for post in tuple(self._posts):
            post.cancel()
        if self._posts:
            await asyncio.wait(tuple(self._posts))
        for stream in (self._lines, self._messages, self._leaving):
            stream.close()

    async def _post(self, data: bytes) -> None:
        request = self._client.build_request(
            "POST", self._endpoint, content=data, headers={"content-type": "application/json"}
        )
        error: Mapping[str, Any] | None = None
        try:
            async with _sent(self._client, request) as response:
                # The body is read, so that the connection can be reused.
                body = await response.aread()
                if not response.is_success:
                    error = _error(response, body)
        except Exception as failed:
            words = _shown(self._server, str(failed)) or type(failed).__name__
            error = {"code": _INTERNAL_ERROR, "message": words}
        identifier = None if error is None else _identifier(data)
        if error is not None and identifier is not None:
            # After the end of the stream, which is reported separately, there is no reader.
            with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                await self._arriving.send(json.dumps({"jsonrpc": "2.0", "id": identifier, "error": error}).encode())


@contextlib.asynccontextmanager
async def exchange(
    server: EventServer, client: httpx2.AsyncClient, url: str
) -> AsyncGenerator[tuple[Incoming, Outgoing], None]:
    """The streams for ``mcp.Client``, after the server has named its endpoint.

    Errors: ``Refusal``; the server is then given up with the same reason.
    """
    request = client.build_request("GET", url, headers={"accept": _EVENTS, "cache-control": "no-store"})
    async with contextlib.AsyncExitStack() as stack:
        try:
            response = await stack.enter_async_context(_sent(client, request))
            await _check(server, response)
            events = aiter(httpx2.EventSource(response, max_event_size=LINE_LIMIT))
            endpoint = await _endpoint(server, events, httpx2.URL(url))
        except (httpx2.TransportError, Refusal) as error:
            unreached = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
            what = "cannot be reached" if unreached else "broke the connection"
            words = str(error) if isinstance(error, Refusal) else f"{what} ({_shown(server, str(error))})"
            server.give_up(words)
            raise Refusal(words) from error
        wire = _Wire(server, client, endpoint)
        tasks = (
            asyncio.create_task(wire.pump(events), name=f"events of {server.ensemble}"),
            asyncio.create_task(wire.post(), name=f"messages to {server.ensemble}"),
        )
        try:
            async with Transport(wire) as streams:
                yield streams
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await wire.close()


@contextlib.asynccontextmanager
async def _sent(client: httpx2.AsyncClient, request: httpx2.Request) -> AsyncGenerator[httpx2.Response, None]:
    """The response to a request. Redirects on the same server are followed, as by the SDK."""
    response = await client.send(request, stream=True)
    for _ in range(REDIRECTS):
        after = response.next_request
        if after is None or after.method != request.method or not _same_place(after.url, request.url):
            break
        await response.aclose()
        request = after
        response = await client.send(request, stream=True)
    try:
        yield response
    finally:
        await response.aclose()


async def _check(server: EventServer, response: httpx2.Response) -> None:
    """Errors: ``Refusal`` for an answer that is not an event stream."""
    challenge: str = response.headers.get("www-authenticate", "")
    server.challenged = response.status_code == 401 and challenge.lower().startswith("bearer")
    status = f"answered {response.status_code} {response.reason_phrase}".rstrip()
    if response.status_code != 200:
        if response.has_redirect_location:
            raise Refusal(f"{_shown(server, status)}, a redirect to another server that was not followed")
        raise Refusal(_shown(server, status))
    kind = response.headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != _EVENTS:
        raise Refusal(f"answered with {_shown(server, kind) or 'nothing'} instead of a stream of events")


async def _endpoint(server: EventServer, events: AsyncIterator[httpx2.ServerSentEvent], url: httpx2.URL) -> httpx2.URL:
    """The address for messages. It must be on the same server, since it gets our headers' secrets.

    Errors: ``Refusal``.
    """
    async for event in events:
        if event.event == "endpoint":
            shown = _shown(server, event.data)
            try:
                endpoint = url.join(event.data)
            except (httpx2.InvalidURL, ValueError):
                raise Refusal(f"named an endpoint that is not a URL: {shown!r}") from None
            if not _same_place(endpoint, url):
                raise Refusal(f"named an endpoint on another server, to which nothing is sent: {shown!r}")
            return endpoint
    raise Refusal("ended its stream of events without naming its endpoint")


def _same_place(one: httpx2.URL, other: httpx2.URL) -> bool:
    """Whether both URLs are the same server; a user in a URL would be sent, too."""
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port) and (
        not one.userinfo or one.userinfo == other.userinfo
    )


def _error(response: httpx2.Response, body: bytes) -> Mapping[str, Any]:
    """The error for a refused post: the protocol's own, if there is one."""
    with contextlib.suppress(ValueError, RecursionError):
        message = json.loads(body)
        found: Any = message.get("error") if is_table(message) else None
        if is_table(found) and isinstance(found.get("code"), int) and isinstance(found.get("message"), str):
            return found
    refusal = f"The server answered {response.status_code} {response.reason_phrase}".rstrip()
    return {"code": _INTERNAL_ERROR, "message": f"{refusal}{', not followed' if response.is_redirect else ''}."}


def _identifier(data: bytes) -> object:
    """The id of a request; None for a message without an answer."""
    message = json.loads(data)
    return message.get("id") if "method" in message else None


def _shown(server: EventServer, text: str) -> str:
    return " ".join(server.hide(text).split())[:_SHOWN]
