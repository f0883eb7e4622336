"""Requests to an endpoint: a carrier sends the bytes, and secrets leave neither in logs nor in errors.

=====================================  =============================================================================
carrier                                for
=====================================  =============================================================================
``http.PooledCarrier``                 most endpoints, azure too: the key is a header, and no SDK is imported
``clouds.CloudCarrier``                bedrock and vertex: an official SDK makes paths, signatures and tokens
``clients.ClientCarrier``              an official client that an application made
=====================================  =============================================================================

The SDKs' typed body transforms grow with the history, and their accumulators lose calls (measured), so neither is
used. Their retries are off: they report nothing and ignore a run's time limit.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import AbstractAsyncContextManager

from ripieno.descriptors.timeouts import Caution
from ripieno.exceptions import ProviderFailure, ProviderRefusal, ProviderUnreachable, WireInvalidity
from ripieno.lazy.expressions import expression
from ripieno.models.protocol import Natives
from ripieno.models.transport.breaker import Breaker
from ripieno.models.transport.endpoints import Endpoint
from ripieno.models.transport.errors import refusal
from ripieno.models.transport.http import Absence, Answer, Carrier, PooledCarrier
from ripieno.models.transport.sse import EVENT_BYTES, one_batch, read_objects, split
from ripieno.models.transport.timeouts import Lateness, Watch
from ripieno.storage.redaction import HIDDEN, Redactor, redact_logs

#: Maximum bytes read of an error's body.
_ERROR_BYTES = 64 * 1024
#: Content types of web pages, which no wire sends, and the characters of a page that are shown.
_PAGES = frozenset({"text/html", "application/xhtml+xml"})
_PAGE_SHOWN = 120
#: The logs of HTTP libraries.
_LOGGERS = (
    *("aiohttp.client", "aiohttp.internal"),
    "httpx2",
    *(f"httpcore2.{name}" for name in ("connection", "http11", "http2", "proxy", "socks")),
    *("anthropic", "anthropic._base_client", "openai", "openai._base_client"),
    *("botocore.auth", "botocore.credentials", "botocore.tokens"),
)
_TOKENS = expression(r"(x-amz-security-token['\"]?\s*[:=]\s*['\"]?)[^\s'\"]+", re.IGNORECASE)


class _TokenRedactor(Redactor):
    """Replaces the token that a cloud's credential chain has found; only its header contains it."""

    def __bool__(self) -> bool:
        return True

    def text(self, text: str) -> str:
        return _TOKENS.sub(rf"\1{HIDDEN}", text)


_TOKEN_REDACTOR = _TokenRedactor()


def mute(endpoint: Endpoint) -> None:
    """Redacts the secrets of an endpoint in logs, for the endpoint's lifetime."""
    redact_logs(_LOGGERS, _TOKEN_REDACTOR, endpoint.redactor)


class HttpTransport:
    """Posts bodies to one endpoint, over one carrier.

    ``breaker`` is shared by all users of the endpoint; without one, no number of failures blocks it.
    """

    def __init__(self, endpoint: Endpoint, breaker: Breaker | None = None, carrier: Carrier | None = None) -> None:
        self._endpoint = endpoint
        self._breaker = breaker or Breaker(Caution(failures=0))
        self._carrier = carrier or PooledCarrier(endpoint)

    def exchange(self, body: bytes, *, path: str, stream: bool) -> AbstractAsyncContextManager[AsyncIterator[Natives]]:
        """The answer to one request. Errors: ``ProviderUnreachable``, ``ProviderRefusal``, ``WireInvalidity``."""
        return self._streamed(body, path) if stream else self._whole(body, path)

    def open(self) -> None:
        mute(self._endpoint)
        with self._translated():
            self._carrier.open()

    @contextlib.asynccontextmanager
    async def _whole(self, body: bytes, path: str) -> AsyncGenerator[AsyncIterator[Natives], None]:
        async with self._posted(body, path) as (answer, watch):
            natives = read_objects(await self._everything(answer, watch), self._endpoint.provider)
        yield one_batch(*natives)

    @contextlib.asynccontextmanager
    async def _streamed(self, body: bytes, path: str) -> AsyncGenerator[AsyncIterator[Natives], None]:
        async with self._posted(body, path) as (answer, watch):
            if "json" in answer.headers.get("content-type", ""):
                # A server that does not stream sends a complete answer or an error; decoders know both.
                yield one_batch(*read_objects(await self._everything(answer, watch), self._endpoint.provider))
                return
            async with (
                contextlib.aclosing(watch.pieces(answer.pieces())) as pieces,
                contextlib.aclosing(self._split(pieces)) as natives,
            ):
                yield natives

    def _split(self, pieces: AsyncIterator[bytes]) -> AsyncGenerator[Natives, None]:
        return split(pieces, self._endpoint.provider)

    @contextlib.asynccontextmanager
    async def _posted(self, body: bytes, path: str) -> AsyncGenerator[tuple[Answer, Watch], None]:
        """The answer to a request that was not refused, and its clock."""
        with self._through_breaker() as answered, self._translated():
            mute(self._endpoint)
            with contextlib.closing(Watch(self._endpoint.timeouts)) as watch:
                answer = await watch.begin(self._carrier.send(body, path))
                try:
                    if answer.status >= 300:
                        text = await self._beginning(answer, watch)
                        raise refusal(self._endpoint.provider, answer.status, text, answer.headers)
                    answered()
                    kind = answer.headers.get("content-type", "").partition(";")[0].strip().casefold()
                    if kind in _PAGES:
                        beginning = (await self._beginning(answer, watch))[:_PAGE_SHOWN]
                        page = f"{self._endpoint.shown} answered with a web page ({kind}): {beginning!r}"
                        raise WireInvalidity(self._endpoint.provider, page, hint="Check base_url.")
                    yield answer, watch
                finally:
                    await answer.close()

    async def _beginning(self, answer: Answer, watch: Watch) -> str:
        """The beginning of a body for an error message: as much of it as arrives."""
        data = b""
        # If the body fails, the refusal is still reported.
        with contextlib.suppress(*self._carrier.failures, Lateness):
            async with contextlib.aclosing(watch.pieces(answer.pieces())) as pieces:
                async for chunk in pieces:
                    data += chunk
                    if len(data) >= _ERROR_BYTES:
                        break
        return data.decode("utf-8", "replace")

    async def _everything(self, answer: Answer, watch: Watch) -> bytes:
        """The complete body. Errors: ``WireInvalidity`` if it is too large."""
        chunks: list[bytes] = []
        size = 0
        async with contextlib.aclosing(watch.pieces(answer.pieces())) as pieces:
            async for chunk in pieces:
                size += len(chunk)
                if size > EVENT_BYTES:
                    raise WireInvalidity(
                        self._endpoint.provider, f"It sent an answer of more than {EVENT_BYTES} bytes."
                    )
                chunks.append(chunk)
        return b"".join(chunks)

    @contextlib.contextmanager
    def _through_breaker(self) -> Generator[Callable[[], None], None, None]:
        """Lets a request pass if the breaker allows it, and records its outcome.

        The body calls the yielded function when the endpoint has answered. Only failures of the endpoint itself
        count; a refusal does not. Errors: ``ProviderUnreachable``, with the time of the next try.
        """
        breaker, clock = self._breaker, asyncio.get_running_loop().time
        seconds = breaker.seconds(clock())
        if seconds is not None:
            raise self._blocked(seconds)
        trying = breaker.enter()
        settled = False

        def answered() -> None:
            nonlocal settled
            settled = True
            breaker.succeed()

        try:
            yield answered
        except ProviderFailure as error:
            # The first error holds the request, which contains the key.
            error.__context__ = None
            if isinstance(error, Absence):
                # A server that is being started can be asked as soon as it listens.
                breaker.leave(trying=trying)
            elif isinstance(error, ProviderUnreachable) or (getattr(error, "status", None) or 0) >= 500:
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

    def _blocked(self, seconds: float) -> ProviderUnreachable:
        breaker = self._breaker
        when = f"in {max(1, round(seconds))} s" if seconds else "after the trial request that is under way"
        return ProviderUnreachable(
            self._endpoint.provider,
            f"{self._endpoint.shown} failed {breaker.failures} times in a row, so no requests are sent for now. "
            f"The next try is {when}. The last failure: {breaker.reason}",
            hint="Use another model, or see [breaker].",
            retryable=False,
            after=seconds or None,
        )

    @contextlib.contextmanager
    def _translated(self) -> Generator[None, None, None]:
        """Translates errors of the carrier, and removes secrets from all errors."""
        failure: ProviderFailure
        try:
            yield
        except ProviderFailure as error:
            failure = error
        except Lateness as error:
            failure = late(self._endpoint, error)
        except Exception as error:
            if not isinstance(error, self._carrier.failures):
                raise
            failure = self._carrier.explain(error)
        else:
            return
        raise self._redacted(failure)

    def _redacted(self, error: ProviderFailure) -> ProviderFailure:
        """The error without this endpoint's secrets."""
        hidden = self._endpoint.redactor.value([error.reason, getattr(error, "body", None)])
        if hidden != [error.reason, getattr(error, "body", None)]:
            error.reason = hidden[0]
            error.args = (error.provider, error.reason)
            if isinstance(error, ProviderRefusal):
                error.body = hidden[1]
            # Parsers keep the text that they failed to read.
            error.__cause__ = None
        return error

    async def close(self) -> None:
        await self._carrier.close()


def late(endpoint: Endpoint, error: Lateness) -> ProviderUnreachable:
    words = {
        "first_byte": "no answer began",
        "between": "no more of its answer came",
        "whole": "its answer was not complete",
    }
    return ProviderUnreachable(
        endpoint.provider,
        f"{endpoint.shown} took too long: {words[error.key]} within {error.seconds:g} s.",
        hint=f"If it needs more time: {error.key} = … under [providers.{endpoint.provider}.timeouts].",
        category="timeout",
        # A retry would take as long.
        retryable=error.key != "whole",
    )
