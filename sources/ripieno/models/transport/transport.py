"""How requests reach an endpoint: an official SDK settles the headers, and a carrier of ours takes the bytes.

============  =====================================  ==========================================
``sdk``       the client that is made                what it settles
============  =====================================  ==========================================
anthropic     ``anthropic.AsyncAnthropic``           version header, bearer key
openai        ``openai.AsyncOpenAI``                 organization headers, bearer key
google        none                                   the key in ``x-goog-api-key``
============  =====================================  ==========================================

A ``cloud`` between us and the models may want it otherwise (``ripieno.models.transport.clouds``):

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
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import AbstractAsyncContextManager

from ripieno.descriptors.timeouts import Caution
from ripieno.exceptions import ProviderFailure, ProviderRefusal, ProviderUnreachable, WireInvalidity
from ripieno.models.protocol import Native, Natives
from ripieno.models.transport.breaker import Breaker
from ripieno.models.transport.endpoints import Endpoint
from ripieno.models.transport.errors import refusal
from ripieno.models.transport.http import Absence, Answer, Carrier, PooledCarrier
from ripieno.models.transport.log_redaction import mute
from ripieno.models.transport.sse import EVENT_BYTES, read_objects, split
from ripieno.models.transport.timeouts import Lateness, Watch

#: Bytes of an error's body that are read.
_ERROR_BYTES = 64 * 1024
#: What people read: no wire sends it. So many characters of it are shown.
_PAGES = frozenset({"text/html", "application/xhtml+xml"})
_PAGE_SHOWN = 120


class HttpTransport:
    """Posts bodies to one endpoint, over one carrier.

    ``breaker`` is shared by all that ask the same endpoint; without one it is asked however often it fails.
    """

    def __init__(self, endpoint: Endpoint, breaker: Breaker | None = None, carrier: Carrier | None = None) -> None:
        self._endpoint = endpoint
        self._breaker = breaker or Breaker(Caution(failures=0))
        self._carrier = carrier or PooledCarrier(endpoint)

    def exchange(self, body: bytes, *, path: str, stream: bool) -> AbstractAsyncContextManager[AsyncIterator[Natives]]:
        """The answer to one request. Errors: ``ProviderUnreachable``, ``ProviderRefusal``, ``WireInvalidity``."""
        return self._streamed(body, path) if stream else self._whole(body, path)

    def open(self) -> None:
        """Imports what the endpoint needs, and makes the pool. Errors: ``ProviderFailure``."""
        mute(self._endpoint)
        with self._explained():
            self._carrier.open()

    @contextlib.asynccontextmanager
    async def _whole(self, body: bytes, path: str) -> AsyncGenerator[AsyncIterator[Natives], None]:
        async with self._posted(body, path) as (answer, watch):
            natives = read_objects(await self._everything(answer, watch), self._endpoint.provider)
        yield _one(*natives)

    @contextlib.asynccontextmanager
    async def _streamed(self, body: bytes, path: str) -> AsyncGenerator[AsyncIterator[Natives], None]:
        async with self._posted(body, path) as (answer, watch):
            if "json" in answer.headers.get("content-type", ""):
                # A server that does not stream answers whole, all at once, or with an error: decoders know each.
                yield _one(*read_objects(await self._everything(answer, watch), self._endpoint.provider))
                return
            async with (
                contextlib.aclosing(watch.pieces(answer.pieces())) as pieces,
                contextlib.aclosing(self._split(pieces)) as natives,
            ):
                yield natives

    def _split(self, pieces: AsyncIterator[bytes]) -> AsyncGenerator[Natives, None]:
        """The native events of a streamed answer."""
        return split(pieces, self._endpoint.provider)

    @contextlib.asynccontextmanager
    async def _posted(self, body: bytes, path: str) -> AsyncGenerator[tuple[Answer, Watch], None]:
        """The answer to a request that was not refused, and its clock."""
        with self._judged() as answered, self._explained():
            mute(self._endpoint)
            with contextlib.closing(Watch(self._endpoint.timeouts)) as watch:
                answer = await watch.begin(self._carrier.send(body, path))
                try:
                    if answer.status >= 300:
                        raise await self._refusal(answer, watch)
                    answered()
                    kind = answer.headers.get("content-type", "").partition(";")[0].strip().casefold()
                    if kind in _PAGES:
                        raise await self._page(answer, watch, kind)
                    yield answer, watch
                finally:
                    await answer.close()

    async def _refusal(self, answer: Answer, watch: Watch) -> ProviderRefusal:
        return refusal(
            self._endpoint.provider,
            answer.status,
            await self._beginning(answer, watch),
            location=answer.headers.get("location"),
            headers=answer.headers,
        )

    async def _page(self, answer: Answer, watch: Watch, kind: str) -> WireInvalidity:
        beginning = (await self._beginning(answer, watch))[:_PAGE_SHOWN]
        return WireInvalidity(
            self._endpoint.provider,
            f"{self._endpoint.shown} answered {kind}, which is for people: {beginning!r}",
            hint="Is base_url right?",
        )

    async def _beginning(self, answer: Answer, watch: Watch) -> str:
        """The beginning of a body that is only to be shown: as much of it as comes."""
        data = b""
        # A refusal whose words do not come is one all the same.
        with contextlib.suppress(*self._carrier.failures, Lateness):
            async with contextlib.aclosing(watch.pieces(answer.pieces())) as pieces:
                async for chunk in pieces:
                    data += chunk
                    if len(data) >= _ERROR_BYTES:
                        break
        return data.decode("utf-8", "replace")

    async def _everything(self, answer: Answer, watch: Watch) -> bytes:
        """The whole body. Errors: ``WireInvalidity`` where it is too large."""
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
            if isinstance(error, Absence):
                # A server that has yet to be started is asked as soon as it is there.
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
        """Errors of the carrier in the words of this family, and no error with a secret in it."""
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
        raise self._hidden(failure)

    def _hidden(self, error: ProviderFailure) -> ProviderFailure:
        """The error, without this endpoint's secrets."""
        hidden = self._endpoint.redactor.value([error.reason, getattr(error, "body", None)])
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
        await self._carrier.close()


def late(endpoint: Endpoint, error: Lateness) -> ProviderUnreachable:
    """What it means that the time was up."""
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
        # It would be as long the next time.
        retryable=error.key != "whole",
    )


async def _one(*natives: Native) -> AsyncGenerator[Natives, None]:
    yield natives
