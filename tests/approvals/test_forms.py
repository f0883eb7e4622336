"""Properties of a schema as questions to a person, and values out of what they type."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.approvals.forms import Field, fields_of

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
        "tags [several, separated by commas; optional]",
        "sure [yes or no; optional]",
    ]


TITLED = [{"const": "eu", "title": "Europe"}, {"const": "us", "title": "America"}]


@pytest.mark.parametrize(
    ("schema", "label"),
    [
        ({"type": "string", "oneOf": TITLED}, "string; one of eu (Europe), us (America)"),
        ({"type": "string", "enum": ["a", "b"], "enumNames": ["A!", "b"]}, "string; one of a (A!), b"),
        (
            {"type": "array", "items": {"anyOf": TITLED}, "minItems": 1, "maxItems": 2},
            "several of eu (Europe), us (America), separated by commas; 1 to 2 of them",
        ),
        (
            {"type": "array", "items": {"type": "string"}, "default": ("a", "b")},
            "several, separated by commas; default a, b",
        ),
        ({"type": "boolean", "default": False}, "yes or no; default no"),
        ({"type": "integer", "minimum": 1, "maximum": 5}, "integer; 1 to 5"),
        ({"type": "number", "exclusiveMinimum": 0, "default": 1.5}, "number; above 0; default 1.5"),
        ({"type": "string", "minLength": 1}, "string; at least 1 character"),
        ({"type": "string", "maxLength": 9}, "string; at most 9 characters"),
        ({"type": "string", "format": "date"}, "string; a date, such as 2026-01-31"),
        ({"type": "string", "format": "color"}, "string; color"),
    ],
)
def test_a_label_says_what_may_be_typed(schema: dict[str, Any], label: str) -> None:
    (field,) = fields_of({"properties": {"it": schema}, "required": ["it"]})
    assert field.label == f"it [{label}]"


@pytest.mark.parametrize(
    ("schema", "line", "words"),
    [
        ({"type": "integer"}, "abc", "It must be an integer"),
        ({"type": "integer"}, "[" * 4000, "It must be an integer"),
        ({"type": "boolean"}, "perhaps", "It must be "),
        ({"type": "integer", "minimum": 3}, "2", "at least 3"),
        ({"type": "string", "enum": ["a", "b"]}, "c", 'one of "a", "b"'),
        ({"type": "string", "oneOf": TITLED}, "asia", '"eu" or "us"'),
        ({"type": "array", "items": {"anyOf": TITLED}}, "eu, asia", "`it[1]` must be"),
        ({"type": "string"}, "", "A value is required."),
        ({"type": "string", "format": "email"}, "ada", "e-mail"),
        ({"type": "string", "format": "uri"}, "example.org", "URI"),
        ({"type": "string", "format": "date"}, "2026-02-30", "date"),
        ({"type": "string", "format": "date-time"}, "2026-02-03", "date and a time"),
    ],
)
def test_a_line_that_will_not_do_is_told_why(schema: dict[str, Any], line: str, words: str) -> None:
    (field,) = fields_of({"properties": {"it": schema}, "required": ["it"]})
    assert words in field.complaint(line)


@pytest.mark.parametrize(
    ("schema", "line", "value"),
    [
        ({"type": "string", "oneOf": TITLED}, "Europe", "eu"),
        ({"type": "string", "enum": ["a", "b"], "enumNames": ["A!", "B!"]}, "B!", "b"),
        ({"type": "array", "items": {"anyOf": TITLED}}, "us, Europe", ["us", "eu"]),
        ({"type": "array", "items": {"type": "integer"}}, "1, 2", [1, 2]),
        ({"type": "array", "items": {"type": "string"}}, '["a, b"]', ("a, b",)),
        ({"enum": [1, 2]}, "2", 2),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, "n", False),
        ({"type": "string"}, "12", "12"),
        ({"type": ["integer", "null"]}, "2", 2),
        ({"type": "string", "format": "email"}, "ada@example.org", "ada@example.org"),
        ({"type": "string", "format": "date-time"}, "2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
    ],
)
def test_a_line_that_will_do_is_a_value(schema: dict[str, Any], line: str, value: object) -> None:
    (field,) = fields_of({"properties": {"it": schema}, "required": ["it"]})
    assert field.complaint(line) == ""
    read: Any = field.read(line)
    assert (tuple(read) if isinstance(value, tuple) else read) == value


def test_what_may_be_left_out_is_left_out_by_an_empty_line() -> None:
    assert [field.name for field in fields_of(SCHEMA) if field.complaint("")] == ["name", "size"]


def test_a_property_may_refer_to_definitions_of_the_whole() -> None:
    (field,) = fields_of({"properties": {"it": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"maxLength": 1}}})
    assert "at most 1 character" in field.complaint("ab")


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"properties": []}, {"properties": {"a": 1}}])
def test_what_is_no_form_has_no_fields(schema: dict[str, Any]) -> None:
    assert list(fields_of(schema)) == []


@given(st.sampled_from(["string", "integer", "number", "boolean", "array"]), st.text(min_size=1))
def test_whatever_is_typed_is_read(kind: str, line: str) -> None:
    assert Field(name="a", kind=kind, label="a").read(line) is not None or line.strip() == "null"
