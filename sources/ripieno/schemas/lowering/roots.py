"""Choices at the root: every provider requires one object of named properties there, strict or not."""

from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.jsonvalues import encode, is_list, is_table
from ripieno.schemas.graph import Edge, Graph, Node
from ripieno.schemas.lowering.conjunctions import CHOICES, applied, is_never, own
from ripieno.schemas.lowering.losses import Loss, with_notes, words

#: Keywords that providers refuse at the root of any tool (from their error messages).
_REFUSED = ("allOf", *CHOICES, "not", "enum")
_ONE = "as one object with the properties of all its forms"


def plain_root(graph: Graph) -> tuple[Mapping[str, Any], tuple[Loss, ...]]:
    """The schema without choices at its root, and the losses of that."""
    root, whole = graph.root, graph.root.schema
    refused = [keyword for keyword in _REFUSED if keyword in whole]
    text = encode(whole) if refused else b""
    if not refused or root.replaced or any(f'"$ref":"#/{keyword}/'.encode() in text for keyword in refused):
        return whole, ()
    out = {keyword: value for keyword, value in whole.items() if keyword not in refused}
    parts = [united(root, keyword, tuple(root.follow(keyword))) for keyword in refused if keyword in CHOICES]
    parts += [one for one in applied(root) if one is not root] if "allOf" in refused else []
    properties: dict[str, Any] = dict(whole.get("properties", {}))
    required = dict.fromkeys(whole.get("required", ()))
    for part in parts:
        required.update(dict.fromkeys(own(part).get("required", ())))
        if whole.get("additionalProperties", True) is True:  # Otherwise it applies to the properties of forms.
            for name, schema in own(part).get("properties", {}).items():
                known = properties.setdefault(name, schema)
                properties[name] = schema if known == schema else {"allOf": [known, schema]}
    if properties:
        out["properties"] = properties
    if required:
        out["required"] = list(required)
    notes = {keyword: words(keyword, whole[keyword]) for keyword in refused if keyword != "allOf"}
    if description := with_notes(str(whole.get("description", "")), filter(None, notes.values())):
        out["description"] = description
    losses = [
        Loss(keyword=keyword, pointer="", outcome="kept", note=_ONE)
        if keyword in ("allOf", *CHOICES)
        else Loss(keyword=keyword, pointer="", outcome="moved" if notes[keyword] else "dropped")
        for keyword in refused
    ]
    return out, tuple(losses)


def united(root: Node, keyword: str, forms: Sequence[Node]) -> Node:
    """One object with the properties of all forms; it requires those that all of them require."""
    found: dict[str, list[Node]] = {}
    required: dict[str, None] | None = None
    for form in forms:
        parts = tuple(applied(form))
        if any(map(is_never, parts)):
            continue
        names: dict[str, None] = {}
        for part in parts:
            listed = own(part).get("required", ())
            names.update(dict.fromkeys(listed if is_list(listed) else ()))
            for one, key, below in part.edges:
                if one == "properties" and not part.replaced and below not in found.get(str(key), ()):
                    found.setdefault(str(key), []).append(below)
        required = names if required is None else {name: None for name in required if name in names}
    edges: list[Edge] = [("properties", name, _any_of(nodes)) for name, nodes in found.items()]
    schema = {"properties": {str(name): node.schema for _, name, node in edges}, "required": list(required or ())}
    return Node(f"{root.pointer}/{keyword}", schema, edges=edges)


def _any_of(nodes: Sequence[Node]) -> Node:
    different: list[Node] = []
    for node in nodes:
        if not any(node.schema == one.schema for one in different):
            different.append(node)
    if len(different) == 1 or not all(is_table(one.schema) for one in different):
        return different[0]
    schema = {"anyOf": [one.schema for one in different]}
    return Node(nodes[0].pointer, schema, edges=[("anyOf", index, one) for index, one in enumerate(different)])
