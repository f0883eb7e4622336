"""Arrays: where places cannot be told apart, an item has any of their forms."""

from collections.abc import Mapping
from typing import Any

from ripieno.schemas.graph import Node, is_sequence
from ripieno.schemas.lowering.conjunctions import Conjunction, is_never
from ripieno.schemas.lowering.walk import SCALARS, Speaker, either, unique


def say_array(speaker: Speaker, together: Conjunction, out: dict[str, Any]) -> None:
    """The keywords about items, into ``out``."""
    places, rest = _items(together)
    others: Mapping[str, Any] | None = {}
    if rest:
        others = None if any(map(is_never, rest)) else speaker.lower(rest)
    if others is None:
        if "maxItems" in speaker.dialect.keywords:
            out["maxItems"] = len(places)
        speaker.report_all(together, "items", "kept", "as maxItems")
    if places:
        _say_places(speaker, together, out, [speaker.lower(nodes) for nodes in places], others)
    elif others or (rest and others is not None and not speaker.dialect.strict):
        out["items"] = others
    elif speaker.dialect.strict:
        if others is not None:
            where = next((node for node, _ in together.values("type")), together.nodes[0])
            speaker.report("items", where, "kept", f"as {' or '.join(SCALARS)}")
        out["items"] = {"type": list(SCALARS)}
    for node, _ in together.values("additionalItems"):
        if is_sequence(node.schema.get("items")):
            speaker.report("additionalItems", node, "kept", "as items")
            together.pending.pop((node, "additionalItems"), None)
    together.take("items", "prefixItems")


def _say_places(
    speaker: Speaker,
    together: Conjunction,
    out: dict[str, Any],
    said: list[Mapping[str, Any] | None],
    others: Mapping[str, Any] | None,
) -> None:
    if "prefixItems" not in speaker.dialect.keywords:
        forms = unique([*said, others or None])
        out["items"] = either(forms) if forms else {"type": list(SCALARS)}
        for keyword in ("prefixItems", "items"):
            speaker.report_all(together, keyword, "kept", "an item has any of the forms, at any place")
        return
    out["prefixItems"] = [one or {} for one in said]
    if others:
        out["items"] = others
    for node, value in together.values("items"):
        if is_sequence(value):
            speaker.report("items", node, "kept", "as prefixItems")


def _items(together: Conjunction) -> tuple[list[list[Node]], list[Node]]:
    """What is said of each of the first places, and of all items beyond them."""
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
        for place, said in places.items():
            if place >= counts.get(node, 0):
                said.append(below)
    return [places.get(place, []) for place in range(len(places))], rest
