"""Framing of lines, counting of values before a text is read, and cleaning of what strangers write."""

import contextlib
import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ripieno.exceptions import InputError
from ripieno.origins.mcp.text import clean, clean_schema
from ripieno.origins.mcp.transports.framing import VALUES, Lines, Values, answered, too_many, unusable
from tests.counts import count

LAW = settings(max_examples=count(4000, 80), deadline=None)
TRICKY = st.text(alphabet='"\\,[{}]:a\n', max_size=8)
JSON = st.recursive(
    st.one_of(TRICKY, st.integers(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TRICKY, inner, max_size=4)),
    max_leaves=12,
)


def structure(value: Any) -> int:
    """How many commas and opening brackets there are in its JSON."""
    if isinstance(value, dict):
        return 1 + max(0, len(value) - 1) + sum(map(structure, value.values()))
    if isinstance(value, list):
        return 1 + max(0, len(value) - 1) + sum(map(structure, value))
    return 0


@LAW
@example(value={'"': 1}, cuts=[3, 3], indent=None)
@given(value=JSON, cuts=st.lists(st.integers(0, 200)), indent=st.sampled_from([None, 1]))
def test_law_the_count_is_exact_however_it_is_cut(value: Any, cuts: list[int], indent: int | None) -> None:
    text = json.dumps(value, indent=indent).encode()
    values = Values()
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    counts = [values.feed(text[start:end]) for start, end in itertools.pairwise(edges)]
    assert counts[-1] == structure(value)
    assert counts == sorted(counts)


@LAW
@given(
    parts=st.lists(JSON, min_size=1, max_size=5),
    cuts=st.lists(st.integers(0, 400)),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_law_each_event_counts_for_itself(parts: list[Any], cuts: list[int], end: str) -> None:
    events = [f': "comment{end}data: {json.dumps(part)}{end}{end}' for part in parts]
    text = "".join(events).encode()
    values = Values(events=True)
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    largest = max(values.feed(text[start:end]) for start, end in itertools.pairwise(edges))
    # Within a piece with several ends of events, those before the last count as one.
    assert max(map(structure, parts)) <= largest <= sum(map(structure, parts))
    assert values.feed(b"[") == 1


@pytest.mark.parametrize(
    ("line", "many"),
    [
        (b"[" + b"[]," * VALUES + b"1]", True),
        (b'["' + b'","' * VALUES + b'"]', True),
        (b'["' + b"[]," * VALUES + b'"]', False),
        (b'["' + b'\\",' * VALUES + b'"]', False),
        (b"[" + b"1," * (VALUES - 10) + b"1]", False),
    ],
)
def test_only_values_count(line: bytes, many: bool) -> None:
    assert too_many(line) is many


@pytest.mark.parametrize(
    ("line", "identifier"),
    [
        (b'{"jsonrpc": "2.0", "id": 12, "result": 3}', 12),
        (b'{"id":12,"error":{"code":1}}', 12),
        (b'{"result":{"content":[]},"jsonrpc":"2.0","id":12}', 12),
        (b'{"jsonrpc":"2.0","result":"' + b"x" * 500 + b'","id":12}', 12),
        (b'{"jsonrpc": "2.0", "id": 12, "method": "ping", "result": 1}', None),
        (b'{"jsonrpc": "2.0", "method": "x", "params": {"a": [1], "id": 12}}', None),
        (b'{"jsonrpc": "2.0", "id": "12", "result": 3}', None),
        (b"nonsense", None),
        (b"", None),
    ],
)
def test_which_request_a_broken_answer_answers(line: bytes, identifier: int | None) -> None:
    assert answered(line) == identifier
    for size in (1, 7, 1000):
        lines = Lines(limit=10)
        pieces = [line[start : start + size] for start in range(0, len(line), size)]
        found = [one for piece in (*pieces, b"\n") for one in lines.feed(piece)]
        if len(line) > 10:
            assert found == [None]
            assert answered(lines.dropped) == identifier
    if identifier is not None:
        assert json.loads(unusable(identifier))["id"] == identifier


@LAW
@given(data=st.binary(max_size=60).map(lambda one: one.replace(b"\x01", b"\n")), cuts=st.lists(st.integers(0, 60)))
def test_law_lines_do_not_depend_on_the_pieces(data: bytes, cuts: list[int]) -> None:
    lines = Lines(limit=8)
    edges = [0, *sorted(cuts), len(data)]
    found = [line for start, end in itertools.pairwise(edges) for line in lines.feed(data[start:end])]
    *expected, rest = data.split(b"\n")
    assert found == [line if len(line) <= 8 else None for line in expected]
    # What remains is completed by the next piece, and only that.
    assert list(lines.feed(b"\n")) == [rest if len(rest) <= 8 else None]


HIDDEN = [
    "\x1b[31m", "\x1b[2J", "\x1bc", "\x00", "\x07", "\x9b", "\x7f", "\r", "\xad", "\u200b", "\u200d", "\u202e",
    "\u2066", "\u2060", "\ufeff", "\ufe0f", "\U000e0041", "\U000e007f", "\U000e0100", "\u3164", "\ud800",
    "\u2028", "\uffff",
]  # fmt: skip


@LAW
@given(st.lists(st.one_of(st.sampled_from(HIDDEN), st.text(alphabet="abcü漢\n\t 1[]💥", max_size=4))))
def test_law_nothing_hidden_is_left(pieces: list[str]) -> None:
    cleaned, taken = clean("".join(pieces))
    assert cleaned == cleaned.encode(errors="replace").decode()
    assert all(one.isprintable() or one in "\n\t" for one in cleaned)
    assert clean(cleaned) == (cleaned, 0)
    assert (taken == 0) is (cleaned == "".join(pieces).replace("\r\n", "\n"))


def test_lines_and_writings_stay() -> None:
    text = "One\n\tTwo ü 漢字 עברית العربية 💥"
    assert clean(text) == (text, 0)
    assert clean("a\r\nb") == ("a\nb", 0)


def test_hidden_characters_in_a_schema_are_removed_with_what_they_change() -> None:
    bad = "x\u200b"
    schema: dict[str, Any] = {
        "title": bad,
        "properties": {"default": {"description": bad}, "description": {"type": "string"}, bad: {"const": 1}},
        "default": {bad: [bad]},
        "allOf": [{"description": bad}],
        "items": {"$comment": bad, "enum": [bad, {"description": bad}, "y"]},
    }
    cleaned, taken = clean_schema(schema)
    assert taken == 9
    assert cleaned == {
        "title": "x",
        "properties": {"default": {"description": "x"}, "description": {"type": "string"}},
        "default": {"x": ["x"]},
        "allOf": [{"description": "x"}],
        "items": {"$comment": "x", "enum": ["y"]},
    }
    for part in ({"properties": schema["properties"]}, {"items": schema["items"]}):
        with pytest.raises(InputError):
            clean_schema(part, whole=True)


@pytest.mark.parametrize(
    "schema",
    [
        {"required": ["x\u200b"]},
        {"const": {"a": ["x\u200b"]}},
        {"pattern": "x\u200b"},
        {"x\u200b": 1},
        {"enum": ["x\u200b", "\x1b[1m"]},
        {"$ref": "#/$defs/x\u200b"},
        {"dependentRequired": {"x\u200b": []}},
        {"anyOf": [{"properties": {"a": {"format": "\U000e0041"}}}]},
    ],
)
def test_a_schema_that_means_something_else_without_them_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="hidden characters"):
        clean_schema(schema)


_WORDS = st.sampled_from(["a", "b", *(f"a{one}" for one in HIDDEN if one != "\r")])
_KEYWORDS = ("title", "description", "default", "examples", "properties", "items", "allOf", "enum", "required", "const")
_SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.one_of(_WORDS, st.integers(0, 3), st.booleans()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(_KEYWORDS), _WORDS), inner, max_size=4),
    ),
    max_leaves=12,
)


@LAW
@given(st.dictionaries(st.sampled_from(_KEYWORDS), _SCHEMAS, max_size=4), st.booleans())
def test_law_no_text_of_a_schema_has_hidden_characters(schema: dict[str, Any], whole: bool) -> None:
    with contextlib.suppress(InputError):
        cleaned, taken = clean_schema(schema, whole=whole)
        texts = list(_texts(cleaned))
        assert [clean(text) for text in texts] == [(text, 0) for text in texts]
        assert (taken == 0) is (cleaned == schema)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield name
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
