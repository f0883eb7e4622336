"""Defaults of a schema, put where arguments leave a property out."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from ripieno.jsonvalues import thaw
from ripieno.schemas.walking import Graph, Node, is_mapping

#: Property: its default in a tuple, or an empty tuple; and the plan of its own properties.
Plan: TypeAlias = "dict[str, tuple[tuple[Any, ...], Plan]]"


def plan_of(graph: Graph) -> Plan:
    """What to fill in, following references and ``allOf``. Empty when the schema has no defaults."""
    plans: dict[Node, Plan] = {graph.root: {}}
    waiting = [graph.root]
    for node in waiting:
        for name, below in _properties(node):
            if below not in plans:
                plans[below] = {}
                waiting.append(below)
            plans[node].setdefault(name, (_default(below), plans[below]))
    return plans[graph.root]


def fill(plan: Plan, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments with their defaults; the same object when none is missing."""
    filled: dict[str, Any] = {}
    for name, (default, inner) in plan.items():
        if name not in arguments:
            for value in default:
                filled[name] = fill(inner, thaw(value)) if is_mapping(value) else thaw(value)
        elif inner and is_mapping(value := arguments[name]) and (complete := fill(inner, value)) is not value:
            filled[name] = complete
    return {**arguments, **filled} if filled else arguments


def _all(node: Node) -> Iterator[Node]:
    """A subschema, and what holds whenever it does."""
    yield node
    for below in node.follow("$ref", "allOf"):
        yield from _all(below)


def _properties(node: Node) -> Iterator[tuple[str, Node]]:
    for one in _all(node):
        yield from ((str(key), below) for keyword, key, below in one.edges if keyword == "properties")


def _default(node: Node) -> tuple[Any, ...]:
    return next(
        ((one.schema["default"],) for one in _all(node) if is_mapping(one.schema) and "default" in one.schema), ()
    )
