"""Which parts of a value a keyword's subschema is about."""

from collections.abc import Iterable
from typing import Any

from ripieno.schemas.pieces import Pieces
from ripieno.schemas.walking import IN_PLACE, Node, is_mapping, is_sequence

#: Keywords about properties that no other keyword speaks of.
REMAINING = ("additionalProperties", "unevaluatedProperties")


def parts_of(
    pieces: Pieces, node: Node, keyword: str, key: str | int | None, value: Any
) -> Iterable[tuple[str | int, Any]]:
    """The properties or items of a value that a keyword of a subschema is about, under their names or places."""
    if is_mapping(value):
        return ((name, value[name]) for name in _names(pieces, node, keyword, key, value))
    if is_sequence(value):
        return ((index, value[index]) for index in _indices(node, keyword, key, len(value)))
    return ()


def _names(pieces: Pieces, node: Node, keyword: str, key: str | int | None, value: Any) -> Iterable[str]:
    matches = pieces.matches
    if keyword == "properties":
        return (str(key),) if key in value else ()
    if keyword == "patternProperties":
        return (name for name in value if matches(str(key), name))
    if keyword in REMAINING:
        known, patterns = declared_in(node, everywhere=keyword == "unevaluatedProperties")
        return (name for name in value if name not in known and not any(matches(one, name) for one in patterns))
    return value if keyword == "propertyNames" else ()


def _indices(node: Node, keyword: str, key: str | int | None, length: int) -> range:
    if isinstance(key, int) and keyword in ("prefixItems", "items"):
        return range(key, min(key + 1, length))
    listed = node.schema.get("prefixItems" if keyword == "items" else "items", ())
    if keyword == "items" or (keyword == "additionalItems" and is_sequence(listed)):
        return range(len(listed), length)
    return range(0)


def declared_in(node: Node, *, everywhere: bool) -> tuple[dict[str, None], list[str]]:
    """Names and patterns of the properties that a subschema declares, or it and all that it applies in place."""
    names: dict[str, None] = {}
    patterns: list[str] = []
    seen, waiting = {node}, [node]
    for one in waiting:
        for keyword, key, below in one.edges:
            if keyword == "properties":
                names[str(key)] = None
            elif keyword == "patternProperties":
                patterns.append(str(key))
            elif everywhere and keyword in IN_PLACE and below not in seen:
                seen.add(below)
                waiting.append(below)
    return names, patterns
