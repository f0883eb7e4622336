"""Conjunctions: several subschemas of the same value read as one, with references and ``allOf`` resolved."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ripieno.jsonvalues import is_list, is_table
from ripieno.schemas.description import type_of, types_of
from ripieno.schemas.graph import REFERENCES, Node

#: Keywords that do not restrict values.
ANNOTATIONS = frozenset(
    {
        *("title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly"),
        *("$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$comment", "$vocabulary"),
        *("$defs", "definitions"),
    }
)
CHOICES = ("anyOf", "oneOf")
_TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")
#: The types that a keyword applies to.
ABOUT: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            *("properties", "required", "additionalProperties", "patternProperties", "propertyNames"),
            *("minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "dependencies"),
            "unevaluatedProperties",
        ),
        ("object",),
    ),
    **dict.fromkeys(
        (
            *("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"),
            *("minItems", "maxItems", "uniqueItems", "minContains", "maxContains"),
        ),
        ("array",),
    ),
    **dict.fromkeys(
        ("minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"), ("string",)
    ),
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), ("integer", "number")
    ),
}
Numbers: TypeAlias = "Callable[[Iterable[Any]], Any]"
#: The function that selects the strictest of several limits.
STRICTEST: Mapping[str, Numbers] = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}


def own(node: Node) -> Mapping[str, Any]:
    """The effective keywords of a subschema: in an old draft, a reference hides those beside it."""
    if not is_table(node.schema):
        return {}
    if node.replaced:
        return {keyword: value for keyword, value in node.schema.items() if keyword in ANNOTATIONS}
    return node.schema


def is_never(node: Node) -> bool:
    """Whether no value fits: ``false``."""
    return node.schema is False


def applied(node: Node) -> Iterator[Node]:
    """A subschema, and those that apply whenever it does: the targets of its references, and parts of ``allOf``."""
    seen, waiting = {node}, [node]
    for one in waiting:
        yield one
        for below in one.follow(*REFERENCES, "allOf"):
            if below not in seen:
                seen.add(below)
                waiting.append(below)


class Conjunction:
    """The keywords of several subschemas of one value. ``pending`` are those not handled yet.

    ``notes`` are for the description; ``root`` is whether the value is all arguments, ``textual`` and ``listed``
    whether a text, or a list, fits as well.
    """

    def __init__(self, nodes: Iterable[Node], *, root: bool = False) -> None:
        self.root = root
        self.textual = self.listed = False
        self.notes: list[str] = []
        self.nodes = tuple(dict.fromkeys(one for node in nodes for one in applied(node)))
        self.never = any(map(is_never, self.nodes))
        self.pending: dict[tuple[Node, str], Any] = {
            (node, keyword): value for node in self.nodes for keyword, value in own(node).items()
        }
        self._all = dict(self.pending)

    def __contains__(self, keyword: str) -> bool:
        return any(name == keyword for _, name in self._all)

    def values(self, keyword: str) -> list[tuple[Node, Any]]:
        """The values of a keyword, with their subschemas."""
        return [(node, value) for (node, name), value in self._all.items() if name == keyword]

    @property
    def annotated(self) -> bool:
        """Whether there is something to describe."""
        return bool(self.notes) or any(keyword in ANNOTATIONS for _, keyword in self.pending)

    def take(self, *keywords: str) -> None:
        """Marks keywords as handled."""
        for node, name in list(self.pending):
            if name in keywords:
                del self.pending[node, name]

    def edges(self, *keywords: str) -> Iterator[tuple[Node, str | int | None, Node]]:
        """Subschemas of parts of the value, each with its parent and key."""
        for node in self.nodes:
            if not node.replaced:
                yield from ((node, key, below) for keyword, key, below in node.edges if keyword in keywords)

    def choice(self) -> tuple[Node, str, Sequence[Node]] | None:
        """The first ``anyOf`` or ``oneOf``: its subschema, keyword and forms."""
        for node in self.nodes:
            for keyword in CHOICES if not node.replaced else ():
                if below := tuple(node.follow(keyword)):
                    return node, keyword, below
        return None

    def types(self) -> tuple[str, ...] | None:
        """The types that all allow; None if none of them names any."""
        found: set[str] | None = None
        for _, value in self.values("type"):
            named = set(types_of({"type": value}))
            if "number" in named:
                named.add("integer")
            found = named if found is None else found & named
        if found is None:
            return None
        if "number" in found:
            found.discard("integer")
        return tuple(one for one in _TYPES if one in found)

    def inferred(self) -> tuple[str, ...]:
        """The types that the keywords apply to; empty if unknown."""
        about = {one for _, name in self._all for one in ABOUT.get(name, ())}
        if "number" in about:
            about.discard("integer")
        return tuple(one for one in _TYPES if one in about)

    def literals(self) -> list[Any] | None:
        """The values that all of them allow, in the order of the first; None if none of them lists any."""
        found: list[Any] | None = None
        for keyword in ("const", "enum"):
            for _, value in self.values(keyword):
                listed = list(value) if keyword == "enum" and is_list(value) else [value]
                keys = [literal_key(one) for one in listed]
                found = listed if found is None else [one for one in found if literal_key(one) in keys]
        types = self.types()
        if found is None or types is None:
            return found
        return [one for one in found if fits_type(one, types)]


def fits_type(value: Any, types: Iterable[str]) -> bool:
    """Whether a value is of one of the types."""
    kind = type_of(value)
    return kind in types or (kind == "integer" and "number" in types)


def literal_key(value: Any) -> object:
    """A key that is equal for values that JSON Schema treats as equal: 1 and 1.0, but not true."""
    if is_table(value):
        return ("object", frozenset((key, literal_key(one)) for key, one in value.items()))
    if is_list(value):
        return ("array", tuple(literal_key(one) for one in value))
    return ("boolean" if isinstance(value, bool) else "", value)
