"""Laws of schemas, against the reference implementation in Python as an oracle."""

from typing import Any

import jsonschema
import referencing
from hypothesis import assume, event, given
from hypothesis import strategies as st

from ripieno.exceptions import SchemaInvalidity
from ripieno.jsonvalues import freeze, thaw
from ripieno.schemas import Schema
from tests.schemas.schema_strategies import arguments, names, schemas
from tests.support.json_strategies import same

CODES = {"missing_required", "invalid_type", "out_of_range", "unknown_parameter", "invalid_value"}


def made(mapping: dict[str, Any]) -> Schema:
    """The schema; generated references may form a circle, and then another example is drawn."""
    try:
        return Schema.of(mapping)
    except SchemaInvalidity as invalidity:
        if "without end" not in str(invalidity):
            raise
    assume(False)
    raise AssertionError


DIALECTS = {
    None: jsonschema.Draft202012Validator,
    "https://json-schema.org/draft/2019-09/schema": jsonschema.Draft201909Validator,
    "http://json-schema.org/draft-07/schema#": jsonschema.Draft7Validator,
    "http://json-schema.org/draft-06/schema#": jsonschema.Draft6Validator,
}


@given(schemas(), st.lists(arguments, min_size=1, max_size=5), st.sampled_from(list(DIALECTS)))
def test_law_validity_is_what_the_oracle_says(
    mapping: dict[str, Any], candidates: list[dict[str, Any]], dialect: str | None
) -> None:
    # The oracle takes properties that additionalProperties has evaluated for unevaluated ones in this dialect.
    assume(dialect is None or "2019" not in dialect or "unevaluatedProperties" not in str(mapping))
    whole = mapping if dialect is None else {"$schema": dialect, **mapping}
    schema = made(whole)
    oracle = DIALECTS[dialect](whole, registry=referencing.Registry())
    for candidate in candidates:
        problems = schema.validate(candidate)
        event("valid" if not problems else "invalid")
        assert (not problems) == oracle.is_valid(candidate)
        assert schema.validate(freeze(candidate)) == problems
        assert len(set(problems)) == len(problems) <= 10
        for problem in problems:
            assert problem.code in CODES
            label = f"`{problem.parameter}`" if problem.parameter else "The arguments object"
            assert problem.message.startswith(f"{label} ")


@given(schemas(), arguments)
def test_law_a_problem_points_at_a_part_that_is_there_or_missing(mapping: dict[str, Any], value: Any) -> None:
    for problem in made(mapping).validate(value):
        if not problem.parameter:
            continue
        place: Any = value
        *above, last = problem.parameter.replace("]", "").replace("[", ".").replace('"', "").lstrip(".").split(".")
        for step in above:
            place = place[int(step)] if isinstance(place, list) else place[step]
        present = int(last) < len(place) if isinstance(place, list) else last in place
        assert present == (problem.code != "missing_required")


@given(
    st.dictionaries(names, st.sampled_from(["integer", "string", "array", "null"]), min_size=1), arguments, st.data()
)
def test_law_mending_what_is_told_makes_arguments_valid(
    kinds: dict[str, str], given_: dict[str, Any], data: Any
) -> None:
    required = data.draw(st.lists(st.sampled_from(sorted(kinds)), unique=True))
    properties = {name: {"type": kind} for name, kind in kinds.items()}
    schema = Schema.of({"properties": properties, "required": required}, closed=True)
    right: dict[str, Any] = {"integer": 1, "string": "", "array": [], "null": None}
    mended = dict(given_)
    for problem in schema.validate(given_):
        if problem.code == "unknown_parameter":
            del mended[problem.parameter.strip('[]"')]
        else:
            assert problem.code in ("missing_required", "invalid_type")
            mended[problem.parameter.strip('[]"')] = right[problem.expected.split()[0]]
    assert schema.validate(mended) == ()


@given(schemas(), arguments)
def test_law_completing_twice_changes_nothing_more(mapping: dict[str, Any], candidate: dict[str, Any]) -> None:
    schema = made(mapping)
    before = thaw(candidate)
    complete = schema.complete(candidate)
    assert same(candidate, before)
    assert schema.complete(complete) is complete
    assert complete.keys() >= candidate.keys()
    declared = mapping.get("properties", {})
    for name, one in declared.items():
        if isinstance(one, dict) and "default" in one:
            assert name in complete


@given(schemas(), st.lists(names, max_size=3))
def test_law_a_schema_survives_its_own_text_and_hiding(mapping: dict[str, Any], hidden: list[str]) -> None:
    schema = made(mapping)
    assert Schema.of(schema.mapping) == schema
    assert same(thaw(schema.mapping), mapping)
    less = schema.without(hidden)
    assert not set(hidden) & {*less.properties, *less.required}
    assert set(less.properties) | set(hidden) >= set(schema.properties)
