"""What a lowering gives: the schema, and what became of each keyword that is not said as it was.

Whether a lowered schema is within what a provider documents.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from ripieno.exceptions import JsonInvalidity
from ripieno.jsonvalues import encode
from ripieno.schemas.graph import is_mapping, is_sequence
from ripieno.schemas.lowering.dialects import Limits

#: Said in another form, said in the description, not said, or said as it is where the provider documents to refuse it.
Outcome = Literal["kept", "moved", "dropped", "doubtful"]

#: Characters of a keyword's value, beyond which it is no help in a description.
_READABLE = 160
#: What says something to a model, in words.
_TELLING = frozenset(
    {
        *("default", "examples", "example", "deprecated", "enum", "const", "format", "pattern", "multipleOf"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength"),
        *("minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains"),
        *("minProperties", "maxProperties", "propertyNames", "required", "dependentRequired", "dependencies"),
        *("dependentSchemas", "patternProperties", "additionalProperties", "not", "anyOf", "oneOf"),
        *("if", "then", "else", "contentEncoding", "contentMediaType", "unevaluatedItems", "prefixItems"),
    }
)
#: What says nothing to a model, or stands for what is never used.
_SILENT = frozenset({"", "$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$comment", "$vocabulary", "title"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What became of one keyword. ``pointer`` leads to the subschema that has it, ``""`` is the root.

    A keyword that is empty stands for the subschema as a whole. What is beneath a lost keyword is lost with it.
    """

    keyword: str
    pointer: str
    outcome: Outcome
    note: str = ""

    @property
    def matters(self) -> bool:
        """Whether a model may not learn of it, and could have made use of it."""
        return self.outcome == "doubtful" or (self.outcome == "dropped" and self.keyword not in _SILENT)

    def __str__(self) -> str:
        """``#/properties/age minimum: moved (into the description)``."""
        note = f" ({self.note})" if self.note else ""
        return f"#{self.pointer} {self.keyword or 'schema'}: {self.outcome}{note}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """A schema for one dialect. ``reason`` is why it cannot be said there: it stands as the plain one then.

    ``strict`` is whether a provider can hold arguments to it.
    """

    schema: Mapping[str, Any]
    losses: tuple[Loss, ...] = ()
    strict: bool = False
    reason: str = ""


class Refusal(Exception):
    """A schema that a dialect cannot say at all."""

    def __init__(self, keyword: str, pointer: str, reason: str) -> None:
        super().__init__(reason)
        self.loss = Loss(keyword=keyword, pointer=pointer, outcome="kept", note=f"the whole is sent plain: {reason}")
        self.reason = reason


def words(keyword: str, value: Any) -> str | None:
    """A keyword as a description says it, ``minimum: 1``; None for what would say nothing, or too much."""
    if keyword not in _TELLING:
        return None
    try:
        text = encode(value).decode()
    except JsonInvalidity:
        return None
    return f"{keyword}: {text}" if len(text) <= _READABLE and '"$ref"' not in text else None


def told(description: str, notes: Iterable[str]) -> str:
    """A description with what the schema cannot say."""
    added = "; ".join(dict.fromkeys(notes))
    if not added or f"({added})" in description:
        return description
    return f"{description} ({added})" if description else f"({added})"


def check_limits(schema: Mapping[str, Any], limits: Limits) -> None:
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
