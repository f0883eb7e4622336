"""What refused arguments were meant to be: the inverse of what lowering does to a schema, and of what models do.

Only the places that are refused are looked at, each way of reading them is tried on the original schema, and the work
is bounded: what is not found within the bounds stays refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ripieno.exceptions import JsonInvalidity
from ripieno.jsonvalues import MAX_BYTES, parse
from ripieno.schemas.cost import BUDGET, Weight, size_of
from ripieno.schemas.graph import IN_PLACE, Node, is_mapping, is_sequence
from ripieno.schemas.subschemas import Pieces, parts_of

_LEVELS = 64
#: How many readings of the arguments may be tried, and how much of the work that validation may take.
_TRIES = 2_000
_WORK = 2 * BUDGET
_PAIR = {"key", "value"}
#: How a text begins that can be JSON, and is neither a string nor null.
_BEGINNINGS = frozenset({"{", "[", "-", "t", "f", *map(str, range(10))})
_CHOICES = ("anyOf", "oneOf")
#: Keywords that apply to the value as a whole, and are met by mending it.
_TOGETHER = IN_PLACE - {*_CHOICES, "not", "if"}
_PARTS = frozenset(
    {
        *("properties", "patternProperties", "additionalProperties", "unevaluatedProperties"),
        *("items", "prefixItems", "additionalItems"),
    }
)


def coerce(pieces: Pieces, value: Any, weight: Weight) -> Any:
    """The reading of a refused value that the schema accepts; the same object when none is found."""
    try:
        return _Coercion(pieces, weight).mended(pieces.root, value, _LEVELS)
    except _ExhaustionError:
        return value


class _ExhaustionError(Exception):
    """The work would be too much."""


class _Coercion:
    """One search. Values are never changed: what differs is a copy."""

    def __init__(self, pieces: Pieces, weight: Weight) -> None:
        self._pieces = pieces
        self._weight = weight
        self._tries = _TRIES
        self._work = _WORK
        #: Texts that were read as JSON already.
        self._read: dict[str, tuple[Any, ...]] = {}

    def _fits(self, node: Node, value: Any) -> bool:
        self._tries -= 1
        self._work -= max(1, self._weight.times(size_of(value)))
        if self._tries < 0 or self._work < 0:
            raise _ExhaustionError
        return self._pieces.fits(node, value)

    def mended(self, node: Node, value: Any, levels: int) -> Any:
        """A reading of a refused value that a subschema accepts; the nearest to it, or the same object, if none."""
        if not is_mapping(node.schema) or levels <= 0:
            return value
        inside = self._inside(node, value, levels - 1)
        if inside is not value and self._fits(node, inside):
            return inside
        for reading in self._readings(value):
            if self._fits(node, reading):
                return reading
            deeper = self.mended(node, reading, levels - 1)
            if deeper is not reading:
                return deeper
        return self._chosen(node, inside, levels - 1)

    def _chosen(self, node: Node, value: Any, levels: int) -> Any:
        """The value as the first form of a choice would have it, with which all of the subschema is content."""
        for keyword in _CHOICES:
            for form in node.follow(keyword):
                mended = self.mended(form, value, levels)
                if mended is not value and self._fits(node, mended):
                    return mended
        return value

    def _inside(self, node: Node, value: Any, levels: int) -> Any:
        """The value with mended parts, and as all that is applied to it would have it."""
        below: Any = self._parts(node, value, levels) if is_mapping(value) or is_sequence(value) else value
        for keyword, key, one in node.edges:
            if keyword not in _TOGETHER:
                continue
            if keyword in ("dependentSchemas", "dependencies") and not (is_mapping(below) and key in below):
                continue
            if not self._fits(one, below):
                below = self.mended(one, below, levels)
        return below

    def _parts(self, node: Node, value: Any, levels: int) -> Any:
        changed: dict[str | int, Any] = {}
        gone: set[str | int] = set()
        for part, nodes in self._refused(node, value).items():
            item = mended = value[part]
            for below in nodes:
                if mended is item or not self._fits(below, mended):
                    mended = self.mended(below, mended, levels)
            if mended is not item:
                changed[part] = mended
            elif item is None and isinstance(part, str) and part not in node.schema.get("required", ()):
                gone.add(part)  # Null stands for a property that is absent.
        if not changed and not gone:
            return value
        if is_mapping(value):
            return {name: changed.get(name, item) for name, item in value.items() if name not in gone}
        return [changed.get(index, item) for index, item in enumerate(value)]

    def _refused(self, node: Node, value: Any) -> Mapping[str | int, Sequence[Node]]:
        """The parts of a value that are refused, and by what."""
        refused: dict[str | int, list[Node]] = {}
        for keyword, key, below in node.edges:
            if keyword in _PARTS:
                for part, item in parts_of(self._pieces, node, keyword, key, value):
                    if not self._fits(below, item):
                        refused.setdefault(part, []).append(below)
        return refused

    def _readings(self, value: Any) -> Iterator[Any]:
        """What a value may stand for: JSON for its text, a map for its pairs."""
        if isinstance(value, str):
            if value not in self._read:
                self._work -= len(value)
                self._read[value] = _json_of(value)
            yield from self._read[value]
        elif is_sequence(value) and (pairs := _map_of(value)) is not None:
            yield pairs


def _json_of(text: str) -> tuple[Any, ...]:
    """What a text says as JSON, unless that is a string or null; nothing when it says none."""
    text = text.strip()
    if text[:1] not in _BEGINNINGS or len(text) > MAX_BYTES:
        return ()
    try:
        return (parse(text),)
    except JsonInvalidity:
        return ()


def _map_of(pairs: Sequence[Any]) -> Mapping[str, Any] | None:
    """The map of a list of pairs whose keys differ; None for any other list."""
    if not all(is_mapping(pair) and set(pair) == _PAIR and isinstance(pair["key"], str) for pair in pairs):
        return None
    read = {pair["key"]: pair["value"] for pair in pairs}
    return read if len(read) == len(pairs) else None
