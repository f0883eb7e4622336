"""Instances of lowered schemas, and whether a loss report explains what an instance violates.

What is said as it is explains nothing, though it may be refused.
"""

import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import jsonschema

from ripieno.schemas import Schema
from ripieno.schemas.graph import escaped
from ripieno.schemas.lowering import Loss

_WORDS = ("a", "b", "ab", "", "béé", "abab", "1", "{}", "[1]", "null")
_NUMBERS = (0, 1, 2, 3, -1, -3, 0.5, 10**30)
_DEEPEST = 8


def instance(schema: Any, root: Mapping[str, Any], chance: random.Random, depth: int = 0) -> Any:  # noqa: PLR0911  one line a kind
    """A value that probably fits a lowered schema: it has no more keywords than the dialects have."""
    if isinstance(schema, bool) or not schema:
        return chance.choice([*_WORDS, *_NUMBERS, None, True])
    if "$ref" in schema:
        return instance(pointed(root, schema["$ref"][1:]), root, chance, depth + 1)
    if "anyOf" in schema:
        # What ends stands last more often than not.
        forms = schema["anyOf"]
        return instance(forms[-1] if depth > _DEEPEST else chance.choice(forms), root, chance, depth + 1)
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else chance.choice(schema["enum"])
    types = schema.get("type", ["string", "integer", "object", "array"])
    kind = chance.choice([types] if isinstance(types, str) else list(types))
    if kind == "object":
        return _object(schema, root, chance, depth)
    if kind == "array":
        return _array(schema, root, chance, depth)
    if kind in ("integer", "number"):
        limits = [schema[key] for key in ("minimum", "maximum") if key in schema]
        steps = {"exclusiveMinimum": 1, "exclusiveMaximum": -1}
        limits += [schema[key] + step for key, step in steps.items() if key in schema]
        values = [*limits, *_NUMBERS, schema.get("multipleOf", 1)]
        return chance.choice([one for one in values if kind == "number" or one == one // 1])
    return {"null": None, "boolean": chance.random() < 0.5}.get(kind, chance.choice(_WORDS))


def _object(schema: Mapping[str, Any], root: Mapping[str, Any], chance: random.Random, depth: int) -> dict[str, Any]:
    required = schema.get("required", ())
    rare = 0.1 if depth > _DEEPEST else 0.6
    made = {
        name: instance(one, root, chance, depth + 1)
        for name, one in schema.get("properties", {}).items()
        if name in required or chance.random() < rare
    }
    others = schema.get("additionalProperties", True)
    if others is not False and chance.random() < 0.3 and depth < _DEEPEST:
        made.setdefault(chance.choice(("a", "b", "other")), instance(others, root, chance, depth + 1))
    return made


def _array(schema: Mapping[str, Any], root: Mapping[str, Any], chance: random.Random, depth: int) -> list[Any]:
    first = [instance(one, root, chance, depth + 1) for one in schema.get("prefixItems", ())]
    least, most = schema.get("minItems", 0), schema.get("maxItems", 3)
    count = min(max(least, 0 if depth > _DEEPEST else chance.randint(0, 3)), max(most, least))
    rest = [instance(schema.get("items", True), root, chance, depth + 1) for _ in range(max(0, count - len(first)))]
    return [*first, *rest][: max(count, least)]


def nearest(schema: Schema, value: Any) -> Any:
    """The value as it is coerced. One that stays refused is coerced all the same, to see what else is wrong with it."""
    if not schema.validate(value):
        return value
    coerced = schema.coerce(value)
    assert coerced is value or not schema.validate(coerced)
    return schema._compiled.coerce(value) if coerced is value else coerced


def pointed(root: Any, pointer: str) -> Any:
    """What a JSON pointer leads to."""
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        root = root[int(key)] if isinstance(root, list) else root[key]
    return root


def violations(schema: Mapping[str, Any], value: Any) -> Iterator[jsonschema.ValidationError]:
    """What another validator finds."""
    return jsonschema.Draft202012Validator(schema).iter_errors(value)


def is_explained(error: jsonschema.ValidationError, schema: Any, losses: Iterable[Loss]) -> bool:
    """Whether a loss was reported for what is violated, or for something that it is part of."""
    reported = {(loss.pointer, loss.keyword) for loss in losses if loss.outcome != "doubtful"}
    pointer = ""
    for token in error.absolute_schema_path:
        # The other validator leaves references out of its paths.
        while str(token) not in (here := pointed(schema, pointer)) and isinstance(here, dict) and "$ref" in here:
            pointer = here["$ref"][1:]
        if (pointer, str(token)) in reported or (pointer, "") in reported:
            return True
        pointer += f"/{escaped(token)}"
    if error.validator is None:
        # What is false there has no path of its own, in the schema or in the value: a branch, or one of the properties.
        beneath = pointed(schema, pointer)
        named = beneath.items() if isinstance(beneath, dict) else ()
        false = {(f"{pointer}/{escaped(key)}", "") for key, one in named if one is False}
        if not reported.isdisjoint({(pointer, "then"), (pointer, "else")}) or (false and false <= reported):
            return True
    return (pointer, "") in reported or any(is_explained(one, schema, losses) for one in error.context or ())


def keywords(schema: Mapping[str, Any], *, vacuous: bool = True) -> Iterator[tuple[str, str]]:
    """All keywords of a schema, under the pointers of the subschemas that have them.

    Without ``vacuous``, an empty ``items`` is left out: any item fits it, as without it.
    """
    waiting: list[tuple[str, Any]] = [("", schema)]
    for pointer, one in waiting:
        for keyword, value in one.items() if isinstance(one, Mapping) else ():
            if vacuous or keyword != "items" or value not in ({}, True):
                yield pointer, keyword
            below = f"{pointer}/{keyword}"
            if keyword in ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"):
                waiting += [(f"{below}/{escaped(name)}", part) for name, part in value.items()]
            elif keyword in ("anyOf", "oneOf", "allOf", "prefixItems") or (
                keyword == "items" and isinstance(value, list)
            ):
                waiting += [(f"{below}/{place}", part) for place, part in enumerate(value)]
            elif keyword in ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"):
                waiting.append((below, value))


def is_accounted(pointer: str, keyword: str, lowered: Mapping[str, Any], losses: Iterable[Loss]) -> bool:
    """Whether a keyword of the original is in the lowered schema, or it, or what holds it, is in the report."""
    if keyword in ("$defs", "definitions") or any(keyword == known for _, known in keywords(lowered)):
        return True  # Each definition is accounted for by itself.
    place = f"{pointer}/{keyword}"
    lost = [one for one in losses if one.outcome != "doubtful"]
    return any(place == f"{one.pointer}/{one.keyword}" or place.startswith(_beneath(one)) for one in lost)


def _beneath(loss: Loss) -> str:
    return f"{loss.pointer}/{loss.keyword}/" if loss.keyword else f"{loss.pointer}/"
