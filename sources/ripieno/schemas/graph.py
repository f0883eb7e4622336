"""A schema as a graph: its subschemas, and the subschemas that each applies or refers to.

References stay inside the schema. The specification of MCP (2026-07-28, tools) forbids following others, and
validators fetch them by default (measured).
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias
from urllib.parse import unquote

from ripieno.exceptions import SchemaInvalidity
from ripieno.jsonvalues import is_list, is_table
from ripieno.lazy.expressions import expression

MAX_DEPTH = 32
MAX_SUBSCHEMAS = 2000

#: Keywords that apply subschemas to the same value.
IN_PLACE = frozenset(
    {
        *("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"),
        *("$ref", "$dynamicRef", "$recursiveRef"),
    }
)
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_SINGLES = frozenset(
    {
        *("not", "if", "then", "else", "additionalProperties", "unevaluatedProperties", "propertyNames"),
        *("items", "additionalItems", "contains", "unevaluatedItems", "contentSchema"),
    }
)
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
_TABLES = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"})
#: All keywords that have subschemas.
HOLDING = _SINGLES | _LISTS | _TABLES
#: Keywords that only store subschemas, or apply to decoded text.
_IDLE = frozenset({"$defs", "definitions", "contentSchema"})
#: Dialects in which a reference hides the keywords beside it.
LEGACY = frozenset({"draft-04", "draft-06", "draft-07"})


_INDEX = expression(r"0|[1-9][0-9]{0,5}")

#: Keyword, name or index or None, subschema.
Edge: TypeAlias = "tuple[str, str | int | None, Node]"


@dataclasses.dataclass(slots=True, eq=False)
class Node:
    """One subschema. ``edges`` lead to those that it applies; ``replaced``: its reference hides its other keywords."""

    pointer: str
    schema: Any
    replaced: bool = False
    edges: list[Edge] = dataclasses.field(default_factory=list[Edge])

    def follow(self, *keywords: str) -> Iterator["Node"]:
        return (node for keyword, _, node in self.edges if keyword in keywords)


class Graph:
    """All subschemas of ``schema``, by JSON pointer; ``root`` is the first.

    Errors: ``SchemaInvalidity`` for a reference or identifier that leads outside or nowhere, and for a schema
    with too many levels or subschemas.
    """

    def __init__(self, schema: Mapping[str, Any], *, dialect: str) -> None:
        self.nodes: dict[str, Node] = {}
        self._legacy = dialect in LEGACY
        self._identifier = "id" if dialect == "draft-04" else "$id"
        self._references: list[tuple[Node, str, str]] = []
        self._anchors: dict[str, Node] = {}
        self._schema = schema
        self.root = self._visit(schema, "", 0)
        self.refers = bool(self._references)
        while self._references:
            references, self._references = self._references, []
            for node, keyword, reference in references:
                node.edges.append((keyword, None, self._target(reference, f"{node.pointer}/{keyword}")))

    def _visit(self, schema: Any, pointer: str, depth: int) -> Node:
        node = self.nodes[pointer] = Node(pointer, schema)
        if depth > MAX_DEPTH:
            raise SchemaInvalidity(f"The schema is nested too deeply: more than {MAX_DEPTH} levels.", pointer=pointer)
        if len(self.nodes) > MAX_SUBSCHEMAS:
            raise SchemaInvalidity(f"The schema has more than {MAX_SUBSCHEMAS} subschemas.", pointer=pointer)
        if not is_table(schema):
            return node
        node.replaced = self._legacy and "$ref" in schema
        self._note_names(node)
        for keyword, value in schema.items():
            if keyword in HOLDING:
                self._visit_parts(node, keyword, value, depth + 1)
            elif keyword in REFERENCES and isinstance(value, str):
                self._references.append((node, keyword, value))
        return node

    def _visit_parts(self, node: Node, keyword: str, value: Any, depth: int) -> None:
        for key, part in parts(keyword, value):
            pointer = f"{node.pointer}/{keyword}" if key is None else f"{node.pointer}/{keyword}/{escaped(key)}"
            # A reference may have visited it before.
            below = self.nodes.get(pointer) or self._visit(part, pointer, depth)
            if keyword not in _IDLE and not node.replaced:
                node.edges.append((keyword, key, below))

    def _note_names(self, node: Node) -> None:
        identifier = node.schema.get(self._identifier)
        if isinstance(identifier, str):
            if not identifier.startswith("#"):
                raise SchemaInvalidity(
                    f"The identifier {identifier[:80]!r} would move the schema elsewhere. Remove it.",
                    pointer=f"{node.pointer}/{self._identifier}",
                )
            self._anchors[identifier[1:]] = node
        for keyword in ("$anchor", "$dynamicAnchor"):
            anchor = node.schema.get(keyword)
            if isinstance(anchor, str):
                self._anchors.setdefault(anchor, node)

    def _target(self, reference: str, pointer: str) -> Node:
        if not reference.startswith("#"):
            raise SchemaInvalidity(
                f"The reference {reference[:80]!r} leads outside the schema. Put its target under $defs.",
                pointer=pointer,
            )
        fragment = unquote(reference[1:])
        if fragment and not fragment.startswith("/"):
            target = self._anchors.get(fragment)
        else:
            target = self.nodes.get(fragment) or self._find(fragment)
        if target is None:
            raise SchemaInvalidity(f"The reference {reference[:80]!r} leads to no subschema.", pointer=pointer)
        return target

    def _find(self, fragment: str) -> Node | None:
        """A subschema that is the value of no known keyword, or has another spelling of its pointer."""
        value: Any = self._schema
        pointer = ""
        for token in fragment.split("/")[1:]:
            key = token.replace("~1", "/").replace("~0", "~")
            if is_table(value) and key in value:
                value = value[key]
            elif is_list(value) and _INDEX.fullmatch(key) and int(key) < len(value):
                value = value[int(key)]
            else:
                return None
            pointer += f"/{escaped(key)}"
        if not isinstance(value, bool) and not is_table(value):
            return None
        return self.nodes.get(pointer) or self._visit(value, pointer, 1)


def parts(keyword: str, value: Any) -> Iterable[tuple[str | int | None, Any]]:
    """The subschemas of a keyword; the meta-schema refuses malformed ones."""
    if keyword in _TABLES:
        return ((key, part) for key, part in value.items() if _is_schema(part)) if is_table(value) else ()
    if keyword in _LISTS and is_list(value):
        return ((index, part) for index, part in enumerate(value) if _is_schema(part))
    return ((None, value),) if keyword in _SINGLES and _is_schema(value) else ()


def _is_schema(value: object) -> bool:
    return isinstance(value, Mapping | bool)


def escaped(key: str | int) -> str:
    """One token of a JSON pointer."""
    return str(key).replace("~", "~0").replace("/", "~1")
