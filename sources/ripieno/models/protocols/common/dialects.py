"""The subsets of JSON Schema that providers support, as data."""

import re
from collections.abc import Mapping

from ripieno.schemas.lowering import PLAIN, Dialect, Limits

_ENDS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})

#: Documented by OpenAI, "Structured Outputs: supported schemas"; its SDK sends no more.
OPENAI_STRICT = Dialect(
    name="openai-strict",
    strict=True,
    nullable=True,
    keywords=frozenset(
        {
            *("title", "description", "enum", "const", "pattern", "format"),
            *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
            *("minItems", "maxItems"),
        }
    ),
    formats=_ENDS,
    limits=Limits(properties=5_000, levels=10, literals=1_000, characters=120_000, long=250, long_characters=15_000),
)

#: The keywords that Anthropic's SDK leaves in a schema; more is compiled into the grammar, or refused.
ANTHROPIC_STRICT = Dialect(
    name="anthropic-strict",
    strict=True,
    keywords=frozenset({"title", "description", "enum", "const", "format", "minItems"}),
    formats=_ENDS | {"uri"},
    values={"minItems": frozenset({0, 1})},
    cycles="nowhere",
)

#: Documented by Google for ``parametersJsonSchema``; it silently ignores other keywords.
GEMINI = Dialect(
    name="gemini",
    keywords=frozenset(
        {*("title", "description", "enum", "format", "prefixItems"), *("minItems", "maxItems", "minimum", "maximum")}
    ),
    formats=_ENDS | {"uri", "byte", "int32", "int64", "float", "double", "enum"},
    literals=frozenset({"string", "integer", "number"}),
    cycles="optional",
    names=re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}"),
)

DIALECTS: Mapping[str, Dialect] = {one.name: one for one in (PLAIN, OPENAI_STRICT, ANTHROPIC_STRICT, GEMINI)}
