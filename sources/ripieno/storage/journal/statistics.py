"""Statistics of a journal: tokens, calls, errors and times, by tool, day, model and conversation."""

import dataclasses
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ripieno.jsonvalues import EMPTY
from ripieno.storage.databases.contract import Connection, Rows
from ripieno.storage.journal.summaries import OF_PAGE, PAGE, Key, of_owner, on_page
from ripieno.values import Value

_TURNED = """
SELECT substr(at, 1, 10), conversation, turn,
    body ->> '$.details.model',
    body ->> '$.details.usage.input_tokens', body ->> '$.details.usage.output_tokens',
    body ->> '$.details.usage.cache_read_tokens', body ->> '$.details.usage.cache_write_tokens',
    body ->> '$.details.usage.reasoning_tokens', body ->> '$.details.milliseconds'
FROM lines WHERE stage = 'turned' AND {condition} ORDER BY number
"""
_CLOSED = """
SELECT substr(at, 1, 10), conversation, turn, tool, stage,
    body ->> '$.result.error.category', body ->> '$.result.report.duration_ms',
    body ->> '$.result.report.attempts', body ->> '$.result.report.cached'
FROM lines WHERE stage IN ('finished', 'refused') AND {condition}
"""
_CONVERSATIONS = "SELECT count(DISTINCT conversation) FROM lines WHERE {condition}"
_STAGES = "SELECT stage, count(*) FROM lines WHERE {condition} GROUP BY stage"
_USED = f"""
{PAGE}
SELECT name, whose, body ->> '$.details.usage.input_tokens', body ->> '$.details.usage.output_tokens'
{OF_PAGE} AND stage = 'turned'
"""
#: The counts of tokens, in the order of the query.
_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")


def _number(value: object) -> float:
    """A number in JSON, which PostgreSQL gives as a text; 0 for anything else."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return 0
    return value if isinstance(value, int | float) and math.isfinite(value) else 0


def _is_true(value: object) -> bool:
    """Whether a value in JSON is true, which PostgreSQL gives as a text."""
    return value in (1, "true")


@dataclasses.dataclass(slots=True, kw_only=True)
class Tally:
    """Counts. Times are in milliseconds.

    ``calls`` ran and have a result, ``errors`` of them failed; ``refused`` did not run, ``denied`` of them by a rule or
    a person. ``retries`` counts attempts after the first. ``answering`` is the models' time, ``running`` the calls'
    time, ``longest`` that of the longest call. ``timed`` calls have a known time: deleted ones have none.
    """

    turns: int = 0
    calls: int = 0
    timed: int = 0
    errors: int = 0
    refused: int = 0
    denied: int = 0
    cached: int = 0
    retries: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    answering: float = 0.0
    running: float = 0.0
    longest: float = 0.0

    def turn(self, row: tuple[Any, ...]) -> None:
        """Counts a model's answer."""
        self.turns += 1
        for name, value in zip(_TOKENS, row[4:9], strict=True):
            setattr(self, name, getattr(self, name) + int(_number(value)))
        self.answering += _number(row[9])

    def call(self, row: tuple[Any, ...]) -> None:
        """Counts a call with its result."""
        _, _, _, _, stage, category, duration, attempts, cached = row
        if stage == "refused":
            self.refused += 1
            self.denied += category == "denied"
            return
        taken = _number(duration)
        self.calls += 1
        self.timed += duration is not None
        self.errors += category is not None
        self.cached += _is_true(cached)
        self.retries += max(int(_number(attempts)) - 1, 0)
        self.running += taken
        self.longest = max(self.longest, taken)

    def mapping(self) -> dict[str, Any]:
        """The JSON form, with times to the microsecond."""
        return {
            name: round(value, 3) if isinstance(value, float) else value
            for name, value in dataclasses.asdict(self).items()
        }


class Statistics(Value, kw_only=True):
    """Totals of a journal. ``unknown`` are names of nonexistent tools that models called.

    ``unfinished`` counts started calls without a recorded end. ``categories`` counts errors by category, of calls that
    ran and of refused ones.
    """

    conversations: int = 0
    unfinished: int = 0
    asked: int = 0
    total: Tally = msgspec.field(default_factory=Tally)
    tools: Mapping[str, Tally] = EMPTY
    days: Mapping[str, Tally] = EMPTY
    models: Mapping[str, Tally] = EMPTY
    by_conversation: Mapping[str, Tally] = EMPTY
    unknown: Mapping[str, int] = EMPTY
    categories: Mapping[str, int] = EMPTY

    def mapping(self) -> dict[str, Any]:
        """The JSON form."""
        tables = {"tools": self.tools, "days": self.days, "models": self.models, "conversations": self.by_conversation}
        return {
            "total": {
                "conversations": self.conversations,
                **self.total.mapping(),
                "unfinished": self.unfinished,
                "asked": self.asked,
            },
            **{name: {key: one.mapping() for key, one in table.items()} for name, table in tables.items()},
            "unknown": dict(self.unknown),
            "categories": dict(self.categories),
        }


#: The name of a model that no line has, as for calls that no model requested.
UNKNOWN = "(no model)"


def compute(
    connection: Connection, *, since: str = "", conversation: str | None = None, owner: str | None = None
) -> Statistics:
    """Totals of the lines since a time (ISO 8601, UTC). A call counts for the model that requested it."""
    condition, parameters = of_owner(owner)
    if conversation is not None:
        condition, parameters = f"conversation = ? AND {condition}", (conversation, *parameters)
    condition, parameters = f"at >= ? AND {condition}", (since, *parameters)

    def select(query: str) -> Rows:
        return connection.execute(query.format(condition=condition), parameters)

    total = Tally()
    tools, days, models, conversations = (defaultdict[str, Tally](Tally) for _ in range(4))
    unknown, categories, model_of = Counter[str](), Counter[str](), dict[tuple[str, int], str]()
    for row in select(_TURNED):
        day, name, turn, model = row[:4]
        model_of[name, turn] = model or UNKNOWN
        for tally in (total, days[day], models[model or UNKNOWN], conversations[name]):
            tally.turn(row)
    ran = 0
    for row in select(_CLOSED):
        ran += row[4] == "finished" and not _is_true(row[8])
        day, name, turn, tool, stage, category = row[:6]
        for tally in (total, days[day], models[model_of.get((name, turn), UNKNOWN)], conversations[name]):
            tally.call(row)
        if category is not None:
            categories[category] += 1
        if stage == "refused" and category == "unknown_tool":
            unknown[tool] += 1
        else:
            tools[tool].call(row)
    stages: dict[str, int] = dict(select(_STAGES))
    return Statistics(
        conversations=select(_CONVERSATIONS).fetchone()[0],
        unfinished=max(stages.get("started", 0) - ran, 0),
        asked=stages.get("asked", 0),
        total=total,
        tools=dict(sorted(tools.items(), key=lambda item: -item[1].running)),
        days=dict(sorted(days.items())),
        models=dict(sorted(models.items(), key=lambda item: -item[1].input_tokens)),
        by_conversation=dict(reversed(conversations.items())),
        unknown=dict(unknown.most_common()),
        categories=dict(categories.most_common()),
    )


def tokens_of(connection: Connection, page: Sequence[Key]) -> Mapping[Key, tuple[int, int]]:
    """The tokens of the input and the output of conversations, with one query."""
    found: dict[Key, tuple[int, int]] = dict.fromkeys(page, (0, 0))
    for name, owner, read, answered in on_page(connection, _USED, page) if page else ():
        before = found[name, owner]
        found[name, owner] = before[0] + int(_number(read)), before[1] + int(_number(answered))
    return found
