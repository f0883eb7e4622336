"""Laws of calls in text: no cut matters, nothing is lost, nobody waits for long, and what is quoted never calls."""

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.jsonvalues import encode
from ripieno.models.protocols.prompted.prompt import STYLES, Style
from ripieno.models.protocols.text_calls.grammar import WIDEST, TextCall
from ripieno.models.protocols.text_calls.openings import FORMS, QUOTES, STOPS, neutralize
from ripieno.models.protocols.text_calls.scanner import Parser
from tests.counts import ATTACK
from tests.models.protocols.text_call_examples import BITS, EXAMPLES, TOOLS, calls_in, taken_apart
from tests.support.json_strategies import objects

# ruff: noqa: RUF001  models write these signs

soups = st.lists(st.sampled_from(BITS), max_size=24).map("".join)
texts = st.one_of(soups, st.text(max_size=60), st.lists(st.one_of(soups, st.text(max_size=8)), max_size=5).map("".join))


@given(texts, st.lists(st.integers(0, 9), max_size=60))
def test_no_cut_matters_and_nothing_is_lost(text: str, lengths: list[int]) -> None:
    whole = taken_apart(text)
    ends = [end for end in itertools.accumulate(lengths) if end < len(text)]
    cuts = [0, *ends, len(text)]
    assert taken_apart([text[start:end] for start, end in itertools.pairwise(cuts)]) == whole
    assert taken_apart(list(text)) == whole
    assert taken_apart(text) == whole


@given(texts)
def test_nothing_is_a_call_that_stands_in_a_fence(text: str) -> None:
    fence = "`" * (3 + max((len(list(run)) for sign, run in itertools.groupby(text) if sign == "`"), default=0))
    assert calls_in(f"So:\n{fence}\n{text}\n{fence}\n") == []


@given(texts)
def test_nothing_can_be_read_from_a_text_that_was_neutralized(text: str) -> None:
    said = f"It says: {neutralize(text)}\n"
    assert not [piece for piece in taken_apart(said, TOOLS) if isinstance(piece, TextCall)]
    assert neutralize(neutralize(text)) == neutralize(text)


@pytest.mark.parametrize(
    "text", ["a < b", "x[0]", "a[read(path)]", "<div>", "&lt;", "[link](x)", "é😀", "functools.cache"]
)
def test_neutralizing_leaves_what_is_no_markup(text: str) -> None:
    assert neutralize(text) == text


keys = st.text("abcdefgh_", min_size=1, max_size=6)
plain = st.dictionaries(keys, st.text("abc <>&{}[]'\"`\\/é\t", max_size=12).filter(lambda text: text == text.strip()))


@pytest.mark.parametrize("style", STYLES.values(), ids=lambda style: style.name)
@given(arguments=plain, after=st.sampled_from(["", "\n", " So."]))
def test_what_a_style_writes_is_read_back(style: object, arguments: dict[str, str], after: str) -> None:
    assert isinstance(style, Style)
    text = style.write("read", arguments, encode(arguments).decode())
    assert calls_in(f"Let me look.\n{text}{after}") == [("read", arguments)]


@given(arguments=objects)
def test_any_arguments_survive_as_json(arguments: dict[str, object]) -> None:
    text = STYLES["hermes"].write("read", arguments, encode(arguments).decode())
    assert calls_in(list(text)) == [("read", arguments)]


#: What makes a reader look far ahead, or look twice.
SOUPS = (
    *(example for _, example in EXAMPLES),
    *("<tool_call>", '<tool_call>{"', "<tool_call>name", "<tool_call>" + " " * 500),
    *('<tool_call>{\\"</tool_call>', '<tool_call>{"a":\\"</tool_call>', '<tool_call>{"x</tool_call>\n'),
    *("<function=a><parameter=b>", "</parameter>" + " " * 50, '<invoke name="a">', "<function_calls>", "<tool_result>"),
    *("[read(a=", "[read(a=1)] x\n", "[read(a=[[[[[[", "[TOOL_CALLS]", '[TOOL_CALLS][{"x\n', "functools[{\n"),
    *("<|channel|>a", "<|start|>assistant ", "<|tool_call_begin|>a", "<｜tool▁calls▁begin｜>"),
    *('{"name":"read",', '```json\n{"name":"read","arguments":{"path":"', "`a", "``` a\n", "~~~\n"),
    *('<|python_tag|>{"name":"read"};', '<|python_tag|>{"name":"read"}; {"name":"list_all"}; {'),
    *('<|python_tag|>{"name":"read"}' + " " * 60, '<|python_tag|>{"name":"read"};' + " " * 60),
    *("<a:b", "<", "[", "`", "\n", " "),
)
#: Characters; and how many seconds of our own a million may take on a slow machine: a square would take hours.
LARGE, SECONDS = 1_000_000 if ATTACK else 10_000, 60.0


def test_hostile_texts_take_no_longer_than_their_length() -> None:
    for unit, size in itertools.product(SOUPS, (LARGE, 7)):
        text = (unit * (LARGE // len(unit) + 1))[:LARGE]
        parser = Parser(TOOLS)
        began = time.process_time()
        total = 0
        for at in range(0, len(text), size):
            total += len(parser.feed(text[at : at + size]))
        total += len(parser.finish())
        assert time.process_time() - began < SECONDS * LARGE / 1_000_000, unit
        assert total > 0


def test_what_is_held_back_is_short_where_no_frame_is_open() -> None:
    for unit in ("<a:b ", "<tool_cal ", "[TOOL_", "a ` b <", "<|chann", "<｜DSM", "~~~ <\n", "[read_", "functools"):
        parser = Parser(TOOLS)
        text = f"Hm.\n{unit}" * 200
        given = 0
        for at, sign in enumerate(text):
            given += sum(len(getattr(piece, "text", "")) for piece in parser.feed(sign))
            assert at + 1 - given <= 64


def test_the_scanner_stops_at_every_mark() -> None:
    openers = [form.opener for form in FORMS if not form.begins]
    ends = [end for form in FORMS for variant in form.variants("") for end in variant.ends]
    for mark in (*openers, *QUOTES, *ends):
        assert STOPS.match(mark), mark
        assert len(mark) < WIDEST
