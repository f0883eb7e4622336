"""How requests reach an endpoint: an official SDK settles the headers, and the HTTP client given to it carries bytes.

============  =====================================  ==========================================
``sdk``       the client that is made                what it settles
============  =====================================  ==========================================
anthropic     ``anthropic.AsyncAnthropic``           version header, bearer key
openai        ``openai.AsyncOpenAI``                 organization headers, bearer key
google        none                                   the key in ``x-goog-api-key``
============  =====================================  ==========================================

A ``cloud`` between us and the models may want it otherwise (``ripieno.protocols.clouds``):

============  =====================================  ==========================================
``cloud``     the client that is made                what it settles
============  =====================================  ==========================================
azure         ``openai.AsyncOpenAI``                 organization headers; the key in ``api-key``; paths by deployment
bedrock       ``anthropic.AsyncAnthropicBedrock``    path, body and signature
vertex        ``anthropic.AsyncAnthropicVertex``     path, body and token
============  =====================================  ==========================================

The SDKs' typed body transforms grow with the history, and their accumulators lose calls (measured), so neither is
used. They are imported when a provider is first asked, never before. Their retries are off: they tell nobody, and
know nothing of a run's time.
"""

import asyncio
import contextlib
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import AbstractAsyncContextManager
from typing import Any

from ripieno.descriptors.patience import Caution
from ripieno.exceptions import ProviderFailure, ProviderRefusal, ProviderUnreachable, WireInvalidity
from ripieno.processors import Native, Natives
from ripieno.protocols.breaking import Breaker
from ripieno.protocols.endpoints import Endpoint
from ripieno.protocols.heading import headers_of
from ripieno.protocols.muting import mute
from ripieno.protocols.refusals import refusal
from ripieno.protocols.splitting import EVENT_BYTES, read_objects, split
from ripieno.protocols.timing import Lateness, Watch

#: Bytes of an error's body that are read.
_ERROR_BYTES = 64 * 1024
#: What people read: no wire sends it. So many characters of it are shown.
_PAGES = frozenset({"text/html", "application/xhtml+xml"})
_PAGE_SHOWN = 120


class HttpTransport:
    """Posts bodies to one endpoint. One connection pool, opened at the first request.

    ``breaker`` is shared by all that ask the same endpoint; without one it is asked however often it fails.
    """

    def __init__(self, endpoint: Endpoint, breaker: Breaker | None = None) -> None:
        self._endpoint = endpoint
        self._breaker = breaker or Breaker(Caution(failures=0))
        self._client: Any = None
        #: For each path, what makes a request of a body.
        self._makers: dict[str, Callable[[bytes], Any]] = {}
        self._headers: dict[str, str] = {}
        base, mark, query = endpoint.base_url.partition("?")
        self._base = base.rstrip("/")
        self._query = mark + query

    def exchange(self, body: bytes, *, path: str, stream: bool) -> AbstractAsyncContextManager[AsyncIterator[Natives]]:
        """The answer to one request. Errors: ``ProviderUnreachable``, ``ProviderRefusal``, ``WireInvalidity``."""
        return self._streamed(body, path) if stream else self._whole(body, path)

    def _open(self) -> None:
        if self._client is None:
            import httpx2

            timeouts = self._endpoint.timeouts
            # Reading is timed by a watch of ours: this client knows no first byte, and sets a timer for each piece.
            timeout = httpx2.Timeout(None, connect=timeouts.connect, write=timeouts.between)
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64)
            # No redirects: an endpoint that moves would be followed with the key in hand.
            client = httpx2.AsyncClient(timeout=timeout, limits=limits, follow_redirects=False)
            mute(self, self._endpoint)
            self._prepare(client)
            self._client = client

    def _prepare(self, client: Any) -> None:
        """What is made once for a new pool."""
        self._headers = headers_of(self._endpoint, client)

    @contextlib.asynccontextmanager
    async def _whole(self, body: bytes, path: str) -> AsyncGenerator[AsyncIterator[Natives], None]:
        async with self._posted(body, path) as (response, watch):
            natives = read_objects(await self._everything(response, watch), self._endpoint.provider)
        yield _one(*natives)

    @contextlib.asynccontextmanager
    async def _streamed(self, body: bytes, path: str) -> AsyncGenerator[AsyncIterator[Natives], None]:
        async with self._posted(body, path) as (response, watch):
            if "json" in response.headers.get("content-type", ""):
                # A server that does not stream answers whole, all at once, or with an error: decoders know each.
                yield _one(*read_objects(await self._everything(response, watch), self._endpoint.provider))
                return
            async with (
                contextlib.aclosing(response.aiter_bytes()) as chunks,
                contextlib.aclosing(watch.pieces(chunks)) as pieces,
                contextlib.aclosing(self._split(pieces)) as natives,
            ):
                yield natives

    def _split(self, pieces: AsyncIterator[bytes]) -> AsyncGenerator[Natives, None]:
        """The native events of a streamed answer."""
        return split(pieces, self._endpoint.provider)

    @contextlib.asynccontextmanager
    async def _posted(self, body: bytes, path: str) -> AsyncGenerator[tuple[Any, Watch], None]:
        """The response to a request that was not refused, and the clock of its answer."""
        with self._judged() as answered, self._explained():
            self._open()
            with contextlib.closing(Watch(self._endpoint.timeouts)) as watch:
                response = await watch.begin(self._send(body, path))
                try:
                    if response.status_code >= 300:
                        raise await self._refusal(response, watch)
                    answered()
                    kind = response.headers.get("content-type", "").partition(";")[0].strip().casefold()
                    if kind in _PAGES:
                        raise await self._page(response, watch, kind)
                    yield response, watch
                finally:
                    await response.aclose()

    async def _send(self, body: bytes, path: str) -> Any:
        if path not in self._makers:
            self._makers[path] = self._maker(self._client, path)
        return await self._client.send(self._makers[path](body), stream=True)

    def _maker(self, client: Any, path: str) -> Callable[[bytes], Any]:
        """Makes requests from one that the client built: building each anew takes five times as long (measured)."""
        import httpx2

        query = self._query.replace("?", "&", 1) if "?" in path else self._query
        model = client.build_request("POST", self._base + path + query, headers=self._headers)
        model.headers.pop("content-length", None)
        return functools.partial(
            _request, httpx2.Request, model.url, httpx2.Headers(model.headers), dict(model.extensions)
        )

    async def _refusal(self, response: Any, watch: Watch) -> ProviderRefusal:
        return refusal(
            self._endpoint.provider,
            response.status_code,
            await self._beginning(response, watch),
            location=response.headers.get("location"),
            headers=response.headers,
        )

    async def _page(self, response: Any, watch: Watch, kind: str) -> WireInvalidity:
        beginning = (await self._beginning(response, watch))[:_PAGE_SHOWN]
        return WireInvalidity(
            self._endpoint.provider,
            f"{self._endpoint.shown} answered {kind}, which is for people: {beginning!r}",
            hint="Is base_url right?",
        )

    async def _beginning(self, response: Any, watch: Watch) -> str:
        """The beginning of a body that is only to be shown: as much of it as comes."""
        import httpx2

        data = b""
        # A refusal whose words do not come is one all the same.
        with contextlib.suppress(httpx2.HTTPError, Lateness):
            async with contextlib.aclosing(watch.pieces(response.aiter_bytes())) as pieces:
                async for chunk in pieces:
                    data += chunk
                    if len(data) >= _ERROR_BYTES:
                        break
        return data.decode("utf-8", "replace")

    async def _everything(self, response: Any, watch: Watch) -> bytes:
        """The whole body. Errors: ``WireInvalidity`` where it is too large."""
        chunks: list[bytes] = []
        size = 0
        async with contextlib.aclosing(watch.pieces(response.aiter_bytes())) as pieces:
            async for chunk in pieces:
                size += len(chunk)
                if size > EVENT_BYTES:
                    raise WireInvalidity(
                        self._endpoint.provider, f"It sent an answer of more than {EVENT_BYTES} bytes."
                    )
                chunks.append(chunk)
        return b"".join(chunks)

    @contextlib.contextmanager
    def _judged(self) -> Generator[Callable[[], None], None, None]:
        """Lets a request through if the endpoint is not left alone for now, and remembers what became of it.

        Its body calls what it is given when the endpoint has answered. Only failures of the endpoint itself count: one
        that refuses a request is well. Errors: ``ProviderUnreachable``, with the time of the next try.
        """
        breaker, clock = self._breaker, asyncio.get_running_loop().time
        seconds = breaker.seconds(clock())
        if seconds is not None:
            raise self._left_alone(seconds)
        trying = breaker.enter()
        settled = False

        def answered() -> None:
            nonlocal settled
            settled = True
            breaker.succeed()

        try:
            yield answered
        except ProviderFailure as error:
            # What was raised first holds the request, and that has the key.
            error.__context__ = None
            if isinstance(error, ProviderUnreachable) or (getattr(error, "status", None) or 0) >= 500:
                breaker.fail(clock(), error.reason, trying=trying and not settled)
            elif isinstance(error, ProviderRefusal):
                breaker.succeed()
            elif not settled:
                breaker.leave(trying=trying)
            raise
        except BaseException:
            if not settled:
                breaker.leave(trying=trying)
            raise

    def _left_alone(self, seconds: float) -> ProviderUnreachable:
        breaker = self._breaker
        when = f"in {max(1, round(seconds))} s" if seconds else "as soon as the request that tries it now has ended"
        return ProviderUnreachable(
            self._endpoint.provider,
            f"{self._endpoint.shown} failed {breaker.failures} times in a row, so it is left alone: it is tried again "
            f"{when}. The last time: {breaker.words}",
            hint="Use another model, or see [breaker].",
            retryable=False,
            after=seconds or None,
        )

    @contextlib.contextmanager
    def _explained(self) -> Generator[None, None, None]:
        """Errors of the HTTP client in the words of this family, and no error with a secret in it."""
        import httpx2

        failure: ProviderFailure
        try:
            yield
        except ProviderFailure as error:
            failure = error
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, Lateness) as error:
            failure = explain(self._endpoint, error)
        else:
            return
        raise self._hidden(failure)

    def _hidden(self, error: ProviderFailure) -> ProviderFailure:
        """The error, without this endpoint's secrets."""
        hidden = self._endpoint.hide_in([error.reason, getattr(error, "body", None)])
        if hidden != [error.reason, getattr(error, "body", None)]:
            error.reason = hidden[0]
            error.args = (error.provider, error.reason)
            if isinstance(error, ProviderRefusal):
                error.body = hidden[1]
            # Parsers keep the text that they could not read.
            error.__cause__ = None
        return error

    async def close(self) -> None:
        """Closes the pool."""
        client, self._client = self._client, None
        self._makers.clear()
        if client is not None:
            await client.aclose()


def explain(endpoint: Endpoint, error: Exception) -> ProviderUnreachable:
    """What an error of the HTTP client means."""
    import httpx2

    provider, base = endpoint.provider, endpoint.shown
    reason = str(error) or type(error).__name__
    if isinstance(error, Lateness):
        late = {
            "first_byte": "no answer began",
            "between": "no more of its answer came",
            "whole": "its answer was not complete",
        }
        return ProviderUnreachable(
            provider,
            f"{base} took too long: {late[error.key]} within {error.seconds:g} s.",
            hint=f"If it needs more time: {error.key} = … under [providers.{provider}.timeouts].",
            category="timeout",
            # It would be as long the next time.
            retryable=error.key != "whole",
        )
    if isinstance(error, httpx2.ConnectError):
        return ProviderUnreachable(
            provider, f"Nothing answers at {base} ({reason}).", hint="Is the server running, and is base_url right?"
        )
    if isinstance(error, httpx2.TimeoutException):
        return ProviderUnreachable(
            provider, f"{base} took too long ({type(error).__name__}).", hint="Try again later.", category="timeout"
        )
    # An address that is none will not become one.
    lost = isinstance(error, httpx2.HTTPError) and not isinstance(error, httpx2.UnsupportedProtocol)
    return ProviderUnreachable(provider, f"The connection to {base} failed ({reason}).", retryable=lost)


def _request(make: Any, url: Any, headers: Any, extensions: dict[str, Any], body: bytes) -> Any:
    return make("POST", url, headers=headers, content=body, extensions=extensions)


async def _one(*natives: Native) -> AsyncGenerator[Natives, None]:
    yield natives
