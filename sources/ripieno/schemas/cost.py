"""The cost of a schema: how far it unfolds, and how much work arguments of a given size take.

Bounds on the schema and on the arguments alone do not bound their product: an ``enum`` of 6,000 objects against
25,000 items took five minutes (measured, within 64 and 256 KiB), and nothing can interrupt it. So each subschema
is weighed once, and arguments whose weight times size is too large are refused before validation.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ripieno.exceptions import SchemaInvalidity
from ripieno.jsonvalues import SCALARS, is_list, is_table
from ripieno.schemas.graph import IN_PLACE, Edge, Graph, Node
from ripieno.values import Value


def groups_of(graph: Graph) -> Iterator[Sequence[Node]]:
    """Groups of mutually recursive subschemas; each group after those that it leads to.

    In a group each comes after those that it applies in place. Errors: ``SchemaInvalidity`` if a subschema
    applies itself in place.
    """
    if not graph.refers:
        return ((node,) for node in reversed(graph.nodes.values()))  # A tree: parents were visited first.
    ranks = _ranks_in_place(graph)
    return (sorted(group, key=lambda node: ranks[node]) for group in _components(graph))


def _components(graph: Graph) -> Iterator[list[Node]]:
    """Strongly connected components. Source: Tarjan, 1972."""
    index: dict[Node, int] = {}
    lowest: dict[Node, int] = {}
    path: list[Node] = []
    done: set[Node] = set()
    for start in graph.nodes.values():
        stack = [] if start in index else [(start, 0)]
        while stack:
            node, position = stack.pop()
            if position:
                before = node.edges[position - 1][2]
                if before not in done:
                    lowest[node] = min(lowest[node], lowest[before])
            else:
                index[node] = lowest[node] = len(index)
                path.append(node)
            if position < len(node.edges):
                stack.append((node, position + 1))
                if (below := node.edges[position][2]) not in index:
                    stack.append((below, 0))
            elif lowest[node] == index[node]:
                group = [path.pop()]
                while group[-1] is not node:
                    group.append(path.pop())
                done.update(group)
                yield group


def _ranks_in_place(graph: Graph) -> Mapping[Node, int]:
    """The rank of each subschema in the order of application to the same value, innermost first."""
    waiting = {node: sum(1 for _ in node.follow(*IN_PLACE)) for node in graph.nodes.values()}
    above: dict[Node, list[Node]] = {}
    for node, count in waiting.items():
        for below in node.follow(*IN_PLACE) if count else ():
            above.setdefault(below, []).append(node)
    ready = [node for node, count in waiting.items() if not count]
    for node in ready:
        for upper in above.get(node, ()):
            waiting[upper] -= 1
            if not waiting[upper]:
                ready.append(upper)
    if stuck := next((node for node, count in waiting.items() if count), None):
        raise SchemaInvalidity("The schema applies itself to the same value without end.", pointer=stuck.pointer)
    return {node: rank for rank, node in enumerate(ready)}


MAX_EXPANSION = 100_000
#: Work that one validation may take, in units of 0.1 µs (measured, rounded up): 0.1 s.
BUDGET = 1_000_000
#: Units to compare a value with a container, and with a number; other scalars are hashed or cheap.
_CONTAINER, _NUMBER = 20, 3
#: How often a recursion may return to a value by ways that the graph does not show.
_RECURSION = 8
_WEIGHTY = frozenset({"enum", "const", "pattern", "patternProperties", "dependentRequired", "dependencies"})


class Weight(NamedTuple):
    """Units of work for each value and for each character of the arguments."""

    value: int = 0
    character: int = 0

    def plus(self, other: "Weight") -> "Weight":
        if other is _NOTHING:
            return self
        return Weight(self.value + other.value, self.character + other.character)

    def at_least(self, other: "Weight") -> "Weight":
        if other == self:
            return self
        return Weight(max(self.value, other.value), max(self.character, other.character))

    def at_most(self, limit: "Weight", factor: int) -> "Weight":
        return Weight(min(limit.value, factor * self.value), min(limit.character, factor * self.character))

    def times(self, size: "Weight") -> int:
        return self.value * size.value + self.character * size.character


#: The largest arguments that strict parsing accepts, in the worst case.
_LARGEST = Weight(128 * 1024, 256 * 1024)
_NOTHING, _LIGHT = Weight(), Weight(1)


class Costs(Value, kw_only=True):
    """Weights of the whole schema, of its root alone, of each property, and of all other properties.

    ``heavy`` is whether any arguments could exceed the budget.
    """

    whole: Weight
    root: Weight
    properties: Mapping[str, Weight]
    others: Weight
    heavy: bool

    def excess(self, value: Any) -> str | None:
        """The argument that takes too much work, or None; empty for the value as a whole."""
        if not is_table(value):
            return "" if self.whole.times(size_of(value)) > BUDGET else None
        works = {name: self.properties.get(name, self.others).times(size_of(part)) for name, part in value.items()}
        own = self.root.times(Weight(1 + len(value), sum(map(len, value))))
        return max(works, key=lambda name: works[name]) if works and own + sum(works.values()) > BUDGET else None


def size_of(value: Any) -> Weight:
    """The number of values and characters in a JSON value; names count by their characters."""
    values = characters = 0
    level = [value]
    while level:
        values += len(level)
        characters += sum([len(item) for item in level if type(item) is str])
        below: list[Any] = []
        for item in [item for item in level if type(item) not in SCALARS]:
            if is_table(item):
                characters += sum(map(len, item))
                below.extend(item.values())
            elif is_list(item):
                below.extend(item)
        level = below
    return Weight(values, characters)


def weigh(graph: Graph, rate: Callable[[str], int]) -> Costs:
    """The costs of a schema; ``rate`` gives the cost of a pattern for each character.

    Errors: ``SchemaInvalidity`` for a schema that unfolds into too many subschemas, or applies itself in place.
    """
    scales = _Scales(rate)
    for group in groups_of(graph):
        scales.weigh(group)
    root = graph.root
    parts = scales.applied.get(root, _Applied())
    properties = {str(name): weight.plus(parts.any_property) for name, weight in parts.properties.items()}
    return Costs(
        whole=scales.whole[root],
        root=scales.own[root],
        properties=properties,
        others=parts.any_property,
        heavy=scales.whole[root].times(_LARGEST) > BUDGET,
    )


class _Scales:
    """Weighs group after group; the groups that a group leads to come before it."""

    def __init__(self, rate: Callable[[str], int]) -> None:
        self._rate = rate
        self._sizes: dict[Node, int] = {}
        #: Weights of subschemas including those applied in place, and of the same at the heaviest part of a value.
        self.own: dict[Node, Weight] = {}
        self.whole: dict[Node, Weight] = {}
        self.applied: dict[Node, _Applied] = {}

    def weigh(self, group: Sequence[Node]) -> None:
        """Weighs the members of a group, which come innermost first."""
        if len(group) == 1 and not group[0].edges:
            self.own[group[0]] = self.whole[group[0]] = _own(group[0].schema, self._rate)
            self._sizes[group[0]] = 1
            return
        together = _NOTHING
        for node in group:
            weight = _own(node.schema, self._rate)
            together = together.plus(weight)
            for below in node.follow(*IN_PLACE) if node.edges else ():
                weight = weight.plus(self.own[below])
            self.own[node] = weight
        inside = frozenset(group) if len(group) > 1 else frozenset[Node]()
        heaviest = _NOTHING
        for node in group:
            self._check_size(node, inside)
            heaviest = heaviest.at_least(self.own[node])
            if node.edges:
                parts = self.applied[node] = _Applied()
                for edge in node.edges:
                    self._apply(parts, edge, inside, together)
                heaviest = heaviest.at_least(parts.heaviest())
        self.whole.update(dict.fromkeys(group, heaviest))

    def _apply(self, parts: "_Applied", edge: Edge, inside: frozenset[Node], together: Weight) -> None:
        keyword, key, below = edge
        if keyword in IN_PLACE:
            parts.include(self.applied.get(below))
        elif below in inside:
            # The validator applies each member of a group once to each value (measured): in all, ``together``.
            parts.add(keyword, key, self.own[below].at_most(together, _RECURSION))
        else:
            parts.add(keyword, key, self.whole[below])

    def _check_size(self, node: Node, inside: frozenset[Node]) -> None:
        """Limits how far the schema unfolds before it recurs."""
        size = 1
        for keyword, _, below in node.edges:
            size += 1 if below in inside and keyword not in IN_PLACE else self._sizes[below]
        if size > MAX_EXPANSION:
            message = f"The schema unfolds into more than {MAX_EXPANSION} subschemas."
            raise SchemaInvalidity(message, pointer=node.pointer)
        self._sizes[node] = size


@dataclasses.dataclass(slots=True)
class _Applied:
    """The weights that a subschema, with those applied in place, has for the parts of a value."""

    properties: dict[str | int | None, Weight] = dataclasses.field(default_factory=dict[str | int | None, Weight])
    items: dict[str | int | None, Weight] = dataclasses.field(default_factory=dict[str | int | None, Weight])
    any_property: Weight = _NOTHING
    any_item: Weight = _NOTHING

    def add(self, keyword: str, key: str | int | None, weight: Weight) -> None:
        if keyword == "properties":
            self.properties[key] = self.properties.get(key, _NOTHING).plus(weight)
        elif keyword in ("patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"):
            self.any_property = self.any_property.plus(weight)
        elif keyword == "prefixItems" or (keyword == "items" and key is not None):
            self.items[key] = self.items.get(key, _NOTHING).plus(weight)
        else:
            self.any_item = self.any_item.plus(weight)

    def include(self, other: "_Applied | None") -> None:
        if other is None:
            return
        for mine, others in ((self.properties, other.properties), (self.items, other.items)):
            for key, weight in others.items():
                mine[key] = mine.get(key, _NOTHING).plus(weight)
        self.any_property = self.any_property.plus(other.any_property)
        self.any_item = self.any_item.plus(other.any_item)

    def heaviest(self) -> Weight:
        heaviest = self.any_property.at_least(self.any_item)
        for weight in set(self.properties.values()):
            heaviest = heaviest.at_least(weight.plus(self.any_property))
        for weight in set(self.items.values()):
            heaviest = heaviest.at_least(weight.plus(self.any_item))
        return heaviest


def _own(schema: Any, rate: Callable[[str], int]) -> Weight:
    if not is_table(schema) or schema.keys().isdisjoint(_WEIGHTY):
        return _LIGHT
    value, character = 1, 0
    if "enum" in schema or "const" in schema:
        options = [*schema.get("enum", ()), *((schema["const"],) if "const" in schema else ())]
        value += sum(_CONTAINER for option in options if isinstance(option, Mapping | tuple))
        value += _NUMBER * isinstance(schema.get("const"), int | float)
    if isinstance(pattern := schema.get("pattern"), str):
        character += rate(pattern)
    if is_table(patterns := schema.get("patternProperties")):
        value += len(patterns)
        character += sum(map(rate, patterns))
    if is_table(dependent := schema.get("dependentRequired", schema.get("dependencies"))):
        value += len(dependent)
    return Weight(value, character)
