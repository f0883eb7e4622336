"""Rows of models: what some models of a provider do differently. The first row that matches a name holds."""

import dataclasses
import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from frozendict import frozendict

from ripieno.descriptors.reader.kinds import INVALID, Several
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems, printable
from ripieno.jsonvalues import EMPTY, merge

#: What stands for more than one character in a pattern; ``[*]`` is a star.
_WILD = re.compile(r"\[(?P<one>[^]!])\]|\[!?\]?[^]]*\]|[*?]")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelRow:
    """What some models do differently: ``match`` is a pattern of their names, ``capabilities`` what is given."""

    match: str
    capabilities: frozendict[str, Any] = EMPTY


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rows(Several):
    """Rows of one table, of which no two have the same pattern: the second would never hold."""

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        # By name: with slots, a class is made twice, and ``super()`` knows the first.
        rows = Several.read(self, value, path, problems)
        if rows is INVALID:
            return INVALID
        first: dict[str, int] = {}
        for index, row in enumerate(rows):
            if first.setdefault(row["match"], index) != index:
                message = f'two rows have match = "{printable(row["match"], 40)}", and the first that matches holds'
                problems.add((*path, index, "match"), message, "Delete the one that is out of date.")
        return INVALID if len(first) < len(rows) else rows


def find_idle(patterns: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The rows that never hold, each with an earlier one that matches whatever it matches; by their places."""
    for index, later in enumerate(patterns):
        covering = (place for place, earlier in enumerate(patterns[:index]) if _covers(earlier, later))
        if (place := next(covering, None)) is not None:
            yield index, place


def _covers(earlier: str, later: str) -> bool:
    """Whether a pattern matches whatever another one matches; False where that is hard to say."""
    shown = _WILD.sub(lambda match: match["one"] or "\0", later)
    # A star matches anything that a place of the other one may stand for; ? and [] do not.
    return fnmatch.fnmatchcase(shown, earlier) and ("\0" not in shown or not {"?", "["} & set(earlier))


def lay_keys(base: Mapping[str, Any], over: Mapping[str, Any]) -> frozendict[str, Any]:
    """The read keys of one provider laid over others: as tables are, with its rows of models before theirs."""
    merged = merge(base, over)
    if not (base.get("models") and over.get("models")):
        return merged
    own = {row["match"] for row in over["models"]}
    return merged.set("models", (*over["models"], *(row for row in base["models"] if row["match"] not in own)))


def lay_tables(base: Mapping[str, Any], over: Mapping[str, Any]) -> frozendict[str, Any]:
    """The same for several providers by name."""
    return frozendict({**base, **{name: lay_keys(base.get(name, EMPTY), keys) for name, keys in over.items()}})
