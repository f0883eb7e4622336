"""JSON values: what is refused, what is kept exactly, and that the forms turn into each other."""

import collections
import enum
import json
import pickle
import sys
import types
from typing import Any

import pytest
from frozendict import frozendict
from hypothesis import example, given
from hypothesis import strategies as st

from ripieno.exceptions import InputError, JsonInvalidity
from ripieno.jsonvalues import MAX_BYTES, MAX_DEPTH, canonical, encode, freeze, parse, thaw
from tests.support.json_strategies import objects, same, texts, values


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Ratio(float):
    pass


# --- Laws ------------------------------------------------------------------------------------------


@given(values)
@example({"a": 2**64, "b": -(2**63) - 1, "c": 10**4000})
@example([1e16, -0.0, 5e-324, 1.7976931348623157e308])
def test_law_what_was_encoded_is_parsed_to_the_same_value(value: Any) -> None:
    encoded = encode(value)
    assert same(parse(encoded), value)
    assert same(parse(encoded.decode()), value)
    assert same(json.loads(encoded), value)


@given(values)
def test_law_freezing_and_thawing_undo_each_other(value: Any) -> None:
    frozen = freeze(value)
    assert same(thaw(frozen), value)
    assert same(freeze(thaw(frozen)), frozen)
    assert same(freeze(frozen), frozen)
    assert isinstance(hash(frozen), int)
    assert encode(frozen) == encode(value)


@given(objects, st.randoms())
def test_law_canonical_bytes_depend_on_nothing_but_the_value(value: dict[str, Any], random: Any) -> None:
    shuffled = list(value.items())
    random.shuffle(shuffled)
    assert canonical(dict(shuffled)) == canonical(value) == canonical(freeze(value))
    assert same(parse(canonical(value)), value)


@given(values, values)
def test_law_values_that_differ_have_canonical_bytes_that_differ(one: Any, other: Any) -> None:
    assert (canonical(one) == canonical(other)) == same(one, other)


@given(st.dictionaries(texts, st.none(), max_size=12))
def test_law_canonical_keys_stand_in_the_order_of_code_points(value: dict[str, None]) -> None:
    expected = sorted(value)
    assert list(json.loads(canonical(value))) == expected
    # Integers beyond 64 bits take another path, in the same order.
    assert list(json.loads(canonical({**value, **({expected[0]: 2**70} if expected else {})}))) == expected


@given(
    st.one_of(
        st.text('[]{},:"\\u0dD89aEe+-. \t\n1truefalsn', max_size=40),
        values.map(json.dumps),
        st.tuples(values.map(json.dumps), st.integers(0, 80), st.text(max_size=2)).map(
            lambda parts: parts[0][: parts[1]] + parts[2] + parts[0][parts[1] :]
        ),
    )
)
def test_law_parsing_agrees_with_the_standard_library_or_refuses(text: str) -> None:
    try:
        value = parse(text)
    except JsonInvalidity:
        return
    assert same(value, json.loads(text))
    encode(value)  # Whatever was parsed can be sent.


@given(st.lists(st.sampled_from([r"\ud800", r"\udbff", r"\udc00", r"\uDFFF", r"\u0041", r"\\", r"\"", "ud800", "é"])))
def test_law_escaped_surrogates_are_taken_in_pairs_only(parts: list[str]) -> None:
    text = f'["{"".join(parts)}"]'
    if any("\ud800" <= character <= "\udfff" for character in json.loads(text)[0]):
        with pytest.raises(JsonInvalidity, match="lone surrogate") as caught:
            parse(text)
        position = caught.value.position
        assert position is not None
        assert text[position:].startswith(r"\u")
    else:
        assert parse(text) == json.loads(text)


@given(st.binary(max_size=30))
def test_law_any_bytes_are_parsed_or_refused(data: bytes) -> None:
    try:
        value = parse(data)
    except JsonInvalidity:
        return
    assert same(parse(encode(value)), value)


# --- Parsing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says", "position"),
    [
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "The key 'c' occurs twice", None),
        (r'{"a": 1, "\u0061": 2}', "The key 'a' occurs twice", None),
        ("[NaN]", "NaN is not JSON", None),
        ("[-Infinity]", "-Infinity is not JSON", None),
        ("[1e999]", "The number 1e999 is too large", None),
        ("[-1" + "0" * 400 + ".0]", "is too large", None),
        (r'["\ud800"]', "lone surrogate", 2),
        (r'["\udc00\ud800"]', "lone surrogate", 2),
        ('["\ud800"]', "lone surrogate", 2),
        (b'["\xed\xa0\x80"]', "not UTF-8: byte 2", 2),
        (b"\xff\xfe[\x00]\x00", "not UTF-8: byte 0", 0),
        ("\ufeff[]", "byte order mark", 0),
        (b"\xef\xbb\xbf[]", "byte order mark", 0),
        ("[1] [2]", "Text follows the JSON value, at character 4", 4),
        (" 1 1", "at character 3", 3),
        ("01", "at character 1", 1),
        ("[1,]", "Expecting value at character 3 of the JSON text", 3),
        (" \n[1 2]", "at character 5 of the JSON text: '2]'", 5),
        ("", "where the text ends", 0),
        (" ", "where the text ends", 1),
        ('"\t"', "control character", 1),
        ("'a'", "of the JSON text", 0),
        ("[" * 65 + "]" * 65, "more than 64 levels", None),
        ("1" * 5000, "more digits", None),
        ("[-" + "9" * 4301 + "]", "more digits", None),
    ],
)
def test_what_two_readers_could_understand_differently_is_refused(
    text: str | bytes, says: str, position: int | None
) -> None:
    with pytest.raises(JsonInvalidity) as caught:
        parse(text)
    assert says in str(caught.value)
    assert caught.value.position == position
    assert len(str(caught.value)) < 200
    assert isinstance(caught.value, InputError)


def test_integers_are_exact_up_to_the_limit_of_digits() -> None:
    longest = 10**4300 - 1
    assert parse(str(longest)) == longest
    assert parse(b"[123456789012345678901234567890, -9007199254740993]") == [
        123456789012345678901234567890,
        -9007199254740993,
    ]
    assert encode([longest]) == b"[%d]" % longest


def test_size_counts_bytes_at_its_exact_limit() -> None:
    assert parse('"' + "a" * (MAX_BYTES - 2) + '"')
    assert parse('"' + "é" * (MAX_BYTES // 2 - 1) + '"')
    for text in ('"' + "a" * (MAX_BYTES - 1) + '"', '"' + "é" * (MAX_BYTES // 2) + '"', " " * MAX_BYTES + "1"):
        for form in (text, text.encode()):
            with pytest.raises(JsonInvalidity, match=f"at most {MAX_BYTES}"):
                parse(form)
    assert parse("[1]", max_bytes=3) == [1]
    with pytest.raises(JsonInvalidity, match="at most 2"):
        parse("[1]", max_bytes=2)


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_depth_has_an_exact_limit_and_brackets_in_strings_do_not_count(opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    assert parse(opening * MAX_DEPTH + "1" + closing * MAX_DEPTH)
    with pytest.raises(JsonInvalidity, match="nested too deeply"):
        parse(opening * (MAX_DEPTH + 1) + "1" + closing * (MAX_DEPTH + 1))
    assert parse(opening * 3 + "1" + closing * 3, max_depth=3)
    with pytest.raises(JsonInvalidity, match="more than 2 levels"):
        parse(opening * 3 + "1" + closing * 3, max_depth=2)
    assert parse(json.dumps([opening * 1000, opening * 1000]))
    assert parse("[" + ",".join(["[]"] * 1000) + "]") == [[]] * 1000


@pytest.mark.parametrize("text", ["[" * 10**6, '{"a":' * 10**6, "[" * 10**6 + "]" * 10**6, '[{"a":' * 10**6])
def test_no_depth_exhausts_the_stack(text: str) -> None:
    with pytest.raises(JsonInvalidity, match="nested too deeply"):
        parse(text, max_bytes=10**8)
    assert parse("[1]") == [1]


# --- Freezing and thawing ----------------------------------------------------------------------------


def test_what_is_frozen_is_immutable_and_of_plain_types() -> None:
    frozen: Any = freeze(
        {
            "colour": Colour.RED,
            "level": Level.HIGH,
            "ratio": Ratio(0.5),
            "proxy": types.MappingProxyType({"a": [1]}),
            "deque": collections.UserList([True, None]),
            "range": range(2),
        }
    )
    expected = {"colour": "red", "level": 3, "ratio": 0.5, "proxy": {"a": [1]}, "deque": [True, None], "range": [0, 1]}
    assert same(thaw(frozen), expected)
    assert type(frozen) is frozendict
    assert type(frozen["proxy"]) is frozendict
    assert type(frozen["proxy"]["a"]) is tuple
    with pytest.raises(TypeError):
        frozen["colour"] = "blue"
    with pytest.raises(AttributeError):
        frozen.clear()
    assert pickle.loads(pickle.dumps(frozen)) == frozen
    assert hash(frozen) == hash(frozendict(frozen))
    assert frozen.set("level", 4)["level"] == 4
    assert repr(freeze({})) == repr(frozendict())


def test_frozen_values_share_nothing_with_what_they_came_from() -> None:
    source = {"a": [{"b": 1}]}
    frozen = freeze(source)
    source["a"][0]["b"] = 2
    copy = thaw(frozen)
    copy["a"].append(3)
    assert thaw(frozen) == {"a": [{"b": 1}]}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"a": [b"x"]}, "At the value['a'][0]: bytes is not a JSON type."),
        ({"a": {1: 2}}, "At the value['a']: the key 1 is not a string."),
        ([{"x": {1, 2}}], "At the value[0]['x']: set is not a JSON type."),
        ([float("nan")], "At the value[0]: nan is not a JSON number."),
        ({"a": (float("-inf"),)}, "At the value['a'][0]: -inf is not a JSON number."),
        (Ratio("inf"), "At the value: inf is not a JSON number."),
        (object(), "At the value: object is not a JSON type."),
        ([memoryview(b"")], "At the value[0]: memoryview is not a JSON type."),
        ({None: 1}, "the key None is not a string"),
        (types.MappingProxyType({"a": 1j}), "At the value['a']: complex is not a JSON type."),
    ],
)
def test_what_json_does_not_have_is_refused_with_its_place(value: Any, says: str) -> None:
    for function in (freeze, encode, canonical):
        with pytest.raises(JsonInvalidity) as caught:
            function(value)
        assert says in str(caught.value)


def test_what_contains_itself_is_refused() -> None:
    value: list[Any] = []
    value.append({"again": value})
    for function in (freeze, encode, canonical):
        with pytest.raises(JsonInvalidity, match="contains itself"):
            function(value)


# --- Encoding ----------------------------------------------------------------------------------------


def test_encoded_text_is_compact_and_keeps_its_order() -> None:
    value = {"b": [1, 2.5, None], "a": {"é": "\u2028"}, "": True}
    assert encode(value) == '{"b":[1,2.5,null],"a":{"é":"\u2028"},"":true}'.encode()
    assert canonical(value) == '{"":true,"a":{"é":"\u2028"},"b":[1,2.5,null]}'.encode()
    assert encode({**value, "n": 2**64}) == encode(value)[:-1] + b',"n":18446744073709551616}'


def test_canonical_bytes_tell_numbers_apart_as_they_are_written() -> None:
    assert len({canonical(one) for one in (1, 1.0, True, "1", 0, 0.0, -0.0, False, None)}) == 9
    assert canonical({"\U0001f600": 1, "\uffee": 2}) == '{"\uffee":2,"\U0001f600":1}'.encode()


@pytest.mark.parametrize("value", ["\ud800", {"a": ["x\udfff"]}, {"\ud800": 1}, ["\ud800", 2**70]])
def test_lone_surrogates_are_never_sent(value: Any) -> None:
    for function in (encode, canonical):
        with pytest.raises(JsonInvalidity, match="lone surrogate"):
            function(value)


def test_an_integer_that_python_cannot_write_is_refused() -> None:
    for function in (encode, canonical):
        with pytest.raises(JsonInvalidity, match="more digits"):
            function([10 ** (sys.get_int_max_str_digits() + 1)])


def test_null_hides_no_number_that_json_does_not_have() -> None:
    assert encode([None, "null", 0.5]) == b'[null,"null",0.5]'
    with pytest.raises(JsonInvalidity, match=r"value\[1\]: nan"):
        encode([None, float("nan")])
