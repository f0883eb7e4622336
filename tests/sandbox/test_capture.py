"""Head and tail: exact counts, no split character, bounded memory."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.sandbox.capture import Capture, Captured

MARKER = "[... {} bytes left out ...]\n"

pieces = st.lists(st.binary(max_size=40), max_size=30)


def capture(limit: int, parts: list[bytes]) -> Captured:
    capturing = Capture(limit)
    for part in parts:
        capturing.feed(part)
    return capturing.captured()


def test_a_short_stream_is_kept_whole() -> None:
    captured = capture(64, [b"one ", b"two"])
    assert captured.text == "one two"
    assert not captured.truncated


def test_a_long_stream_keeps_head_and_tail_and_says_how_much_is_missing() -> None:
    captured = capture(8, [b"abcdefgh", b"ijklmnop"])
    assert (captured.head, captured.tail, captured.total_bytes) == (b"abcd", b"mnop", 16)
    assert captured.text == "abcd\n" + MARKER.format(8) + "mnop"


def test_the_marker_has_a_line_of_its_own_and_adds_no_empty_one() -> None:
    assert capture(4, [b"a\nbcde\nf"]).text == "a\n" + MARKER.format(4) + "\nf"


def test_no_character_is_split_and_its_rest_is_counted() -> None:
    text = "aé€😀" * 50
    data = text.encode()
    for limit in range(1, 60):
        shown = capture(limit, [data]).text
        head, rest = shown.split("[... ")
        left_out, tail = rest.split(" bytes left out ...]\n")
        head = head.removesuffix("\n")
        assert "\ufffd" not in shown
        assert text.startswith(head)
        assert text.endswith(tail)
        assert len(head.encode()) + int(left_out) + len(tail.encode()) == len(data)


def test_what_is_no_utf_8_is_replaced() -> None:
    assert capture(64, [b"a\xff\xfeb"]).text == "a\ufffd\ufffdb"
    assert capture(6, [b"\x80" * 100]).text.count("\ufffd") == 3  # of the head; the tail may belong to a character


@given(limit=st.integers(0, 50), parts=pieces)
def test_law_kept_bytes_are_the_head_and_the_tail_of_the_stream(limit: int, parts: list[bytes]) -> None:
    data = b"".join(parts)
    captured = capture(limit, parts)
    assert captured.total_bytes == len(data)
    assert len(captured.head) + len(captured.tail) == min(limit, len(data))
    assert data.startswith(captured.head)
    assert data.endswith(captured.tail)
    assert captured.truncated == (len(data) > limit)


@given(limit=st.integers(0, 50), parts=pieces, together=pieces)
def test_law_how_a_stream_is_cut_up_changes_nothing(limit: int, parts: list[bytes], together: list[bytes]) -> None:
    whole = [b"".join(parts) + b"".join(together)]
    assert capture(limit, [*parts, *together]) == capture(limit, whole)


@pytest.mark.parametrize("size", [1, 4096, 1 << 20])
def test_memory_stays_within_half_of_the_limit_above_it(size: int) -> None:
    limit = 64 * 1024
    capturing = Capture(limit)
    piece = b"x" * size
    for _ in range(max(4, 4 * limit // size)):
        capturing.feed(piece)
        # A bytearray asks for an eighth more than it holds.
        held = sys.getsizeof(capturing._head) + sys.getsizeof(capturing._tail)
        assert held <= (limit + limit // 2) * 9 // 8 + size + 1024


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="0 bytes or more"):
        Capture(-1)
