"""Scores over a wire, in this process: requests and answers are encoded and decoded as they would be over HTTP."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from frozendict import frozendict

from ripieno.assembly.plugins import discover
from ripieno.jsonvalues import parse
from ripieno.models import Model, Protocol, Provider
from ripieno.models.protocol import Natives
from ripieno.models.transport.sse import read_objects, split
from ripieno.testing.scores import Score
from ripieno.testing.scores.player import CHUNK, callable_names, events_of
from ripieno.testing.scores.turns import Turn

_BYTES = 64 * 1024 * 1024
_NAME = "rehearsed"


class ScoreTransport:
    """Answers each request as a server would that plays the score. ``chunk`` is in characters of what is said."""

    def __init__(self, score: Score, protocol: Protocol, chunk: int = CHUNK) -> None:
        self._score = score
        self._protocol = protocol
        self._chunk = chunk

    def exchange(self, body: bytes, *, path: str, stream: bool) -> AbstractAsyncContextManager[AsyncIterator[Natives]]:
        """As ``Transport.exchange``."""
        return self._exchange(body, path, stream)

    @contextlib.asynccontextmanager
    async def _exchange(self, body: bytes, path: str, stream: bool) -> AsyncGenerator[AsyncIterator[Natives], None]:
        parameters = _parameters(self._protocol, path, stream)
        native: Any = parse(body, max_bytes=_BYTES, max_depth=128)
        asked = self._protocol.parse({**native, **parameters})
        tools = callable_names([tool.exposed or tool.name for tool in asked.tools], asked.controls)
        events = events_of(self._score.answer(asked.canisters, tools), model=asked.model, chunk=self._chunk)
        if stream:
            encoder = self._protocol.encoder(asked)
            pieces = [data for data in map(encoder.feed, events) if data]
            async with contextlib.aclosing(split(_each(pieces), _NAME)) as natives:
                yield natives
        else:
            yield _each([read_objects(self._protocol.encode(events, asked), _NAME)])

    def open(self) -> None:
        """There is nothing to make ready."""

    async def close(self) -> None:
        """There is nothing to let go of."""


def rehearsed(
    score: Score | Iterable[Turn], *, protocol: str | Protocol | None = None, chunk: int = CHUNK, **fields: Any
) -> Model:
    """A model that plays a score, or turns, over a wire format, without a network. It can be recorded.

    ``protocol`` None is the first of those that have a server's half. ``fields`` are capabilities of the model.
    Errors: ``ConfigurationInvalidity`` when turns refer to what is not there; ``NameAbsence`` for an unknown protocol.
    """
    whole = score if isinstance(score, Score) else Score.of_turns(tuple(score))
    wire = protocol if isinstance(protocol, Protocol) else _protocol(protocol)
    capabilities: frozendict[str, Any] = frozendict(fields)
    provider = Provider(
        name=_NAME,
        protocol=wire,
        transport=ScoreTransport(whole, wire, chunk),
        capabilities=lambda _: capabilities,
    )
    return Model(provider=provider, name=whole.name)


def _protocol(name: str | None) -> Protocol:
    registry = discover()
    names = sorted(registry.protocols) if name is None else [name]
    known: list[Protocol] = [registry.resolve("protocols", one) for one in names]
    return next((one for one in known if one.routes), known[0])


def _parameters(protocol: Protocol, path: str, stream: bool) -> Mapping[str, str]:
    """What a server reads of the path, where the wire says something there."""
    if "{model}" not in protocol.path:
        return {}
    before, _, _ = protocol.path.partition("{model}")
    name = path.removeprefix(before).partition(":")[0]
    return {"model": name, "method": "streamGenerateContent" if stream else "generateContent"}


async def _each(pieces: Iterable[Any]) -> AsyncGenerator[Any, None]:
    for piece in pieces:
        yield piece
