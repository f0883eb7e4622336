"""Arrays: if the dialect has no ``prefixItems``, an item has any of the forms."""

from collections.abc import Mapping
from typing import Any

from ripieno.jsonvalues import is_list
from ripieno.schemas.graph import Node
from ripieno.schemas.lowering.conjunctions import Conjunction, is_never
from ripieno.schemas.lowering.lowerer import SCALARS, Lowerer, either, unique


def lower_array(lowerer: Lowerer, together: Conjunction, out: dict[str, Any]) -> None:
    """Adds the keywords about items to ``out``."""
    places, rest = _items(together)
    others: Mapping[str, Any] | None = {}
    if rest:
        others = None if any(map(is_never, rest)) else lowerer.lower(rest)
    if others is None:
        if "maxItems" in lowerer.dialect.keywords:
            out["maxItems"] = len(places)
        lowerer.report_all(together, "items", "kept", "as maxItems")
    if places:
        _lower_places(lowerer, together, out, [lowerer.lower(nodes) for nodes in places], others)
    elif others or (rest and others is not None and not lowerer.dialect.strict):
        out["items"] = others
    elif lowerer.dialect.strict:
        if others is not None:
            where = next((node for node, _ in together.values("type")), together.nodes[0])
            lowerer.report("items", where, "kept", f"as {' or '.join(SCALARS)}")
        out["items"] = {"type": list(SCALARS)}
    for node, _ in together.values("additionalItems"):
        if is_list(node.schema.get("items")):
            lowerer.report("additionalItems", node, "kept", "as items")
            together.pending.pop((node, "additionalItems"), None)
    together.take("items", "prefixItems")


def _lower_places(
    lowerer: Lowerer,
    together: Conjunction,
    out: dict[str, Any],
    lowered: list[Mapping[str, Any] | None],
    others: Mapping[str, Any] | None,
) -> None:
    if "prefixItems" not in lowerer.dialect.keywords:
        forms = unique([*lowered, others or None])
        out["items"] = either(forms) if forms else {"type": list(SCALARS)}
        for keyword in ("prefixItems", "items"):
            lowerer.report_all(together, keyword, "kept", "an item has any of the forms, at any place")
        return
    out["prefixItems"] = [one or {} for one in lowered]
    if None in lowered:
        for keyword in ("prefixItems", "items"):
            lowerer.report_all(together, keyword, "dropped", f"no item is allowed at place {lowered.index(None)}")
    if others:
        out["items"] = others
    for node, value in together.values("items"):
        if is_list(value):
            lowerer.report("items", node, "kept", "as prefixItems")


def _items(together: Conjunction) -> tuple[list[list[Node]], list[Node]]:
    """The subschemas of each of the first places, and of all items after them."""
    places: dict[int, list[Node]] = {}
    counts: dict[Node, int] = {}
    for node, key, below in together.edges("prefixItems", "items"):
        if isinstance(key, int):
            places.setdefault(key, []).append(below)
            counts[node] = max(counts.get(node, 0), key + 1)
    rest: list[Node] = []
    beyond = [(node, below) for node, key, below in together.edges("items") if key is None]
    beyond += [(node, below) for node, _, below in together.edges("additionalItems") if node in counts]
    for node, below in beyond:
        rest.append(below)
        for place, lowered in places.items():
            if place >= counts.get(node, 0):
                lowered.append(below)
    return [places.get(place, []) for place in range(len(places))], rest
