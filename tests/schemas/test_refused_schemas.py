"""Explanations of refused schemas: every error at its path, with the nearest correct form."""

from typing import Any

import jsonschema_rs
import pytest

from ripieno.exceptions import SchemaInvalidity
from ripieno.schemas import Schema
from ripieno.schemas.refused_schemas import explain_refusal

DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}


@pytest.mark.parametrize(
    ("schema", "path", "predicate", "hint"),
    [
        ({"type": "strng"}, "type", 'must be one or several of array, .*, not "strng"', 'Did you mean "string"?'),
        ({"type": 5}, "type", "must be one or several of .*, not 5", 'Example: type = "string".'),
        ({"type": ["string", "nul"]}, "type", 'not \\["string","nul"\\]', 'Did you mean "null"?'),
        ({"minLength": "1"}, "minLength", 'must be an integer, not "1"', "Write minLength = 1, without quotes."),
        ({"maxLength": 1.5}, "maxLength", "must be an integer, not 1.5", "Write maxLength = 2, without a point."),
        ({"minLength": -1}, "minLength", "must be at least 0, not -1", "Write 0."),
        ({"multipleOf": 0}, "multipleOf", "must be more than 0, not 0", "Write a number above 0."),
        ({"minimum": "low"}, "minimum", 'must be a number, not "low"', ""),
        ({"enum": "a"}, "enum", 'must be an array, not "a"', 'Write a list: enum = ["a"].'),
        ({"required": True}, "required", "must be an array, not true", ""),
        ({"required": ["a", "a"]}, "required", "has an item twice", "Delete one of them."),
        ({"allOf": []}, "allOf", "must have at least 1 item", "Delete the key, or write its items."),
        ({"title": 5}, "title", "must be a string, not 5", 'Write it in quotes: title = "5".'),
        ({"uniqueItems": "true"}, "uniqueItems", "must be a boolean", "Write uniqueItems = true, without quotes."),
        ({"properties": {"g": "string"}}, "g", "must be an object or a boolean", 'Write g = { type = "string" }.'),
        ({"properties": []}, "properties", "must be an object, not", "Write a table: properties = { name"),
        ({"items": ["x"]}, "items", "must be an object or a boolean", "For a schema of each place, write prefixItems."),
        ({"$anchor": "a b"}, "$anchor", "does not fit the keyword pattern of the meta-schema", ""),
        ({**DRAFT_7, "minLength": "1"}, "minLength", 'must be an integer, not "1"', "Write minLength = 1"),
    ],
)
def test_an_error_has_its_path_its_keyword_and_the_nearest_form(
    schema: dict[str, Any], path: str, predicate: str, hint: str
) -> None:
    (refusal,) = explain_refusal({**schema})
    assert refusal.path[-1] == path
    assert refusal.hint.startswith(hint)
    assert bool(refusal.hint) == bool(hint)
    with pytest.raises(AssertionError, match=predicate):
        raise AssertionError(refusal.predicate)
    # Both libraries refuse it.
    assert not jsonschema_rs.meta.is_valid(schema)
    with pytest.raises(SchemaInvalidity):
        Schema.of(schema)


def test_all_errors_are_found_once_and_large_lists_take_no_long_time() -> None:
    wrong = {f"a{number}": {"minLength": "1", "type": "x"} for number in range(10)}
    refusals = explain_refusal({"type": "object", "properties": wrong, "items": "x"})
    assert len(refusals) == len({one.path for one in refusals}) == 21
    # The library's own comparison of 40,000 items of mixed types would take hours.
    mixed = [number if number % 2 else str(number) for number in range(40_000)]
    assert len(explain_refusal({"required": mixed})) == 50
