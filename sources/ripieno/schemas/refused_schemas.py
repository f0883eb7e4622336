"""Explanations of schemas that are not JSON Schemas. Imports jsonschema, only when there is something to explain.

The fast validator's meta-schema stops at the first error; this reports all, each with the nearest correct form. Only
meta-schemas are applied by jsonschema: a pattern or a recursion of a user's schema could keep it busy without end.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from ripieno.exceptions import nearest
from ripieno.jsonvalues import encode, is_list, is_table, thaw
from ripieno.lazy.expressions import expression
from ripieno.schemas.description import RANGES, cut, quoted, with_articles
from ripieno.schemas.validator import TYPES
from ripieno.values import Value

#: Errors of one schema that are looked at, duplicates included, and that are reported.
_READ, MAX_REFUSALS = 1_000, 50
_NUMBER = expression(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?")


class Refusal(Value, kw_only=True):
    """One error in a schema. ``path`` ends with the keyword at fault; ``predicate`` follows its name in a sentence.

    ``hint`` is the nearest correct form, or empty.
    """

    path: tuple[str | int, ...]
    predicate: str
    hint: str


def explain_refusal(schema: Mapping[str, Any]) -> tuple[Refusal, ...]:
    """The errors of a schema against the meta-schema of its dialect, at most fifty, one for each place."""
    import jsonschema

    library: Any = jsonschema  # Its types are incomplete.
    validator = library.validators.validator_for(schema, default=jsonschema.Draft202012Validator)

    def compare(_: Any, unique: Any, items: Any, __: Any) -> Iterator[Exception]:
        # The library's own comparison takes time that grows with the square of the number of items.
        if unique and is_list(items) and len({encode(one) for one in items}) < len(items):
            yield jsonschema.ValidationError("an item occurs twice")

    checker = library.validators.extend(validator, {"uniqueItems": compare})(validator.META_SCHEMA)
    found: dict[tuple[str | int, ...], Refusal] = {}
    for error in itertools.islice(checker.iter_errors(thaw(schema)), _READ):
        path = tuple(error.absolute_path)
        if path not in found:
            predicate, hint = _explain(path, str(error.validator), error.validator_value, error.instance)
            found[path] = Refusal(path=path, predicate=predicate, hint=hint)
        if len(found) == MAX_REFUSALS:
            break
    return tuple(found.values())


def _explain(path: tuple[str | int, ...], keyword: str, limit: Any, value: Any) -> tuple[str, str]:
    """The predicate and the hint for a value that a keyword of the meta-schema refuses."""
    if path[-1:] == ("type",):
        names = [one for one in (value if is_list(value) else (value,)) if one not in TYPES]
        near = nearest(str(names[0]), TYPES, 1) if names else ()
        return f"must be one or several of {', '.join(TYPES)}, not {quoted(value)}", (
            f'Did you mean "{near[0]}"?' if near else 'Example: type = "string".'
        )
    if keyword == "type":
        types = (limit,) if isinstance(limit, str) else tuple(limit)
        return f"must be {with_articles(' or '.join(types))}, not {quoted(value)}", nearest_form(
            str(path[-1]) if path else "", types, value
        )
    if keyword == "uniqueItems":
        return "has an item twice", "Delete one of them."
    if keyword in RANGES:
        bound, empty = {"minimum": f"Write {limit}.", "exclusiveMinimum": f"Write a number above {limit}."}, "minItems"
        hint = "Delete the key, or write its items." if keyword == empty else bound.get(keyword, "")
        return RANGES[keyword](limit, value)[1], hint
    return f"does not fit the keyword {keyword} of the meta-schema: {cut(quoted(limit))}", ""


def nearest_form(key: str, types: tuple[str, ...], value: Any) -> str:  # noqa: PLR0911  one for each type
    """The form of ``key = value`` that is nearest to a value of a wrong type, as a hint; empty if none is near."""
    if types == ("array",):
        return "" if is_table(value) or isinstance(value, bool) else f"Write a list: {key} = [{quoted(value)}]."
    if set(types) == {"object", "boolean"}:
        if is_list(value):
            return "For a schema of each place, write prefixItems." if key == "items" else ""
        near = nearest(value, TYPES, 1) if isinstance(value, str) else ()
        return f'Write {key} = {{ type = "{near[0]}" }}.' if near else ""
    if types == ("object",):
        return (
            f'Write a table: {key} = {{ name = {{ type = "string" }} }}.' if key == "properties" else "Write a table."
        )
    if types == ("string",):
        return (
            ""
            if is_table(value) or is_list(value)
            else f'Write it in quotes: {key} = "{quoted(value).strip(chr(34))}".'
        )
    if isinstance(value, str) and (value in ("true", "false") if types == ("boolean",) else _NUMBER.fullmatch(value)):
        return f"Write {key} = {value}, without quotes."
    if isinstance(value, float) and types == ("integer",):
        return f"Write {key} = {round(value)}, without a point."
    return ""
