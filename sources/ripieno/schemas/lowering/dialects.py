"""Dialects: the parts of JSON Schema that a provider understands, as data. Each wire defines its own."""

import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from ripieno.values import Value

#: Whether a schema may refer to itself: anywhere, only below properties that may be absent, or nowhere.
Cycles = Literal["anywhere", "optional", "nowhere"]


class Limits(Value, kw_only=True):
    """Limits of one schema. ``characters`` are those of names and literals together.

    An enumeration of more than ``long`` texts may have at most ``long_characters`` characters.
    """

    properties: int
    levels: int
    literals: int
    characters: int
    long: int
    long_characters: int


class Dialect(Value, kw_only=True):
    """The supported keywords beside types, objects, arrays, ``anyOf`` and ``$ref``.

    ``strict``: objects are closed and every value has a type. ``nullable``: every property must be sent, so optional
    ones may be null. ``values`` limits the values of a keyword; ``literals`` are the types of enumerations. The whole
    name of an argument must match ``names``.
    """

    name: str
    strict: bool = False
    nullable: bool = False
    keywords: frozenset[str] = frozenset()
    formats: frozenset[str] = frozenset()
    literals: frozenset[str] = frozenset({"string", "integer", "number", "boolean", "null"})
    values: Mapping[str, frozenset[object]] = msgspec.field(default_factory=dict[str, frozenset[object]])
    cycles: Cycles = "anywhere"
    limits: Limits | None = None
    names: re.Pattern[str] | None = None


#: Every keyword, without choices at the root: providers refuse those, strict or not.
PLAIN = Dialect(name="plain")
