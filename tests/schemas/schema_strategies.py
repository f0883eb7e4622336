"""Schemas and instances for laws: small enough to meet, within what both validators understand alike.

Left out is what they understand differently on purpose: ``$`` and classes in regular expressions, formats,
``multipleOf`` of fractions (measured), references that repeat without descending.
"""

from typing import Any

from hypothesis import strategies as st

NAMES = ("a", "b", "c", "é")
names = st.sampled_from(NAMES)
scalars = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, -2.5, 10**30, "", "a", "ab", "éé"])
)
instances = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4), max_leaves=12
)
arguments = st.dictionaries(names, instances, max_size=4)
_types = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
_counts = st.integers(0, 3)
_numbers = st.integers(-3, 3) | st.sampled_from([0.5, 10**30])
_patterns = st.sampled_from(["^a", "b+", "^[ab]*b", "é", "", "(a|b){2}"])
_leaves: dict[str, st.SearchStrategy[Any]] = {
    "type": _types | st.lists(_types, min_size=1, max_size=3, unique=True),
    "enum": st.lists(instances, min_size=1, max_size=4),
    "const": instances,
    "minimum": _numbers,
    "maximum": _numbers,
    "exclusiveMinimum": _numbers,
    "exclusiveMaximum": _numbers,
    "multipleOf": st.integers(1, 3),
    "minLength": _counts,
    "maxLength": _counts,
    "pattern": _patterns,
    "minItems": _counts,
    "maxItems": _counts,
    "uniqueItems": st.booleans(),
    "minProperties": _counts,
    "maxProperties": _counts,
    "required": st.lists(names, max_size=2, unique=True),
    "dependentRequired": st.dictionaries(names, st.lists(names, max_size=2, unique=True), max_size=2),
    "default": instances,
}


def _nodes(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, min_size=1, max_size=3)
    tables = st.dictionaries(names, inner, max_size=3)
    composed = {
        **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), lists),
        **dict.fromkeys(("properties", "dependentSchemas"), tables),
        **dict.fromkeys(("not", "if", "then", "else", "items", "contains", "propertyNames"), inner),
        **dict.fromkeys(("additionalProperties", "unevaluatedProperties", "unevaluatedItems"), inner),
        "patternProperties": st.dictionaries(_patterns, inner, max_size=2),
        "minContains": _counts,
        "maxContains": _counts,
    }
    return _some({**_leaves, **composed}, 4)


def _some(keywords: dict[str, st.SearchStrategy[Any]], most: int) -> st.SearchStrategy[dict[str, Any]]:
    chosen = st.lists(st.sampled_from(sorted(keywords)), max_size=most, unique=True)
    return chosen.flatmap(lambda picked: st.fixed_dictionaries({keyword: keywords[keyword] for keyword in picked}))


_references = st.sampled_from([{"$ref": f"#/$defs/{name}"} for name in ("0", "1")])
subschemas = st.recursive(_some(_leaves, 3) | st.booleans() | _references, _nodes, max_leaves=8)


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    """A schema of an object, whose definitions descend before they repeat."""
    root = draw(_nodes(subschemas))
    root["type"] = "object"
    root["$defs"] = {
        "0": draw(_some(_leaves, 2)) | {"properties": {"a": draw(subschemas)}},
        "1": draw(_some(_leaves, 2)) | {"items": {"$ref": "#/$defs/0"}},
    }
    return root
