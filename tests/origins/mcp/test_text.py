"""The pure pieces of the mcp origin: framing lines, and cleaning what strangers write."""

import itertools
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ripieno.origins.mcp.text import clean, clean_schema
from ripieno.origins.mcp.transports.framing import Lines
from tests.counts import count

LAW = settings(max_examples=count(4000, 80), deadline=None)


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


def test_only_what_is_read_changes_in_a_schema() -> None:
    bad = "x\u200b"
    schema: dict[str, Any] = {
        "title": bad,
        "properties": {"default": {"description": bad}, "description": {"type": "string"}, bad: {"const": bad}},
        "required": [bad],
        "allOf": [{"description": bad}],
        "items": {"$comment": bad, "enum": [bad, {"description": bad}], "pattern": bad},
    }
    cleaned, taken = clean_schema(schema)
    assert taken == 4
    assert cleaned == {
        "title": "x",
        "properties": {"default": {"description": "x"}, "description": {"type": "string"}, bad: {"const": bad}},
        "required": [bad],
        "allOf": [{"description": "x"}],
        "items": {"$comment": "x", "enum": [bad, {"description": bad}], "pattern": bad},
    }
