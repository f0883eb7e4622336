"""Short descriptions of schemas and values for a model."""

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from ripieno.jsonvalues import encode, is_list, is_table
from ripieno.lazy.expressions import expression
from ripieno.schemas.graph import REFERENCES, Node
from ripieno.values import Value

Code = Literal["missing_required", "invalid_type", "out_of_range", "unknown_parameter", "invalid_value"]

#: Characters of a quoted value, and of an expectation.
_QUOTED, _EXPECTED = 80, 160
#: Alternatives that an expectation names.
_NAMED = 12
_PLAIN_NAME = expression(r"[A-Za-z_][A-Za-z0-9_-]{0,79}")


class SchemaProblem(Value, kw_only=True):
    """One problem of arguments with their schema. ``message`` is for the model that sent them.

    ``parameter`` is a path such as ``paths[2].name``, empty for the arguments as a whole; ``expected`` describes
    what fits.
    """

    code: Code
    parameter: str
    message: str
    expected: str = ""


def problem_of(code: Code, place: str, predicate: str, expected: str) -> SchemaProblem:
    """A problem whose message begins with its place."""
    label = f"`{place}`" if place else "The arguments object"
    return SchemaProblem(code=code, parameter=place, message=f"{label} {predicate}", expected=expected)


def beneath(place: str, key: str | int) -> str:
    """The path of a part: ``paths``, ``paths[2]``, ``paths[2].name``, ``paths["odd name"]``."""
    if isinstance(key, str) and _PLAIN_NAME.fullmatch(key):
        return f"{place}.{key}" if place else key
    return f"{place}[{quoted(key)}]"


def quoted(value: object) -> str:
    """A value as JSON, cut at 80 characters."""
    return cut(encode(value[: _QUOTED + 1] if isinstance(value, str) else value).decode(), _QUOTED)


def cut(text: str, length: int = _EXPECTED) -> str:
    """At most ``length`` characters, with an ellipsis if the text is cut."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def type_of(value: object) -> str:
    """The JSON type of a value, by its JSON name."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    if isinstance(value, int | float):
        return "integer" if value == value // 1 else "number"
    if isinstance(value, str):
        return "string"
    return "object" if is_table(value) else "array"


_ARTICLES = {
    **{name: f"an {name}" for name in ("integer", "object", "array")},
    **{name: f"a {name}" for name in ("string", "number", "boolean")},
    "null": "null",
}


def with_articles(types: str) -> str:
    """``an integer or an array of string``, for ``integer or array of string``; other expectations unchanged."""
    parts = types.split(" or ")
    return " or ".join(f"an {one}" if one.startswith("array of ") else _ARTICLES.get(one, one) for one in parts)


def expectation(node: Node, levels: int = 2) -> str:
    """The expectation of a subschema: ``integer``, ``one of "a", "b"``, ``array of string``; empty if unknown."""
    schema = node.schema
    if not is_table(schema):
        return "" if schema else "nothing"
    if "const" in schema or "enum" in schema:
        return quoted(schema["const"]) if "const" in schema else constraint("enum", schema["enum"])
    types = types_of(schema)
    if types == ("array",) and levels:
        item = next((expectation(below, levels - 1) for below in node.follow("items")), "")
        return f"array of {item}" if item else "array"
    if types or not levels:
        return " or ".join(types)
    alternatives = itertools.islice(node.follow(*REFERENCES, "anyOf", "oneOf"), _NAMED)
    parts = [expectation(below, levels - 1) for below in alternatives]
    return joined(parts) if all(parts) else ""


def joined(expectations: Iterable[str]) -> str:
    """Alternatives, each once."""
    return cut(" or ".join(dict.fromkeys(one for one in expectations if one)))


def types_of(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """The types in a schema's own ``type``."""
    types = schema.get("type", ())
    return (types,) if isinstance(types, str) else tuple(types)


def _counted(amount: str, unit: str, many: str) -> Callable[[Any, Any], tuple[str, str]]:
    def describe(limit: Any, value: Any) -> tuple[str, str]:
        expected = f"{amount} {quoted(limit)} {unit if limit == 1 else many}"
        return expected, f"must have {expected}; there are {len(value)}"

    return describe


def _compared(relation: str) -> Callable[[Any, Any], tuple[str, str]]:
    def describe(limit: Any, value: Any) -> tuple[str, str]:
        expected = f"{relation} {quoted(limit)}"
        return expected, f"must be {expected}, not {quoted(value)}"

    return describe


#: For each keyword with a limit, a function from the limit and the value to an expectation and a predicate.
RANGES: Mapping[str, Callable[[Any, Any], tuple[str, str]]] = {
    "minimum": _compared("at least"),
    "maximum": _compared("at most"),
    "exclusiveMinimum": _compared("more than"),
    "exclusiveMaximum": _compared("less than"),
    "minLength": _counted("at least", "character", "characters"),
    "maxLength": _counted("at most", "character", "characters"),
    "minItems": _counted("at least", "item", "items"),
    "maxItems": _counted("at most", "item", "items"),
    "minProperties": _counted("at least", "property", "properties"),
    "maxProperties": _counted("at most", "property", "properties"),
}


def constraint(keyword: str, limit: Any) -> str:
    """The expectation of a keyword that is neither a type nor a range; ``limit`` is its value in the schema."""
    if keyword == "enum" and is_list(limit):
        return cut(f"one of {', '.join(map(quoted, limit[:_EXPECTED]))}")
    words = {
        "const": "",
        "multipleOf": "a multiple of ",
        "pattern": "text that matches the regular expression ",
        "uniqueItems": "an array whose items all differ",
        "contentEncoding": "text encoded as ",
        "contentMediaType": "text of the type ",
    }.get(keyword)
    if words is None:
        return ""
    if keyword == "uniqueItems":
        return words
    return words + (cut(limit, _QUOTED) if keyword == "pattern" else quoted(limit))
