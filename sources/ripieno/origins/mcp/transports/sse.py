"""Our transport for old servers: requests are posted, and all answers come in one stream of events. Imports the SDK.

The SDK's own ends without a word when one post is refused, and waits for ever for an endpoint that is elsewhere
(measured).
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any, Protocol

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from ripieno.jsonvalues import is_table
from ripieno.origins.mcp.transports.framing import LINE_LIMIT
from ripieno.origins.mcp.transports.lines import Incoming, Transport

#: Redirects that one request follows.
REDIRECTS = 5
#: Seconds in which a post is awaited before the next: then it goes on beside it, since some servers answer late.
ORDER = 1.0
#: Events in a row that are no messages; more end the connection.
REFUSALS = 1000
#: Characters of a stranger's words that are shown.
_SHOWN = 300
_EVENTS = "text/event-stream"
_INTERNAL_ERROR = -32603


class Behind(Protocol):
    """The server behind the URL, as far as it is needed here."""

    ensemble: str
    challenged: bool

    def give_up(self, reason: str) -> None:
        """Reads nothing more."""
        ...

    def hide(self, text: str) -> str:
        """The text without secrets, and without what a terminal would obey."""
        ...


class Refusal(Exception):
    """There is no connection; the text says why, to follow "the MCP server"."""


class _Wire:
    """Messages as lines: out as posts, in as events."""

    def __init__(self, behind: Behind, client: httpx2.AsyncClient, endpoint: httpx2.URL) -> None:
        self.ensemble = behind.ensemble
        self._behind = behind
        self._client = client
        self._endpoint = endpoint
        self._arriving: MemoryObjectSendStream[bytes]
        self._lines: MemoryObjectReceiveStream[bytes]
        self._arriving, self._lines = anyio.create_memory_object_stream[bytes](0)
        self._posts: set[asyncio.Task[None]] = set()
        self._refused = 0
        self._deaf = False

    async def read_line(self) -> bytes | None:
        """The data of the next message, or the failure of a post; None when there will be no more."""
        if self._deaf:
            return None
        try:
            return await self._lines.receive()
        except anyio.EndOfStream:
            return None

    async def write(self, data: bytes) -> None:
        """Posts a message, in its turn."""
        post = asyncio.create_task(self._post(data), name=f"post to {self.ensemble}")
        self._posts.add(post)
        post.add_done_callback(self._posts.discard)
        await asyncio.wait((post,), timeout=ORDER)

    def refuse(self, what: str) -> None:
        """Counts an event that is no message."""
        self._refused += 1
        if self._refused == REFUSALS:
            self.give_up(f"sent {REFUSALS} events that are no messages; the last was {what}")

    def give_up(self, reason: str) -> None:
        """Reads nothing more."""
        self._deaf = True
        self._behind.give_up(reason)

    async def pump(self, events: AsyncIterator[httpx2.ServerSentEvent]) -> None:
        """Hands on the messages among the events, until the stream ends."""
        with self._arriving:
            try:
                async for event in events:
                    if event.event == "message" and event.data.strip():
                        await self._arriving.send(event.data.encode())
            except httpx2.TransportError as error:
                self._behind.give_up(f"broke the connection ({_shown(self._behind, str(error))})")

    async def close(self) -> None:
        """Ends the posts that are still under way."""
        for post in tuple(self._posts):
            post.cancel()
        if self._posts:
            await asyncio.wait(tuple(self._posts))
        self._lines.close()

    async def _post(self, data: bytes) -> None:
        request = self._client.build_request(
            "POST", self._endpoint, content=data, headers={"content-type": "application/json"}
        )
        error: Mapping[str, Any] | None = None
        try:
            async with _sent(self._client, request) as response:
                # Whatever it says beside its status is read, so that the connection can be used again.
                body = await response.aread()
                if not response.is_success:
                    error = _error(response, body)
        except Exception as failed:
            words = _shown(self._behind, str(failed)) or type(failed).__name__
            error = {"code": _INTERNAL_ERROR, "message": words}
        identifier = None if error is None else _identifier(data)
        if error is not None and identifier is not None:
            # Nobody listens any more when the stream has ended, which is told otherwise.
            with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                await self._arriving.send(json.dumps({"jsonrpc": "2.0", "id": identifier, "error": error}).encode())


@contextlib.asynccontextmanager
async def exchange(
    behind: Behind, client: httpx2.AsyncClient, url: str
) -> AsyncGenerator[tuple[Incoming, MemoryObjectSendStream[SessionMessage]], None]:
    """What ``mcp.Client`` enters, when the server has said where it wants its messages.

    Errors: ``Refusal``; the server is given up then, with the same words.
    """
    request = client.build_request("GET", url, headers={"accept": _EVENTS, "cache-control": "no-store"})
    async with contextlib.AsyncExitStack() as stack:
        try:
            response = await stack.enter_async_context(_sent(client, request))
            await _check(behind, response)
            events = aiter(httpx2.EventSource(response, max_event_size=LINE_LIMIT))
            endpoint = await _endpoint(behind, events, httpx2.URL(url))
        except (httpx2.TransportError, Refusal) as error:
            unreached = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
            what = "cannot be reached" if unreached else "broke the connection"
            words = str(error) if isinstance(error, Refusal) else f"{what} ({_shown(behind, str(error))})"
            behind.give_up(words)
            raise Refusal(words) from error
        wire = _Wire(behind, client, endpoint)
        pump = asyncio.create_task(wire.pump(events), name=f"events of {behind.ensemble}")
        try:
            async with Transport(wire) as streams:
                yield streams
        finally:
            pump.cancel()
            await asyncio.wait((pump,))
            await wire.close()


@contextlib.asynccontextmanager
async def _sent(client: httpx2.AsyncClient, request: httpx2.Request) -> AsyncGenerator[httpx2.Response, None]:
    """The answer to a request, whose redirects are followed as long as they stay where they are, as the SDK does."""
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


async def _check(behind: Behind, response: httpx2.Response) -> None:
    """Errors: ``Refusal`` for an answer that is no stream of events."""
    challenge: str = response.headers.get("www-authenticate", "")
    behind.challenged = response.status_code == 401 and challenge.lower().startswith("bearer")
    status = f"answered {response.status_code} {response.reason_phrase}".rstrip()
    if response.status_code != 200:
        if response.has_redirect_location:
            raise Refusal(f"{_shown(behind, status)}, which leads elsewhere and was not followed")
        raise Refusal(_shown(behind, status))
    kind = response.headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != _EVENTS:
        raise Refusal(f"answered with {_shown(behind, kind) or 'nothing'} instead of a stream of events")


async def _endpoint(behind: Behind, events: AsyncIterator[httpx2.ServerSentEvent], url: httpx2.URL) -> httpx2.URL:
    """Where messages go: the secrets of our headers are sent there, so that it must be the same server.

    Errors: ``Refusal``.
    """
    async for event in events:
        if event.event == "endpoint":
            shown = _shown(behind, event.data)
            try:
                endpoint = url.join(event.data)
            except (httpx2.InvalidURL, ValueError):
                raise Refusal(f"wants its messages at what is no URL: {shown!r}") from None
            if not _same_place(endpoint, url):
                raise Refusal(f"wants its messages at another place, where nothing is sent: {shown!r}")
            return endpoint
    raise Refusal("ended its stream of events before it said where it wants its messages")


def _same_place(one: httpx2.URL, other: httpx2.URL) -> bool:
    """Whether both are one server's, under one name; a user that a URL brings along would be sent, too."""
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port) and (
        not one.userinfo or one.userinfo == other.userinfo
    )


def _error(response: httpx2.Response, body: bytes) -> Mapping[str, Any]:
    """What a post that was refused is to whoever waits for its answer: the protocol's error, where there is one."""
    with contextlib.suppress(ValueError, RecursionError):
        message = json.loads(body)
        found: Any = message.get("error") if is_table(message) else None
        if is_table(found) and isinstance(found.get("code"), int) and isinstance(found.get("message"), str):
            return found
    refusal = f"The server answered {response.status_code} {response.reason_phrase}".rstrip()
    return {"code": _INTERNAL_ERROR, "message": f"{refusal}{', not followed' if response.is_redirect else ''}."}


def _identifier(data: bytes) -> object:
    """The id of a request; None for what has no answer."""
    message = json.loads(data)
    return message.get("id") if "method" in message else None


def _shown(behind: Behind, text: str) -> str:
    return " ".join(behind.hide(text).split())[:_SHOWN]
