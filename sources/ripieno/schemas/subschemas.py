"""The subschemas of a schema, compiled to find which of them refuse a value, and the parts of a value they apply to."""

from collections.abc import Iterable, Mapping
from typing import Any

import jsonschema_rs

from ripieno.jsonvalues import is_list, is_table
from ripieno.schemas import validator
from ripieno.schemas.description import RANGES
from ripieno.schemas.graph import IN_PLACE, Graph, Node
from ripieno.schemas.regexes import Options

#: Keywords that need no other subschema.
_ASSERTIONS = (
    *("type", "enum", "const", "required", "dependentRequired", "pattern", "multipleOf", "uniqueItems"),
    *RANGES,
    *("contentEncoding", "contentMediaType"),
)


class Subschemas:
    """The subschemas of one schema, each compiled when it is first needed."""

    def __init__(self, schema: Mapping[str, Any], dialect: str, options: Options | None) -> None:
        graph = Graph(schema, dialect=dialect)
        self.root = graph.root
        self._dialect = dialect
        self._options = options
        self._all = validator.dispatcher(graph, dialect, options)
        self._alone: dict[Node, jsonschema_rs.Validator] = {}
        self._patterns: dict[str, jsonschema_rs.Validator] = {}

    def fits(self, node: Node, value: Any) -> bool:
        """Whether a subschema accepts the value."""
        return self._all.is_valid({node.pointer: value})

    def assertions(self, node: Node, value: Any) -> list[jsonschema_rs.ValidationError]:
        """The errors of a subschema's own keywords, without those about parts of the value."""
        if node not in self._alone:
            self._alone[node] = validator.compiled(self._own(node.schema), self._dialect, self._options)
        return list(self._alone[node].iter_errors(value))

    def _own(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        own = {keyword: schema[keyword] for keyword in _ASSERTIONS if keyword in schema}
        if is_table(dependencies := schema.get("dependencies")):
            own["dependencies"] = {name: one for name, one in dependencies.items() if is_list(one)}
        return own

    def matches(self, pattern: str, text: str) -> bool:
        """Whether a regular expression of the schema matches."""
        if pattern not in self._patterns:
            self._patterns[pattern] = validator.compiled({"pattern": pattern}, self._dialect, self._options)
        return self._patterns[pattern].is_valid(text)


#: Keywords about properties that no other keyword covers.
REMAINING = ("additionalProperties", "unevaluatedProperties")


def parts_of(
    subschemas: Subschemas, node: Node, keyword: str, key: str | int | None, value: Any
) -> Iterable[tuple[str | int, Any]]:
    """The properties or items of a value that a keyword applies to, with their names or indexes."""
    if is_table(value):
        return ((name, value[name]) for name in _names(subschemas, node, keyword, key, value))
    if is_list(value):
        return ((index, value[index]) for index in _indices(node, keyword, key, len(value)))
    return ()


def _names(subschemas: Subschemas, node: Node, keyword: str, key: str | int | None, value: Any) -> Iterable[str]:
    matches = subschemas.matches
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
    if keyword == "items" or (keyword == "additionalItems" and is_list(listed)):
        return range(len(listed), length)
    return range(0)


def declared_in(node: Node, *, everywhere: bool) -> tuple[dict[str, None], list[str]]:
    """Names and patterns of the declared properties; ``everywhere`` includes subschemas applied in place."""
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
