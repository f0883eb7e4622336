"""``[history]``: how much of a conversation is sent to the model."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

from ripieno.descriptors.providers import MODEL_IDENTITY
from ripieno.descriptors.reader.keys import Key, Table
from ripieno.descriptors.reader.kinds import COUNT, Either, Flag, Number, Several, Text
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems
from ripieno.values import Value

StrategyName = Literal["drop-oldest", "sliding-window", "summarize"]
_NAMES: tuple[str, ...] = get_args(StrategyName)


class HistoryDescriptor(Value, kw_only=True):
    """The part of a conversation that is sent to the model.

    ``strategy`` has the strategies in order: an empty tuple sends everything, None drops the oldest exchanges if the
    model's context is known. ``tokens`` None is the rest of the model's context. ``model`` None is the conversation's.
    """

    strategy: tuple[StrategyName, ...] | None = None
    tokens: int | None = None
    exchanges: int | None = None
    keep: float = 0.5
    model: str | None = None
    supersession: bool = True


_DEFAULTS = HistoryDescriptor()
HISTORY = Table(
    "[history]",
    "How much of a long conversation is sent to the model. The conversation itself never changes.",
    Key.rows(
        _DEFAULTS,
        (
            "strategy",
            Either(
                kinds=(
                    Text(choices=(*_NAMES, "none")),
                    Several(Text(choices=_NAMES), "names of strategies", once=True),
                ),
                expected=Text(choices=(*_NAMES, "none")).expected + ", or a list of strategies",
            ),
            "How the oldest exchanges are shortened; a list applies one strategy after the other. If absent, they are "
            "dropped when the model's context is known and would be exceeded.",
            ["sliding-window", "summarize"],
        ),
        (
            "tokens",
            COUNT,
            "Tokens that may be sent, without tools. If absent, the model's context without its answer and the tools.",
            50_000,
        ),
        ("exchanges", COUNT, "Exchanges in the window of sliding-window, not tokens.", 40),
        (
            "keep",
            Number(minimum=0, maximum=0.9),
            "The part of the budget that remains after dropping. A small part makes dropping rare.",
            0.3,
        ),
        ("model", MODEL_IDENTITY, "The model that summarizes. If absent, the conversation's.", "house/small-1"),
        ("supersession", Flag(), "Whether notes replace results that later calls have made stale.", False),
    ),
)


def check_history(table: Mapping[str, Any], path: Path, problems: Problems) -> None:
    """Checks the keys of one table together. Absent keys may come from another table."""
    if "strategy" not in table:
        return
    names = _names(table["strategy"])
    if "exchanges" in table and "sliding-window" not in names:
        hint = 'Write strategy = "sliding-window", or delete exchanges.'
        problems.add((*path, "exchanges"), "exchanges is for the strategy sliding-window", hint)
    elif "exchanges" in table and "tokens" in table and len(names) == 1:
        hint = 'Delete one of them, or write strategy = ["sliding-window", "drop-oldest"].'
        problems.add((*path, "tokens"), "a window has exchanges or tokens, not both", hint)
    if "model" in table and "summarize" not in names:
        hint = 'Write strategy = "summarize", or delete model.'
        problems.add((*path, "model"), "model is for the strategy summarize", hint)
    if "tokens" in table and not names:
        hint = 'Write strategy = "drop-oldest", or delete tokens.'
        problems.add((*path, "tokens"), "without a strategy, everything is sent", hint)


def make_history(*layers: Mapping[str, Any]) -> HistoryDescriptor:
    """The history settings of read tables, key by key; later ones win."""
    values = {name: value for layer in layers for name, value in layer.items()}
    if "strategy" in values:
        values["strategy"] = _names(values["strategy"])
    return HistoryDescriptor(**values)


def _names(strategy: str | tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(strategy, str):
        return () if strategy == "none" else (strategy,)
    return strategy
