"""The subschemas of one schema, compiled one by one, to find out which of them refuse a value."""

from collections.abc import Mapping
from typing import Any

import jsonschema_rs

from ripieno.schemas import engine
from ripieno.schemas.describing import RANGES
from ripieno.schemas.patterns import Options
from ripieno.schemas.walking import Graph, Node, is_mapping, is_sequence

#: Keywords that need no other subschema.
_ASSERTIONS = (
    *("type", "enum", "const", "required", "dependentRequired", "pattern", "multipleOf", "uniqueItems"),
    *RANGES,
    *("contentEncoding", "contentMediaType"),
)


class Pieces:
    """Compiled when they are first needed, and kept."""

    def __init__(self, schema: Mapping[str, Any], dialect: str, options: Options | None) -> None:
        graph = Graph(schema, dialect=dialect)
        self.root = graph.root
        self._dialect = dialect
        self._options = options
        self._all = engine.dispatcher(graph, dialect, options)
        self._alone: dict[Node, jsonschema_rs.Validator] = {}
        self._patterns: dict[str, jsonschema_rs.Validator] = {}

    def fits(self, node: Node, value: Any) -> bool:
        """Whether a subschema takes the value."""
        return self._all.is_valid({node.pointer: value})

    def assertions(self, node: Node, value: Any) -> list[jsonschema_rs.ValidationError]:
        """What a subschema's own keywords refuse, apart from the parts of the value."""
        if node not in self._alone:
            self._alone[node] = engine.compiled(self._own(node.schema), self._dialect, self._options)
        return list(self._alone[node].iter_errors(value))

    def _own(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        own = {keyword: schema[keyword] for keyword in _ASSERTIONS if keyword in schema}
        if is_mapping(dependencies := schema.get("dependencies")):
            own["dependencies"] = {name: one for name, one in dependencies.items() if is_sequence(one)}
        return own

    def matches(self, pattern: str, text: str) -> bool:
        """Whether a regular expression of the schema matches."""
        if pattern not in self._patterns:
            self._patterns[pattern] = engine.compiled({"pattern": pattern}, self._dialect, self._options)
        return self._patterns[pattern].is_valid(text)
