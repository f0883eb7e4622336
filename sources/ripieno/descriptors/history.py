"""``[history]``: how much of its conversation a model is shown, for all runs and for the runs of one agent.

``[journal]``: whether what happens in conversations is written down.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, get_args

from ripieno.descriptors.reader.keys import Key, Table
from ripieno.descriptors.reader.kinds import Either, Flag, Number, Several, Text
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems

StrategyName = Literal["drop-oldest", "sliding-window", "summarize"]
_NAMES: tuple[str, ...] = get_args(StrategyName)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HistoryDescriptor:
    """How much of its conversation a model is shown.

    ``strategy`` has names that come one after the other: none of them shows everything, and None drops the oldest where
    the model's context is known. ``tokens`` None is what the model's context leaves. ``model`` None is the
    conversation's own.
    """

    strategy: tuple[StrategyName, ...] | None = None
    tokens: int | None = None
    exchanges: int | None = None
    keep: float = 0.5
    model: str | None = None
    supersession: bool = True


_USUAL = HistoryDescriptor()
HISTORY = Table(
    title="[history]",
    documentation="How much of a long conversation its model is shown. The conversation itself never changes.",
    keys=(
        Key(
            name="strategy",
            kind=Either(
                kinds=(
                    Text(choices=(*_NAMES, "none")),
                    Several(item=Text(choices=_NAMES), items="names of strategies", once=True),
                ),
                expected='"drop-oldest", "sliding-window", "summarize", "none", or a list of the first three',
            ),
            documentation="What becomes of the oldest exchanges; a list does one after the other. Left out, they are "
            "dropped where the context of the model is known and would be passed.",
            example=["sliding-window", "summarize"],
        ),
        Key(
            name="tokens",
            kind=Number(whole=True, minimum=1),
            documentation="Tokens that may be shown, tools not counted; left out, what the context of the model leaves "
            "beside its answer and the tools.",
            example=50_000,
        ),
        Key(
            name="exchanges",
            kind=Number(whole=True, minimum=1),
            documentation="Exchanges in the window of sliding-window, in place of tokens.",
            example=40,
        ),
        Key(
            name="keep",
            kind=Number(minimum=0, maximum=0.9),
            documentation="Part of the budget that is left when something is dropped, so that it is dropped rarely.",
            default=_USUAL.keep,
            example=0.3,
        ),
        Key(
            name="model",
            kind=Text(pattern=r"[a-z][a-z0-9_.-]*/\S+", shape='a provider and a model such as "house/small-1"'),
            documentation="Who summarizes; left out, the model of the conversation.",
            example="house/small-1",
        ),
        Key(
            name="supersession",
            kind=Flag(),
            documentation="Whether notes stand for results that later calls have made stale.",
            default=_USUAL.supersession,
            example=False,
        ),
    ),
)


def check_history(table: Mapping[str, Any], path: Path, problems: Problems) -> None:
    """What is wrong with the keys of one table together. What is not in it may come from another one."""
    if "strategy" not in table:
        return
    names = _names(table["strategy"])
    if "exchanges" in table and "sliding-window" not in names:
        hint = 'Write strategy = "sliding-window", or leave exchanges out.'
        problems.add((*path, "exchanges"), "exchanges is for the strategy sliding-window", hint)
    elif "exchanges" in table and "tokens" in table and len(names) == 1:
        hint = 'Leave one of them out, or write strategy = ["sliding-window", "drop-oldest"].'
        problems.add((*path, "tokens"), "a window has a number of exchanges or a number of tokens", hint)
    if "model" in table and "summarize" not in names:
        hint = 'Write strategy = "summarize", or leave model out.'
        problems.add((*path, "model"), "model is for the strategy summarize", hint)
    if "tokens" in table and not names:
        hint = 'Write strategy = "drop-oldest", or leave tokens out.'
        problems.add((*path, "tokens"), "without a strategy, everything is shown", hint)


def make_history(*layers: Mapping[str, Any]) -> HistoryDescriptor:
    """The history that read tables make together, key by key; later ones win."""
    values: dict[str, Any] = {}
    for layer in layers:
        values.update(layer)
    if "strategy" in values:
        values["strategy"] = _names(values["strategy"])
    return HistoryDescriptor(**values)


def _names(strategy: str | tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(strategy, str):
        return () if strategy == "none" else (strategy,)
    return strategy


JOURNAL = Table(
    title="[journal]",
    documentation="What happened in conversations, line by line, in the user's state.",
    keys=(
        Key(
            name="enabled",
            kind=Flag(),
            documentation="Whether it is written; left out, by the command line only.",
            example=True,
        ),
    ),
)
