"""Whether a lowered schema is within what a provider documents."""

from collections.abc import Iterator, Mapping
from typing import Any

from ripieno.lowering.dialects import Limits
from ripieno.lowering.losses import Refusal
from ripieno.schemas.walking import is_mapping, is_sequence


def check(schema: Mapping[str, Any], limits: Limits) -> None:
    """Errors: ``Refusal``, which names the limit."""
    names = [*_names(schema, "properties")]
    literals = [*_literals(schema)]
    texts = [text for text in (*names, *_names(schema, "$defs"), *literals) if isinstance(text, str)]
    counts = (
        ("properties", len(names), limits.properties),
        ("levels of objects", _levels(schema), limits.levels),
        ("literals", len(literals), limits.literals),
        ("characters of names and literals", sum(map(len, texts)), limits.characters),
    )
    for what, count, most in counts:
        if count > most:
            raise Refusal("", "", f"{count} {what}, where at most {most} are accepted")
    for values in _enumerations(schema):
        characters = sum(len(one) for one in values if isinstance(one, str))
        if len(values) > limits.long and characters > limits.long_characters:
            raise Refusal("enum", "", f"an enumeration of {characters} characters, where {limits.long_characters} are")


def _parts(schema: Any) -> Iterator[Any]:
    """The schema and its subschemas; a lowered one has no others than these."""
    waiting = [schema]
    for one in waiting:
        if not is_mapping(one):
            continue
        yield one
        for keyword in ("properties", "$defs"):
            waiting.extend(one.get(keyword, {}).values())
        for keyword in ("anyOf", "prefixItems"):
            waiting.extend(one.get(keyword, ()))
        waiting.extend(one[keyword] for keyword in ("items", "additionalProperties") if keyword in one)


def _names(schema: Mapping[str, Any], keyword: str) -> Iterator[str]:
    for one in _parts(schema):
        yield from one.get(keyword, ())


def _enumerations(schema: Mapping[str, Any]) -> Iterator[Any]:
    return (one["enum"] for one in _parts(schema) if is_sequence(one.get("enum")))


def _literals(schema: Mapping[str, Any]) -> Iterator[Any]:
    for values in _enumerations(schema):
        yield from values
    yield from (one["const"] for one in _parts(schema) if "const" in one)


def _levels(schema: Any) -> int:
    """How deep objects stand in objects; what is referred to counts where it is defined."""
    if not is_mapping(schema):
        return 0
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), schema.get("items")]
    here = max(map(_levels, inner), default=0) + ("properties" in schema)
    return max(here, *map(_levels, schema.get("$defs", {}).values()), 0)
