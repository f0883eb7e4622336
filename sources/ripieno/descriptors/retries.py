"""The keys of retrying, of a policy and of the whole configuration, and what must fit together among them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from frozendict import frozendict

from ripieno.descriptors.keys import Key, Table
from ripieno.descriptors.kinds import INVALID, Number, Several, Text
from ripieno.descriptors.positions import Path
from ripieno.descriptors.problems import Problems
from ripieno.jsonvalues import is_table
from ripieno.policies import PASSING, Retry

_USUAL = Retry()
_BACKOFF = Number(minimum=0, maximum=3600, unit="seconds")
_MAX_RETRIES = Key(
    name="max_retries",
    kind=Number(whole=True, minimum=0, maximum=100),
    documentation="Repetitions of a failed call, where safe.",
    default=_USUAL.max_retries,
    example=0,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Frozen(Table):
    """A table that is kept frozen, as a value among others."""

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        read: Any = super(Frozen, self).read(value, path, problems)
        return read if read is INVALID else frozendict[str, Any](read)


RETRY = Frozen(
    title="[retry]",
    documentation="When a failed call is made again: only with effect none or read, or where it is idempotent.",
    keys=(
        _MAX_RETRIES,
        Key(
            name="initial_backoff",
            kind=_BACKOFF,
            documentation="Seconds before the first repetition, at most: chance says how many of them.",
            default=_USUAL.initial_backoff,
            example=0.5,
        ),
        Key(
            name="max_backoff",
            kind=_BACKOFF,
            documentation="Seconds before any repetition, at most, unless the other side asks for more.",
            default=_USUAL.max_backoff,
            example=30,
        ),
        Key(
            name="multiplier",
            kind=Number(minimum=1, maximum=100),
            documentation="How much longer each backoff may be than the one before it.",
            default=_USUAL.multiplier,
            example=3,
        ),
        Key(
            name="categories",
            kind=Several(item=Text(choices=PASSING), items="categories of faults", once=True),
            documentation="The faults after which it is made again.",
            default=_USUAL.categories,
            example=["network"],
        ),
    ),
)
#: The keys of a policy: a table, and the seed's own key for its first one.
RETRY_KEYS = (
    _MAX_RETRIES,
    Key(name="retry", kind=RETRY, documentation=RETRY.documentation, example={"initial_backoff": 0.5}),
)


def retry_values(table: Mapping[str, Any]) -> frozendict[str, Any]:
    """The keys of retrying that a policy's read table gives, wherever in it."""
    short = {"max_retries": table["max_retries"]} if "max_retries" in table else {}
    return frozendict({**short, **table.get("retry", {})})


def retry_mapping(retry: Retry, base: Retry, given: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a policy that give these values over ``base``; those that were ``given`` are said all the same."""
    values = {
        name: getattr(retry, name)
        for name in RETRY.known
        if name in given or getattr(retry, name) != getattr(base, name)
    }
    if not values:
        return {}
    return values if values.keys() == {"max_retries"} else {"retry": values}


def check_retry(table: Any, path: Path, problems: Problems) -> None:
    """A key that stands in two places of one table would have two values, and backoffs must fit each other."""
    retry = table.get("retry") if is_table(table) else None
    if not is_table(retry):
        return
    if "max_retries" in table and "max_retries" in retry:
        problems.add((*path, "max_retries"), "max_retries stands here and in retry", "Delete one of them.")
    check_backoffs(retry, (*path, "retry"), problems)


def check_backoffs(retry: Mapping[str, Any], path: Path, problems: Problems) -> None:
    """The first backoff must not be longer than all of them may be."""
    first, longest = retry.get("initial_backoff"), retry.get("max_backoff")
    if first is not None and longest is not None and first > longest:
        problems.add(
            (*path, "initial_backoff"), f"initial_backoff is longer than max_backoff ({longest:g} s)", "Exchange them."
        )
