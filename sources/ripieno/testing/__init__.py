"""Scores as models, for your own tests: no key, no network, the same answer every time.

::

    import asyncio

    import ripieno
    from ripieno.testing import call, model_of, turn


    def test_the_file_is_read(tmp_path):
        (tmp_path / "README.rst").write_text("Ripieno\\n")

        async def converse():
            model = model_of(
                [
                    turn("I look.", calls=[call("read_file", "readme", path="README.rst")]),
                    turn("It begins with {readme.line:1}"),
                ]
            )
            async with ripieno.assemble({"ensembles": {"enabled": ["io"]}}, workspace=tmp_path) as assembly:
                return await assembly.conduct("What is in it?", model=model)

        assert asyncio.run(converse()).text == "It begins with Ripieno"

The model follows its score; tools, rules, limits and the wire format are real, in one process.
``ripieno.testing.scores`` documents scores. ``ripieno.testing.fixtures`` has pytest fixtures for scores, and for
cassettes that are recorded once and then replayed.
"""

from collections.abc import Iterable
from typing import Any

from ripieno.jsonvalues import freeze, listed
from ripieno.testing.scores.turns import ModelFinish, ScoredCall, Turn
from ripieno.testing.wires import model_of

__all__ = ["call", "model_of", "turn"]


def call(tool: str, label: str | None = None, /, **arguments: Any) -> ScoredCall:
    """A call of a turn; later turns refer to its result by ``label``. Errors: ``JsonInvalidity``."""
    return ScoredCall(tool=tool, label=label, arguments=freeze(arguments))


def turn(
    text: str = "",
    *,
    calls: Iterable[ScoredCall] = (),
    reasoning: str = "",
    expect: Iterable[str] = (),
    on_error: str | None = None,
    finish: ModelFinish | None = None,
    pace: float = 0.0,
) -> Turn:
    """One answer of the model, with the keys of ``[[turns]]`` in a score file."""
    return Turn(
        text=text,
        reasoning=reasoning,
        calls=tuple(calls),
        expect=listed(expect),
        on_error=on_error,
        finish=finish,
        pace=pace,
    )
