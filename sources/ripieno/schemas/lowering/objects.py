"""Objects: unchanged if open ones are allowed; otherwise maps as lists of pairs, and free objects as JSON text."""

from collections.abc import Mapping
from typing import Any

from ripieno.jsonvalues import is_list, is_table
from ripieno.schemas.graph import Node
from ripieno.schemas.lowering.conjunctions import ANNOTATIONS, Conjunction, is_never
from ripieno.schemas.lowering.losses import Refusal
from ripieno.schemas.lowering.lowerer import SCALARS, Lowerer, either, unique

_PAIRS = "as a list of pairs {key, value}"
_TEXT = "as a text of JSON"
_CLOSED = "no other properties can be sent"
_NAME = "the provider documents that no argument may be named"


def lower_object(lowerer: Lowerer, together: Conjunction, out: dict[str, Any]) -> None:
    """Adds the keywords about objects to ``out``; those that cannot be lowered stay for the description."""
    declared = _declared(together)
    listed = [value for _, value in together.values("required") if is_list(value)]
    required = dict.fromkeys(str(name) for value in listed for name in value)
    if together.root and lowerer.dialect.names is not None:
        for node, name, _ in together.edges("properties"):
            if lowerer.dialect.names.fullmatch(str(name)) is None:  # It cannot be replaced.
                lowerer.report("properties", node, "doubtful", f"{_NAME} {name!r}")
    if not lowerer.dialect.strict:
        _lower_open(lowerer, together, out, declared, required)
        return
    rest = [below for _, _, below in together.edges("additionalProperties", "unevaluatedProperties")]
    patterns = tuple(together.edges("patternProperties"))
    closed = any(map(is_never, rest))
    if declared or (closed and not patterns) or (together.root and not rest and not patterns):
        _lower_closed(lowerer, together, out, declared, required)
    elif together.root:
        raise Refusal("additionalProperties", "", "its arguments may have any name")
    elif patterns or not all(map(_is_anything, rest)):
        _lower_map(lowerer, together, out, tuple(str(key) for _, key, _ in patterns))
    else:
        _lower_text(lowerer, together, out)


def _declared(together: Conjunction) -> dict[str, list[Node]]:
    """The subschemas of each property, from all that apply to it."""
    declared: dict[str, list[Node]] = {}
    named: dict[Node, set[str]] = {}
    for node, key, below in together.edges("properties"):
        declared.setdefault(str(key), []).append(below)
        named.setdefault(node, set()).add(str(key))
    for node, _, below in together.edges("additionalProperties"):
        if "patternProperties" not in node.schema:
            for name in declared.keys() - named.get(node, set()):
                declared[name].append(below)
    return declared


def _is_anything(node: Node) -> bool:
    schema = node.schema
    return schema is True or (is_table(schema) and schema.keys() <= ANNOTATIONS)


def _lower_open(
    lowerer: Lowerer,
    together: Conjunction,
    out: dict[str, Any],
    declared: Mapping[str, list[Node]],
    required: dict[str, None],
) -> None:
    lowered = {name: one for name, nodes in declared.items() if (one := lowerer.lower(nodes)) is not None}
    if "properties" in together:
        out["properties"] = lowered
    if lowerer.dialect.cycles == "optional":
        for name in [name for name in required if any(one in lowerer.recursive for one in declared.get(name, ()))]:
            del required[name]
            lowerer.report_all(together, "required", "dropped", f"{name} leads to itself, and may be absent here")
    if "required" in together:
        out["required"] = list(required)
    together.take("properties", "required")
    if "patternProperties" in together:
        return  # Matching properties cannot be distinguished from the others.
    rest = [below for _, _, below in together.edges("additionalProperties")]
    shut = [node for node, _, below in together.edges("unevaluatedProperties") if is_never(below)]
    if shut:
        lowerer.report_all(together, "unevaluatedProperties", "kept", "as additionalProperties")
    # Beside additionalProperties of the same schema nothing is unevaluated.
    closed = any(map(is_never, rest)) or any("additionalProperties" not in node.schema for node in shut)
    if closed:
        for node, value in together.values("additionalProperties"):
            if value is not False:
                lowerer.report("additionalProperties", node, "kept", "no other properties are allowed")
    if rest or closed:
        others = None if closed else lowerer.lower(rest)
        out["additionalProperties"] = False if others is None else others
        together.take("additionalProperties")


def _lower_closed(
    lowerer: Lowerer,
    together: Conjunction,
    out: dict[str, Any],
    declared: dict[str, list[Node]],
    required: Mapping[str, None],
) -> None:
    others = [below for _, _, below in together.edges("additionalProperties")]
    for name in required:
        declared.setdefault(name, others)
    properties: dict[str, Mapping[str, Any]] = {}
    for name, nodes in declared.items():
        lowered = lowerer.lower(nodes)
        if lowered is not None:
            optional = name not in required and lowerer.dialect.nullable
            properties[name] = lowerer.optional(lowered) if optional else lowered
        elif name in required:
            for node, value in together.values("required"):
                if name in value:
                    lowerer.report("required", node, "dropped", f"no value of {name!r} is allowed")
    out["properties"] = properties
    wanted = [name for name in properties if name in required or lowerer.dialect.nullable]
    if wanted or lowerer.dialect.nullable or "required" in together:
        out["required"] = wanted
    out["additionalProperties"] = False
    together.take("properties", "required")
    for keyword in ("additionalProperties", "unevaluatedProperties"):
        for node, value in together.values(keyword):
            if value is not False:
                lowerer.report(keyword, node, "dropped", _CLOSED)
            elif keyword == "unevaluatedProperties":
                lowerer.report(keyword, node, "kept", "as additionalProperties")
        together.take(keyword)
    lowerer.report_all(together, "patternProperties", "dropped", _CLOSED)


def _lower_text(lowerer: Lowerer, together: Conjunction, out: dict[str, Any]) -> None:
    """Lowers an object with any properties to JSON text; not if the value may itself be a text."""
    if together.textual:
        out.clear()
        lowerer.report_all(together, "type", "kept", "a text can be sent, but no object")
        return
    out["type"] = "string"
    for keyword in ("type", "properties", "additionalProperties", "unevaluatedProperties"):
        lowerer.report_all(together, keyword, "kept", _TEXT)
    together.notes.append("an object, as JSON text")


def _lower_map(lowerer: Lowerer, together: Conjunction, out: dict[str, Any], patterns: tuple[str, ...]) -> None:
    """Lowers an object with any property names to a list of pairs; not if the value may itself be a list."""
    if together.listed:
        out.clear()
        for keyword in ("type", "properties", "additionalProperties", "unevaluatedProperties", "patternProperties"):
            lowerer.report_all(together, keyword, "dropped", "a list can be sent, but no object")
        return
    rest = [below for _, _, below in together.edges("additionalProperties", "unevaluatedProperties")]
    names = [below for _, _, below in together.edges("propertyNames")]
    pairs: list[Mapping[str, Any] | None] = []
    for pattern in dict.fromkeys(patterns):
        matching = [below for _, key, below in together.edges("patternProperties") if key == pattern]
        key = Node(matching[0].pointer, {"type": "string", "pattern": pattern})
        pairs.append(_pair(lowerer, (key, *names), matching))
    if not any(map(is_never, rest)):
        pairs.append(_pair(lowerer, (Node(together.nodes[0].pointer, {"type": "string"}), *names), rest))
    forms = unique(pairs)
    out["type"] = "array"
    out["items"] = either(forms) if forms else {"type": list(SCALARS)}
    keywords = ("type", "properties", "additionalProperties", "unevaluatedProperties")
    for keyword in (*keywords, "patternProperties", "propertyNames"):
        lowerer.report_all(together, keyword, "kept", _PAIRS)
    for keyword, lowered in (("minProperties", "minItems"), ("maxProperties", "maxItems")):
        values = [value for _, value in together.values(keyword)]
        if values and lowered in lowerer.dialect.keywords and lowered not in lowerer.dialect.values:
            out[lowered] = max(values) if lowered == "minItems" else min(values)
            lowerer.report_all(together, keyword, "kept", f"as {lowered}")
    together.notes.append("a map, as pairs whose keys differ")


def _pair(lowerer: Lowerer, key: tuple[Node, ...], value: list[Node]) -> Mapping[str, Any] | None:
    keys, values = lowerer.lower(key), lowerer.lower(value)
    if keys is None or values is None:
        return None
    properties = {"key": keys, "value": values}
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
