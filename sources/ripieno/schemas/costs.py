"""What a schema may cost: how far it unfolds, and how much work arguments of a given size make.

Bounds on the schema and on the arguments alone do not bound their product: an ``enum`` of 6,000 objects against
25,000 items took five minutes (measured, within 64 and 256 KiB), and nothing can interrupt it. So each subschema
is weighed once, and arguments for which weight times size is too much are refused before they are validated.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ripieno.exceptions import SchemaInvalidity
from ripieno.jsonvalues import SCALARS
from ripieno.schemas.walking import IN_PLACE, Graph, Node, is_mapping, is_sequence

MAX_EXPANSION = 100_000
#: Work that validation may take, in units of 0.1 µs (measured, rounded up): 0.1 s.
BUDGET = 1_000_000
#: Units to compare a value with a container, and with a number; other scalars are hashed or cheap.
_CONTAINER, _NUMBER = 20, 3
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

    def times(self, size: "Weight") -> int:
        return self.value * size.value + self.character * size.character


#: The largest arguments that strict parsing lets through, at their worst.
_LARGEST = Weight(128 * 1024, 256 * 1024)
_NOTHING, _LIGHT = Weight(), Weight(1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Weights of the whole schema, of its root alone, of each property, and of whatever has no property.

    ``heavy`` is whether any arguments at all could be too much.
    """

    whole: Weight
    root: Weight
    properties: Mapping[str, Weight]
    others: Weight
    heavy: bool

    def excess(self, arguments: Mapping[str, Any]) -> str | None:
        """The argument that makes too much work, or None."""
        works = {
            name: self.properties.get(name, self.others).times(size_of(value)) for name, value in arguments.items()
        }
        own = self.root.times(Weight(1 + len(arguments), sum(map(len, arguments))))
        return max(works, key=lambda name: works[name]) if works and own + sum(works.values()) > BUDGET else None


def size_of(value: Any) -> Weight:
    """How many values and characters a JSON value has; of names, the characters."""
    values = characters = 0
    level = [value]
    while level:
        values += len(level)
        characters += sum([len(item) for item in level if type(item) is str])
        below: list[Any] = []
        for item in [item for item in level if type(item) not in SCALARS]:
            if is_mapping(item):
                characters += sum(map(len, item))
                below.extend(item.values())
            elif is_sequence(item):
                below.extend(item)
        level = below
    return Weight(values, characters)


def weigh(graph: Graph, rate: Callable[[str], int]) -> Costs:
    """Costs of a schema; ``rate`` tells what a pattern costs for each character.

    Errors: ``SchemaInvalidity`` for a schema that unfolds into too many subschemas, or into itself without
    descending into the value.
    """
    own = {node: _own(node.schema, rate) for node in graph.nodes.values()}
    for node in _ordered_in_place(graph):
        for below in node.follow(*IN_PLACE):
            own[node] = own[node].plus(own[below])
    order = _ordered(graph.root)
    _check_expansion(order)
    applied: dict[Node, _Applied] = {}
    whole = own.copy()
    for node in order:
        if node.edges:
            parts = applied[node] = _Applied.of(node, whole, applied)
            whole[node] = whole[node].at_least(parts.heaviest())
    parts = applied.get(graph.root, _Applied())
    properties = {str(name): weight.plus(parts.any_property) for name, weight in parts.properties.items()}
    return Costs(
        whole=whole[graph.root],
        root=own[graph.root],
        properties=properties,
        others=parts.any_property,
        heavy=any(
            weight.times(_LARGEST) > BUDGET for weight in {*properties.values(), parts.any_property, own[graph.root]}
        ),
    )


@dataclasses.dataclass(slots=True)
class _Applied:
    """What a subschema, with all that it applies in place, asks of the parts of a value."""

    properties: dict[str | int | None, Weight] = dataclasses.field(default_factory=dict[str | int | None, Weight])
    items: dict[str | int | None, Weight] = dataclasses.field(default_factory=dict[str | int | None, Weight])
    any_property: Weight = _NOTHING
    any_item: Weight = _NOTHING

    @classmethod
    def of(cls, node: Node, whole: Mapping[Node, Weight], applied: Mapping[Node, "_Applied"]) -> "_Applied":
        this = cls()
        for keyword, key, below in node.edges:
            if keyword in IN_PLACE:
                if below in applied:  # Otherwise it is being unfolded: a recursion, which is weighed once.
                    this._add(applied[below])
            elif keyword == "properties":
                this.properties[key] = this.properties.get(key, _NOTHING).plus(whole[below])
            elif keyword in ("patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"):
                this.any_property = this.any_property.plus(whole[below])
            elif keyword == "prefixItems" or (keyword == "items" and key is not None):
                this.items[key] = this.items.get(key, _NOTHING).plus(whole[below])
            elif keyword in ("items", "additionalItems", "contains", "unevaluatedItems"):
                this.any_item = this.any_item.plus(whole[below])
        return this

    def _add(self, other: "_Applied") -> None:
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
    if not is_mapping(schema) or schema.keys().isdisjoint(_WEIGHTY):
        return _LIGHT
    value, character = 1, 0
    if "enum" in schema or "const" in schema:
        options = [*schema.get("enum", ()), *((schema["const"],) if "const" in schema else ())]
        value += sum(_CONTAINER for option in options if isinstance(option, Mapping | tuple))
        value += _NUMBER * isinstance(schema.get("const"), int | float)
    if isinstance(pattern := schema.get("pattern"), str):
        character += rate(pattern)
    if is_mapping(patterns := schema.get("patternProperties")):
        value += len(patterns)
        character += sum(map(rate, patterns))
    if is_mapping(dependent := schema.get("dependentRequired", schema.get("dependencies"))):
        value += len(dependent)
    return Weight(value, character)


def _ordered(root: Node) -> list[Node]:
    """Every subschema after those that it leads to; where it leads back to itself, the order is broken there."""
    order: list[Node] = []
    seen = {root}
    stack = [(root, iter(root.edges))]
    while stack:
        node, edges = stack[-1]
        for _, _, below in edges:
            if below not in seen:
                seen.add(below)
                if below.edges:
                    stack.append((below, iter(below.edges)))
                    break
                order.append(below)
        else:
            order.append(node)
            stack.pop()
    return order


def _ordered_in_place(graph: Graph) -> Iterable[Node]:
    """Every subschema after those that it applies to the same value; those that apply none are left out."""
    waiting = {node: sum(1 for _ in node.follow(*IN_PLACE)) for node in graph.nodes.values() if node.edges}
    above: dict[Node, list[Node]] = {}
    for node, count in waiting.items():
        for below in node.follow(*IN_PLACE) if count else ():
            above.setdefault(below, []).append(node)
    ready = [node for node in above if not waiting.get(node)]
    for node in ready:
        for upper in above.get(node, ()):
            waiting[upper] -= 1
            if not waiting[upper]:
                ready.append(upper)
    if stuck := next((node for node, count in waiting.items() if count), None):
        raise SchemaInvalidity("The schema applies itself to the same value, without end.", pointer=stuck.pointer)
    return ready


def _check_expansion(order: Iterable[Node]) -> None:
    sizes: dict[Node, int] = {}
    for node in order:
        size = 1 + sum([sizes.get(below, 1) for _, _, below in node.edges]) if node.edges else 1
        if size > MAX_EXPANSION:
            raise SchemaInvalidity(
                f"The schema unfolds into more than {MAX_EXPANSION} subschemas.", pointer=node.pointer
            )
        sizes[node] = size
