"""Scores as models over a wire format: requests and answers are encoded and decoded in this process."""

import contextlib
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from typing import Any

from frozendict import frozendict

from ripieno.assembly.plugins import discover
from ripieno.exceptions import InputError, ProviderRefusal
from ripieno.jsonvalues import parse
from ripieno.models import Model, Protocol, Provider
from ripieno.models.model import SCRIPTED
from ripieno.models.protocol import Natives, Transport
from ripieno.models.transport.sse import one_batch, read_objects, split
from ripieno.testing.scores import Score
from ripieno.testing.scores.player import CHUNK, callable_names, events_of, perform
from ripieno.testing.scores.turns import Turn

_BYTES = 64 * 1024 * 1024


class ScoreTransport(Transport):
    """Answers requests as a server of the score. ``chunk`` is the number of characters per streamed piece."""

    def __init__(self, score: Score, protocol: Protocol, chunk: int = CHUNK) -> None:
        self.score = score
        self._protocol = protocol
        self._chunk = chunk

    @contextlib.asynccontextmanager
    async def exchange(self, body: bytes, *, path: str, stream: bool) -> AsyncGenerator[AsyncIterator[Natives], None]:
        parameters = _parameters(self._protocol, path, stream)
        native: Any = parse(body, max_bytes=_BYTES, max_depth=128)
        asked = self._protocol.parse({**native, **parameters})
        tools = callable_names([tool.exposed or tool.name for tool in asked.tools], asked.controls)
        try:
            answer = self.score.answer(asked.canisters, tools, asked.controls.format)
        except InputError as error:
            raise ProviderRefusal(SCRIPTED, str(error), status=400) from None
        if stream:
            encoder = self._protocol.encoder(asked)
            events = perform(answer, model=asked.model, chunk=self._chunk)
            pieces = (data async for event in events if (data := encoder.feed(event)))
            async with (
                contextlib.aclosing(events),
                contextlib.aclosing(pieces),
                contextlib.aclosing(split(pieces, SCRIPTED)) as natives,
            ):
                yield natives
        else:
            yield one_batch(*read_objects(self._protocol.encode(events_of(answer, model=asked.model), asked), SCRIPTED))


def model_of(
    score: Score | Iterable[Turn],
    *,
    continues: bool = False,
    protocol: str | Protocol | None = None,
    chunk: int = CHUNK,
    **fields: Any,
) -> Model:
    """The model of a score or of turns, over a wire format, without a network. It can be recorded.

    ``continues``: a new user message does not restart the turns. By default, ``protocol`` is one with reasoning.
    ``chunk`` is the number of characters per streamed piece; ``fields`` are capabilities of the model. Errors:
    ``ConfigurationInvalidity`` for an invalid reference in turns; ``NameAbsence`` for an unknown protocol.
    """
    whole = score if isinstance(score, Score) else Score.of_turns(tuple(score), continues=continues)
    wire = protocol if isinstance(protocol, Protocol) else _protocol(protocol)
    capabilities: frozendict[str, Any] = frozendict(fields)
    provider = Provider(
        name=SCRIPTED, protocol=wire, transport=ScoreTransport(whole, wire, chunk), capabilities=lambda _: capabilities
    )
    return Model(provider=provider, name=whole.name)


@functools.cache
def _protocol(name: str | None) -> Protocol:
    registry = discover()
    names = sorted(registry.protocols) if name is None else [name]
    known: list[Protocol] = [registry.resolve("protocols", one) for one in names]
    # Of the protocols with a server half, the last by name supports everything in scores.
    return next((one for one in reversed(known) if one.routes), known[0])


def _parameters(protocol: Protocol, path: str, stream: bool) -> Mapping[str, str]:
    if "{model}" not in protocol.path:
        return {}
    before, _, _ = protocol.path.partition("{model}")
    name = path.removeprefix(before).partition(":")[0]
    return {"model": name, "method": "streamGenerateContent" if stream else "generateContent"}
