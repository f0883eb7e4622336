"""Cost of a turn of a long conversation, for each history strategy."""

import functools
import statistics

from benchmarks import ours
from benchmarks.measurement import Row, cpu, server
from ripieno.canisters import Controls
from ripieno.canisters.controls import Limits
from ripieno.conducting import conduct
from ripieno.conducting.history import History
from ripieno.ensembles import Ensemble
from ripieno.models import Model
from ripieno.testing import turn
from ripieno.testing.wires import model_of

LONG, SHORT, RUNS = 400, 5, 5
#: Much less than such a conversation has, so that it is cut often.
TOKENS = 20_000


def _histories() -> dict[str, History]:
    summarizer = model_of([turn("They looked at files.")], continues=False)
    return {
        "everything": History(strategy=()),
        "drop-oldest": History(strategy=("drop-oldest",), tokens=TOKENS),
        "sliding-window": History(strategy=("sliding-window",), exchanges=60),
        "summarize": History(strategy=("summarize",), tokens=TOKENS, model=summarizer),
        "chained": History(strategy=("sliding-window", "summarize"), exchanges=60, tokens=TOKENS, model=summarizer),
    }


async def four_hundred_turns() -> list[Row]:
    """CPU per turn of 400 turns against 5."""
    playing = ours.ensemble()
    rows: list[Row] = []
    with server() as address:
        # It counts the answers in what it is shown, and so never finds that it is done: the limit ends each run.
        model = ours.model(f"{address}/{LONG * 100}/v1")
        for name, history in _histories().items():
            ratios: list[float] = []
            for _ in range(RUNS + 1):
                few = await cpu(functools.partial(_converse, model, playing, history, SHORT, 20)) / (20 * SHORT)
                many = await cpu(functools.partial(_converse, model, playing, history, LONG, 1)) / LONG
                ratios.append(many / few)
            what = f"CPU per turn, 400 turns against 5, {name}"
            # Without a strategy, what is sent grows all the time, and so does the cost of sending it.
            budget = None if name == "everything" else 1.3
            rows.append(Row(what=what, measured=statistics.median(ratios[1:]), budget=budget, unit="times"))
        await model.provider.transport.close()
    return rows


async def _converse(model: Model, playing: Ensemble, history: History, turns: int, times: int) -> None:
    limits = Limits(turns=turns, calls=1_000_000, wall=3600, repeats=1_000_000)
    for _ in range(times):
        run = conduct(
            model,
            "Look at everything.",
            ensembles=(playing,),
            execution=ours.EXECUTION,
            controls=Controls(stream=False),
            limits=limits,
            history=history,
        )
        if (await run).finish != "limit":
            raise AssertionError("It has ended too early.")
