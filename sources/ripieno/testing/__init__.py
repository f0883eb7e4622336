"""Scores as models, for your own tests: no key, no network, the same answer every time.

::

    import ripieno
    from ripieno.testing import call, model_of, turn


    async def test_the_file_is_read():
        model = model_of(
            [
                turn("I look.", calls=[call("read_file", "readme", path="README.rst")]),
                turn("It begins with {readme.line:1}"),
            ]
        )
        async with ripieno.prepare_ensembles() as ensembles:
            conversation = await ripieno.conduct(model, "What is in it?", ensembles=ensembles)
        assert conversation.text == "It begins with Ripieno"

``ripieno.testing.wires`` has models that play a score over a wire format, and ``ripieno.testing.fixtures`` fixtures
for pytest: scores, and cassettes that are recorded once and replayed ever after.

The model asks for what its score says; tools, rules and limits are the real ones. What a score can say stands in
``ripieno.testing.scores``.
"""

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from frozendict import frozendict

from ripieno.canisters import Canister, Controls
from ripieno.canisters.events import Batches
from ripieno.ensembles import Ensemble
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import UsageError
from ripieno.jsonvalues import freeze
from ripieno.models import Model, Provider
from ripieno.testing.scores import Score
from ripieno.testing.scores.player import CHUNK, WHOLE, callable_names, perform
from ripieno.testing.scores.turns import Call, ModelFinish, Turn


class _NoWire:
    """Stands where a model has its protocol and transport, and says what to do to have them."""

    def __getattr__(self, name: str) -> Any:
        raise UsageError(
            f"A score that is played as a model has no wire, and so no {name!r}. "
            "Rehearse it (ripieno.testing.rehearsal.server) and talk to that server to have one."
        )

    async def close(self) -> None:
        """There is nothing to let go of."""


_NO_WIRE: Any = _NoWire()
_CAPABILITIES: frozendict[str, Any] = frozendict()
_PROVIDER = Provider(name="score", protocol=_NO_WIRE, transport=_NO_WIRE, capabilities=lambda _: _CAPABILITIES)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ScoredModel(Model):
    """A model that plays a score in this process. Made by ``model_of``."""

    score: Score

    async def batches(
        self,
        canisters: Sequence[Canister],
        *,
        ensembles: Sequence[Ensemble] | Offer = (),
        controls: Controls | None = None,
        memory: dict[object, Any] | None = None,  # noqa: ARG002  nothing is encoded
        deltas: bool = True,  # noqa: ARG002  they cost nothing
    ) -> Batches:
        """The events of the turn that is due, cut into pieces unless ``controls.stream`` is false."""
        wanted = controls or Controls()
        offer = ensembles if isinstance(ensembles, Offer) else Offer.of(ensembles)
        answer = self.score.answer(canisters, callable_names(offer.names, wanted))
        events = perform(answer, model=self.identity, chunk=CHUNK if wanted.stream else WHOLE)
        async with contextlib.aclosing(events):
            async for event in events:
                yield (event,)

    def left_out(self, canisters: Iterable[Canister]) -> Mapping[str, int]:  # noqa: ARG002
        """Nothing: a score has no wire."""
        return {}


def call(tool: str, label: str | None = None, /, **arguments: Any) -> Call:
    """A call of a turn; what later turns call its result comes second.

    Errors: ``JsonInvalidity`` when an argument is no JSON.
    """
    return Call(tool=tool, label=label, arguments=freeze(arguments))


def turn(
    text: str = "",
    *,
    calls: Iterable[Call] = (),
    reasoning: str = "",
    expect: Iterable[str] = (),
    on_error: str | None = None,
    finish: ModelFinish | None = None,
    pace: float = 0.0,
) -> Turn:
    """One answer of the model, as ``[[turns]]`` in a score's file: the keys mean the same."""
    return Turn(
        text=text,
        reasoning=reasoning,
        calls=tuple(calls),
        expect=tuple(expect),
        on_error=on_error,
        finish=finish,
        pace=pace,
    )


def model_of(score: Score | Iterable[Turn], *, continues: bool = False) -> ScoredModel:
    """The model that plays a score, or turns; ``continues`` lets turns go on when the user speaks again.

    Errors: ``ConfigurationInvalidity`` when turns refer to what is not there.
    """
    whole = score if isinstance(score, Score) else Score.of_turns(tuple(score), continues=continues)
    return ScoredModel(provider=_PROVIDER, name=whole.name, score=whole)
