"""Laws of lowering: nothing is accepted that the original refuses, but by a loss; twice is as good as once."""

import json
import random
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from ripieno.exceptions import SchemaInvalidity
from ripieno.jsonvalues import encode
from ripieno.models.protocols.common.dialects import DIALECTS
from ripieno.schemas import Schema
from ripieno.schemas.lowering import Dialect, lower
from tests.schemas import schema_strategies
from tests.schemas.lowering_strategies import instance, is_accounted, is_explained, keywords, nearest, violations

dialects = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))


def _of(mapping: dict[str, Any]) -> Schema:
    try:
        return Schema.of(mapping)
    except SchemaInvalidity:
        assume(False)
        raise


@dialects
@given(mapping=schema_strategies.schemas(), seed=st.integers(0, 2**32))
def test_what_fits_the_lowered_fits_the_original_or_is_reported(
    dialect: Dialect, mapping: dict[str, Any], seed: int
) -> None:
    schema = _of(mapping)
    lowered = lower(schema, dialect)
    said = json.loads(encode(lowered.schema))
    value = instance(said, said, random.Random(seed))
    assume(not list(violations(said, value)))
    coerced = json.loads(encode(nearest(schema, value)))
    unexplained = [
        one.message for one in violations(mapping, coerced) if not is_explained(one, mapping, lowered.losses)
    ]
    assert unexplained == [], (said, value, coerced, lowered.losses)


@dialects
@given(mapping=schema_strategies.schemas())
def test_lowering_is_idempotent(dialect: Dialect, mapping: dict[str, Any]) -> None:
    once = lower(_of(mapping), dialect)
    assume(not once.reason)
    said = json.loads(encode(once.schema))
    twice = lower(_of(said), dialect)
    assert json.loads(encode(twice.schema)) == said
    assert not twice.reason


@dialects
@given(mapping=schema_strategies.schemas())
# What is closed twice: once by a word that has nothing left to say.
@example(
    mapping={
        "type": "object",
        "additionalProperties": {"$ref": "#/$defs/0"},
        "unevaluatedProperties": False,
        "$defs": {"0": {"properties": {"a": {}}}, "1": {"items": {"$ref": "#/$defs/0"}}},
    }
)
@example(
    mapping={"type": "object", "additionalProperties": {"minimum": 1}, "allOf": [{"unevaluatedProperties": False}]}
)
def test_every_keyword_is_said_or_reported(dialect: Dialect, mapping: dict[str, Any]) -> None:
    lowered = lower(_of(mapping), dialect)
    said = json.loads(encode(lowered.schema))
    lost = [at for at in keywords(mapping) if not is_accounted(*at, said, lowered.losses)]
    assert lost == []
