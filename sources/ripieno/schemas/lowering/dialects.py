"""What the readers of schemas understand, as data. The dialects of wires stand with these."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Literal

#: Whether a schema may refer to itself: anywhere, only below properties that may be absent, or nowhere.
Cycles = Literal["anywhere", "optional", "nowhere"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one schema may have. ``characters`` are those of names and literals together.

    An enumeration of more than ``long`` texts has at most ``long_characters`` of them.
    """

    properties: int
    levels: int
    literals: int
    characters: int
    long: int
    long_characters: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What one reader of schemas understands beside types, objects, arrays, ``anyOf`` and ``$ref``.

    ``strict`` is whether objects are closed and every value has a type; ``nullable`` whether every property must be
    sent, so that those that may be absent are null instead. ``values`` are those that a keyword is limited to;
    ``literals`` the types that an enumeration may have. ``names`` is what the whole name of an argument must match.
    """

    name: str
    strict: bool = False
    nullable: bool = False
    keywords: frozenset[str] = frozenset()
    formats: frozenset[str] = frozenset()
    literals: frozenset[str] = frozenset({"string", "integer", "number", "boolean", "null"})
    values: Mapping[str, frozenset[object]] = dataclasses.field(default_factory=dict[str, frozenset[object]])
    cycles: Cycles = "anywhere"
    limits: Limits | None = None
    names: re.Pattern[str] | None = None


#: A schema as it is, but for its root: providers refuse choices there, strict or not.
PLAIN = Dialect(name="plain")
