"""Rows of models: capabilities of some models of a provider. The first row that matches a name applies."""

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from frozendict import frozendict

from ripieno.descriptors.reader.kinds import INVALID, Several
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems, printable
from ripieno.jsonvalues import EMPTY, merge
from ripieno.lazy.expressions import expression
from ripieno.values import Value

#: Wildcards and sets in a pattern; ``[*]`` is a literal star.
_WILD = expression(r"\[(?P<one>[^]!])\]|\[!?\]?[^]]*\]|[*?]")


class ModelRow(Value, kw_only=True):
    """The capabilities of models whose names match a pattern."""

    match: str
    capabilities: frozendict[str, Any] = EMPTY


class Rows(Several):
    """Rows of one table. Patterns are unique: a second row with the same pattern would never apply."""

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        rows = super().read(value, path, problems)
        if rows is INVALID:
            return INVALID
        first: dict[str, int] = {}
        for index, row in enumerate(rows):
            if first.setdefault(row["match"], index) != index:
                message = f'two rows have match = "{printable(row["match"], 40)}"; only the first would apply'
                problems.add((*path, index, "match"), message, "Delete one of them.")
        return INVALID if len(first) < len(rows) else rows


def find_idle(patterns: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The indexes of rows that never apply, each with that of an earlier row that covers it."""
    for index, later in enumerate(patterns):
        covering = (place for place, earlier in enumerate(patterns[:index]) if _covers(earlier, later))
        if (place := next(covering, None)) is not None:
            yield index, place


def _covers(earlier: str, later: str) -> bool:
    """Whether a pattern matches every name that another one matches; False if that is hard to decide."""
    sample = _WILD.sub(lambda match: match["one"] or "\0", later)
    # A star matches anything that a wildcard of the other pattern matches; ? and [] do not.
    return fnmatch.fnmatchcase(sample, earlier) and ("\0" not in sample or not {"?", "["} & set(earlier))


def lay_keys(base: Mapping[str, Any], over: Mapping[str, Any]) -> frozendict[str, Any]:
    """The read keys of a provider with those of an override; the rows of models of the override come first."""
    merged = merge(base, over)
    if not (base.get("models") and over.get("models")):
        return merged
    own = {row["match"] for row in over["models"]}
    return merged.set("models", (*over["models"], *(row for row in base["models"] if row["match"] not in own)))


def lay_tables(base: Mapping[str, Any], over: Mapping[str, Any]) -> frozendict[str, Any]:
    """``lay_keys`` for several providers by name."""
    return frozendict({**base, **{name: lay_keys(base.get(name, EMPTY), keys) for name, keys in over.items()}})
