"""What is said of arguments that do not fit, what they are read as, and what is never touched."""

import json
import types
import uuid
from typing import Any

import pytest
from hypothesis import given

from ripieno.jsonvalues import freeze
from ripieno.schemas import Schema, SchemaProblem
from tests.schemas import schema_strategies
from tests.schemas.schema_examples import PATIENCE, READ, spent

NULL = {"type": "null"}


def told(schema: dict[str, Any], arguments: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Code, parameter and message of each problem; frozen arguments must give the same."""
    problems = Schema.of(schema).validate(arguments)
    assert Schema.of(schema).validate(freeze(arguments)) == problems
    return [(problem.code, problem.parameter, problem.message) for problem in problems]


def one(schema: dict[str, Any], value: Any) -> SchemaProblem:
    """The only problem of a value under the parameter ``x``."""
    problems = Schema.of({"properties": {"x": schema}}).validate({"x": value})
    assert len(problems) == 1, problems
    return problems[0]


def test_valid_arguments_have_no_problems() -> None:
    schema = Schema.of(READ, closed=True)
    full = {"path": "a", "tags": [], "options": {"case": False, "mode": "slow"}, "limit": 7.0}
    for arguments in ({"path": "a"}, full):
        assert schema.validate(arguments) == ()
        assert schema.validate(freeze(arguments)) == ()
        assert schema.validate(types.MappingProxyType(arguments)) == ()


def test_each_code_names_the_parameter_and_says_how_to_mend_it() -> None:
    modes = 'one of "fast", "slow"'
    arguments = {"pth": "a", "limit": 5000, "tags": ["a", 2], "options": {"mode": "medium", "cse": 1}}
    problems = Schema.of(READ, closed=True).validate(arguments)
    assert {(problem.code, problem.parameter): (problem.message, problem.expected) for problem in problems} == {
        ("missing_required", "path"): ("`path` is required but missing. Expected: string.", "string"),
        ("out_of_range", "limit"): ("`limit` must be at most 1000, not 5000.", "at most 1000"),
        ("invalid_type", "tags[1]"): ("`tags[1]` must be a string, not an integer: 2.", "string"),
        ("invalid_value", "options.mode"): (f'`options.mode` must be {modes}, not "medium".', modes),
        ("unknown_parameter", "options.cse"): ("`options.cse` is unknown. Did you mean `options.case`?", "case"),
        ("unknown_parameter", "pth"): ("`pth` is unknown. Did you mean `path`?", "path"),
    }


@pytest.mark.parametrize(
    ("schema", "value", "code", "expected", "says"),
    [
        ({"type": ["string", "null"]}, 1, "invalid_type", "string or null", "be a string or null, not an integer: 1."),
        ({"type": "integer"}, True, "invalid_type", "integer", "not a boolean: true."),
        ({"type": "integer"}, 1.5, "invalid_type", "integer", "not a number: 1.5."),
        ({"type": "integer"}, "12", "invalid_type", "integer", 'must be an integer, not a string: "12".'),
        ({"items": {"type": "integer"}, "type": "array"}, {}, "invalid_type", "array of integer", "not an object: {}."),
        ({"type": "string", "enum": ["a"]}, 1, "invalid_type", "string", "must be a string"),
        ({"minimum": 2}, 1, "out_of_range", "at least 2", "must be at least 2, not 1."),
        ({"exclusiveMinimum": 2}, 2, "out_of_range", "more than 2", "must be more than 2, not 2."),
        ({"exclusiveMaximum": 2.5}, 3, "out_of_range", "less than 2.5", "must be less than 2.5, not 3."),
        ({"minLength": 1}, "", "out_of_range", "at least 1 character", "at least 1 character; there are 0."),
        ({"maxLength": 2}, "äöü", "out_of_range", "at most 2 characters", "at most 2 characters; there are 3."),
        ({"minItems": 2}, [1], "out_of_range", "at least 2 items", "at least 2 items; there are 1."),
        ({"maxProperties": 0}, {"a": 1}, "out_of_range", "at most 0 properties", "there are 1."),
        ({"const": {"a": 1}}, 2, "invalid_value", '{"a":1}', 'must be {"a":1}, not 2.'),
        ({"multipleOf": 3}, 4, "invalid_value", "a multiple of 3", "must be a multiple of 3, not 4."),
        ({"pattern": "^a$"}, "b", "invalid_value", "text that matches the regular expression ^a$", 'not "b".'),
        ({"uniqueItems": True}, [1, 1], "invalid_value", "an array whose items all differ", "not [1,1]."),
        ({"not": {"type": "null"}}, None, "invalid_value", "something else", "must not be null."),
        (False, 1, "invalid_value", "nothing", "is not allowed here."),
        ({"contains": {"const": 1}}, [2], "invalid_value", "", "does not fit its schema."),
        ({"anyOf": [{"type": "string"}, NULL]}, 1, "invalid_type", "string or null", "be a string or null, not 1."),
        ({"anyOf": [{"type": "string", "maxLength": 1}, NULL]}, "ab", "out_of_range", "at most 1 character", ""),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, 1, "invalid_value", "", "fits 2 forms"),
        ({"anyOf": [{"minimum": 5}, {"multipleOf": 7}]}, 3, "invalid_value", "", "must be of an allowed form, not 3."),
        ({"if": {"type": "string"}, "then": {"minLength": 3}}, "ab", "out_of_range", "at least 3 characters", ""),
        ({"if": {"type": "string"}, "else": {"minimum": 3}}, 1, "out_of_range", "at least 3", ""),
    ],
)
def test_a_problem_says_what_was_expected(schema: Any, value: Any, code: str, expected: str, says: str) -> None:
    problem = one(schema, value)
    assert (problem.code, problem.parameter, problem.expected) == (code, "x", expected)
    assert problem.message.startswith("`x` ")
    assert says in problem.message


def test_paths_lead_through_references_items_and_odd_names() -> None:
    schema = {
        "$defs": {"node": {"properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/node"}}}},
        "properties": {
            "paths": {"items": {"$ref": "#/$defs/node"}},
            "pair": {"prefixItems": [{"type": "integer"}], "items": False},
        },
        "patternProperties": {"^odd": {"type": "integer"}},
        "dependentRequired": {"pair": ["paths"]},
        "dependentSchemas": {"odd.name": {"required": ["even"]}},
    }
    arguments = {"paths": [{}, {}, {"name": 1, "next": {"next": {"name": None}}}], "pair": ["x", 2], 'odd "x"\n': "y"}
    assert [(code, parameter) for code, parameter, _ in told(schema, arguments)] == [
        ("invalid_type", "paths[2].name"),
        ("invalid_type", "paths[2].next.next.name"),
        ("invalid_type", "pair[0]"),
        ("invalid_value", "pair[1]"),
        ("invalid_type", r'["odd \"x\"\n"]'),
    ]
    assert told(schema, {"pair": []})[0][:2] == ("missing_required", "paths")
    assert told(schema, {"odd.name": 1})[0][:2] == ("missing_required", "even")


def test_the_form_that_was_meant_is_explained() -> None:
    forms = [
        {"properties": {"kind": {"const": "file"}, "path": {"type": "string"}}, "required": ["kind", "path"]},
        {"properties": {"kind": {"const": "url"}, "url": {"type": "string"}}, "required": ["kind", "url"]},
    ]
    schema = {"properties": {"source": {"oneOf": [{"$ref": "#/$defs/0"}, {"$ref": "#/$defs/1"}]}}, "$defs": {}}
    schema["$defs"] = {str(index): {"type": "object", **form} for index, form in enumerate(forms)}
    assert told(schema, {"source": {"kind": "url", "path": "a"}}) == [
        ("missing_required", "source.url", "`source.url` is required but missing. Expected: string.")
    ]
    assert told(schema, {"source": {"path": 1}})[0][1] == "source.kind"
    assert told(schema, {"source": 1})[0][:2] == ("invalid_type", "source")


def test_unknown_parameters_name_the_nearest_or_what_is_known() -> None:
    schema = Schema.of({"properties": {"file_path": {}, "encoding": {}}}, closed=True)
    assert [problem.message for problem in schema.validate({"filepath": 1, "zzz": 2})] == [
        "`filepath` is unknown. Did you mean `file_path`?",
        "`zzz` is unknown. Known: file_path, encoding.",
    ]
    nothing = Schema.of({}, closed=True).validate({"x": 1})
    assert [problem.message for problem in nothing] == ["`x` is unknown. No parameter is known here."]
    patterned = Schema.of({"patternProperties": {"^a": {}}, "additionalProperties": False})
    assert [problem.parameter for problem in patterned.validate({"ab": 1, "ba": 2})] == ["ba"]
    unevaluated = Schema.of({"anyOf": [{"properties": {"alpha": {}}}], "unevaluatedProperties": False})
    assert [problem.expected for problem in unevaluated.validate({"alpa": 1})] == ["alpha"]


def test_names_of_properties_can_be_refused_and_the_arguments_as_a_whole_have_none() -> None:
    assert told({"propertyNames": {"maxLength": 3}}, {"long name": 1}) == [
        ("invalid_value", '["long name"]', '`["long name"]` has a name that is not allowed.')
    ]
    assert told({"minProperties": 1}, {}) == [
        ("out_of_range", "", "The arguments object must have at least 1 property; there are 0.")
    ]


def test_at_most_ten_problems_are_told_and_each_once() -> None:
    schema = Schema.of({"properties": {"x": {"items": {"type": "string"}}}})
    problems = schema.validate({"x": list(range(100))})
    assert [problem.parameter for problem in problems] == [f"x[{index}]" for index in range(10)]
    twice = {
        "allOf": [{"required": ["a"]}, {"required": ["a"]}, {"$ref": "#/$defs/r"}],
        "$defs": {"r": {"required": ["a"]}},
    }
    assert len(Schema.of(twice).validate({})) == 1


def test_messages_stay_short_whatever_a_model_sends() -> None:
    long = "x" * 100_000
    schema = Schema.of(
        {
            "properties": {
                "a": {"type": "integer"},
                "b": {"enum": [f"choice {index}" for index in range(1000)]},
                "c": {"pattern": "^" + "a" * 500 + "$"},
                "d": {"const": "y" * 500},
                "e": {"anyOf": [{"const": f"form {index}"} for index in range(300)]},
            },
            "required": ["r" * 500],
        },
        closed=True,
    )
    arguments = {"a": [long], "b": long, "c": long[:1000], "d": {long: 1}, "e": 1, long: 1, "\n" * 200: 1}
    problems = schema.validate(arguments)
    assert len(problems) == 8
    for problem in problems:
        assert len(problem.message) < 500
        assert len(problem.expected) <= 160
        assert "\n" not in problem.message
    assert f'"{"x" * 78}…' in problems[1].message or any(f'"{"x" * 78}…' in one.message for one in problems)


@pytest.mark.parametrize(
    "value", [b"x", {1: 2}, {"\ud800": 1}, float("nan"), float("inf"), {1, 2}, object(), uuid.UUID(int=1)]
)
def test_what_is_not_json_is_a_problem_and_no_exception(value: Any) -> None:
    schema = Schema.of({"properties": {"x": {"type": "object"}, "y": {"type": "integer"}}})
    problems = schema.validate({"x": value, "y": value})
    assert problems
    assert all(problem.code in ("invalid_value", "invalid_type") for problem in problems)


def test_numbers_are_compared_exactly() -> None:
    schema = Schema.of({"properties": {"n": {"type": "integer", "maximum": 2**53}}})
    assert schema.validate({"n": 2**53}) == ()
    assert schema.validate({"n": -(10**400)}) == ()
    assert schema.validate({"n": 1.0}) == ()
    assert schema.validate({"n": 2**53 + 1})[0].message == "`n` must be at most 9007199254740992, not 9007199254740993."
    assert schema.validate({"n": 10**30})[0].code == "out_of_range"


def test_formats_are_not_asserted() -> None:
    for dialect in ("draft-04", "draft-07", "draft/2019-09", "draft/2020-12"):
        schema = {"$schema": f"http://json-schema.org/{dialect}/schema", "properties": {"x": {"format": "email"}}}
        assert Schema.of(schema).validate({"x": "no address"}) == ()


PLACE = {"type": "object", "properties": {"x": {"type": "integer"}, "note": {"type": "string"}}, "required": ["x"]}
MAP = {"type": "object", "additionalProperties": {"type": "integer"}}


def of(schema: Any, required: tuple[str, ...] = ()) -> Schema:
    return Schema.of({"type": "object", "properties": {"p": schema}, "required": list(required)})


@pytest.mark.parametrize(
    ("schema", "sent", "meant"),
    [
        ({"type": "integer"}, {"p": None}, {}),
        ({"type": "integer"}, {"p": "5"}, {"p": 5}),
        ({"type": "boolean"}, {"p": "true"}, {"p": True}),
        (PLACE, {"p": '{"x": 1}'}, {"p": {"x": 1}}),
        (PLACE, {"p": '{"x": "1", "note": null}'}, {"p": {"x": 1}}),
        ({"type": "array", "items": PLACE}, {"p": ['{"x": 1}', {"x": 2}]}, {"p": [{"x": 1}, {"x": 2}]}),
        (MAP, {"p": [{"key": "a", "value": 1}]}, {"p": {"a": 1}}),
        ({"type": "object"}, {"p": []}, {"p": {}}),
        ({"anyOf": [{"type": "null"}, PLACE]}, {"p": '{"x": 1}'}, {"p": {"x": 1}}),
        ({"anyOf": [{"type": "integer"}, {"type": "array"}]}, {"p": "[1]"}, {"p": [1]}),
        ({"enum": [{"a": 1}, 2]}, {"p": '{"a":1}'}, {"p": {"a": 1}}),
        ({"$ref": "#/properties/q"}, {"p": "7"}, {"p": 7}),
    ],
)
def test_what_was_meant(schema: Any, sent: dict[str, Any], meant: dict[str, Any]) -> None:
    whole = Schema.of({"type": "object", "properties": {"p": schema, "q": {"type": "integer"}}})
    before = json.dumps(sent)
    assert whole.coerce(sent) == meant
    assert json.dumps(sent) == before


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"type": "string"}, {"p": '{"x": 1}', "q": 5}),
        ({"type": ["string", "integer"]}, {"p": "5", "q": "x"}),
        ({"enum": ["1", 1]}, {"p": "1", "q": "x"}),
        ({"const": "[1]"}, {"p": "[1]", "q": "x"}),
        ({"type": ["integer", "null"]}, {"p": None, "q": "x"}),
    ],
)
def test_an_accepted_value_keeps_its_meaning_beside_one_that_is_mended(schema: Any, sent: dict[str, Any]) -> None:
    whole = Schema.of({"properties": {"p": schema, "q": {"type": "string"}, "r": {"type": "integer"}}})
    sent = {**sent, "q": "q", "r": "9"}
    assert whole.coerce(sent) == {**sent, "r": 9}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, "five"),
        ({"type": "integer"}, "1.5"),
        ({"type": "string"}, 5),
        ({"type": "number"}, "NaN"),
        ({"type": "number"}, "Infinity"),
        ({"type": "number"}, "1e999"),
        ({"type": "object"}, '{"a": 1, "a": 2}'),
        ({"type": "object"}, [{"key": "a", "value": 1}, {"key": "a", "value": 2}]),
        ({"type": "object"}, [{"key": 1, "value": 1}]),
        ({"type": "object"}, '"{}"'),
        ({"type": "integer", "maximum": 3}, "5"),
        ({"type": "array"}, "[" * 5000 + "]" * 5000),
    ],
)
def test_what_cannot_be_meant_stays_as_it_is(schema: Any, value: Any) -> None:
    sent = {"p": value}
    assert of(schema, ("p",)).coerce(sent) is sent


@pytest.mark.parametrize("text", ["[" * 60 + "1" * 10**5 + "]" * 60, *(letter * 10**6 for letter in "x1{")])
def test_long_texts_cost_little(text: str) -> None:
    objects = ({"type": "object", "required": [str(n)]} for n in range(50))
    schema = of({"anyOf": [{"type": "integer"}, *objects]}, ("p",))
    seconds, coerced = spent(lambda: schema.coerce({"p": text}))
    assert seconds < PATIENCE
    assert coerced["p"] is text


def test_recursion_and_many_forms_end() -> None:
    lists = ({"type": "array", "items": {"$ref": "#/$defs/t"}, "minItems": n} for n in range(8))
    tree = {"anyOf": [{"type": "integer"}, *lists]}
    schema = Schema.of({"type": "object", "properties": {"p": {"$ref": "#/$defs/t"}}, "$defs": {"t": tree}})
    value: Any = "no"
    for _ in range(40):
        value = [value]
    seconds, coerced = spent(lambda: schema.coerce({"p": value}))
    assert seconds < PATIENCE
    assert coerced["p"] is value


@given(mapping=schema_strategies.schemas(), arguments=schema_strategies.arguments)
def test_what_is_coerced_was_refused_and_is_accepted(mapping: dict[str, Any], arguments: dict[str, Any]) -> None:
    schema = Schema.of(mapping)
    before = json.dumps(arguments)
    coerced = schema.coerce(arguments)
    assert json.dumps(arguments) == before
    if schema.validate(arguments):
        assert coerced is arguments or schema.validate(coerced) == ()
