"""The same conversations through ripieno: validation, rules, limits, events and all."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from frozendict import frozendict

from benchmarks.tools import NAMES, SCHEMA, read
from ripieno.canisters import Canister, Controls, Conversation
from ripieno.canisters.controls import Limits
from ripieno.canisters.events import Batches
from ripieno.conducting import conduct
from ripieno.descriptors import Policy
from ripieno.ensembles import Context, Definition, Ensemble
from ripieno.ensembles.offers import Offer
from ripieno.execution import Execution
from ripieno.models import Model, Protocol, Provider
from ripieno.models.protocols.anthropic import PROTOCOL as MESSAGES
from ripieno.models.protocols.gemini import PROTOCOL as GEMINI
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from ripieno.models.protocols.openai_responses import PROTOCOL as RESPONSES
from ripieno.models.transport.endpoints import Endpoint
from ripieno.models.transport.transport import HttpTransport
from ripieno.schemas import Schema
from ripieno.testing.scores import Score
from ripieno.testing.scores.player import CHUNK, WHOLE, perform
from ripieno.testing.scores.turns import Turn

#: The wires that are measured; the floor is the first one's.
WIRES: tuple[Protocol, ...] = (CHAT, RESPONSES, MESSAGES, GEMINI)
LIMITS = Limits(turns=100_000, calls=1_000_000, wall=3600)
EXECUTION = Execution(limits=LIMITS)


async def invoke(_: Context, arguments: dict[str, Any]) -> str:
    """The invocable of all four."""
    return await read(arguments)


def ensemble() -> Ensemble:
    """The four tools."""
    schema = Schema.of(SCHEMA)
    policy = Policy(effect="read")
    return Ensemble.of(
        "files",
        [
            Definition(name=name, description="Reads lines of a file.", schema=schema, invocable=invoke, policy=policy)
            for name in NAMES
        ],
    )


def model(url: str, protocol: Protocol = CHAT) -> Model:
    """A model at the server, over a wire. One wire has the version in its path."""
    if protocol.path.startswith("/v1"):
        url = url.removesuffix("/v1")
    transport = HttpTransport(Endpoint(provider="local", sdk=protocol.sdk, base_url=url, key="k"))
    provider = Provider(
        name="local",
        protocol=protocol,
        transport=transport,
        capabilities=lambda _: frozendict({"stream_usage": False}),
    )
    return Model(provider=provider, name="m")


async def converse(of: Model, playing: Ensemble, *, stream: bool, listen: bool = False) -> Conversation:
    """One conversation, awaited; or listened to, event by event."""
    run = conduct(
        of, "Look at everything.", ensembles=(playing,), execution=EXECUTION, controls=Controls(stream=stream)
    )
    if listen:
        async for _ in run:
            pass
    return await run


class ScoredModel(Model, kw_only=True):
    """A model without a wire: what a row measures is all that is around it."""

    score: Score

    async def batches(
        self,
        canisters: Sequence[Canister],
        *,
        ensembles: Sequence[Ensemble] | Offer = (),
        controls: Controls | None = None,
        memory: dict[object, Any] | None = None,
        deltas: bool = True,
    ) -> Batches:
        """The events of the turn that is due."""
        del memory, deltas
        offer = ensembles if isinstance(ensembles, Offer) else Offer.of(ensembles)
        answer = self.score.answer(canisters, offer.names)
        async for event in perform(answer, chunk=WHOLE if controls and not controls.stream else CHUNK):
            yield (event,)

    def left_out(self, canisters: Iterable[Canister]) -> Mapping[str, int]:
        """Nothing: there is no wire."""
        del canisters
        return {}


def scored(turns: Sequence[Turn]) -> ScoredModel:
    """A model of turns, without a wire."""
    return ScoredModel(provider=model("http://localhost").provider, name="score", score=Score.of_turns(turns))
