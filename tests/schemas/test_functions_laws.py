"""The law of signatures: what the schema takes reaches the function, and means the same."""

import dataclasses
import enum
import inspect
from typing import Any, Literal, Union

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from ripieno.jsonvalues import thaw
from ripieno.schemas.functions import define_function
from tests.schemas.annotation_examples import Colour, Level, Line, Options, Point, Received, Ride

ANNOTATIONS = st.recursive(
    st.sampled_from([str, int, float, bool, None, Colour, Level, Point, Options, Ride, Literal["a", 1], Line]),
    lambda inner: st.one_of(
        inner.map(lambda one: list[one]),
        inner.map(lambda one: dict[str, one]),
        inner.map(lambda one: tuple[one, ...]),
        st.tuples(inner, inner).map(lambda two: tuple[two]),
        st.tuples(inner, inner).map(lambda two: Union[two]),  # noqa: UP007
    ),
    max_leaves=4,
)


def example(schema: Any, draw: Any) -> Any:
    """Some value that a schema made from an annotation takes."""
    if "enum" in schema or "const" in schema:
        return draw(st.sampled_from(schema.get("enum") or [schema["const"]]))
    if "anyOf" in schema:
        return example(draw(st.sampled_from(schema["anyOf"])), draw)
    kind = schema["type"]
    if kind == "array":
        items = schema.get("prefixItems") or [schema["items"]] * draw(st.integers(0, 2))
        return [example(one, draw) for one in items]
    if kind == "object" and "properties" in schema:
        required = schema.get("required", ())
        chosen = [name for name in schema["properties"] if name in required or draw(st.booleans())]
        return {name: example(schema["properties"][name], draw) for name in chosen}
    if kind == "object":
        return {name: example(schema["additionalProperties"], draw) for name in draw(st.sets(st.sampled_from("ab")))}
    plain = {"string": st.text("ab"), "integer": st.integers(), "number": st.floats(-1, 1), "boolean": st.booleans()}
    return None if kind == "null" else draw(plain[kind])


def back(value: Any) -> Any:
    """What a function was given, as JSON again."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: back(getattr(value, field.name)) for field in dataclasses.fields(value) if field.init}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, BaseModel):
        return {name: back(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, list | tuple):
        return [back(one) for one in value]
    return {name: back(one) for name, one in value.items()} if isinstance(value, dict) else value


@given(ANNOTATIONS, st.data())
def test_law_what_the_schema_takes_reaches_the_function_and_means_the_same(annotation: Any, data: Any) -> None:
    def function(x: Any) -> Any:
        return Received(x)

    parameter = inspect.Parameter("x", inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
    function.__signature__ = inspect.Signature([parameter])  # type: ignore[attr-defined]
    signature = define_function(function)
    schema = thaw(signature.schema.mapping)["properties"]["x"]
    value = example(schema, data.draw)
    assert signature.schema.validate({"x": value}) == ()
    given_value = back(*signature.invocable(None, {"x": value}).values)
    assert _contains(given_value, value)
    assert signature.schema.validate({"x": given_value}) == ()


def _contains(whole: Any, part: Any) -> bool:
    """Whether nothing of ``part`` was lost; defaults may have been added."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(name in whole and _contains(whole[name], part[name]) for name in part)
    if isinstance(part, list):
        return isinstance(whole, list) and len(whole) == len(part) and all(map(_contains, whole, part))
    return bool(whole == part)
