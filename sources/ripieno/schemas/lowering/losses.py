"""The result of a lowering: the schema, the losses, and the check of a provider's limits."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from ripieno.exceptions import JsonInvalidity
from ripieno.jsonvalues import encode, is_list, is_table
from ripieno.schemas.lowering.dialects import Limits
from ripieno.values import Value

#: Expressed in another form, moved into the description, left out, or sent although the provider documents a refusal.
Outcome = Literal["kept", "moved", "dropped", "doubtful"]

#: Characters of the longest keyword that is put into a description.
_READABLE = 160
#: Keywords that a description can express for a model.
_DESCRIBABLE = frozenset(
    {
        *("default", "examples", "example", "deprecated", "enum", "const", "format", "pattern", "multipleOf"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength"),
        *("minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains"),
        *("minProperties", "maxProperties", "propertyNames", "required", "dependentRequired", "dependencies"),
        *("dependentSchemas", "patternProperties", "additionalProperties", "not", "anyOf", "oneOf"),
        *("if", "then", "else", "contentEncoding", "contentMediaType", "unevaluatedItems", "prefixItems"),
    }
)
#: Keywords without meaning for a model; the empty one stands for subschemas that are never used.
_SILENT = frozenset({"", "$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$comment", "$vocabulary", "title"})


class Loss(Value, kw_only=True):
    """The outcome of a keyword that was not lowered unchanged. ``pointer`` leads to its subschema; ``""`` is the root.

    An empty keyword means the whole subschema. A lost keyword includes everything beneath it.
    """

    keyword: str
    pointer: str
    outcome: Outcome
    note: str = ""

    @property
    def matters(self) -> bool:
        """Whether the model lacks useful information because of this loss."""
        return self.outcome == "doubtful" or (self.outcome == "dropped" and self.keyword not in _SILENT)

    def __str__(self) -> str:
        """``#/properties/age minimum: moved (into the description)``."""
        note = f" ({self.note})" if self.note else ""
        return f"#{self.pointer} {self.keyword or 'schema'}: {self.outcome}{note}"


class Lowered(Value, kw_only=True):
    """A schema for one dialect. If that cannot express it, it is the plain schema, and ``reason`` says why.

    ``strict`` is whether a provider can enforce it.
    """

    schema: Mapping[str, Any]
    losses: tuple[Loss, ...] = ()
    strict: bool = False
    reason: str = ""


class Refusal(Exception):
    """The dialect cannot express a schema."""

    def __init__(self, keyword: str, pointer: str, reason: str) -> None:
        super().__init__(reason)
        self.loss = Loss(keyword=keyword, pointer=pointer, outcome="kept", note=f"the whole is sent plain: {reason}")
        self.reason = reason


def words(keyword: str, value: Any) -> str | None:
    """The text of a keyword in a description, ``minimum: 1``; None if it has no meaning there, or is too long."""
    if keyword not in _DESCRIBABLE:
        return None
    try:
        text = encode(value).decode()
    except JsonInvalidity:
        return None
    return f"{keyword}: {text}" if len(text) <= _READABLE and '"$ref"' not in text else None


def with_notes(description: str, notes: Iterable[str]) -> str:
    """A description with notes on what the schema cannot express."""
    added = "; ".join(dict.fromkeys(notes))
    if not added or f"({added})" in description:
        return description
    return f"{description} ({added})" if description else f"({added})"


def check_limits(schema: Mapping[str, Any], limits: Limits) -> None:
    """Checks the limits of a provider. Errors: ``Refusal``, which names the limit."""
    parts = [*_parts(schema)]
    names, definitions = ([name for one in parts for name in one.get(key, ())] for key in ("properties", "$defs"))
    enumerations = [one["enum"] for one in parts if is_list(one.get("enum"))]
    literals = [*itertools.chain(*enumerations), *(one["const"] for one in parts if "const" in one)]
    texts = [text for text in (*names, *definitions, *literals) if isinstance(text, str)]
    counts = (
        ("properties", len(names), limits.properties),
        ("levels of objects", _levels(schema), limits.levels),
        ("literals", len(literals), limits.literals),
        ("characters of names and literals", sum(map(len, texts)), limits.characters),
    )
    for what, count, most in counts:
        if count > most:
            raise Refusal("", "", f"{count} {what}, where at most {most} are accepted")
    for values in enumerations:
        characters = sum(len(one) for one in values if isinstance(one, str))
        if len(values) > limits.long and characters > limits.long_characters:
            raise Refusal("enum", "", f"an enumeration of {characters} characters, where {limits.long_characters} are")


def _parts(schema: Any) -> Iterator[Any]:
    """A lowered schema and its subschemas."""
    waiting = [schema]
    for one in waiting:
        if not is_table(one):
            continue
        yield one
        for keyword in ("properties", "$defs"):
            waiting.extend(one.get(keyword, {}).values())
        for keyword in ("anyOf", "prefixItems"):
            waiting.extend(one.get(keyword, ()))
        waiting.extend(one[keyword] for keyword in ("items", "additionalProperties") if keyword in one)


def _levels(schema: Any) -> int:
    """The nesting depth of objects; definitions count where they are defined."""
    if not is_table(schema):
        return 0
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), schema.get("items")]
    here = max(map(_levels, inner), default=0) + ("properties" in schema)
    return max(here, *map(_levels, schema.get("$defs", {}).values()), 0)
