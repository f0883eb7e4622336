"""The times of a schedule, in the five fields of cron, as the engine reads them."""

import datetime

from croniter import CroniterBadDateError, croniter

_FIELDS = ("minute", "hour", "day of the month", "month", "day of the week")
_ADVICE = f"A schedule has five fields: {', '.join(_FIELDS[:-1])} and {_FIELDS[-1]}. Each day at 8:00: '0 8 * * *'."


def problem_of(expression: str) -> str:
    """The fault in the times of a schedule, and how they are written; empty if they are right."""
    if _is_valid(expression):
        return "" if next_time(expression) is not None else f"No day is one of {expression!r}. {_ADVICE}"
    fields = expression.split()
    if len(fields) != len(_FIELDS):
        return f"{expression!r} has {len(fields)} field{'' if len(fields) == 1 else 's'}. {_ADVICE}"
    for place, (name, value) in enumerate(zip(_FIELDS, fields, strict=True)):
        alone = ["*"] * len(_FIELDS)
        alone[place] = value
        if not _is_valid(" ".join(alone)):
            return f"{value!r} is no {name}. {_ADVICE}"
    return f"{expression!r} is no schedule. {_ADVICE}"


def next_time(expression: str) -> datetime.datetime | None:
    """The next time of a valid schedule, in UTC; None for one that has none, such as each 31 February."""
    times = croniter(expression, datetime.datetime.now(datetime.UTC), second_at_beginning=True)
    try:
        time: datetime.datetime = times.get_next(datetime.datetime)
    except CroniterBadDateError:
        return None
    return time


def _is_valid(expression: str) -> bool:
    return croniter.is_valid(expression, second_at_beginning=True)
