"""Python functions as tools: schemas from annotations and docstrings, and calls with what the annotations promise."""

import asyncio
import dataclasses
import datetime
import decimal
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NewType, Optional, Union

import pytest
import typing_extensions
from pydantic import BaseModel, ConfigDict, Field, field_validator

from ripieno.canisters import TextualContent
from ripieno.ensembles import Context, Outcome
from ripieno.exceptions import SchemaInvalidity, ValidationFault
from ripieno.jsonvalues import freeze, thaw
from ripieno.models.protocols.common.dialects import DIALECTS
from ripieno.schemas.functions import define_function
from ripieno.schemas.lowering import Dialect, lower
from tests.schemas.annotation_examples import Colour, Level, Line, Options, Point, Received, Ride


@dataclasses.dataclass
class Positive:
    value: int

    def __post_init__(self) -> None:
        if self.value <= 0:
            raise ValueError("value must be positive")


@dataclasses.dataclass
class Node:
    name: str
    next: "Node | None" = None


@dataclasses.dataclass
class Lost:
    place: "Nowhere"  # type: ignore[name-defined]  # noqa: F821


class Walk(BaseModel):
    """A way on foot.

    :param start: where it begins
    """

    kind: Literal["walk"]
    start: Point = Field(alias="from", description="where it begins")
    steps: int = Field(default=1, ge=1)

    @field_validator("steps")
    @classmethod
    def _is_odd(cls, steps: int) -> int:
        if steps % 2 == 0:
            raise ValueError("steps must be odd")
        return steps


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")


Name = NewType("Name", str)
Conditions = typing_extensions.TypeAliasType("Conditions", str)

POINT = {
    "type": "object",
    "properties": {
        "x": {"type": "integer", "description": "to the east"},
        "y": {"type": "integer", "default": 0},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["x"],
    "additionalProperties": False,
}
#: ``Point(1)`` as JSON.
PLACED: dict[str, Any] = {"x": 1, "y": 0, "tags": [], "norm": 0.0}


def of(annotation: Any, default: Any = inspect.Parameter.empty) -> dict[str, Any]:
    """The schema of one parameter with this annotation."""

    def function(x: Any) -> None:
        """Nothing."""

    parameter = inspect.Parameter("x", inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
    function.__signature__ = inspect.Signature([parameter])  # type: ignore[attr-defined]
    result: dict[str, Any] = thaw(define_function(function).schema.mapping["properties"])["x"]
    return result


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Any, {}),
        (object, {}),
        (Name, {"type": "string"}),
        (list, {"type": "array", "items": {}}),
        (dict, {"type": "object", "additionalProperties": True}),
        (typing.List, {"type": "array", "items": {}}),  # noqa: UP006
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (typing.List[int], {"type": "array", "items": {"type": "integer"}}),  # noqa: UP006
        (Sequence[str], {"type": "array", "items": {"type": "string"}}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
        (list[Any], {"type": "array", "items": {}}),
        (list[bytes], {"type": "array", "items": {"type": "string", "format": "binary"}}),
        (
            tuple[int, str],
            {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
        ),
        (datetime.date, {"type": "string", "format": "date"}),
        (Conditions, {"type": "string"}),
        (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
        (Mapping[str, list[Any]], {"type": "object", "additionalProperties": {"type": "array", "items": {}}}),
        (dict[str, Any], {"type": "object", "additionalProperties": True}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal[1, "a", None, True], {"enum": [1, "a", None, True]}),
        (Colour, {"type": "string", "enum": ["red", "blue"]}),
        (Level, {"type": "integer", "enum": [1, 2]}),
        (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045
        (int | str | None, {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]}),
        (Union[int, list[str]], {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}]}),  # noqa: UP007
        (Annotated[int, 5, "how many", "more"], {"type": "integer", "description": "how many"}),
        (Annotated[str, "outer"] | None, {"anyOf": [{"type": "string", "description": "outer"}, {"type": "null"}]}),
        (Point, POINT),
        (
            Walk,
            {
                "type": "object",
                "properties": {
                    "kind": {"type": "string", "const": "walk"},
                    "from": POINT | {"description": "where it begins"},
                    "steps": {"type": "integer", "minimum": 1, "default": 1},
                },
                "required": ["kind", "from"],
                "additionalProperties": False,
            },
        ),
        (Loose, {"type": "object", "properties": {}, "additionalProperties": True}),
        (
            Options,
            {
                "type": "object",
                "properties": {
                    "case": {"type": "boolean", "description": "whether case counts"},
                    "depth": {"type": "integer", "description": "how deep"},
                },
                "required": ["case"],
                "additionalProperties": False,
            },
        ),
    ],
)
def test_annotations_become_schemas(annotation: Any, schema: dict[str, Any]) -> None:
    assert of(annotation) == schema


@pytest.mark.parametrize("annotation", [type, object(), Node, list[type], Callable[[int], str], 5, Lost])
def test_what_cannot_be_expressed_is_refused_by_name(annotation: Any) -> None:
    with pytest.raises(SchemaInvalidity, match=r"function, parameter 'x': JSON Schema cannot express "):
        of(annotation)


def test_a_signature_that_cannot_be_used_is_refused_by_name() -> None:
    def unannotated(a: int, b) -> None:  # type: ignore[no-untyped-def]
        """Nothing."""

    def unnamed(*paths: str) -> None:
        """Nothing."""

    def positional(a: int, /) -> None:
        """Nothing."""

    def unresolved(a: "Nowhere") -> None:  # type: ignore[name-defined]  # noqa: F821
        """Nothing."""

    def misfitting(a: int = "ten") -> None:  # type: ignore[assignment]
        """Nothing."""

    for function, says in (
        (unannotated, "unannotated, parameter 'b': it has no annotation"),
        (unnamed, "unnamed, parameter 'paths': arguments are passed by name"),
        (positional, "positional, parameter 'a': arguments are passed by name"),
        (unresolved, "unresolved: its signature cannot be read: name 'Nowhere'"),
        (misfitting, "misfitting: a default does not fit its annotation: `a` must be an integer"),
        (int, "int: its signature cannot be read"),
    ):
        with pytest.raises(SchemaInvalidity) as caught:
            define_function(function)
        assert says in str(caught.value)


def test_a_context_of_another_name_or_place_is_refused_with_the_rule() -> None:
    def typed(ctx: Context, text: str) -> None:
        """Nothing."""

    def last(text: str, context: Context) -> None:
        """Nothing."""

    def untyped(ctx, text: str) -> None:  # type: ignore[no-untyped-def]
        """Nothing."""

    for function in (typed, last, untyped):
        with pytest.raises(SchemaInvalidity, match=r"passed as the first parameter if its name is context\."):
            define_function(function)


# --- Functions ---------------------------------------------------------------------------------------


async def search(
    context: Any,
    pattern: str,
    paths: list[str],
    limit: Annotated[int, "Most matches"] = 10,
    *,
    colour: Colour = Colour.RED,
    mode: str | None = None,
    marker: int = None,  # type: ignore[assignment]  # noqa: RUF013
) -> Received:
    """Searches files.

    It reads them all.

    Args:
        pattern: A regular expression,
            in the dialect of RE2.
        paths (list[str]): Where to look
        limit: is not used

    Returns:
        matches: what was found
    """
    return Received(context, pattern, paths, limit, colour, mode, marker)


def test_a_function_has_its_schema_description_and_defaults() -> None:
    signature = define_function(search)
    assert signature.description == "Searches files.\n\nIt reads them all."
    assert thaw(signature.schema.mapping) == {
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "description": "A regular expression, in the dialect of RE2."},
            "paths": {"type": "array", "items": {"type": "string"}, "description": "Where to look"},
            "limit": {"type": "integer", "description": "Most matches", "default": 10},
            "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
            "mode": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "marker": {"type": "integer"},
        },
        "required": ["pattern", "paths"],
        "additionalProperties": False,
    }


async def test_an_invocable_is_called_with_what_the_annotations_promise() -> None:
    signature = define_function(search)
    assert inspect.iscoroutinefunction(signature.invocable)
    arguments = signature.schema.complete({"pattern": "a", "paths": ["b"]})
    assert signature.schema.validate(arguments) == ()
    received = await signature.invocable("around", arguments)
    assert received.values == ("around", "a", ["b"], 10, Colour.RED, None, None)


def test_plain_functions_stay_plain_and_the_context_comes_only_where_it_is_asked_for() -> None:
    def add(a: int, b: int = 1) -> int:
        return a + b

    def later(value: int, context: str) -> Any:
        return value, context

    def keyword(*, context: Any, value: int) -> Any:
        return Received(value, context)

    signature = define_function(add)
    assert signature.description == ""
    assert not inspect.iscoroutinefunction(signature.invocable)
    assert signature.invocable(None, {"a": 2}) == 3
    assert define_function(later).schema.properties == ("value", "context")
    assert define_function(keyword).schema.properties == ("value",)
    assert define_function(keyword).invocable("around", {"value": 1}).values == (1, "around")


def test_values_become_enumerations_dataclasses_and_tuples_all_the_way_down() -> None:
    def draw(
        *,
        lines: list[Line],
        at: Point | Colour | None,
        levels: tuple[Level, ...],
        named: dict[str, Colour],
        options: Options,
        either: Positive | Point | int = 1,
        **others: Colour,
    ) -> Any:
        return Received(lines, at, levels, named, options, either, others)

    signature = define_function(draw)
    arguments: dict[str, Any] = {
        "lines": [{"ends": [{"x": 1}, {"x": 2, "y": 3}]}],
        "at": {"x": 4},
        "levels": [1, 2],
        "named": {"a": "blue"},
        "options": {"case": True},
        "either": {"value": 5},
        "more": "red",
    }
    assert signature.schema.validate(arguments) == ()
    assert signature.invocable(None, arguments).values == (
        [Line([Point(1), Point(2, 3)])],
        Point(4),
        (Level.LOW, Level.HIGH),
        {"a": Colour.BLUE},
        {"case": True},
        Positive(5),
        {"more": Colour.RED},
    )
    for value, expected in (("red", Colour.RED), (None, None)):
        assert signature.invocable(None, {**arguments, "at": value}).values[1] == expected
    assert signature.invocable(None, {**arguments, "either": {"x": 1}}).values[5] == Point(1)
    assert signature.invocable(None, {**arguments, "either": 7}).values[5] == 7
    assert signature.schema.validate({**arguments, "more": "green"})
    with pytest.raises(ValidationFault, match="value must be positive"):
        signature.invocable(None, {**arguments, "either": {"value": -1}})


def test_defaults_that_json_cannot_say_only_make_a_parameter_optional() -> None:
    def function(
        a: int = object(),  # type: ignore[assignment]
        b: Point = Point(1),  # noqa: B008
        c: Any = Colour,
        d: str | None = None,
        e: tuple[Colour, ...] = (Colour.BLUE,),
    ) -> None:
        """Nothing."""

    schema = define_function(function).schema
    assert schema.required == ()
    assert schema.complete({}) == {"b": {"x": 1, "y": 0, "tags": []}, "e": ["blue"]}


def test_annotations_may_be_text() -> None:
    def quoted(a: "int", b: "list['Colour']", c: list["Point"], d: "Annotated[str, 'said']" = "") -> Any:
        return Received(a, b, c, d)

    signature = define_function(quoted)
    properties = thaw(signature.schema.mapping["properties"])
    assert properties["b"]["items"] == of(Colour)
    assert properties["c"]["items"] == of(Point)
    assert properties["d"] == {"type": "string", "default": "", "description": "said"}
    called = signature.invocable(None, {"a": 1, "b": ["red"], "c": [{"x": 1}], "d": "d"})
    assert called.values == (1, [Colour.RED], [Point(1)], "d")


def test_methods_and_callable_objects_are_functions_too() -> None:
    class Counter:
        """Counts."""

        def __init__(self) -> None:
            self.total = 0

        def add(self, amount: int) -> int:
            """Adds.

            :param amount: how much
            """
            self.total += amount
            return self.total

        async def __call__(self, amount: int) -> int:
            return self.add(amount)

    counter = Counter()
    method, called = define_function(counter.add), define_function(counter)
    assert thaw(method.schema.mapping["properties"]) == {"amount": {"type": "integer", "description": "how much"}}
    assert method.invocable(None, {"amount": 2}) == 2
    assert asyncio.run(called.invocable(None, {"amount": 3})) == 5


@pytest.mark.parametrize(
    ("docstring", "summary", "description"),
    [
        (None, "", None),
        ("One line.", "One line.", None),
        ("One.\n\n:param x: the value\n:returns: nothing", "One.", "the value"),
        ("One.\n\n    :param int x: the value\n        goes on\n    :raises x: never", "One.", "the value goes on"),
        (":param x: the value", "", "the value"),
        ("One.\n\nParameters:\n  x (int): the value: 5\n  y: other\n", "One.", "the value: 5"),
        (
            "One.\n\nArgs:\n    x:\n        the value\n\n        in parts\n\nRaises:\n    y: x",
            "One.",
            "the value in parts",
        ),
        ("One.\n\nArgs:\n    y: about x: much", "One.", None),
        ("Note that this: is text.\nx: is no section", "Note that this: is text.\nx: is no section", None),
        ("One.\n\n:returns: something\n\nReturns:\n    x: a value", "One.", None),
    ],
)
def test_docstrings_describe_the_whole_and_the_parameters(
    docstring: str | None, summary: str, description: str | None
) -> None:
    def function(x: int) -> None:
        pass

    function.__doc__ = docstring
    signature = define_function(function)
    properties: Any = signature.schema.mapping["properties"]
    assert (signature.description, properties["x"].get("description")) == (summary, description)


def test_models_are_validated_as_they_are_made() -> None:
    def go(
        way: Annotated[Walk | Ride, Field(discriminator="kind")], *, when: datetime.date, loose: Loose | None = None
    ) -> Any:
        return Received(way, when, loose)

    signature = define_function(go)
    arguments = {"way": {"kind": "walk", "from": {"x": 1}, "steps": 3}, "when": "2026-11-23", "loose": {"a": 1}}
    assert signature.schema.validate(arguments) == ()
    way, when, loose = signature.invocable(None, freeze(arguments)).values
    assert (way.start, way.steps, when, loose.a) == (Point(1), 3, datetime.date(2026, 11, 23), 1)
    ride = {"kind": "ride", "place": {"x": 2}}
    assert signature.invocable(None, {**arguments, "way": ride}).values[0] == Ride(kind="ride", place=Point(2))
    assert signature.schema.validate({**arguments, "way": {**ride, "more": 1}})
    assert signature.schema.validate({**arguments, "way": {"kind": "fly"}})
    with pytest.raises(ValidationFault) as caught:
        signature.invocable(None, {"way": {"kind": "walk", "from": {"x": 1}, "steps": 2}, "when": "tomorrow"})
    message = str(caught.value)
    assert "way.walk.steps: steps must be odd; when: " in message
    assert "pydantic" not in message


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (Point(1), PLACED),
        ([Line([Point(1)])], [{"ends": [PLACED], "colour": "red"}]),
        (
            {"way": Walk.model_validate({"kind": "walk", "from": Point(1)})},
            {"way": {"kind": "walk", "from": PLACED, "steps": 1}},
        ),
        ((Colour.RED, Level.LOW), ["red", 1]),
        (datetime.date(2026, 11, 23), "2026-11-23"),
        (datetime.datetime(2026, 11, 23, 8, tzinfo=datetime.UTC), "2026-11-23T08:00:00Z"),
        (decimal.Decimal("1.50"), "1.50"),
        ({"a": [1, None, "b"]}, {"a": [1, None, "b"]}),
    ],
    ids=repr,
)
async def test_what_is_made_of_arguments_becomes_json_as_a_result(value: Any, result: Any) -> None:
    def make() -> Any:
        return value

    async def make_later() -> Any:
        return value

    assert define_function(make).invocable(None, {}) == result
    assert await define_function(make_later).invocable(None, {}) == result


@pytest.mark.parametrize(
    "value", [TextualContent(text="a"), [TextualContent(text="a")], Outcome(content="a"), b"a", {1, 2}, Point, None]
)
def test_contents_and_what_is_not_json_stay(value: Any) -> None:
    def make() -> Any:
        return value

    assert define_function(make).invocable(None, {}) == value


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
def test_every_wire_says_what_annotations_make(dialect: Dialect) -> None:
    def draw(
        *,
        line: Line,
        ways: list[Annotated[Walk | Ride, Field(discriminator="kind")]],
        pair: tuple[int, str],
        options: Options,
        levels: set[Level],
        named: dict[str, Colour],
        place: Point | Colour | None = None,
    ) -> None:
        """Nothing."""

    schema = define_function(draw).schema
    assert "$ref" not in schema.encoded.decode()
    assert lower(schema, dialect).reason == ""
