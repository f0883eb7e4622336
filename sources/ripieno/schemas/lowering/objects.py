"""Objects: open ones as they are; where all must be closed, maps as lists of pairs and free ones as JSON text."""

import re
from collections.abc import Mapping
from typing import Any

from ripieno.schemas.graph import Node, is_mapping, is_sequence
from ripieno.schemas.lowering.conjunctions import ANNOTATIONS, Conjunction, is_never
from ripieno.schemas.lowering.losses import Refusal
from ripieno.schemas.lowering.walk import SCALARS, Speaker, either, unique

_PAIRS = "as a list of pairs {key, value}"
_TEXT = "as a text of JSON"
_CLOSED = "no other properties can be sent"
_NAME = "the provider documents that no argument may be named"


def say_object(speaker: Speaker, together: Conjunction, out: dict[str, Any]) -> None:
    """The keywords about objects, into ``out``; what cannot be said is left for the description."""
    declared = _declared(together)
    required = _required(together)
    if together.root and speaker.dialect.names is not None:
        _doubt_names(speaker, together, speaker.dialect.names)
    if not speaker.dialect.strict:
        _say_open(speaker, together, out, declared, required)
        return
    rest = [below for _, _, below in together.edges("additionalProperties", "unevaluatedProperties")]
    patterns = tuple(together.edges("patternProperties"))
    closed = any(map(is_never, rest))
    if declared or (closed and not patterns) or (together.root and not rest and not patterns):
        _say_closed(speaker, together, out, declared, required)
    elif together.root:
        raise Refusal("additionalProperties", "", "its arguments may have any name")
    elif patterns or not all(map(_is_anything, rest)):
        _say_map(speaker, together, out, tuple(str(key) for _, key, _ in patterns))
    else:
        _say_text(speaker, together, out)


def _declared(together: Conjunction) -> dict[str, list[Node]]:
    """What is said of each property, by all subschemas that have a word about it."""
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


def _required(together: Conjunction) -> dict[str, None]:
    listed = [value for _, value in together.values("required") if is_sequence(value)]
    return dict.fromkeys(str(name) for value in listed for name in value)


def _doubt_names(speaker: Speaker, together: Conjunction, names: re.Pattern[str]) -> None:
    """Arguments are sent under their own names: nothing could tell which one another name stands for."""
    for node, name, _ in together.edges("properties"):
        if names.fullmatch(str(name)) is None:
            speaker.report("properties", node, "doubtful", f"{_NAME} {name!r}")


def _is_anything(node: Node) -> bool:
    schema = node.schema
    return schema is True or (is_mapping(schema) and schema.keys() <= ANNOTATIONS)


def _say_open(
    speaker: Speaker,
    together: Conjunction,
    out: dict[str, Any],
    declared: Mapping[str, list[Node]],
    required: dict[str, None],
) -> None:
    said = {name: one for name, nodes in declared.items() if (one := speaker.lower(nodes)) is not None}
    if "properties" in together:
        out["properties"] = said
    if speaker.dialect.cycles == "optional":
        for name in [name for name in required if any(one in speaker.recursive for one in declared.get(name, ()))]:
            del required[name]
            speaker.report_all(together, "required", "dropped", f"{name} leads to itself, and may be absent here")
    if "required" in together:
        out["required"] = list(required)
    together.take("properties", "required")
    if "patternProperties" in together:
        return  # Those that match are not told from the others.
    rest = [below for _, _, below in together.edges("additionalProperties")]
    shut = [node for node, _, below in together.edges("unevaluatedProperties") if is_never(below)]
    if shut:
        speaker.report_all(together, "unevaluatedProperties", "kept", "as additionalProperties")
    # Beside additionalProperties of the same schema nothing is unevaluated.
    closed = any(map(is_never, rest)) or any("additionalProperties" not in node.schema for node in shut)
    if closed:
        for node, value in together.values("additionalProperties"):
            if value is not False:
                speaker.report("additionalProperties", node, "kept", "no other properties are allowed")
    if rest or closed:
        others = None if closed else speaker.lower(rest)
        out["additionalProperties"] = False if others is None else others
        together.take("additionalProperties")


def _say_closed(
    speaker: Speaker,
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
        said = speaker.lower(nodes)
        if said is not None:
            properties[name] = said if name in required or not speaker.dialect.nullable else speaker.optional(said)
    out["properties"] = properties
    wanted = [name for name in properties if name in required or speaker.dialect.nullable]
    if wanted or speaker.dialect.nullable or "required" in together:
        out["required"] = wanted
    out["additionalProperties"] = False
    together.take("properties", "required")
    for keyword in ("additionalProperties", "unevaluatedProperties"):
        for node, value in together.values(keyword):
            if value is not False:
                speaker.report(keyword, node, "dropped", _CLOSED)
            elif keyword == "unevaluatedProperties":
                speaker.report(keyword, node, "kept", "as additionalProperties")
        together.take(keyword)
    speaker.report_all(together, "patternProperties", "dropped", _CLOSED)


def _say_text(speaker: Speaker, together: Conjunction, out: dict[str, Any]) -> None:
    """An object with whatever properties, as text; where a text may be one by itself, not at all."""
    if together.textual:
        out.clear()
        speaker.report_all(together, "type", "kept", "a text can be sent, and no object")
        return
    out["type"] = "string"
    for keyword in ("type", "properties", "additionalProperties", "unevaluatedProperties"):
        speaker.report_all(together, keyword, "kept", _TEXT)
    together.notes.append("an object, as JSON text")


def _say_map(speaker: Speaker, together: Conjunction, out: dict[str, Any], patterns: tuple[str, ...]) -> None:
    """An object whose properties have any name, as a list of pairs; where a list may be one by itself, not at all."""
    if together.listed:
        out.clear()
        for keyword in ("type", "properties", "additionalProperties", "unevaluatedProperties", "patternProperties"):
            speaker.report_all(together, keyword, "dropped", "a list can be sent, and no object")
        return
    rest = [below for _, _, below in together.edges("additionalProperties", "unevaluatedProperties")]
    names = [below for _, _, below in together.edges("propertyNames")]
    pairs: list[Mapping[str, Any] | None] = []
    for pattern in dict.fromkeys(patterns):
        matching = [below for _, key, below in together.edges("patternProperties") if key == pattern]
        key = Node(matching[0].pointer, {"type": "string", "pattern": pattern})
        pairs.append(_pair(speaker, (key, *names), matching))
    if not any(map(is_never, rest)):
        pairs.append(_pair(speaker, (Node(together.nodes[0].pointer, {"type": "string"}), *names), rest))
    forms = unique(pairs)
    out["type"] = "array"
    out["items"] = either(forms) if forms else {"type": list(SCALARS)}
    keywords = ("type", "properties", "additionalProperties", "unevaluatedProperties")
    for keyword in (*keywords, "patternProperties", "propertyNames"):
        speaker.report_all(together, keyword, "kept", _PAIRS)
    for keyword, said in (("minProperties", "minItems"), ("maxProperties", "maxItems")):
        values = [value for _, value in together.values(keyword)]
        if values and said in speaker.dialect.keywords and said not in speaker.dialect.values:
            out[said] = max(values) if said == "minItems" else min(values)
            speaker.report_all(together, keyword, "kept", f"as {said}")
    together.notes.append("a map, as pairs whose keys differ")


def _pair(speaker: Speaker, key: tuple[Node, ...], value: list[Node]) -> Mapping[str, Any] | None:
    keys, values = speaker.lower(key), speaker.lower(value)
    if keys is None or values is None:
        return None
    properties = {"key": keys, "value": values}
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
