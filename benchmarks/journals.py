"""Cost of a journal per call: the same conversation with one and without, streamed answers of four calls each."""

import functools
import pathlib
import secrets
import statistics
import tempfile

from benchmarks import ours
from benchmarks.measurement import Row, cpu
from ripieno.canisters.controls import Limits
from ripieno.conducting import conduct
from ripieno.descriptors import Policy
from ripieno.ensembles import Context, Definition, Ensemble
from ripieno.execution import Execution
from ripieno.schemas import Schema
from ripieno.storage.journal import Journal
from ripieno.testing import call, turn

TURNS, CALLS, RUNS = 100, 4, 5
_SCHEMA = Schema.of({"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]})
_SCORE = [turn("I look.", calls=[call("look", word=f"{n}.{m}") for m in range(CALLS)]) for n in range(TURNS)]


async def _look(context: Context, arguments: dict[str, str]) -> str:
    del context, arguments
    return "x" * 200


async def journal_calls() -> list[Row]:
    """CPU of a journal per call: what was said, the start and the end."""
    playing = Ensemble.of(
        "mine", [Definition(name="look", schema=_SCHEMA, invocable=_look, policy=Policy(effect="read"))]
    )
    model = ours.scored([*_SCORE, turn("Done.")])

    async def converse(journal: Journal | None) -> None:
        execution = Execution(
            recorder=journal, limits=Limits(turns=TURNS + 1, calls=TURNS * CALLS, wall=3600, repeats=TURNS * CALLS)
        )
        conversation = await conduct(model, "Look.", ensembles=(playing,), execution=execution)
        if conversation.finish != "stop":
            raise AssertionError(f"It has ended with {conversation.finish}.")

    rows: list[Row] = []
    for what, hidden in (("no secrets", 0), ("20 secrets", 20)):
        found: list[float] = []
        for _ in range(RUNS + 1):
            without = await cpu(lambda: converse(None))
            with tempfile.TemporaryDirectory() as folder:
                values = [secrets.token_hex(16) for _ in range(hidden)]
                with Journal(pathlib.Path(folder) / "journal", secrets=values) as journal:
                    having = await cpu(functools.partial(converse, journal))
            found.append((having - without) * 1000 / (TURNS * CALLS))
        measured = statistics.median(found[1:])
        rows.append(Row(what=f"a journal, CPU per call, {what}", measured=measured, budget=0.3, unit="ms"))
    return rows
