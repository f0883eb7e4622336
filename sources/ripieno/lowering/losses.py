"""What a lowering gives: the schema, and what became of each keyword that is not said as it was."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from ripieno.exceptions import JsonInvalidity
from ripieno.jsonvalues import encode

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
