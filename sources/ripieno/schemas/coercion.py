"""Coercion of refused arguments: the inverse of what lowering does to a schema, and repair of what models send.

Only refused places are changed, each reading is tried on the original schema, and the work is bounded. Values
without an accepted reading within the bounds stay refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ripieno.exceptions import JsonInvalidity
from ripieno.jsonvalues import MAX_BYTES, is_list, is_table, parse
from ripieno.schemas.cost import BUDGET, Weight, size_of
from ripieno.schemas.graph import IN_PLACE, Node
from ripieno.schemas.subschemas import Subschemas, parts_of

_LEVELS = 64
#: Limits on the readings that are tried, and on the work of their validation.
_TRIES = 2_000
_WORK = 2 * BUDGET
_PAIR = {"key", "value"}
#: First characters of JSON texts other than strings and null.
_BEGINNINGS = frozenset({"{", "[", "-", "t", "f", *map(str, range(10))})
_CHOICES = ("anyOf", "oneOf")
#: Keywords that apply to the value as a whole.
_TOGETHER = IN_PLACE - {*_CHOICES, "not", "if"}
_PARTS = frozenset(
    {
        *("properties", "patternProperties", "additionalProperties", "unevaluatedProperties"),
        *("items", "prefixItems", "additionalItems"),
    }
)


def coerce(subschemas: Subschemas, value: Any, weight: Weight) -> Any:
    """The reading of a refused value that the schema accepts; the same object if none is found."""
    try:
        return _Coercion(subschemas, weight).repaired(subschemas.root, value, _LEVELS)
    except _ExhaustionError:
        return value


class _ExhaustionError(Exception):
    """The work would be too much."""


class _Coercion:
    """One search. Values are copied, never changed."""

    def __init__(self, subschemas: Subschemas, weight: Weight) -> None:
        self._subschemas = subschemas
        self._weight = weight
        self._tries = _TRIES
        self._work = _WORK
        #: Texts that were already parsed as JSON.
        self._read: dict[str, tuple[Any, ...]] = {}

    def _fits(self, node: Node, value: Any) -> bool:
        self._tries -= 1
        self._work -= max(1, self._weight.times(size_of(value)))
        if self._tries < 0 or self._work < 0:
            raise _ExhaustionError
        return self._subschemas.fits(node, value)

    def repaired(self, node: Node, value: Any, levels: int) -> Any:
        """The nearest reading of a refused value that a subschema accepts; the same object if there is none."""
        if not is_table(node.schema) or levels <= 0:
            return value
        inside = self._inside(node, value, levels - 1)
        if inside is not value and self._fits(node, inside):
            return inside
        for reading in self._readings(value):
            if self._fits(node, reading):
                return reading
            deeper = self.repaired(node, reading, levels - 1)
            if deeper is not reading:
                return deeper
        return self._chosen(node, inside, levels - 1)

    def _chosen(self, node: Node, value: Any, levels: int) -> Any:
        """The value in the first form of a choice with which the whole subschema accepts it."""
        for keyword in _CHOICES:
            for form in node.follow(keyword):
                repaired = self.repaired(form, value, levels)
                if repaired is not value and self._fits(node, repaired):
                    return repaired
        return value

    def _inside(self, node: Node, value: Any, levels: int) -> Any:
        """The value with repaired parts, and repaired for all subschemas that apply to it."""
        below: Any = self._parts(node, value, levels) if is_table(value) or is_list(value) else value
        for keyword, key, one in node.edges:
            if keyword not in _TOGETHER:
                continue
            if keyword in ("dependentSchemas", "dependencies") and not (is_table(below) and key in below):
                continue
            if not self._fits(one, below):
                below = self.repaired(one, below, levels)
        return below

    def _parts(self, node: Node, value: Any, levels: int) -> Any:
        changed: dict[str | int, Any] = {}
        gone: set[str | int] = set()
        for part, nodes in self._refused(node, value).items():
            item = repaired = value[part]
            for below in nodes:
                if repaired is item or not self._fits(below, repaired):
                    repaired = self.repaired(below, repaired, levels)
            if repaired is not item:
                changed[part] = repaired
            elif item is None and isinstance(part, str) and part not in node.schema.get("required", ()):
                gone.add(part)  # Null stands for a property that is absent.
        if not changed and not gone:
            return value
        if is_table(value):
            return {name: changed.get(name, item) for name, item in value.items() if name not in gone}
        return [changed.get(index, item) for index, item in enumerate(value)]

    def _refused(self, node: Node, value: Any) -> Mapping[str | int, Sequence[Node]]:
        refused: dict[str | int, list[Node]] = {}
        for keyword, key, below in node.edges:
            if keyword in _PARTS:
                for part, item in parts_of(self._subschemas, node, keyword, key, value):
                    if not self._fits(below, item):
                        refused.setdefault(part, []).append(below)
        return refused

    def _readings(self, value: Any) -> Iterator[Any]:
        """Possible readings of a value: the JSON of a text, the map of a list of pairs."""
        if isinstance(value, str):
            if value not in self._read:
                self._work -= len(value)
                self._read[value] = _json_of(value)
            yield from self._read[value]
        elif is_list(value) and (pairs := _map_of(value)) is not None:
            yield pairs


def _json_of(text: str) -> tuple[Any, ...]:
    """The JSON value of a text, unless it is a string or null; empty if the text is not JSON."""
    text = text.strip()
    if text[:1] not in _BEGINNINGS or len(text) > MAX_BYTES:
        return ()
    try:
        return (parse(text),)
    except JsonInvalidity:
        return ()


def _map_of(pairs: Sequence[Any]) -> Mapping[str, Any] | None:
    """The map of a list of pairs whose keys differ; None for any other list."""
    if not all(is_table(pair) and set(pair) == _PAIR and isinstance(pair["key"], str) for pair in pairs):
        return None
    read = {pair["key"]: pair["value"] for pair in pairs}
    return read if len(read) == len(pairs) else None
