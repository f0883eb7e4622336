"""Properties of a schema as questions to a person, and values out of what they type."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.fields import Field, fields_of

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["name", "size"],
    "properties": {
        "name": {"type": "string", "title": "Your name", "description": "As on the door"},
        "size": {"type": "integer"},
        "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "sure": {"type": "boolean"},
        "odd": True,
    },
}


def test_each_property_has_a_label_that_says_all_that_is_asked_for() -> None:
    assert [field.label for field in fields_of(SCHEMA)] == [
        "Your name (As on the door) [string]",
        "size [integer]",
        "colour [string; one of red, blue; default red]",
        "tags [array; may be left out]",
        "sure [boolean; may be left out]",
    ]


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"properties": []}, {"properties": {"a": 1}}])
def test_what_is_no_form_has_no_fields(schema: dict[str, Any]) -> None:
    assert list(fields_of(schema)) == []


@pytest.mark.parametrize(
    ("kind", "line", "value"),
    [
        ("string", "12", "12"),
        ("integer", "12", 12),
        ("integer", "twelve", "twelve"),
        ("number", "1.5", 1.5),
        ("boolean", "Yes", True),
        ("boolean", "n", False),
        ("boolean", "perhaps", "perhaps"),
        ("array", "a, b ,c", ["a", "b", "c"]),
        ("None", "x", "x"),
    ],
)
def test_what_is_typed_is_a_value_of_its_type(kind: str, line: str, value: object) -> None:
    assert Field(name="a", kind=kind, label="a").read(line) == value


@given(st.sampled_from(["string", "integer", "number", "boolean", "array"]), st.text(min_size=1))
def test_whatever_is_typed_is_read(kind: str, line: str) -> None:
    assert Field(name="a", kind=kind, label="a").read(line) is not None or line.strip() == "null"
